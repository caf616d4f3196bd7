package workspace

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"
)

const (
	// maxReadBytes is the most that read_file returns.
	maxReadBytes = 1 << 20
	// maxFullScan is the size up to which read_file reads the rest of a file
	// after the requested lines, only for total_lines.
	maxFullScan = 256 << 20
)

type readInput struct {
	Path      string `json:"path"`
	StartLine int    `json:"start_line"`
	EndLine   int    `json:"end_line"`
}

type readOutput struct {
	Path       string `json:"path"`
	Content    string `json:"content"`
	StartLine  int    `json:"start_line"`
	EndLine    int    `json:"end_line"`
	TotalLines *int   `json:"total_lines,omitempty"`
	Truncated  bool   `json:"truncated"`
	SHA256     string `json:"sha256,omitempty"`
}

func (o readOutput) text() string { return o.Content }

func (s *Server) readFile(ctx context.Context, in readInput, _ reporter) (readOutput, error) {
	rel, err := s.locate(in.Path)
	if err != nil {
		return readOutput{}, err
	}
	first, last := cmp.Or(in.StartLine, 1), cmp.Or(in.EndLine, math.MaxInt)
	if last < first {
		return readOutput{}, fmt.Errorf("end_line %d is before start_line %d: swap them", last, first)
	}
	f, info, err := s.openFile(rel)
	if err != nil {
		return readOutput{}, err
	}
	defer func() { _ = f.Close() }()
	head, err := sniff(f)
	if err != nil {
		return readOutput{}, s.explain(rel, err)
	}
	if isBinary(head) {
		return readOutput{}, fmt.Errorf("%q is a binary file (%s, %s) and cannot be read as text: use get_file_info to learn more about it",
			rel, mimeType(rel, head), plural(info.Size(), "byte", "bytes"))
	}
	x := excerpt{first: first, last: last, limit: maxReadBytes, all: info.Size() <= maxFullScan}
	hash := sha256.New()
	var content io.Reader = f
	if s.options.Write { // for base_sha256 of write_file
		content = io.TeeReader(f, hash)
	}
	if err := x.read(ctx, content); err != nil {
		return readOutput{}, s.explain(rel, err)
	}
	if x.complete && first > max(1, x.lines) {
		return readOutput{}, fmt.Errorf("%q has %s: start_line %d is after its end", rel, plural(x.lines, "line", "lines"), first)
	}
	out := x.output(rel)
	if s.options.Write && x.all {
		out.SHA256 = hex.EncodeToString(hash.Sum(nil))
	}
	return out, nil
}

// excerpt reads a range of lines from a stream.
type excerpt struct {
	first, last int  // the lines to keep, from 1
	limit       int  // how many bytes are kept at most
	all         bool // read to the end, to count the lines

	content   []byte
	lines     int  // how many lines have begun; if complete, how many the stream has
	complete  bool // the end of the stream was reached
	cut       bool // content lacks something because of limit
	end       int  // the number of the last line in content
	lineStart int  // the offset in content of the current line
}

func (x *excerpt) read(ctx context.Context, r io.Reader) error {
	br := bufio.NewReaderSize(r, 64<<10)
	for fresh := true; ; {
		part, err := br.ReadSlice('\n')
		if len(part) > 0 {
			if fresh {
				x.lines++
				x.lineStart = len(x.content)
			}
			fresh = part[len(part)-1] == '\n'
			x.take(part)
		}
		switch {
		case errors.Is(err, io.EOF):
			x.complete = true
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case !x.all && (x.cut || x.lines > x.last):
			return nil
		}
	}
}

// take adds a part of the current line. The line with which content exceeds the
// limit is dropped, or cut if it is the only one.
func (x *excerpt) take(part []byte) {
	if x.cut || x.lines < x.first || x.lines > x.last {
		return
	}
	x.content = append(x.content, part...)
	x.end = x.lines
	if len(x.content) <= x.limit {
		return
	}
	x.cut = true
	if x.lineStart > 0 {
		x.content, x.end = x.content[:x.lineStart], x.lines-1
		return
	}
	x.content = cutRunes(x.content, x.limit)
}

func (x *excerpt) output(rel string) readOutput {
	out := readOutput{Path: rel, Content: toValidUTF8(x.content), EndLine: x.end, Truncated: x.cut}
	if x.end > 0 {
		out.StartLine = x.first
	}
	if x.complete {
		out.TotalLines = &x.lines
	}
	return out
}

// countLines returns the number of lines; the last line needs no line end.
func countLines(ctx context.Context, r io.Reader) (int, error) {
	x := excerpt{first: math.MaxInt, all: true} // keeps nothing
	err := x.read(ctx, r)
	return x.lines, err
}

// sniffLength is how many bytes of a file decide whether it is binary, as in git.
const sniffLength = 8000

// isBinary reports whether there is a NUL in the first sniffLength bytes.
func isBinary(head []byte) bool {
	return bytes.IndexByte(head[:min(len(head), sniffLength)], 0) >= 0
}

// sniff returns the first sniffLength bytes of a file.
func sniff(r io.ReaderAt) ([]byte, error) {
	head := make([]byte, sniffLength)
	n, err := r.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return head[:n], nil
}

// mimeType returns the MIME type of a file: of text with a known extension by the
// extension, else by the content.
func mimeType(name string, head []byte) string {
	if isBinary(head) {
		return http.DetectContentType(head)
	}
	if known := textTypes[strings.ToLower(path.Ext(name))]; known != "" {
		return mime.FormatMediaType(known, map[string]string{"charset": "utf-8"})
	}
	return http.DetectContentType(head)
}

var textTypes = map[string]string{
	".md": "text/markdown", ".markdown": "text/markdown", ".json": "application/json", ".yaml": "application/yaml", ".yml": "application/yaml",
	".toml": "application/toml", ".xml": "application/xml", ".html": "text/html", ".htm": "text/html", ".css": "text/css", ".csv": "text/csv",
	".js": "text/javascript", ".mjs": "text/javascript", ".cjs": "text/javascript", ".svg": "image/svg+xml",
	".go": "text/plain", ".py": "text/plain", ".ts": "text/plain", ".tsx": "text/plain", ".rs": "text/plain", ".c": "text/plain", ".h": "text/plain",
	".java": "text/plain", ".rb": "text/plain", ".sh": "text/plain", ".sql": "text/plain", ".proto": "text/plain", ".txt": "text/plain", ".log": "text/plain",
}

// cutRunes shortens s to at most limit bytes without splitting a character.
func cutRunes(s []byte, limit int) []byte {
	if len(s) <= limit {
		return s
	}
	for cut := limit; cut > limit-utf8.UTFMax && cut > 0; cut-- {
		if utf8.RuneStart(s[cut]) {
			return s[:cut]
		}
	}
	return s[:limit] // not UTF-8
}

// toValidUTF8 returns text for JSON, with bytes that are not UTF-8 replaced by U+FFFD.
func toValidUTF8(s []byte) string {
	return strings.ToValidUTF8(string(s), "\uFFFD")
}
