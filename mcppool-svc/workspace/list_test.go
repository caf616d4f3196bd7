package workspace

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
)

func paths(entries []listEntry) []string {
	var all []string
	for _, e := range entries {
		all = append(all, e.Path)
	}
	return all
}

func TestListDirectory(t *testing.T) {
	root := tree(t, map[string]string{
		"README.md": "hello\n", ".hidden": "h", "docs/guide.md": "abc", "docs/api/index.md": "", "empty/": "",
	})
	symlink(t, "README.md", filepath.Join(root, "link"))
	s := newServer(t, root)
	onEachTransport(t, s, func(t *testing.T, c *client.Client) {
		got, text := callText[listOutput](t, c, "list_directory", args{})
		want := listOutput{Path: ".", Entries: []listEntry{
			{".hidden", ".hidden", "file", 1},
			{"README.md", "README.md", "file", 6},
			{"docs", "docs", "directory", 0},
			{"empty", "empty", "directory", 0},
			{"link", "link", "symlink", 0},
		}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		wantContains(t, text, `5 entries in "."`, "\nREADME.md  6 bytes", "\ndocs/", "\nlink  (symlink)")

		got = call[listOutput](t, c, "list_directory", args{"path": "docs", "recursive": true})
		if diff := cmp.Diff([]string{"docs/api", "docs/api/index.md", "docs/guide.md"}, paths(got.Entries)); diff != "" {
			t.Error(diff)
		}
		got, text = callText[listOutput](t, c, "list_directory", args{"path": "empty"})
		if len(got.Entries) != 0 || got.Entries == nil || text != `0 entries in "empty"` {
			t.Errorf("empty folder: %+v, %q", got, text)
		}
	})
}

func TestListDirectorySkipsMachineFolders(t *testing.T) {
	root := tree(t, map[string]string{
		".git/config": "x", "node_modules/a/index.js": "x", "src/node_modules/b.js": "x", "src/main.go": "x", ".github/ci.yml": "x",
	})
	c := inProcess(t, newServer(t, root))
	got := call[listOutput](t, c, "list_directory", args{"recursive": true})
	want := []string{".git", ".github", ".github/ci.yml", "node_modules", "src", "src/main.go", "src/node_modules"}
	if diff := cmp.Diff(want, paths(got.Entries)); diff != "" {
		t.Error(diff)
	}
	got = call[listOutput](t, c, "list_directory", args{"path": "node_modules", "recursive": true})
	if diff := cmp.Diff([]string{"node_modules/a", "node_modules/a/index.js"}, paths(got.Entries)); diff != "" {
		t.Error("a skipped folder that is named:", diff)
	}
}

func TestListDirectoryTruncates(t *testing.T) {
	files := map[string]string{}
	for i := range 12 {
		files[fmt.Sprintf("f%02d", i)] = ""
	}
	c := inProcess(t, newServer(t, tree(t, files)))
	for _, tt := range []struct {
		limit, want int
		truncated   bool
	}{{1, 1, true}, {11, 11, true}, {12, 12, false}, {10000, 12, false}} {
		got, text := callText[listOutput](t, c, "list_directory", args{"max_entries": tt.limit})
		if len(got.Entries) != tt.want || got.Truncated != tt.truncated {
			t.Errorf("max_entries %d: %d entries, truncated %v", tt.limit, len(got.Entries), got.Truncated)
		}
		if tt.truncated {
			wantContains(t, text, "raise max_entries")
		}
	}
}

func TestListDirectoryErrors(t *testing.T) {
	c := inProcess(t, newServer(t, tree(t, map[string]string{"docs/guide.md": "x"})))
	wantContains(t, callError(t, c, "list_directory", args{"path": "docs/guide.md"}), "not a directory", "read_file", `"docs"`)
	wantContains(t, callError(t, c, "list_directory", args{"path": "doc"}), `"doc" does not exist`, `there is "docs"`)
}
