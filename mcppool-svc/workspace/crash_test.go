//go:build unix

package workspace

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
)

// childMode is the environment variable with the mode of a process that a test starts.
const childMode = "PAWL_TEST_WORKSPACE_CHILD"

// child prepares a process that runs TestChild in a mode on a workspace.
func child(t *testing.T, mode, root string) *exec.Cmd {
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestChild$", "-test.v")
	cmd.Env, cmd.Dir = append(os.Environ(), childMode+"="+mode, "GORACE=atexit_sleep_ms=0"), root // the race detector waits a second at each exit
	return cmd
}

// TestChild is the main function of the processes that other tests start.
func TestChild(t *testing.T) {
	root, err := os.Getwd()
	must(t, err)
	switch os.Getenv(childMode) {
	case "changes":
		changeForever(t, root)
	case "read-only":
		if os.Geteuid() == 0 { // permissions do not bind the superuser
			must(t, syscall.Setgroups(nil))
			must(t, syscall.Setgid(65534))
			must(t, syscall.Setuid(65534))
		}
		refuseAll(t, root, "no permission to change")
	case "full":
		signal.Ignore(syscall.SIGXFSZ)
		must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 4096, Max: 4096}))
		refuseAll(t, root, "no space left")
	}
}

// refuseAll expects all changes that need much space, or permissions, to fail and to change nothing.
func refuseAll(t *testing.T, root, want string) {
	old := fileText(t, root, "f")
	c := inProcess(t, writable(t, root))
	big := strings.Repeat("line\n", 2000)
	patch := "--- /dev/null\n+++ b/new\n@@ -0,0 +1,2000 @@\n" + strings.ReplaceAll(big, "line", "+line")
	for tool, a := range map[string]args{
		"write_file":  {"path": "f", "content": big, "base_sha256": sum(old)},
		"apply_patch": {"patch": "--- a/g\n+++ b/g\n@@ -1 +1 @@\n-g\n+G\n" + patch},
		"move_file":   {"path": "f", "to": "moved"},
		"delete_file": {"path": "f", "base_sha256": sum(old)},
	} {
		wantContains(t, callError(t, c, tool, a), want)
	}
	names := func() (all []string) {
		entries, err := os.ReadDir(root)
		must(t, err)
		for _, e := range entries {
			if e.Name() != ownFolder {
				all = append(all, e.Name())
			}
		}
		return all
	}
	if got := strings.Join(names(), " "); got != "f g" || fileText(t, root, "f") != old || fileText(t, root, "g") != "g\n" {
		t.Errorf("the workspace holds %s", got)
	}
}

func TestReadOnlyFolder(t *testing.T) {
	root := tree(t, map[string]string{"f": "f", "g": "g\n"})
	must(t, os.Chmod(filepath.Dir(root), 0o755))
	must(t, os.Chmod(root, 0o555))
	t.Cleanup(func() { must(t, os.Chmod(root, 0o755)) })
	if out, err := child(t, "read-only", root).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A file system without space for the new content, or for the backup, loses nothing.
func TestNoSpaceLeft(t *testing.T) {
	root := tree(t, map[string]string{"f": strings.Repeat("x", 8000), "g": "g\n"})
	if out, err := child(t, "full", root).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// version is the content of a test's file: a number, and enough lines to take more than one write.
func version(n int) string { return strings.Repeat(fmt.Sprintf("version %d\n", n), 3000) }

// versionPatch changes the files a, b and c from a version to the next.
func versionPatch(n int) string {
	var b strings.Builder
	for _, name := range []string{"a", "b", "c"} {
		fmt.Fprintf(&b, "--- a/%s\n+++ b/%[1]s\n@@ -1,3000 +1,3000 @@\n", name)
		b.WriteString(strings.ReplaceAll(version(n), "version", "-version") + strings.ReplaceAll(version(n+1), "version", "+version"))
	}
	return b.String()
}

// changeForever writes and patches the files, and prints each version that is complete.
func changeForever(t *testing.T, root string) {
	c := inProcess(t, writable(t, root))
	for n := currentVersion(t, root, c); ; n++ {
		call[changesOutput](t, c, "apply_patch", args{"patch": versionPatch(n)})
		old := fileText(t, root, "single")
		call[changesOutput](t, c, "write_file", args{"path": "single", "content": version(n + 1), "base_sha256": sum(old)})
		fmt.Printf("done %d\n", n+1)
	}
}

// currentVersion recovers the workspace by a change, and returns the version of its files, which must be the same.
func currentVersion(t *testing.T, root string, c *client.Client) (n int) {
	t.Helper()
	call[changesOutput](t, c, "create_directory", args{"path": "recover"})
	call[changesOutput](t, c, "delete_file", args{"path": "recover"})
	_, err := fmt.Sscanf(fileText(t, root, "a"), "version %d", &n)
	must(t, err)
	for _, name := range []string{"a", "b", "c"} {
		if fileText(t, root, name) != version(n) {
			t.Fatalf("%s does not hold version %d", name, n)
		}
	}
	return n
}

// A process that is killed while it changes files leaves each file whole, a backup of each older version, and a patch that the next change undoes
// or that was made.
func TestKilledWhileChanging(t *testing.T) {
	root := tree(t, map[string]string{"a": version(0), "b": version(0), "c": version(0), "single": version(0)})
	interrupted := 0
	pending := func() bool { return strings.Contains(fileText(t, root, ledgerPath), `"pending"`) }
	for range 20 {
		cmd := child(t, "changes", root)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for lines.Scan() && !strings.HasPrefix(lines.Text(), "done") {
		}
		for !pending() { // until the next change begins
		}
		time.AfterFunc(time.Duration(rand.IntN(4000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
		for lines.Scan() {
		}
		if err := cmd.Wait(); err == nil || cmd.ProcessState.Exited() {
			t.Fatalf("the child ended by itself: %v", err)
		}
		if pending() {
			interrupted++
		}
		for _, name := range []string{"a", "b", "c", "single"} {
			var n int
			if _, err := fmt.Sscanf(fileText(t, root, name), "version %d", &n); err != nil || fileText(t, root, name) != version(n) {
				t.Fatalf("%s is not whole: %v", name, err)
			}
		}
		checkBackups(t, root)
		currentVersion(t, root, inProcess(t, writable(t, root)))
		if left, err := filepath.Glob(filepath.Join(root, tempName)); err != nil || len(left) > 0 {
			t.Fatalf("left: %v, %v", left, err)
		}
	}
	t.Logf("%d of 20 were killed within a change", interrupted)
}

// checkBackups checks that each backup holds what its name says.
func checkBackups(t *testing.T, root string) {
	t.Helper()
	must(t, filepath.WalkDir(filepath.Join(root, backupFolder), func(at string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != tempName {
			data, readErr := os.ReadFile(at)
			must(t, readErr)
			if !strings.HasSuffix(at, sumOf(data)) {
				t.Fatalf("%s does not hold what its name says", at)
			}
		}
		return err
	}))
}

// An interrupted change is undone only in files that were not changed since.
func TestRecoveryLeavesChangesOfOthers(t *testing.T) {
	root := tree(t, map[string]string{"a": "1\n", "b": "1\n"})
	s := writable(t, root)
	c := inProcess(t, s)
	out := call[changesOutput](t, c, "apply_patch", args{"patch": "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-1\n+2\n"})
	must(t, s.save(&ledger{Pending: &record{Changes: append(out.Changes, change{Path: ".git/x", Change: deleted})}})) // as if killed before its end
	must(t, os.WriteFile(filepath.Join(root, "b"), []byte("a person's\n"), 0o600))
	call[changesOutput](t, c, "write_file", args{"path": "c", "content": "c"})
	if _, err := os.Lstat(filepath.Join(root, ".git")); err == nil {
		t.Error("a forged record changed git's folder")
	}
	if fileText(t, root, "a") != "1\n" || fileText(t, root, "b") != "a person's\n" || fileText(t, root, "c") != "c" {
		t.Errorf("a %q, b %q", fileText(t, root, "a"), fileText(t, root, "b"))
	}
}

// A change that cannot be undone stays pending until it can, and keeps no other change from being undone.
func TestRecoveryIsRepeated(t *testing.T) {
	root := tree(t, map[string]string{"a": "1\n", "b": "1\n"})
	s := writable(t, root)
	c := inProcess(t, s)
	interrupt := func() (backup string) {
		t.Helper()
		out := call[changesOutput](t, c, "apply_patch", args{"patch": "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-1\n+2\n"})
		must(t, s.save(&ledger{Pending: &record{Changes: out.Changes}})) // as if killed before its end
		return filepath.Join(root, out.Changes[1].Backup)
	}
	wantFiles := func(a, b string) {
		t.Helper()
		if gotA, gotB := fileText(t, root, "a"), fileText(t, root, "b"); gotA != a || gotB != b {
			t.Errorf("a %q, b %q, want %q and %q", gotA, gotB, a, b)
		}
	}

	backup := interrupt()
	must(t, os.Rename(backup, backup+".moved"))
	symlink(t, filepath.Base(backup)+".moved", backup)
	for range 2 {
		wantContains(t, callError(t, c, "create_directory", args{"path": "d"}), "could not be undone", filepath.Base(backup))
		wantFiles("1\n", "2\n")
	}
	must(t, os.Rename(backup+".moved", backup))
	call[changesOutput](t, c, "create_directory", args{"path": "d"})
	wantFiles("1\n", "1\n")

	must(t, os.Remove(interrupt()))
	wantContains(t, callError(t, c, "create_directory", args{"path": "e"}), `"b" stays changed`, "was removed")
	call[changesOutput](t, c, "create_directory", args{"path": "e"})
	wantFiles("1\n", "2\n")
}

// A change whose end cannot be recorded is taken back, because the next call would undo it.
func TestUnrecordedChangeIsTakenBack(t *testing.T) {
	root := tree(t, map[string]string{"a": "1"})
	s := writable(t, root)
	_, err := s.change(t.Context(), "", func() (plan, error) {
		before, err := s.read("a")
		// In place of the ledger there is a folder that is not empty.
		return plan{edits: []edit{
			{path: "a", before: before, after: newFile([]byte("2"), nil)},
			{path: ledgerPath, before: anything},
			{path: ledgerPath + "/x", after: &file{}},
		}}, err
	})
	if err == nil || fileText(t, root, "a") != "1" {
		t.Errorf("%v; the file holds %q", err, fileText(t, root, "a"))
	}
}
