package workspace

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"strings"
)

const (
	// maxSearchedBytes is the size up to which search_code searches a file.
	maxSearchedBytes = 8 << 20
	// maxFilesShown bounds the files that search_code names; file_count counts all of them.
	maxFilesShown = 1000
)

type searchCodeInput struct {
	Query      string `json:"query"`
	Path       string `json:"path"`
	Glob       string `json:"glob"`
	Regex      bool   `json:"regex"`
	IgnoreCase *bool  `json:"ignore_case"`
	WholeWord  bool   `json:"whole_word"`
	MaxResults int    `json:"max_results"`
}

type searchCodeOutput struct {
	Query         string      `json:"query"`
	Matches       []codeMatch `json:"matches"`
	MatchCount    int         `json:"match_count"`
	FileCount     int         `json:"file_count"`
	Files         []fileCount `json:"files"`
	Truncated     bool        `json:"truncated"`
	FilesSearched int         `json:"files_searched"`
	Skipped       skipped     `json:"skipped"`
}

type codeMatch struct {
	Path string `json:"path"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

type fileCount struct {
	Path  string `json:"path"`
	Count int    `json:"count"`
}

type skipped struct {
	Binary     int `json:"binary"`
	TooLarge   int `json:"too_large"`
	Unreadable int `json:"unreadable"`
}

func (s *Server) searchCode(ctx context.Context, in searchCodeInput, report reporter) (searchCodeOutput, error) {
	rel, err := s.locate(in.Path)
	if err != nil {
		return searchCodeOutput{}, err
	}
	search, err := newCodeSearch(in, rel)
	if err != nil {
		return searchCodeOutput{}, err
	}
	info, err := s.stat(rel)
	if err != nil {
		return searchCodeOutput{}, s.explain(rel, err)
	}
	if info.Mode().IsRegular() {
		search.base = path.Dir(rel)
		err = search.visit(ctx, entry{path: rel, dir: s.root, name: rel, info: info})
		return search.out, err
	}
	w := walk{limit: s.walkLimit, report: report}
	if err := s.walk(ctx, &w, rel, func(e entry) error { return search.visit(ctx, e) }); err != nil {
		return searchCodeOutput{}, err
	}
	search.out.Truncated = search.out.Truncated || w.exhausted
	search.out.Skipped.Unreadable += w.unreadable
	return search.out, nil
}

// codeSearch is one running search_code.
type codeSearch struct {
	query *query
	glob  pathMatcher
	base  string // the folder that glob is relative to
	limit int    // on the length of out.Matches
	out   searchCodeOutput

	text  bytes.Buffer // the current file's content; reused
	lower []byte       // scratch space for text in lower case; reused
}

func newCodeSearch(in searchCodeInput, base string) (*codeSearch, error) {
	q, err := newQuery(in)
	if err != nil {
		return nil, err
	}
	s := &codeSearch{query: q, base: base, limit: cmp.Or(in.MaxResults, 200)}
	s.glob = func(string) bool { return true }
	if in.Glob != "" {
		if s.glob, err = matchGlob(in.Glob); err != nil {
			return nil, err
		}
	}
	s.out = searchCodeOutput{Query: in.Query, Matches: []codeMatch{}, Files: []fileCount{}}
	return s, nil
}

// visit searches one file.
func (s *codeSearch) visit(ctx context.Context, e entry) error {
	if !e.info.Mode().IsRegular() || !s.glob(relativeTo(s.base, e.path)) {
		return nil
	}
	if e.info.Size() > maxSearchedBytes {
		s.out.Skipped.TooLarge++
		return nil
	}
	if err := s.load(e); err != nil {
		s.out.Skipped.Unreadable++
		return nil //nolint:nilerr // an unreadable file is counted, and does not end the search
	}
	text := s.text.Bytes()
	switch {
	case len(text) > maxSearchedBytes: // the file has grown since the walk read its size
		s.out.Skipped.TooLarge++
		return nil
	case isBinary(text):
		s.out.Skipped.Binary++
		return nil
	}
	s.out.FilesSearched++
	count := 0
	err := s.query.each(ctx, text, &s.lower, func(m matchedLine) {
		count++
		s.add(e.path, m)
	})
	s.addFile(e.path, count)
	return err
}

// load reads a file into text, up to one byte more than maxSearchedBytes.
func (s *codeSearch) load(e entry) error {
	f, _, err := openRegular(e.dir, e.name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	s.text.Reset()
	s.text.Grow(int(min(e.info.Size(), maxSearchedBytes)) + bytes.MinRead)
	_, err = s.text.ReadFrom(io.LimitReader(f, maxSearchedBytes+1))
	return err
}

func (s *codeSearch) add(p string, m matchedLine) {
	s.out.MatchCount++
	if len(s.out.Matches) == s.limit {
		s.out.Truncated = true
		return
	}
	s.out.Matches = append(s.out.Matches, codeMatch{Path: p, Line: m.number, Text: m.display()})
}

func (s *codeSearch) addFile(p string, count int) {
	if count == 0 {
		return
	}
	s.out.FileCount++
	if len(s.out.Files) == maxFilesShown {
		s.out.Truncated = true
		return
	}
	s.out.Files = append(s.out.Files, fileCount{Path: p, Count: count})
}

func (o searchCodeOutput) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s in %s found for %q; %s searched",
		plural(o.MatchCount, "matching line", "matching lines"), plural(o.FileCount, "file", "files"),
		o.Query, plural(o.FilesSearched, "file", "files"))
	if o.MatchCount > len(o.Matches) {
		fmt.Fprintf(&b, " (the first %d lines are shown)", len(o.Matches))
	} else if o.Truncated {
		b.WriteString(" (not all files were searched, or not all are shown: search a smaller folder)")
	}
	if o.Skipped != (skipped{}) {
		fmt.Fprintf(&b, " (skipped: %d binary, %d over 8 MiB, %d unreadable)",
			o.Skipped.Binary, o.Skipped.TooLarge, o.Skipped.Unreadable)
	}
	for _, m := range o.Matches {
		fmt.Fprintf(&b, "\n%s:%d: %s", m.Path, m.Line, m.Text)
	}
	return b.String()
}
