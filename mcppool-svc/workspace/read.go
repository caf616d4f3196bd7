package workspace

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
)

const (
	// maxReadBytes is the most that read_file returns.
	maxReadBytes = 1 << 20
	// maxFullScan is the size up to which read_file reads on behind the
	// requested lines, only to know total_lines.
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
}

func (o readOutput) text() string { return o.Content }

func (s *Server) readFile(ctx context.Context, in readInput, _ reporter) (readOutput, error) {
	rel, err := s.locate(in.Path)
	if err != nil {
		return readOutput{}, err
	}
	first, last := cmp.Or(in.StartLine, 1), cmp.Or(in.EndLine, math.MaxInt)
	if last < first {
		return readOutput{}, fmt.Errorf("end_line %d lies before start_line %d: swap them", last, first)
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
	if err := x.read(ctx, f); err != nil {
		return readOutput{}, s.explain(rel, err)
	}
	if x.complete && first > max(1, x.lines) {
		return readOutput{}, fmt.Errorf("%q has %s: start_line %d is behind its end", rel, plural(x.lines, "line", "lines"), first)
	}
	return x.output(rel), nil
}

// excerpt takes a range of lines out of a stream.
type excerpt struct {
	first, last int  // lines wanted, from 1
	limit       int  // bytes kept at most
	all         bool // read to the end, to count the lines

	content   []byte
	lines     int  // begun so far; of the whole stream once complete
	complete  bool // the end of the stream was reached
	cut       bool // the limit took something away
	end       int  // last line in content
	lineStart int  // where in content the current line begins
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

// take adds a part of the current line. At the limit it drops the line that
// does not fit, or cuts it where it is the only one.
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
	out := readOutput{Path: rel, Content: valid(x.content), EndLine: x.end, Truncated: x.cut}
	if x.end > 0 {
		out.StartLine = x.first
	}
	if x.complete {
		out.TotalLines = &x.lines
	}
	return out
}

// countLines counts as editors do: a last line needs no line end.
func countLines(ctx context.Context, r io.Reader) (int, error) {
	x := excerpt{first: math.MaxInt, all: true} // keeps nothing
	err := x.read(ctx, r)
	return x.lines, err
}
