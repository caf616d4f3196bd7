package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
)

// escapeTree is a workspace beside a folder with a secret, and links of all
// kinds between them.
func escapeTree(t *testing.T) (root string) {
	top := tree(t, map[string]string{
		"ws/ok.txt": "public secret\n", "ws/sub/in.txt": "public secret\n",
		"ws-sibling/secret.txt": "secret\n", "outside/secret.txt": "secret\n", "outside/sub/more.txt": "secret\n",
	})
	root = filepath.Join(top, "ws")
	for link, target := range map[string]string{
		"file-out":     "../outside/secret.txt",
		"file-abs":     filepath.Join(top, "outside", "secret.txt"),
		"file-inabs":   filepath.Join(root, "ok.txt"),
		"dir-out":      "../outside",
		"dir-abs":      filepath.Join(top, "outside"),
		"up":           "..",
		"sub/up-up":    "../..",
		"chain":        "dir-out/sub",
		"loop-a":       "loop-b",
		"loop-b":       "loop-a",
		"self":         "self",
		"sub/circle":   "../sub",
		"file-in":      "sub/in.txt",
		"dir-in":       "sub",
		"broken":       "nothing",
		"proc":         "/proc/self/root",
		"sub/in-by-up": "../ok.txt",
	} {
		symlink(t, target, filepath.Join(root, link))
	}
	return root
}

// D12: confined by handle; neither paths nor links lead out.
func TestD12NothingEscapes(t *testing.T) {
	root := escapeTree(t)
	outside := filepath.Join(filepath.Dir(root), "outside")
	tests := map[string]struct{ path, want string }{
		"parent":                      {"..", "outside the workspace"},
		"parent's file":               {"../outside/secret.txt", "outside the workspace"},
		"up through a folder":         {"sub/../../outside/secret.txt", "outside the workspace"},
		"up many times":               {"../../../../../../../../etc/passwd", "outside the workspace"},
		"absolute":                    {filepath.Join(outside, "secret.txt"), "outside the workspace"},
		"the root's name as a prefix": {root + "-sibling/secret.txt", "outside the workspace"},
		"absolute with ..":            {root + "/../outside/secret.txt", "outside the workspace"},
		"etc":                         {"/etc/passwd", "outside the workspace"},
		"link to a file":              {"file-out", "leads out of the workspace"},
		"absolute link":               {"file-abs", "leads out of the workspace"},
		"absolute link to the inside": {"file-inabs", "leads out of the workspace (or is absolute)"},
		"link to a folder":            {"dir-out/secret.txt", "leads out of the workspace"},
		"link to a folder itself":     {"dir-out", "leads out of the workspace"},
		"absolute link to a folder":   {"dir-abs/secret.txt", "leads out of the workspace"},
		"link to the parent":          {"up/outside/secret.txt", "leads out of the workspace"},
		"deeper link":                 {"sub/up-up/outside/secret.txt", "leads out of the workspace"},
		"chain of links":              {"chain/more.txt", "leads out of the workspace"},
		"proc":                        {"proc/etc/passwd", "leads out of the workspace"},
		"loop":                        {"loop-a", "lead in a circle"},
		"link to itself":              {"self", "lead in a circle"},
		"below a loop":                {"self/x", "lead in a circle"},
		"broken link":                 {"broken", "symbolic link to something that does not exist"},
	}
	s := newServer(t, root)
	onEachTransport(t, s, func(t *testing.T, c *client.Client) {
		for name, tt := range tests {
			t.Run(name, func(t *testing.T) {
				for tool, a := range map[string]args{
					"read_file": {}, "get_file_info": {}, "list_directory": {},
					"search_files": {"pattern": "*"}, "search_code": {"query": "secret"},
				} {
					a["path"] = tt.path
					wantContains(t, callError(t, c, tool, a), tt.want)
				}
			})
		}
	})
}

func TestLinksInsideAreFollowedWhereNamed(t *testing.T) {
	c := inProcess(t, newServer(t, escapeTree(t)))
	for _, path := range []string{"file-in", "dir-in/in.txt", "sub/circle/circle/in.txt", "sub/in-by-up"} {
		if got := call[readOutput](t, c, "read_file", args{"path": path}); got.Content != "public secret\n" || got.Path != path {
			t.Errorf("%s: %+v", path, got)
		}
	}
	got := call[infoOutput](t, c, "get_file_info", args{"path": "dir-in"})
	if got.Type != "directory" || got.LinkTarget != "sub" {
		t.Errorf("a link to a folder: %+v", got)
	}
}

func TestWalksFollowNoLinks(t *testing.T) {
	c := inProcess(t, newServer(t, escapeTree(t)))
	code := call[searchCodeOutput](t, c, "search_code", args{"query": "secret"})
	if diff := cmp.Diff([]string{"ok.txt:1", "sub/in.txt:1"}, where(code)); diff != "" {
		t.Error("search_code:", diff)
	}
	files := call[searchFilesOutput](t, c, "search_files", args{"pattern": "**"})
	if diff := cmp.Diff([]string{"file-in", "ok.txt", "sub/in-by-up", "sub/in.txt"}, files.Files); diff != "" {
		t.Error("search_files:", diff)
	}
	list := call[listOutput](t, c, "list_directory", args{"recursive": true})
	for _, e := range list.Entries {
		if strings.Count(e.Path, "/") > 1 || (e.Type == "symlink") == (e.Name == "ok.txt" || strings.HasPrefix(e.Path, "sub/in.") || e.Name == "sub") {
			t.Errorf("list_directory: %+v", e)
		}
	}
}

// The root itself may be reached through a link, and named by either path.
func TestRootBehindALink(t *testing.T) {
	root := tree(t, map[string]string{"real/a.txt": "a"})
	symlink(t, "real", filepath.Join(root, "alias"))
	c := inProcess(t, newServer(t, filepath.Join(root, "alias")))
	for _, path := range []string{"a.txt", filepath.Join(root, "alias", "a.txt"), filepath.Join(root, "real", "a.txt")} {
		if got := call[readOutput](t, c, "read_file", args{"path": path}); got.Path != "a.txt" {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

// A named pipe must neither block a reader nor be read.
func TestSpecialFiles(t *testing.T) {
	root := tree(t, map[string]string{"a.txt": "a"})
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600); err != nil {
		t.Skipf("no named pipes: %v", err)
	}
	c := inProcess(t, newServer(t, root))
	wantContains(t, callError(t, c, "read_file", args{"path": "pipe"}), "named pipe", "cannot be read")
	if got := call[infoOutput](t, c, "get_file_info", args{"path": "pipe"}); got.Type != "other" || got.MIMEType != "inode/fifo" {
		t.Errorf("get_file_info: %+v", got)
	}
	if got := call[searchCodeOutput](t, c, "search_code", args{"query": "a"}); got.FilesSearched != 1 {
		t.Errorf("search_code: %+v", got)
	}
	if got := call[searchFilesOutput](t, c, "search_files", args{"pattern": "pipe"}); got.Count != 0 {
		t.Errorf("search_files: %+v", got)
	}
	dir, err := os.OpenRoot(root)
	must(t, err)
	defer dir.Close()
	if _, _, err := openRegular(dir, "pipe"); err == nil { // as if swapped after the check
		t.Error("a pipe was opened as a regular file")
	}
}

func TestUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("permissions do not bind the superuser")
	}
	root := tree(t, map[string]string{"a.txt": "hit", "closed.txt": "hit", "locked/b.txt": "hit"})
	must(t, os.Chmod(filepath.Join(root, "closed.txt"), 0))
	must(t, os.Chmod(filepath.Join(root, "locked"), 0))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(root, "locked"), 0o755) })
	c := inProcess(t, newServer(t, root))
	wantContains(t, callError(t, c, "read_file", args{"path": "closed.txt"}), "no permission")
	wantContains(t, callError(t, c, "read_file", args{"path": "locked/b.txt"}), "no permission")
	code := call[searchCodeOutput](t, c, "search_code", args{"query": "hit"})
	if code.FileCount != 1 || code.Skipped.Unreadable != 2 {
		t.Errorf("search_code: %+v", code)
	}
	if got := call[searchFilesOutput](t, c, "search_files", args{"pattern": "*"}); got.Count != 2 || got.Unreadable != 1 {
		t.Errorf("search_files: %+v", got)
	}
	if got := call[listOutput](t, c, "list_directory", args{"recursive": true}); got.Unreadable != 1 {
		t.Errorf("list_directory: %+v", got)
	}
	if got := call[infoOutput](t, c, "get_file_info", args{"path": "closed.txt"}); got.Size != 3 || got.Lines != nil {
		t.Errorf("get_file_info: %+v", got)
	}
}
