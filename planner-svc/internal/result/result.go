package result

import (
	"encoding/json"
	"slices"
	"strings"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// Result is the result of a step.
type Result struct {
	*plannerv1.HistoryEntry
	Message    string          // the joined text of the output
	Media      []Media         // what is no text
	structured json.RawMessage // or nil
}

// output is how a step's output is written. Its message is a text, as a rule.
type output[M any] struct {
	Message    M               `json:"message"`
	Structured json.RawMessage `json:"structured"`
	Media      []Media         `json:"media"`
}

// Of reads an entry of the history.
func Of(e *plannerv1.HistoryEntry) *Result {
	r := &Result{HistoryEntry: e}
	var out output[string]
	if json.Unmarshal([]byte(e.GetOutputJson()), &out) != nil {
		var other output[json.RawMessage]
		if json.Unmarshal([]byte(e.GetOutputJson()), &other) != nil {
			return r
		}
		out = output[string]{Message: string(other.Message), Structured: other.Structured, Media: other.Media}
	}
	r.Message, r.Media = out.Message, out.Media
	if string(out.Structured) != "null" {
		r.structured = out.Structured
	}
	return r
}

// Media is a part of an output that is no text.
type Media struct {
	Type string `json:"type"` // image, audio, resource, resource_link
	MIME string `json:"mimeType"`
	URI  string `json:"uri"`
	Name string `json:"name"`
	Text string `json:"text"`
}

// OK tells whether the step succeeded.
func (r *Result) OK() bool { return r.GetResult() == plannerv1.StepResult_STEP_RESULT_SUCCESS }

// Structured returns the structured output as JSON text, or "".
func (r *Result) Structured() string { return string(r.structured) }

// read decodes the structured output; false where it has another shape.
func (r *Result) read(into any) bool {
	return r.structured != nil && json.Unmarshal(r.structured, into) == nil
}

// Files is what a search for files found.
type Files struct {
	Paths     []string
	Count     int
	Truncated bool // Paths is not all of them
	AtLeast   bool // Count may be too small
}

// none are texts that tools without structured output write for an empty result.
var none = []string{"no matches found", "no matches", "no files found", "no results", "no results found", "not found", "none", "(empty)", "empty directory"}

// Files reads the output of a search for files.
func (r *Result) Files() Files {
	var s struct {
		Files     []string `json:"files"`
		Paths     []string `json:"paths"`
		Matches   []string `json:"matches"`
		Results   []string `json:"results"`
		Count     *int     `json:"count"`
		Truncated bool     `json:"truncated"`
	}
	if r.read(&s) && (s.Count != nil || s.Files != nil || s.Paths != nil || s.Matches != nil || s.Results != nil) {
		f := Files{Paths: slices.Concat(s.Files, s.Paths, s.Matches, s.Results), Truncated: s.Truncated}
		f.Count, f.AtLeast = len(f.Paths), s.Truncated
		if s.Count != nil {
			f.Count, f.AtLeast = *s.Count, false
		}
		return f
	}
	f := Files{Paths: lines(r.text())}
	f.Count = len(f.Paths)
	return f
}

// text is the message, or the text that some servers put into a structured member of their own.
func (r *Result) text() string {
	var s struct {
		Content string `json:"content"`
	}
	if r.Message == "" && r.read(&s) {
		return s.Content
	}
	return r.Message
}

// lines returns the lines of a text that name something.
func lines(text string) []string {
	if slices.Contains(none, strings.ToLower(strings.Trim(strings.TrimSpace(text), "."))) {
		return nil
	}
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// Match is a line that a search found.
type Match struct {
	Path string `json:"path"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

// FileCount says how many matching lines a file has.
type FileCount struct {
	Path  string `json:"path"`
	Count int    `json:"count"`
}

// Search is what a search for text found.
type Search struct {
	Matches   []Match     `json:"matches"`
	Files     []FileCount `json:"files"`
	Count     int         `json:"match_count"` // matching lines
	FileCount int         `json:"file_count"`
	Truncated bool        `json:"truncated"` // the lists are not all
}

// Search reads the output of a search for text; false where it has no shape that is known.
func (r *Result) Search() (Search, bool) {
	var s Search
	var probe struct {
		Count *int `json:"match_count"`
	}
	if !r.read(&s) || !r.read(&probe) {
		return Search{}, false
	}
	if probe.Count == nil {
		if s.Matches == nil {
			return Search{}, false
		}
		s.Count = len(s.Matches)
	}
	if s.Files == nil {
		s.countFiles()
	}
	s.FileCount = max(s.FileCount, len(s.Files))
	return s, true
}

// countFiles sums up the matches by file, in their order.
func (s *Search) countFiles() {
	for _, m := range s.Matches {
		i := slices.IndexFunc(s.Files, func(f FileCount) bool { return f.Path == m.Path })
		if i < 0 {
			s.Files = append(s.Files, FileCount{Path: m.Path, Count: 1})
			continue
		}
		s.Files[i].Count++
	}
}

// Entry is a member of a folder.
type Entry struct {
	Name string `json:"name"`
	Path string `json:"path"`
	Type string `json:"type"` // file, directory, symlink, other
	Size int64  `json:"size"`
}

// Folder tells whether the entry is a folder.
func (e Entry) Folder() bool { return e.Type == "directory" }

// Listing is what is in a folder.
type Listing struct {
	Path      string  `json:"path"`
	Entries   []Entry `json:"entries"`
	Truncated bool    `json:"truncated"`
}

// Listing reads the output of a tool that lists a folder; false where it has no shape that is known.
func (r *Result) Listing() (Listing, bool) {
	var l Listing
	if r.read(&l) && l.Entries != nil {
		return l, true
	}
	for _, line := range lines(r.text()) {
		name, folder := strings.CutPrefix(line, "[DIR] ")
		if !folder {
			var file bool
			if name, file = strings.CutPrefix(line, "[FILE] "); !file {
				return Listing{}, false
			}
		}
		e := Entry{Name: strings.TrimSpace(name), Type: "file"}
		if folder {
			e.Type = "directory"
		}
		e.Path = e.Name
		l.Entries = append(l.Entries, e)
	}
	return l, r.Message != ""
}

// Content is a file's text, or a part of it.
type Content struct {
	Path      string `json:"path"`
	Text      string `json:"content"`
	From      int    `json:"start_line"`
	To        int    `json:"end_line"`
	Total     int    `json:"total_lines"`
	Truncated bool   `json:"truncated"`
}

// Content reads the output of a tool that reads a file.
func (r *Result) Content() Content {
	var c Content
	if r.read(&c) && (c.Text != "" || c.From > 0 || c.Path != "") {
		return c
	}
	return Content{Text: r.text()}
}

// Info is what is known of a file.
type Info struct {
	Path     string `json:"path"`
	Type     string `json:"type"`
	Size     *int64 `json:"size"`
	Mode     string `json:"mode"`
	Modified string `json:"modified"`
	Lines    *int   `json:"lines"`
	MIME     string `json:"mime_type"`
}

// Info reads the output of a tool that describes a file; false where it has no shape that is known.
func (r *Result) Info() (Info, bool) {
	var i Info
	if r.read(&i) && i.Size != nil {
		return i, true
	}
	return Info{}, false
}

// Paths returns the files that have matches, in their order.
func (s Search) Paths() []string {
	paths := make([]string, 0, len(s.Files))
	for _, f := range s.Files {
		paths = append(paths, f.Path)
	}
	return paths
}

// Paths returns the listed files, without folders.
func (l Listing) Paths() []string {
	var paths []string
	for _, e := range l.Entries {
		if !e.Folder() {
			paths = append(paths, e.Path)
		}
	}
	return paths
}

// Paths returns the files that a result tells of.
func (r *Result) Paths() []string {
	if s, ok := r.Search(); ok {
		return s.Paths()
	}
	if l, ok := r.Listing(); ok {
		return l.Paths()
	}
	if r.structured == nil {
		return nil
	}
	return r.Files().Paths
}
