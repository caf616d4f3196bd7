package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
)

func TestReadFile(t *testing.T) {
	root := tree(t, map[string]string{
		"plain.txt":      "one\ntwo\nthree\n",
		"no-newline.txt": "one\ntwo",
		"crlf.txt":       "one\r\ntwo\r\n",
		"empty.txt":      "",
		"newline.txt":    "\n",
		"naïve/日本語.md":   "こんにちは\n",
		"latin1.txt":     "caf\xe9\n",
	})
	whole := func(path, content string, lines int) readOutput {
		return readOutput{Path: path, Content: content, StartLine: min(1, lines), EndLine: lines, TotalLines: &lines}
	}
	ranged := func(path, content string, first, last, lines int) readOutput {
		return readOutput{Path: path, Content: content, StartLine: first, EndLine: last, TotalLines: &lines}
	}
	tests := map[string]struct {
		args args
		want readOutput
	}{
		"whole":               {args{"path": "plain.txt"}, whole("plain.txt", "one\ntwo\nthree\n", 3)},
		"no newline at end":   {args{"path": "no-newline.txt"}, whole("no-newline.txt", "one\ntwo", 2)},
		"CRLF is kept":        {args{"path": "crlf.txt"}, whole("crlf.txt", "one\r\ntwo\r\n", 2)},
		"empty":               {args{"path": "empty.txt"}, whole("empty.txt", "", 0)},
		"one empty line":      {args{"path": "newline.txt"}, whole("newline.txt", "\n", 1)},
		"unicode name":        {args{"path": "naïve/日本語.md"}, whole("naïve/日本語.md", "こんにちは\n", 1)},
		"not UTF-8":           {args{"path": "latin1.txt"}, whole("latin1.txt", "caf\uFFFD\n", 1)},
		"a range":             {args{"path": "plain.txt", "start_line": 2, "end_line": 2}, ranged("plain.txt", "two\n", 2, 2, 3)},
		"from a line":         {args{"path": "plain.txt", "start_line": 2}, ranged("plain.txt", "two\nthree\n", 2, 3, 3)},
		"to a line":           {args{"path": "plain.txt", "end_line": 2}, ranged("plain.txt", "one\ntwo\n", 1, 2, 3)},
		"behind the end":      {args{"path": "plain.txt", "start_line": 3, "end_line": 99}, ranged("plain.txt", "three\n", 3, 3, 3)},
		"range without break": {args{"path": "no-newline.txt", "start_line": 2}, ranged("no-newline.txt", "two", 2, 2, 2)},
		"unclean path":        {args{"path": "./naïve/..//plain.txt"}, whole("plain.txt", "one\ntwo\nthree\n", 3)},
		"absolute path":       {args{"path": filepath.Join(root, "plain.txt")}, whole("plain.txt", "one\ntwo\nthree\n", 3)},
	}
	s := newServer(t, root)
	onEachTransport(t, s, func(t *testing.T, c *client.Client) {
		for name, tt := range tests {
			t.Run(name, func(t *testing.T) {
				got, text := callText[readOutput](t, c, "read_file", tt.args)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Error(diff)
				}
				if text != got.Content {
					t.Errorf("text %q is not the content %q", text, got.Content)
				}
			})
		}
	})
}

func TestReadFileRefuses(t *testing.T) {
	root := tree(t, map[string]string{
		"a.txt": "one\n", "empty.txt": "", "docs/guide.md": "x", "logo.png": "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "prog": "\x7fELF\x00",
	})
	c := inProcess(t, newServer(t, root))
	tests := map[string]struct {
		args args
		want []string
	}{
		"a binary":            {args{"path": "logo.png"}, []string{"binary file", "image/png", "16 bytes", "get_file_info"}},
		"a program":           {args{"path": "prog"}, []string{"binary file", "application/octet-stream", "5 bytes"}},
		"a directory":         {args{"path": "docs"}, []string{"is a directory", "list_directory"}},
		"the root":            {args{"path": "."}, []string{"is a directory", "list_directory"}},
		"missing":             {args{"path": "docs/gide.md"}, []string{`"docs/gide.md" does not exist`, `there is "docs/guide.md"`}},
		"below a file":        {args{"path": "a.txt/b"}, []string{`"a.txt" is a file, not a directory`}},
		"missing folder":      {args{"path": "dcos/guide.md"}, []string{`there is no "dcos"`, `there is "docs"`}},
		"nothing like it":     {args{"path": "zzzzzzzz"}, []string{"does not exist", "list_directory", "search_files"}},
		"lines behind end":    {args{"path": "a.txt", "start_line": 2}, []string{"has 1 line", "start_line 2"}},
		"lines of nothing":    {args{"path": "empty.txt", "start_line": 2}, []string{"has 0 lines"}},
		"lines the wrong way": {args{"path": "a.txt", "start_line": 3, "end_line": 2}, []string{"end_line 2", "start_line 3"}},
		"a NUL":               {args{"path": "a\x00b"}, []string{"NUL"}},
		"a very long name":    {args{"path": strings.Repeat("x", 300)}, []string{"longer than the file system allows"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			text := callError(t, c, "read_file", tt.args)
			wantContains(t, text, tt.want...)
			if strings.Contains(text, root) {
				t.Errorf("%q shows where the workspace lies", text)
			}
		})
	}
}

func TestReadFileIsCutAtALine(t *testing.T) {
	line := strings.Repeat("x", 1023) + "\n" // 1 KiB
	s := newServer(t, tree(t, map[string]string{"over.txt": strings.Repeat(line, 1025)}))
	onEachTransport(t, s, func(t *testing.T, c *client.Client) {
		got := call[readOutput](t, c, "read_file", args{"path": "over.txt"})
		if !got.Truncated || len(got.Content) != maxReadBytes || got.EndLine != 1024 || *got.TotalLines != 1025 {
			t.Errorf("truncated %v, %d bytes, to line %d of %d", got.Truncated, len(got.Content), got.EndLine, *got.TotalLines)
		}
		got = call[readOutput](t, c, "read_file", args{"path": "over.txt", "start_line": got.EndLine + 1})
		if got.Truncated || got.Content != line || got.StartLine != 1025 {
			t.Errorf("reading on: %d bytes, lines %d-%d", len(got.Content), got.StartLine, got.EndLine)
		}
	})
}

func TestExcerptIsCut(t *testing.T) {
	tests := map[string]struct {
		text        string
		first, last int
		want        string
		end, total  int
		cut         bool
	}{
		"exactly the limit":            {"12345678\n\n", 1, 99, "12345678\n\n", 2, 2, false},
		"a line too many":              {"12345678\n\nx", 1, 99, "12345678\n\n", 2, 3, true},
		"a line that does not fit":     {"1234\n123456\nx", 1, 99, "1234\n", 1, 3, true},
		"the first line does not fit":  {"a\n123456789012\nx", 2, 99, "1234567890", 2, 3, true},
		"no character is split":        {"ééééé\n", 1, 99, "ééééé", 1, 1, true},
		"none of three bytes":          {"日日日日", 1, 99, "日日日", 1, 1, true},
		"what is not UTF-8 is split":   {strings.Repeat("\x80", 12), 1, 99, strings.Repeat("\x80", 10), 1, 1, true},
		"a range behind it, untouched": {"123456789012\nab\ncd", 2, 2, "ab\n", 2, 3, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			x := excerpt{first: tt.first, last: tt.last, limit: 10, all: true}
			must(t, x.read(t.Context(), strings.NewReader(tt.text)))
			if string(x.content) != tt.want || x.end != tt.end || x.lines != tt.total || x.cut != tt.cut {
				t.Errorf("%q to line %d of %d, cut %v", x.content, x.end, x.lines, x.cut)
			}
		})
	}
}

// A line far longer than any buffer.
func TestReadFileOfHugeLine(t *testing.T) {
	c := inProcess(t, newServer(t, tree(t, map[string]string{"huge.txt": "short\n" + strings.Repeat("é", 2<<20) + "\nend\n"})))
	got := call[readOutput](t, c, "read_file", args{"path": "huge.txt"})
	if !got.Truncated || got.Content != "short\n" || got.EndLine != 1 {
		t.Errorf("before it: %d bytes, to line %d", len(got.Content), got.EndLine)
	}
	got = call[readOutput](t, c, "read_file", args{"path": "huge.txt", "start_line": 2})
	if !got.Truncated || len(got.Content) > maxReadBytes || !utf8.ValidString(got.Content) || got.EndLine != 2 || *got.TotalLines != 3 {
		t.Errorf("truncated %v, %d bytes, to line %d of %d", got.Truncated, len(got.Content), got.EndLine, *got.TotalLines)
	}
}

// A file over 256 MiB is read only as far as needed: total_lines is left out.
func TestReadFileOfHugeFile(t *testing.T) {
	root := tree(t, nil)
	f, err := os.Create(filepath.Join(root, "huge.log"))
	must(t, err)
	_, err = fmt.Fprint(f, strings.Repeat("a line of text\n", 1000))
	must(t, err)
	must(t, f.Truncate(maxFullScan+1)) // sparse: the rest is one line of NULs
	must(t, f.Close())
	c := inProcess(t, newServer(t, root))
	got := call[readOutput](t, c, "read_file", args{"path": "huge.log", "end_line": 2})
	if got.Content != "a line of text\na line of text\n" || got.TotalLines != nil || got.Truncated {
		t.Errorf("got %+v", got)
	}
}

func TestExcerptAcrossBuffers(t *testing.T) {
	long := strings.Repeat("y", 200<<10)
	x := excerpt{first: 2, last: 2, limit: maxReadBytes, all: true}
	must(t, x.read(t.Context(), strings.NewReader("a\n"+long+"\nb\n")))
	if string(x.content) != long+"\n" || x.lines != 3 || x.end != 2 {
		t.Errorf("%d bytes, line %d of %d", len(x.content), x.end, x.lines)
	}
}
