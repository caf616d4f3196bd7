package workspace

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
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

// escapeCalls returns a call of each tool that changes files, at a path and with a hash that fits a secret.
func escapeCalls(path string) map[string]args {
	return map[string]args{
		"write_file":       {"path": path, "content": "x", "base_sha256": sum("secret\n"), "create_dirs": true},
		"delete_file":      {"path": path, "base_sha256": sum("secret\n")},
		"create_directory": {"path": path},
		"restore_file":     {"path": path, "base_sha256": sum("secret\n")},
		"list_backups":     {"path": path},
		"move_file":        {"path": path, "to": "mine.txt"},
		"move_file to":     {"path": "ok.txt", "to": path, "base_sha256": sum("secret\n"), "create_dirs": true},
		"apply_patch":      {"patch": "--- a/" + path + "\n+++ b/" + path + "\n@@ -1 +1 @@\n-secret\n+x\n"},
		"apply_patch new":  {"patch": "--- /dev/null\n+++ b/" + path + "\n@@ -0,0 +1 @@\n+x\n"},
		"apply_patch from": {"patch": "diff --git a/" + path + " b/mine.txt\nrename from " + path + "\nrename to mine.txt\n"},
		"apply_patch to":   {"patch": "diff --git a/ok.txt b/" + path + "\nrename from ok.txt\nrename to " + path + "\n"},
		"apply_patch rm":   {"patch": "--- a/" + path + "\n+++ /dev/null\n@@ -1 +0,0 @@\n-secret\n"},
	}
}

// D12: no tool changes what is outside, neither by paths nor by links.
func TestD12NoChangeEscapes(t *testing.T) {
	root := escapeTree(t)
	top := filepath.Dir(root)
	c := inProcess(t, writable(t, root))
	for path, want := range map[string]string{
		"../outside/secret.txt":                  "outside the workspace",
		"sub/../../outside/secret.txt":           "outside the workspace",
		filepath.Join(top, "outside/secret.txt"): "outside the workspace",
		root + "-sibling/secret.txt":             "outside the workspace",
		"/proc/self/mem":                         "outside the workspace",
		"file-out":                               "symbolic link",
		"file-abs":                               "symbolic link",
		"file-inabs":                             "symbolic link",
		"dir-out/secret.txt":                     "symbolic link",
		"dir-abs/secret.txt":                     "symbolic link",
		"up/outside/secret.txt":                  "symbolic link",
		"sub/up-up/outside/secret.txt":           "symbolic link",
		"chain/more.txt":                         "symbolic link",
		"proc/tmp/x":                             "symbolic link",
		"loop-a":                                 "symbolic link",
		"self/x":                                 "symbolic link",
		"broken":                                 "symbolic link",
		"file-in":                                "symbolic link",
		"dir-in/in.txt":                          "symbolic link",
		"sub/circle/in.txt":                      "symbolic link",
	} {
		for tool, a := range escapeCalls(path) {
			name, _, _ := strings.Cut(tool, " ")
			if name == "list_backups" && want == "symbolic link" {
				continue // of a path, whatever is there
			}
			if got := callError(t, c, name, a); !strings.Contains(got, want) {
				t.Errorf("%s of %s: %s", tool, path, got)
			}
		}
	}
	for name, want := range map[string]string{
		"outside/secret.txt": "secret\n", "outside/sub/more.txt": "secret\n", "ws-sibling/secret.txt": "secret\n",
		"ws/ok.txt": "public secret\n", "ws/sub/in.txt": "public secret\n", "ws/mine.txt": "-",
	} {
		if got := fileText(t, top, name); got != want {
			t.Errorf("%s holds %q", name, got)
		}
	}
}

// A folder of the server's own that is a link is not followed either.
func TestOwnFolderIsNoLink(t *testing.T) {
	top := tree(t, map[string]string{"ws/a.txt": "a", "outside/": ""})
	root := filepath.Join(top, "ws")
	symlink(t, "../outside", filepath.Join(root, ".pawl"))
	c := inProcess(t, writable(t, root))
	wantContains(t, callError(t, c, "delete_file", args{"path": "a.txt", "base_sha256": sum("a")}), ".pawl", "symbolic link")
	if entries, err := os.ReadDir(filepath.Join(top, "outside")); err != nil || len(entries) > 0 || fileText(t, root, "a.txt") != "a" {
		t.Errorf("outside: %v, %v", entries, err)
	}
}

// Pipes, sockets and devices are neither opened nor replaced.
func TestSpecialFilesAreNotChanged(t *testing.T) {
	root := tree(t, map[string]string{"ok.txt": "a"})
	special := map[string]string{"pipe": "named pipe", "socket": "socket"}
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600); err != nil {
		t.Skipf("no named pipes: %v", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(root, "socket"))
	must(t, err)
	defer listener.Close()
	if syscall.Mknod(filepath.Join(root, "null"), syscall.S_IFCHR|0o666, 1<<8|3) == nil { // only the superuser may
		special["null"] = "device"
	}
	c := inProcess(t, writable(t, root))
	for path, kind := range special {
		for tool, a := range escapeCalls(path) {
			if name, _, _ := strings.Cut(tool, " "); name != "list_backups" {
				got := callError(t, c, name, a)
				if !strings.Contains(got, kind) {
					t.Errorf("%s of %s: %s", tool, path, got)
				}
			}
		}
		if info, err := os.Lstat(filepath.Join(root, path)); err != nil || info.Mode().IsRegular() {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
}

// A folder that alternates between a folder and a link to the outside while tools change a file in it leads no change out.
func TestSymlinkSwapWhileWriting(t *testing.T) {
	top := tree(t, map[string]string{"ws/real/a.txt": "0", "outside/a.txt": "0"})
	root := filepath.Join(top, "ws")
	symlink(t, "../outside", filepath.Join(root, "link"))
	s := writable(t, root)
	stop := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		names := []string{"real", "link"}
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			at := filepath.Join(root, "dir")
			_ = os.Rename(filepath.Join(root, names[i%2]), at)
			runtime.Gosched()
			_ = os.Rename(at, filepath.Join(root, names[i%2]))
		}
	})
	made := 0
	for i := range 400 {
		tools := []func() (plan, error){
			func() (plan, error) {
				return s.planWrite(t.Context(), writeInput{Path: "dir/a.txt", Content: strconv.Itoa(i), BaseSHA256: sum(fileText(t, root, "real/a.txt"))})
			},
			func() (plan, error) {
				return s.planWrite(t.Context(), writeInput{Path: fmt.Sprint("dir/new", i), Content: "x"})
			},
			func() (plan, error) {
				return s.planDelete(t.Context(), deleteInput{Path: "dir/a.txt", BaseSHA256: sum("0")})
			},
		}
		if _, err := s.change(t.Context(), "", tools[i%3]); err == nil {
			made++
		}
	}
	close(stop)
	swapper.Wait()
	if entries, err := os.ReadDir(filepath.Join(top, "outside")); err != nil || len(entries) != 1 || fileText(t, top, "outside/a.txt") != "0" {
		t.Errorf("outside: %v, %v", entries, err)
	}
	t.Logf("%d of 400 changes were made", made)
}

// Names that JSON cannot carry are not mistaken for others, and on a file system that ignores letter case a name of other case is the same file.
func TestOddNames(t *testing.T) {
	root := tree(t, map[string]string{"README.md": "a"})
	if err := os.WriteFile(filepath.Join(root, "bad\xff"), []byte("b"), 0o600); err != nil {
		t.Skipf("the file system takes UTF-8 only: %v", err)
	}
	c := inProcess(t, writable(t, root))
	wantContains(t, callError(t, c, "delete_file", args{"path": "bad\ufffd", "base_sha256": sum("b")}), "does not exist")
	result, err := c.CallTool(t.Context(), request("write_file", args{"path": "readme.md", "content": "x"}))
	must(t, err)
	if folded := fileText(t, root, "README.md") == fileText(t, root, "readme.md"); folded != result.IsError {
		t.Errorf("readme.md beside README.md: %v, folded %v", textOf(t, result), folded)
	}
	if fileText(t, root, "README.md") != "a" {
		t.Error("a name of other case overwrote a file")
	}
}
