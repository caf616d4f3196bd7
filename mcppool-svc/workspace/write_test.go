package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

// changes calls a tool that changes files, and returns the changes without the names of backups, which it checks.
func changes(t testing.TB, root string, c *client.Client, tool string, a args) []change {
	t.Helper()
	out := call[changesOutput](t, c, tool, a)
	for i, made := range out.Changes {
		if made.Backup == "" {
			continue
		}
		_, want, _ := strings.Cut(filepath.Base(made.Backup), "-")
		if sum(fileText(t, root, made.Backup)) != want {
			t.Errorf("the backup %s does not hold what its name says", made.Backup)
		}
		out.Changes[i].Backup = "saved " + want[:6]
	}
	return out.Changes
}

func saved(text string) string { return "saved " + sum(text)[:6] }

// D12: write_file creates and replaces; the hash that was read protects the changes of others; the old content is saved.
func TestD12WriteFile(t *testing.T) {
	root := tree(t, map[string]string{"run.sh": "echo 1\n"})
	must(t, os.Chmod(filepath.Join(root, "run.sh"), 0o754))
	c := inProcess(t, writable(t, root))

	got := changes(t, root, c, "write_file", args{"path": "new/deep/a.txt", "content": "hello\n", "create_dirs": true})
	if diff := cmp.Diff([]change{{Path: "new/deep/a.txt", Change: "created", SHA256: sum("hello\n"), Bytes: 6}}, got); diff != "" {
		t.Error(diff)
	}
	read := call[readOutput](t, c, "read_file", args{"path": "run.sh", "end_line": 1})
	if read.SHA256 != sum("echo 1\n") {
		t.Errorf("read_file: %+v", read)
	}
	out, text := callText[changesOutput](t, c, "write_file", args{"path": "./run.sh", "content": "echo 2\n", "base_sha256": strings.ToUpper(read.SHA256)})
	wantContains(t, text, "modified run.sh: 7 bytes, sha256 "+sum("echo 2\n"), "--- a/run.sh\n+++ b/run.sh\n@@ -1,1 +1,1 @@\n-echo 1\n+echo 2\n")
	if fileText(t, root, "run.sh") != "echo 2\n" || fileText(t, root, out.Changes[0].Backup) != "echo 1\n" {
		t.Errorf("%+v", out)
	}
	for _, name := range []string{"run.sh", out.Changes[0].Backup} {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Mode().Perm() != 0o754 {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
	}
	if fileText(t, root, ".pawl/.gitignore") != "*\n" {
		t.Error("git would see the backups")
	}
	if got := fileText(t, root, ledgerPath); got != "{}" {
		t.Errorf("the ledger holds %s", got)
	}
}

func TestWriteFileRefuses(t *testing.T) {
	root := tree(t, map[string]string{"a.txt": "one", "dir/b.txt": "b"})
	c := inProcess(t, writable(t, root))
	now := sum("one")
	tests := map[string]struct {
		args args
		want []string
	}{
		"without a base":          {args{"path": "a.txt", "content": "x"}, []string{"exists", "read it first", now}},
		"of an older content":     {args{"path": "a.txt", "content": "x", "base_sha256": sum("zero")}, []string{"has changed", now, "read the file again"}},
		"of a missing file":       {args{"path": "c.txt", "content": "x", "base_sha256": now}, []string{"does not exist", "leave base_sha256 out"}},
		"not a hash":              {args{"path": "a.txt", "content": "x", "base_sha256": "abc"}, []string{"schema"}},
		"a folder":                {args{"path": "dir", "content": "x"}, []string{"is a directory"}},
		"the root":                {args{"path": ".", "content": "x"}, []string{"the workspace itself"}},
		"below a file":            {args{"path": "a.txt/x", "content": "x", "create_dirs": true}, []string{"a.txt", "not a directory"}},
		"in a missing folder":     {args{"path": "none/x", "content": "x"}, []string{`"none" does not exist`, "create_dirs"}},
		"in git's folder":         {args{"path": ".git/hooks/pre-commit", "content": "x", "create_dirs": true}, []string{"belongs to git"}},
		"in git's folder below":   {args{"path": "sub/.GIT/config", "content": "x", "create_dirs": true}, []string{"belongs to git"}},
		"among the backups":       {args{"path": ".pawl/x", "content": "x"}, []string{"backups", "restore_file"}},
		"among them, in capitals": {args{"path": ".PAWL/backups/x", "content": "x", "create_dirs": true}, []string{"backups"}},
		"the temporary file":      {args{"path": "dir/" + tempName, "content": "x"}, []string{"choose another"}},
		"a NUL":                   {args{"path": "a\x00b", "content": "x"}, []string{"NUL"}},
		"a name that is too long": {args{"path": strings.Repeat("n", 300), "content": "x"}, []string{"longer than the file system allows"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { wantContains(t, callError(t, c, "write_file", tt.args), tt.want...) })
	}
	// Bytes that read_file shows as U+FFFD are not lost.
	must(t, os.WriteFile(filepath.Join(root, "latin1"), []byte("caf\xe9\nprice\n"), 0o600))
	read := call[readOutput](t, c, "read_file", args{"path": "latin1"})
	wantContains(t, callError(t, c, "write_file", args{"path": "latin1", "content": read.Content + "more\n", "base_sha256": read.SHA256}), "not in UTF-8", "apply_patch")
	changes(t, root, c, "apply_patch", args{"patch": "--- a/latin1\n+++ b/latin1\n@@ -2 +2 @@\n-price\n+prix\n"})
	if fileText(t, root, "latin1") != "caf\xe9\nprix\n" {
		t.Errorf("latin1 holds %q", fileText(t, root, "latin1"))
	}
	if fileText(t, root, "a.txt") != "one" || fileText(t, root, "none/x") != "-" {
		t.Error("a refused call wrote")
	}
}

// The limits of what is written and of what is backed up.
func TestHugeFiles(t *testing.T) {
	root := tree(t, map[string]string{"huge.bin": "x"})
	must(t, os.Truncate(filepath.Join(root, "huge.bin"), maxFullScan+1))
	s := writable(t, root)
	c := inProcess(t, s)
	if _, err := s.planWrite(context.Background(), writeInput{Path: "a", Content: strings.Repeat("ä", maxWriteBytes/2+1)}); err == nil {
		t.Error("a content over the limit was accepted")
	}
	big := strings.Repeat("x", maxWriteBytes-1) + "\n"
	call[changesOutput](t, c, "write_file", args{"path": "big.txt", "content": big})
	wantContains(t, callError(t, c, "delete_file", args{"path": "huge.bin", "base_sha256": sum("x")}), "64 MiB", "too large to be changed")
	if got := call[infoOutput](t, c, "get_file_info", args{"path": "huge.bin"}); got.SHA256 != "" {
		t.Errorf("get_file_info: %+v", got)
	}
	// A file that is longer than what one call writes can still be changed.
	must(t, os.WriteFile(filepath.Join(root, "large"), []byte(big+"y\n"), 0o600))
	call[changesOutput](t, c, "apply_patch", args{"patch": "--- a/large\n+++ b/large\n@@ -2 +2 @@\n-y\n+z\n"})
	call[changesOutput](t, c, "move_file", args{"path": "large", "to": "moved"})
	call[changesOutput](t, c, "delete_file", args{"path": "moved", "base_sha256": sum(big + "z\n")})
	call[changesOutput](t, c, "restore_file", args{"path": "moved"})
	if fileText(t, root, "moved") != big+"z\n" {
		t.Error("a large file was not restored")
	}
}

// Writing by renaming breaks a hard link: the file outside keeps its content.
func TestHardLinks(t *testing.T) {
	top := tree(t, map[string]string{"outside.txt": "secret", "ws/": ""})
	root := filepath.Join(top, "ws")
	must(t, os.Link(filepath.Join(top, "outside.txt"), filepath.Join(root, "linked.txt")))
	c := inProcess(t, writable(t, root))
	changes(t, root, c, "write_file", args{"path": "linked.txt", "content": "mine", "base_sha256": sum("secret")})
	if fileText(t, top, "outside.txt") != "secret" || fileText(t, root, "linked.txt") != "mine" {
		t.Error("a change went through a hard link")
	}
}

func TestRepeatedWriteIsNoChange(t *testing.T) {
	root := tree(t, map[string]string{"a.txt": "one"})
	c := inProcess(t, writable(t, root))
	write := args{"path": "a.txt", "content": "two", "base_sha256": sum("one")}
	changes(t, root, c, "write_file", write)
	if got := changes(t, root, c, "write_file", write); len(got) != 0 {
		t.Errorf("the second time: %+v", got)
	}
	if got := call[listBackupsOutput](t, c, "list_backups", args{"path": "a.txt"}); len(got.Backups) != 1 {
		t.Errorf("%+v", got)
	}
}

// A call with an idempotency key that has committed returns its first result, whatever happened to the files since.
func TestRepeatedCallReturnsItsFirstResult(t *testing.T) {
	root := tree(t, map[string]string{"a.txt": "one\n"})
	c := inProcess(t, writable(t, root))
	keyed := func(tool string, a args) *mcp.CallToolResult {
		t.Helper()
		req := request(tool, a)
		req.Params.Meta = &mcp.Meta{AdditionalFields: map[string]any{metaIdempotencyKey: "task/step"}}
		result, err := c.CallTool(context.Background(), req)
		must(t, err)
		if result.IsError {
			t.Fatal(textOf(t, result))
		}
		return result
	}
	for tool, a := range map[string]args{
		"write_file":  {"path": "new.txt", "content": "n"},
		"apply_patch": {"patch": "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n"},
		"delete_file": {"path": "a.txt", "base_sha256": sum("two\n")},
	} {
		if tool == "delete_file" {
			continue
		}
		first := keyed(tool, a)
		if diff := cmp.Diff(first.StructuredContent, keyed(tool, a).StructuredContent); diff != "" {
			t.Errorf("%s: %s", tool, diff)
		}
	}
	gone := args{"path": "a.txt", "base_sha256": sum("two\n")}
	first := keyed("delete_file", gone)
	must(t, os.WriteFile(filepath.Join(root, "a.txt"), []byte("a person's"), 0o600))
	if diff := cmp.Diff(first.StructuredContent, keyed("delete_file", gone).StructuredContent); diff != "" || fileText(t, root, "a.txt") != "a person's" {
		t.Errorf("delete_file: %s", diff)
	}
	// Another input is another call.
	keyed("write_file", args{"path": "new2.txt", "content": "n"})
	if fileText(t, root, "new2.txt") != "n" {
		t.Error("another call with the key was not made")
	}
}

// D12: 10 backups are kept for each file; a restored file can be restored again.
func TestD12Backups(t *testing.T) {
	root := tree(t, map[string]string{"a.txt": "0"})
	c := inProcess(t, writable(t, root))
	for i := range 14 {
		changes(t, root, c, "write_file", args{"path": "a.txt", "content": fmt.Sprint(i + 1), "base_sha256": sum(fmt.Sprint(i))})
	}
	list := call[listBackupsOutput](t, c, "list_backups", args{"path": "a.txt"}).Backups
	var held []string
	for i, b := range list {
		held = append(held, fileText(t, root, b.Path))
		if b.SHA256 != sum(held[i]) || b.Bytes != int64(len(held[i])) {
			t.Errorf("%+v holds %q", b, held[i])
		}
	}
	if diff := cmp.Diff([]string{"13", "12", "11", "10", "9", "8", "7", "6", "5", "4"}, held); diff != "" {
		t.Error(diff)
	}
	got := changes(t, root, c, "restore_file", args{"path": "a.txt", "backup": list[9].Path, "base_sha256": sum("14")})
	if diff := cmp.Diff([]change{{Path: "a.txt", Change: "modified", Backup: saved("14"), SHA256: sum("4"), Bytes: 1}}, got); diff != "" {
		t.Error(diff)
	}
	wantContains(t, callError(t, c, "restore_file", args{"path": "a.txt"}), "exists", sum("4")) // so that no other change is lost
	changes(t, root, c, "restore_file", args{"path": "a.txt", "base_sha256": sum("4")})
	if fileText(t, root, "a.txt") != "14" {
		t.Errorf("restored again: %s", fileText(t, root, "a.txt"))
	}
	changes(t, root, c, "delete_file", args{"path": "a.txt", "base_sha256": sum("14")})
	got = changes(t, root, c, "restore_file", args{"path": "a.txt"})
	if diff := cmp.Diff([]change{{Path: "a.txt", Change: "created", SHA256: sum("14"), Bytes: 2}}, got); diff != "" {
		t.Error(diff)
	}
	wantContains(t, callError(t, c, "restore_file", args{"path": "a.txt", "base_sha256": sum("x")}), "has changed")
	wantContains(t, callError(t, c, "restore_file", args{"path": "a.txt", "backup": "x", "base_sha256": sum("14")}), "no backup of", "list_backups")
	changes(t, root, c, "write_file", args{"path": "created.txt", "content": "c"})
	wantContains(t, callError(t, c, "restore_file", args{"path": "created.txt", "base_sha256": sum("c")}), "has no backups", "delete_file")
}

// Tools show neither the backups nor the records.
func TestOwnFilesAreHidden(t *testing.T) {
	root := tree(t, map[string]string{"a.txt": "find me", "sub/" + tempName: "find me"})
	c := inProcess(t, writable(t, root))
	out := call[changesOutput](t, c, "write_file", args{"path": "a.txt", "content": "changed", "base_sha256": sum("find me")})
	if got := call[searchCodeOutput](t, c, "search_code", args{"query": "find me"}); got.FileCount != 0 {
		t.Errorf("search_code: %+v", got)
	}
	if got := call[searchFilesOutput](t, c, "search_files", args{"pattern": "*"}); got.Count != 1 {
		t.Errorf("search_files: %+v", got)
	}
	if got := call[listOutput](t, c, "list_directory", args{}); len(got.Entries) != 2 {
		t.Errorf("list_directory: %+v", got)
	}
	for tool, a := range map[string]args{
		"read_file": {"path": out.Changes[0].Backup}, "get_file_info": {"path": ".pawl"}, "list_directory": {"path": ".pawl"},
		"search_code": {"path": ".pawl/backups", "query": "x"}, "search_files": {"path": ".Pawl", "pattern": "x"},
		"delete_file": {"path": out.Changes[0].Backup}, "move_file": {"path": "a.txt", "to": ".pawl/a"}, "create_directory": {"path": ".pawl/x"},
		"apply_patch": {"patch": "--- /dev/null\n+++ b/.pawl/x\n@@ -0,0 +1 @@\n+x\n"},
	} {
		wantContains(t, callError(t, c, tool, a), "list_backups and restore_file")
	}
}

func TestMoveAndDelete(t *testing.T) {
	root := tree(t, map[string]string{"a.sh": "a", "b.txt": "b", "dir/c.txt": "c", "empty/": ""})
	must(t, os.Chmod(filepath.Join(root, "a.sh"), 0o755))
	c := inProcess(t, writable(t, root))
	got := changes(t, root, c, "move_file", args{"path": "a.sh", "to": "bin/run.sh", "create_dirs": true})
	want := []change{{Path: "bin/run.sh", Change: "created", From: "a.sh", SHA256: sum("a"), Bytes: 1}, {Path: "a.sh", Change: "deleted", Backup: saved("a")}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if info, err := os.Stat(filepath.Join(root, "bin/run.sh")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	wantContains(t, callError(t, c, "move_file", args{"path": "b.txt", "to": "bin/run.sh"}), "exists", sum("a"))
	wantContains(t, callError(t, c, "move_file", args{"path": "b.txt", "to": "dir"}), "is a directory")
	wantContains(t, callError(t, c, "move_file", args{"path": "dir", "to": "other"}), "is a directory")
	wantContains(t, callError(t, c, "move_file", args{"path": "none", "to": "other"}), "does not exist")
	wantContains(t, callError(t, c, "move_file", args{"path": "b.txt", "to": "x/b.txt"}), "create_dirs")
	got = changes(t, root, c, "move_file", args{"path": "b.txt", "to": "bin/run.sh", "base_sha256": sum("a")})
	want = []change{{Path: "bin/run.sh", Change: "modified", From: "b.txt", Backup: saved("a"), SHA256: sum("b"), Bytes: 1}, {Path: "b.txt", Change: "deleted", Backup: saved("b")}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	wantContains(t, callError(t, c, "delete_file", args{"path": "dir/c.txt"}), "base_sha256", sum("c"))
	wantContains(t, callError(t, c, "delete_file", args{"path": "dir"}), "not empty")
	wantContains(t, callError(t, c, "delete_file", args{"path": "none"}), "does not exist")
	if diff := cmp.Diff([]change{{Path: "empty", Change: "deleted"}}, changes(t, root, c, "delete_file", args{"path": "empty"})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]change{{Path: "dir/c.txt", Change: "deleted", Backup: saved("c")}}, changes(t, root, c, "delete_file", args{"path": "dir/c.txt", "base_sha256": sum("c")})); diff != "" {
		t.Error(diff)
	}
	made := []change{{Path: "x", Change: "created"}, {Path: "x/y", Change: "created"}}
	if diff := cmp.Diff(made, changes(t, root, c, "create_directory", args{"path": "x/y"})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]change{}, changes(t, root, c, "create_directory", args{"path": "x/y"}), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	wantContains(t, callError(t, c, "create_directory", args{"path": "bin/run.sh/x"}), "is a file")
}

// Of writers that read the same content, one succeeds; the others are told the new content's hash. It holds across servers of one folder.
func TestConcurrentWriters(t *testing.T) {
	root := tree(t, map[string]string{"a.txt": "start"})
	servers := []*Server{writable(t, root), writable(t, root)}
	results := make([]error, 16)
	var writers sync.WaitGroup
	for i := range results {
		writers.Go(func() {
			s := servers[i%2]
			_, results[i] = s.change(context.Background(), "", func() (plan, error) {
				return s.planWrite(context.Background(), writeInput{Path: "a.txt", Content: fmt.Sprint("writer ", i), BaseSHA256: sum("start")})
			})
		})
	}
	writers.Wait()
	won := fileText(t, root, "a.txt")
	for i, err := range results {
		if (err == nil) != (won == fmt.Sprint("writer ", i)) || err != nil && !strings.Contains(err.Error(), sum(won)) {
			t.Errorf("writer %d: %v; the file holds %q", i, err, won)
		}
	}
}

// A call that waits for another one's lock ends with its context.
func TestLockWaitEnds(t *testing.T) {
	s := writable(t, tree(t, nil))
	unlock, err := s.lock(context.Background())
	must(t, err)
	must(t, os.RemoveAll(filepath.Join(s.Root(), ownFolder))) // as a program can
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("enough"))
	if _, err := s.lock(ctx); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("lock: %v", err)
	}
	unlock()
}

// The ledger keeps the newest changes, and the last call whatever its size.
func TestLedgerIsBounded(t *testing.T) {
	l := &ledger{}
	for i := range 3 * keptChanges {
		l = (&ledger{Done: l.Done, Pending: &record{ID: fmt.Sprint(i), Changes: make([]change, 1)}}).done()
	}
	if len(l.Done) != keptChanges || l.Done[len(l.Done)-1].ID != fmt.Sprint(3*keptChanges-1) {
		t.Errorf("%d are kept, the last is %v", len(l.Done), l.Done[len(l.Done)-1].ID)
	}
	l.Pending = &record{ID: "large", Changes: make([]change, 2*keptChanges)}
	if l = l.done(); len(l.Done) != 1 || l.Done[0].ID != "large" {
		t.Errorf("%d are kept", len(l.Done))
	}
}
