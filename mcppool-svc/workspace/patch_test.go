package workspace

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/diff"
	"pgregory.net/rapid"
)

const song = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n"

// D12: a unified diff is applied to files.
func TestD12ApplyPatch(t *testing.T) {
	tests := map[string]struct{ file, patch, want string }{
		"two hunks": {song, "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n@@ -8,3 +8,4 @@\n eight\n nine\n+nine and a half\n ten\n",
			"one\nTWO\nthree\nfour\nfive\nsix\nseven\neight\nnine\nnine and a half\nten\n"},
		"at another line":           {song, "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@ func\n five\n-six\n+6\n", strings.Replace(song, "six", "6", 1)},
		"the nearest of two":        {"x\ny\nz\nx\ny\nz\n", "--- a/f\n+++ b/f\n@@ -3,2 +3,2 @@\n x\n-y\n+Y\n", "x\ny\nz\nx\nY\nz\n"},
		"later hunks are shifted":   {"a\nb\n" + song + song, "--- a/f\n+++ b/f\n@@ -1,2 +1,1 @@\n one\n-two\n@@ -13,2 +12,1 @@\n three\n-four\n", "a\nb\none\n" + strings.TrimPrefix(song, "one\ntwo\n") + strings.Replace(song, "four\n", "", 1)},
		"a wrong count":             {song, "--- a/f\n+++ b/f\n@@ -1,9 +1,1 @@\n one\n-two\n+2\n three\n", strings.Replace(song, "two", "2", 1)},
		"no last line end":          {song, "--- a/f\n+++ b/f\n@@ -9,2 +9,2 @@\n nine\n-ten\n+10", strings.Replace(song, "ten", "10", 1)},
		"an empty context line":     {"a\n\nb\n", "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n", "a\n\nc\n"},
		"no prefixes":               {"a\n", "--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n", "b\n"},
		"text before and after":     {"a\n", "Here it is:\n\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n\nDone.\n", "b\n"},
		"git's mail":                {"a\n", "diff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n-- \n2.43.0\n\n", "b\n"},
		"a removed SQL comment":     {"-- old\nx\n", "--- a/f\n+++ b/f\n@@ -1,2 +1,1 @@\n--- old\n x\n", "x\n"},
		"the end without line end":  {"a\nb", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n", "a\nc"},
		"a line end at the end":     {"a", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n", "a\n"},
		"CRLF in both":              {"a\r\nb\r\n", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n", "a\r\nc\r\n"},
		"CRLF in the file":          {"a\r\nb\r\n", "--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n a\n-b\n+c\n+d\n", "a\r\nc\r\nd\r\n"},
		"CRLF in the whole patch":   {"a\r\nb\r\n", "--- a/f\r\n+++ b/f\r\n@@ -1,2 +1,2 @@\r\n a\r\n-b\r\n+c\r\n", "a\r\nc\r\n"},
		"into an empty file":        {"", "--- a/f\n+++ b/f\n@@ -0,0 +1 @@\n+a\n", "a\n"},
		"all lines":                 {"a\nb\n", "--- a/f\n+++ b/f\n@@ -1,2 +0,0 @@\n-a\n-b\n", ""},
		"a missing last line":       {"a\nb\nc", "--- a/f\n+++ b/f\n@@ -1,2 +1,1 @@\n-a\n b\n", "b\nc"},
		"a changed and equal block": {"x\nx\nx\n", "--- a/f\n+++ b/f\n@@ -2,2 +2,3 @@\n x\n+y\n x\n", "x\nx\ny\nx\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			root := tree(t, map[string]string{"f": tt.file})
			got := changes(t, root, inProcess(t, writable(t, root)), "apply_patch", args{"patch": tt.patch})
			if diff := cmp.Diff(tt.want, fileText(t, root, "f")); diff != "" {
				t.Error(diff)
			}
			want := []change{{Path: "f", Change: "modified", Backup: saved(tt.file), SHA256: sum(tt.want), Bytes: int64(len(tt.want))}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Patches in git's format: several files, new, deleted, renamed and copied ones, and permissions.
func TestApplyGitPatch(t *testing.T) {
	root := tree(t, map[string]string{"a": "a\n", "old": "x\ny\n", "dir/gone": "g\n", "run": "r\n", "with space": "s\n"})
	c := inProcess(t, writable(t, root))
	got := changes(t, root, c, "apply_patch", args{"patch": `diff --git a/a b/a
--- a/a
+++ b/a
@@ -1 +1 @@
-a
+b
diff --git a/old b/new/name
similarity index 50%
rename from old
rename to new/name
--- a/old
+++ b/new/name
@@ -1,2 +1,2 @@
 x
-y
+z
diff --git a/dir/gone b/dir/gone
deleted file mode 100644
--- a/dir/gone
+++ /dev/null
@@ -1 +0,0 @@
-g
diff --git a/script b/script
new file mode 100755
--- /dev/null
+++ b/script
@@ -0,0 +1 @@
+#!/bin/sh
diff --git a/run b/run
old mode 100644
new mode 100755
diff --git a/empty b/empty
new file mode 100644
index 0000000..e69de29
diff --git a/a b/copy
copy from a
copy to copy
diff --git a/with space b/with space
--- a/with space	
+++ b/with space	
@@ -1 +1 @@
-s
+t
`})
	want := []change{
		{Path: "a", Change: "modified", Backup: saved("a\n"), SHA256: sum("b\n"), Bytes: 2},
		{Path: "new/name", Change: "created", From: "old", SHA256: sum("x\nz\n"), Bytes: 4},
		{Path: "old", Change: "deleted", Backup: saved("x\ny\n")},
		{Path: "dir/gone", Change: "deleted", Backup: saved("g\n")},
		{Path: "script", Change: "created", SHA256: sum("#!/bin/sh\n"), Bytes: 10},
		{Path: "run", Change: "modified", Backup: saved("r\n"), SHA256: sum("r\n"), Bytes: 2},
		{Path: "empty", Change: "created", SHA256: sum("")},
		{Path: "copy", Change: "created", SHA256: sum("a\n"), Bytes: 2},
		{Path: "with space", Change: "modified", Backup: saved("s\n"), SHA256: sum("t\n"), Bytes: 2},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for name, perm := range map[string]os.FileMode{"script": 0o755, "run": 0o755, "a": 0o644, "empty": 0o644} {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Mode().Perm() != perm {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
	}
}

// Each refused patch changes nothing, also where its first file fits.
func TestApplyPatchRefuses(t *testing.T) {
	files := map[string]string{"first": "1\n", "f": song, "binary": "a\x00", "dir/x": "x"}
	const fits = "--- a/first\n+++ b/first\n@@ -1 +1 @@\n-1\n+2\n"
	tests := map[string]struct {
		patch string
		want  []string
	}{
		"other context":     {"--- a/f\n+++ b/f\n@@ -4,2 +4,2 @@\n four\n-fife\n+5\n", []string{`hunk 1 of "f"`, `line 5 should be "fife\n" and is "five\n"`, "nothing was changed", "read the file again"}},
		"fuzz in space":     {"--- a/f\n+++ b/f\n@@ -4,2 +4,2 @@\n four \n-five\n+5\n", []string{`line 4 should be "four \n" and is "four\n"`}},
		"the second hunk":   {"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n+1\n@@ -3,1 +3,1 @@\n-drei\n+3\n", []string{"hunk 2", `line 3 should be "drei\n" and is "three\n"`}},
		"after the end":     {"--- a/f\n+++ b/f\n@@ -10,2 +10,2 @@\n ten\n-eleven\n+11\n", []string{`line 11 should be "eleven\n" and is ""`}},
		"hunks overlap":     {"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n@@ -2,2 +2,2 @@\n-two\n+2\n three\n", []string{"hunk 2", `line 3 should be "two\n" and is "three\n"`}},
		"applied already":   {"--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n one\n+two\n three\n", []string{"applied already"}},
		"no context":        {"--- a/f\n+++ b/f\n@@ -3,0 +4 @@\n+new\n", []string{"has no context"}},
		"a missing file":    {"--- a/none\n+++ b/none\n@@ -1 +1 @@\n-a\n+b\n", []string{`"none" does not exist`}},
		"an existing file":  {"--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n", []string{`"f" exists already`}},
		"deletes not all":   {"--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n", []string{"does not remove all its lines"}},
		"twice":             {fits, []string{`changes "first" twice`}},
		"a folder":          {"--- a/dir\n+++ b/dir\n@@ -1 +1 @@\n-a\n+b\n", []string{"is a directory"}},
		"outside":           {"--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n", []string{"outside the workspace"}},
		"git's folder":      {"--- /dev/null\n+++ b/.git/hooks/pre-push\n@@ -0,0 +1 @@\n+x\n", []string{"belongs to git"}},
		"two names":         {"diff --git a/f b/g\n--- a/f\n+++ b/g\n@@ -1 +1 @@\n-one\n+1\n", []string{"rename from"}},
		"no name":           {"--- /dev/null\n+++ /dev/null\n@@ -0,0 +1 @@\n+x\n", []string{"names no file"}},
		"a symbolic link":   {"diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n", []string{"links are not supported"}},
		"a binary file":     {"diff --git a/binary b/binary\nGIT binary patch\nliteral 1\nIcmZPo000310RR91\n\nliteral 0\nHcmV?d00001\n\n", []string{"binary"}},
		"below a file":      {"--- /dev/null\n+++ b/first/x\n@@ -0,0 +1 @@\n+x\n", []string{"not a directory"}},
		"a rename onto one": {"diff --git a/f b/dir/x\nrename from f\nrename to dir/x\n", []string{`"dir/x" exists already`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			root := tree(t, files)
			c := inProcess(t, writable(t, root))
			wantContains(t, callError(t, c, "apply_patch", args{"patch": fits + tt.patch}), tt.want...)
			for file, want := range files {
				if got := fileText(t, root, file); got != want {
					t.Errorf("%s holds %q", file, got)
				}
			}
		})
	}
	c := inProcess(t, writable(t, tree(t, nil)))
	var many strings.Builder
	for i := range maxPatchedFiles + 1 {
		fmt.Fprintf(&many, "--- /dev/null\n+++ b/f%d\n@@ -0,0 +1 @@\n+x\n", i)
	}
	wantContains(t, callError(t, c, "apply_patch", args{"patch": many.String()}), "501 files", "split it")
	for _, patch := range []string{"x", "@@ -1 +1 @@\n-a\n+b\n", "*** Begin Patch\n*** Update File: f\n", "--- a/f\n+++ b/f\n@@\n-a\n+b\n"} {
		if text := callError(t, c, "apply_patch", args{"patch": patch}); !strings.Contains(text, "unified diff") {
			t.Errorf("%q: %s", patch, text)
		}
	}
}

// If a later file cannot be written, the earlier ones are restored.
func TestPatchIsAllOrNothing(t *testing.T) {
	files := map[string]string{"a": "a\n", "b": "b\n", "d": "d\n"}
	root := tree(t, files)
	// The folder "a" cannot be made while the file a is there.
	patch := "--- a/b\n+++ b/b\n@@ -1 +1 @@\n-b\n+B\n" +
		"diff --git a/a b/moved/a\nrename from a\nrename to moved/a\n" +
		"diff --git a/d b/d\n--- a/d\n+++ /dev/null\n@@ -1 +0,0 @@\n-d\n" +
		"--- /dev/null\n+++ b/new/x\n@@ -0,0 +1 @@\n+x\n" +
		"--- /dev/null\n+++ b/new/x/y\n@@ -0,0 +1 @@\n+y\n"
	c := inProcess(t, writable(t, root))
	wantContains(t, callError(t, c, "apply_patch", args{"patch": patch}), "nothing was changed", "new/x")
	for file, want := range files {
		if got := fileText(t, root, file); got != want {
			t.Errorf("%s holds %q", file, got)
		}
	}
	if fileText(t, root, "new/x") != "-" || fileText(t, root, "moved/a") != "-" {
		t.Error("new files are left")
	}
	if got := fileText(t, root, ledgerPath); got != "{}" {
		t.Errorf("the ledger holds %s", got)
	}
}

// Patches that git makes apply to the old tree and give the new one.
func TestPatchesOfGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	text := rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "", "c d", "-- x", "++ y", "@@ -1 +1 @@", "\\ z", "e\r"}), 0, 12), func(lines []string) string {
		return strings.Join(lines, "\n")
	})
	dir := t.TempDir()
	s := writable(t, t.TempDir())
	rapid.Check(t, func(rt *rapid.T) {
		before, after := text.Draw(rt, "before"), text.Draw(rt, "after")
		must(t, os.WriteFile(filepath.Join(dir, "before"), []byte(before), 0o600))
		must(t, os.WriteFile(filepath.Join(dir, "after"), []byte(after), 0o600))
		cmd := exec.CommandContext(context.Background(), "git", "diff", "--no-index", "--no-color", "--text", "before", "after")
		cmd.Dir = dir
		patch, _ := cmd.Output() // exit status 1: they differ
		if before == after {
			return
		}
		patched := strings.NewReplacer("a/before", "a/f", "b/after", "b/f").Replace(string(patch))
		checkPatch(rt, s, before, patched, after)
	})
}

// checkPatch checks that a patch of the file f plans the text after.
func checkPatch(t rapid.TB, s *Server, before, patch, after string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(s.Root(), "f"), []byte(before), 0o600))
	p, err := s.planPatch(context.Background(), patchInput{Patch: patch})
	if err != nil {
		t.Fatalf("%q with the patch\n%s\n%v", before, patch, err)
	}
	if len(p.edits) != 1 || string(p.edits[0].after.data) != after {
		t.Fatalf("%q with the patch\n%s\ngives %q, want %q", before, patch, p.edits[0].after.data, after)
	}
}

// FuzzApplyPatch: any patch is applied as a whole or refused without a change; the diff of a and b, applied to a, gives b.
func FuzzApplyPatch(f *testing.F) {
	f.Add("a\nb\n", "a\nc\n", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n")
	f.Add("", "x", "diff --git a/f b/g\nrename from f\nrename to g\n")
	f.Add("x", "", "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\\ No newline at end of file\n")
	f.Add("a\r\nb\r\n", "a\r\n", "--- a/f\n+++ b/f\n@@ -9223372036854775807 +1,99999999999999999999 @@\n a\n-b\n")
	root := f.TempDir()
	s := writable(f, root)
	f.Fuzz(func(t *testing.T, before, after, patch string) {
		if before != after {
			checkPatch(t, s, before, string(diff.Diff("a/f", []byte(before), "b/f", []byte(after))), after)
		}
		entries, err := os.ReadDir(root)
		must(t, err)
		for _, entry := range entries {
			must(t, os.RemoveAll(filepath.Join(root, entry.Name())))
		}
		must(t, os.WriteFile(filepath.Join(root, "f"), []byte(before), 0o600))
		must(t, os.Mkdir(filepath.Join(root, "g"), 0o700))
		must(t, os.WriteFile(filepath.Join(root, "g/h"), []byte(after), 0o600))
		out, err := s.change(context.Background(), "", func() (plan, error) { return s.planPatch(context.Background(), patchInput{Patch: patch}) })
		if err != nil {
			if fileText(t, root, "f") != before || fileText(t, root, "g/h") != after {
				t.Fatalf("the refused patch changed a file: %v", err)
			}
			return
		}
		for _, c := range out.Changes {
			if got := fileText(t, root, c.Path); c.Change == deleted && got != "-" || c.Change != deleted && sum(got) != c.SHA256 {
				t.Fatalf("%+v, but it holds %q", c, got)
			}
		}
	})
}
