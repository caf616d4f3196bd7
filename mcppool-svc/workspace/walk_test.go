package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

// manyFiles makes n small files in folders of 100.
func manyFiles(t testing.TB, n int) string {
	t.Helper()
	root := t.TempDir()
	for i := range n {
		dir := filepath.Join(root, fmt.Sprintf("d%03d", i/100))
		if i%100 == 0 {
			must(t, os.Mkdir(dir, 0o755))
		}
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%02d.txt", i%100)), []byte("hit\n"), 0o644))
	}
	return root
}

func TestTenThousandFiles(t *testing.T) {
	s := newServer(t, manyFiles(t, 10_000))
	onEachTransport(t, s, func(t *testing.T, c *client.Client) {
		files := call[searchFilesOutput](t, c, "search_files", args{"pattern": "*.txt", "max_results": 10_000})
		if files.Count != 10_000 || len(files.Files) != 10_000 || files.Truncated || !slices.IsSorted(files.Files) {
			t.Errorf("search_files: count %d, %d paths, truncated %v", files.Count, len(files.Files), files.Truncated)
		}
		code := call[searchCodeOutput](t, c, "search_code", args{"query": "hit"})
		if code.MatchCount != 10_000 || code.FileCount != 10_000 || code.FilesSearched != 10_000 || len(code.Matches) != 200 {
			t.Errorf("search_code: %d lines in %d of %d files", code.MatchCount, code.FileCount, code.FilesSearched)
		}
		list := call[listOutput](t, c, "list_directory", args{"recursive": true, "max_entries": 10_000})
		if len(list.Entries) != 10_000 || !list.Truncated {
			t.Errorf("list_directory: %d entries, truncated %v", len(list.Entries), list.Truncated)
		}
	})
}

// With a progress token, a long walk reports every 1,000 files, and never
// after its result.
func TestProgress(t *testing.T) {
	s := newServer(t, manyFiles(t, 3_500))
	onEachTransport(t, s, func(t *testing.T, c *client.Client) {
		notes := make(chan mcp.JSONRPCNotification, 100)
		c.OnNotification(func(n mcp.JSONRPCNotification) { notes <- n })
		req := request("search_code", args{"query": "hit"})
		req.Params.Meta = &mcp.Meta{ProgressToken: "token-1"}
		_, err := c.CallTool(context.Background(), req)
		must(t, err)
		for _, want := range []float64{1000, 2000, 3000} {
			fields := (<-notes).Params.AdditionalFields
			got, _ := fields["progress"].(float64)
			if n, direct := fields["progress"].(int); direct { // in process nothing is decoded
				got = float64(n)
			}
			if got != want || fields["progressToken"] != "token-1" || fields["message"] != fmt.Sprintf("%v files", want) {
				t.Errorf("progress %v, want %v", fields, want)
			}
		}
		// Without a token there is none.
		call[searchCodeOutput](t, c, "search_code", args{"query": "hit"})
		select {
		case n := <-notes:
			t.Errorf("progress without a token: %+v", n)
		default:
		}
	})
}

// A cancelled context ends a walk in the middle.
func TestCancelledMidWalk(t *testing.T) {
	s := newServer(t, manyFiles(t, 3_500))
	walks := map[string]func(context.Context, reporter) error{
		"list_directory": func(ctx context.Context, r reporter) error {
			_, err := s.listDirectory(ctx, listInput{Recursive: true, MaxEntries: 10_000}, r)
			return err
		},
		"search_files": func(ctx context.Context, r reporter) error {
			_, err := s.searchFiles(ctx, searchFilesInput{Pattern: "*"}, r)
			return err
		},
		"search_code": func(ctx context.Context, r reporter) error {
			_, err := s.searchCode(ctx, searchCodeInput{Query: "hit"}, r)
			return err
		},
	}
	for name, run := range walks {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			err := run(ctx, func(files int, _ string) {
				if files == 2000 {
					cancel()
				}
			})
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("got %v, want a cancellation", err)
			}
			wantContains(t, err.Error(), "stopped after 2000 files", "smaller folder")
		})
	}
}

func TestCancelledCallOverAClient(t *testing.T) {
	s := newServer(t, manyFiles(t, 100))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	result, err := inProcess(t, s).CallTool(ctx, request("search_files", args{"pattern": "*"}))
	if err == nil && !result.IsError {
		t.Errorf("a cancelled call succeeded: %+v", result)
	}
}

// A cancelled context ends a long line in the middle, and a long file between lines.
func TestCancelledMidFile(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	q, err := newQuery(searchCodeInput{Query: `x+y`, Regex: true})
	must(t, err)
	lower := []byte{}
	text := []byte("xy\n" + strings.Repeat("xy\n", 1000))
	seen := 0
	err = q.each(ctx, text, &lower, func(matchedLine) { seen++; cancel() })
	if !errors.Is(err, context.Canceled) || seen != 1 {
		t.Errorf("%d lines, %v", seen, err)
	}
	r := stoppableReader{ctx: ctx, rest: []byte(strings.Repeat("x", 1<<20))}
	read := 0
	for {
		if _, _, err := r.ReadRune(); err != nil {
			break
		}
		read++
	}
	if read > 4096 {
		t.Errorf("%d characters were read after the end", read)
	}
	if _, err := countLines(ctx, strings.NewReader(strings.Repeat("x", 1<<20))); !errors.Is(err, context.Canceled) {
		t.Errorf("countLines: %v", err)
	}
	x := excerpt{first: 1, last: 1, limit: 1 << 20, all: true}
	if err := x.read(ctx, strings.NewReader(strings.Repeat("x\n", 1<<20))); !errors.Is(err, context.Canceled) {
		t.Errorf("excerpt: %v", err)
	}
}

// The bound on entries ends a walk with what it has, and says so.
func TestWalkLimit(t *testing.T) {
	s := newServer(t, manyFiles(t, 300))
	s.walkLimit = 150
	c := inProcess(t, s)
	files, text := callText[searchFilesOutput](t, c, "search_files", args{"pattern": "*.txt"})
	if files.Count != 148 || !files.Truncated { // 2 folders and 148 files
		t.Errorf("search_files: %d, truncated %v", files.Count, files.Truncated)
	}
	wantContains(t, text, "ended early")
	code, text := callText[searchCodeOutput](t, c, "search_code", args{"query": "hit"})
	if code.MatchCount != 148 || !code.Truncated {
		t.Errorf("search_code: %d, truncated %v", code.MatchCount, code.Truncated)
	}
	wantContains(t, text, "lines in 148 files")
	if list := call[listOutput](t, c, "list_directory", args{"recursive": true}); len(list.Entries) != 150 || !list.Truncated {
		t.Errorf("list_directory: %d, truncated %v", len(list.Entries), list.Truncated)
	}
	s.walkLimit = 303
	if files := call[searchFilesOutput](t, c, "search_files", args{"pattern": "*.txt"}); files.Count != 300 || files.Truncated {
		t.Errorf("exactly at the limit: %d, truncated %v", files.Count, files.Truncated)
	}
}

// Folders nested too deep are counted, not entered.
func TestWalkDepth(t *testing.T) {
	root := t.TempDir()
	dir := root
	for range maxWalkDepth + 2 {
		dir = filepath.Join(dir, "d")
		must(t, os.Mkdir(dir, 0o755))
		must(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o644))
	}
	c := inProcess(t, newServer(t, root))
	got, text := callText[searchFilesOutput](t, c, "search_files", args{"pattern": "f"})
	if got.Count != maxWalkDepth || got.Unreadable != 1 {
		t.Errorf("%d files, %d folders not entered", got.Count, got.Unreadable)
	}
	wantContains(t, text, "1 folder could not be read")
}

// What changes during a walk does not fail it.
func TestWalkOverAChangingTree(t *testing.T) {
	root := tree(t, map[string]string{"a/1": "hit", "b/2": "hit", "c/3": "hit"})
	handle, err := os.OpenRoot(root)
	must(t, err)
	defer handle.Close()
	var seen []string
	w := walk{limit: 100, report: func(int, string) {}}
	err = w.run(t.Context(), handle, ".", func(e entry) error {
		seen = append(seen, e.path)
		if e.path == "a/1" {
			must(t, os.RemoveAll(filepath.Join(root, "b")))
		}
		return nil
	})
	must(t, err)
	if diff := cmp.Diff([]string{"a", "a/1", "b", "c", "c/3"}, seen); diff != "" || w.unreadable != 1 {
		t.Errorf("%s, %d unreadable", diff, w.unreadable)
	}
	boom := errors.New("boom")
	if err := w.run(t.Context(), handle, ".", func(entry) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("a visit's error: %v", err)
	}
	must(t, w.run(t.Context(), handle, ".", func(entry) error { return fs.SkipAll }))
}

func TestConcurrentCalls(t *testing.T) {
	s := newServer(t, codeTree(t))
	onEachTransport(t, s, func(t *testing.T, c *client.Client) {
		var wg sync.WaitGroup
		for i := range 60 {
			wg.Go(func() {
				req := request("search_code", args{"query": "ratchet"})
				if i%2 == 0 {
					req = request("read_file", args{"path": "main.go"})
				}
				if result, err := c.CallTool(context.Background(), req); err != nil || result.IsError {
					t.Errorf("%v %+v", err, result)
				}
			})
		}
		wg.Wait()
	})
}
