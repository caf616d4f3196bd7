package workspace

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
)

func TestGetFileInfo(t *testing.T) {
	root := tree(t, map[string]string{
		"main.go": "package main\n\nfunc main() {}", "crlf.csv": "a\r\nb\r\n", "empty": "", "docs/x.md": "x",
		"logo.png": "\x89PNG\r\n\x1a\n\x00", "page": "<!DOCTYPE html><p>x",
	})
	symlink(t, "main.go", filepath.Join(root, "link"))
	when := time.Date(2024, 2, 29, 12, 30, 15, 0, time.FixedZone("", 3600))
	for _, name := range []string{"main.go", "crlf.csv", "empty", "docs", "logo.png", "page"} {
		must(t, os.Chtimes(filepath.Join(root, name), when, when))
	}
	lines := func(n int) *int { return &n }
	const modified, mode = "2024-02-29T11:30:15Z", "-rw-r--r--"
	tests := []infoOutput{
		{"main.go", "file", 28, mode, modified, lines(3), "text/plain; charset=utf-8", "", ""},
		{"crlf.csv", "file", 6, mode, modified, lines(2), "text/csv; charset=utf-8", "", ""},
		{"empty", "file", 0, mode, modified, lines(0), "text/plain; charset=utf-8", "", ""},
		{"docs", "directory", 0, "drwxr-xr-x", modified, nil, "inode/directory", "", ""},
		{"logo.png", "file", 9, mode, modified, nil, "image/png", "", ""},
		{"page", "file", 19, mode, modified, lines(1), "text/html; charset=utf-8", "", ""},
		{"link", "file", 28, mode, modified, lines(3), "text/plain; charset=utf-8", "main.go", ""},
	}
	s := newServer(t, root)
	onEachTransport(t, s, func(t *testing.T, c *client.Client) {
		for _, want := range tests {
			got, text := callText[infoOutput](t, c, "get_file_info", args{"path": want.Path})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			wantContains(t, text, "path: "+want.Path, "mime type: "+want.MIMEType)
		}
		got := call[infoOutput](t, c, "get_file_info", args{"path": "."})
		if got.Path != "." || got.Type != "directory" {
			t.Errorf("the root: %+v", got)
		}
		wantContains(t, callError(t, c, "get_file_info", args{"path": "Main.go"}), `there is "main.go"`)
	})
}

func TestGetFileInfoCountsNoLinesOfLargeFiles(t *testing.T) {
	root := tree(t, nil)
	for name, size := range map[string]int{"at": maxCountedBytes, "over": maxCountedBytes + 1} {
		must(t, os.WriteFile(filepath.Join(root, name), bytes.Repeat([]byte("\n"), size), 0o644))
	}
	c := inProcess(t, newServer(t, root))
	if got := call[infoOutput](t, c, "get_file_info", args{"path": "at"}); got.Lines == nil || *got.Lines != maxCountedBytes {
		t.Errorf("at the limit: %+v", got)
	}
	if got := call[infoOutput](t, c, "get_file_info", args{"path": "over"}); got.Lines != nil {
		t.Errorf("over the limit: %d lines", *got.Lines)
	}
}
