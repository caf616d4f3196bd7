package workspace

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pawl.dev/mcppool-svc/internal/sandbox"
)

// git runs git in a folder, as a person does.
func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=n", "-c", "user.email=e@example.com", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v, %s", args, err, out)
	}
}

// repo returns a repository with one commit and some changes, whose folder sub is a workspace too.
func repo(t *testing.T) string {
	t.Helper()
	requireProgram(t, "git")
	root := tree(t, map[string]string{"a.txt": "one\n", "sub/b.txt": "b\n", "sub/gone.txt": "gone\n", "old.txt": "a file\nthat moves\n", ".gitignore": "ignored\n"})
	git(t, root, "init", "-q")
	git(t, root, "add", "-A")
	git(t, root, "commit", "-qm", "first")
	must(t, os.WriteFile(filepath.Join(root, "a.txt"), []byte("two\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(root, "sub/new ü.txt"), nil, 0o600))
	must(t, os.WriteFile(filepath.Join(root, "ignored"), nil, 0o600))
	must(t, os.Remove(filepath.Join(root, "sub/gone.txt")))
	must(t, os.WriteFile(filepath.Join(root, "sub/b.txt"), []byte("c\n"), 0o600))
	git(t, root, "add", "sub/b.txt")
	git(t, root, "mv", "old.txt", "new.txt")
	return root
}

// D12: git_status and git_diff, also in a folder of a repository.
func TestD12Git(t *testing.T) {
	root := repo(t)
	c := inProcess(t, newServer(t, root, Options{Write: true}))
	status := call[gitStatusOutput](t, c, "git_status", args{})
	want := gitStatusOutput{Branch: "main", Files: []gitFileStatus{
		{Path: "a.txt", Status: " M"}, {Path: "new.txt", Status: "R ", From: "old.txt"}, {Path: "sub/b.txt", Status: "M "},
		{Path: "sub/gone.txt", Status: " D"}, {Path: "sub/new ü.txt", Status: "??"},
	}}
	if diff := cmp.Diff(want, status); diff != "" {
		t.Error(diff)
	}
	tests := map[string]struct {
		args      args
		has, lack []string
	}{
		"all":        {args{}, []string{"-one\n+two\n", "sub/gone.txt"}, []string{"b.txt", "new.txt"}},
		"a file":     {args{"path": "a.txt"}, []string{"+two"}, []string{"gone"}},
		"deleted":    {args{"path": "sub/gone.txt"}, []string{"-gone"}, []string{"two"}},
		"staged":     {args{"staged": true}, []string{"-b\n+c\n", "rename from old.txt"}, []string{"two"}},
		"since":      {args{"base": "HEAD"}, []string{"+two", "+c\n"}, nil},
		"nothing":    {args{"path": "new.txt"}, nil, []string{"diff"}},
		"no pattern": {args{"path": "*.txt"}, nil, []string{"diff"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out := call[gitDiffOutput](t, c, "git_diff", tt.args)
			wantContains(t, out.Diff, tt.has...)
			for _, part := range tt.lack {
				if strings.Contains(out.Diff, part) {
					t.Errorf("%q contains %q", out.Diff, part)
				}
			}
		})
	}
	for want, a := range map[string]args{"none": {"base": "none"}, "schema": {"base": "--output=x"}, "outside": {"path": "../x"}} {
		wantContains(t, callError(t, c, "git_diff", a), want)
	}
	sub := inProcess(t, newServer(t, filepath.Join(root, "sub"), Options{Write: true}))
	status = call[gitStatusOutput](t, sub, "git_status", args{})
	if len(status.Files) != 3 || status.Files[0].Path != "b.txt" {
		t.Errorf("in a folder: %+v", status)
	}
	if out := call[gitDiffOutput](t, sub, "git_diff", args{}); !strings.Contains(out.Diff, "a/gone.txt") || strings.Contains(out.Diff, "two") {
		t.Errorf("in a folder: %s", out.Diff)
	}
}

func TestGitWithoutARepository(t *testing.T) {
	c := inProcess(t, newServer(t, tree(t, nil), Options{Write: true}))
	wantContains(t, callError(t, c, "git_status", args{}), "no git repository")
	wantContains(t, callError(t, c, "git_diff", args{}), "no git repository")
}

func TestGitBeforeTheFirstCommit(t *testing.T) {
	requireProgram(t, "git")
	root := tree(t, map[string]string{"a": ""})
	git(t, root, "init", "-q")
	status := call[gitStatusOutput](t, inProcess(t, newServer(t, root, Options{Write: true})), "git_status", args{})
	if status.Branch != "main" || len(status.Files) != 1 {
		t.Errorf("%+v", status)
	}
}

// A worktree's repository is read where git made the worktree; a file that only names another repository opens nothing.
func TestGitWorktree(t *testing.T) {
	root := repo(t)
	worktree := filepath.Join(t.TempDir(), "worktree")
	git(t, root, "worktree", "add", "-q", worktree, "-b", "other")
	must(t, os.WriteFile(filepath.Join(worktree, "a.txt"), []byte("three\n"), 0o600))
	c := inProcess(t, newServer(t, worktree, Options{Write: true}))
	status := call[gitStatusOutput](t, c, "git_status", args{})
	if status.Branch != "other" || len(status.Files) != 1 {
		t.Errorf("%+v", status)
	}
	for _, thief := range []string{
		tree(t, map[string]string{".git": "gitdir: " + filepath.Join(root, ".git") + "\n"}),
		tree(t, map[string]string{".git": "gitdir: " + filepath.Join(root, ".git/worktrees/worktree") + "\n"}),
		tree(t, nil),
	} {
		if _, err := os.Stat(filepath.Join(thief, ".git")); err != nil {
			symlink(t, filepath.Join(root, ".git"), filepath.Join(thief, ".git"))
		}
		wantContains(t, callError(t, inProcess(t, newServer(t, thief, Options{Write: true})), "git_diff", args{"base": "HEAD"}), "no git repository")
	}
}

// D12: git runs no program that the repository's configuration names, or only in the sandbox, and writes nothing.
func TestGitRunsNothing(t *testing.T) {
	root := repo(t)
	mark := filepath.Join(root, "ran")
	script := filepath.Join(root, "evil.sh")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\ntouch "+mark+"\ncat\n"), 0o600))
	must(t, os.Chmod(script, 0o700))
	must(t, os.MkdirAll(filepath.Join(root, ".git/hooks"), 0o700))
	must(t, os.Symlink(script, filepath.Join(root, ".git/hooks/post-index-change")))
	must(t, os.WriteFile(filepath.Join(root, ".gitattributes"), []byte("*.txt diff=evil filter=evil\n"), 0o600))
	for _, key := range []string{"core.fsmonitor", "diff.external", "diff.evil.command", "diff.evil.textconv", "core.pager", "pager.diff", "core.sshCommand", "filter.evil.clean", "core.editor"} {
		git(t, root, "config", key, script)
	}
	if !strings.HasPrefix(sandbox.Describe(false), "landlock") {
		git(t, root, "config", "--unset", "filter.evil.clean")
	}
	before, err := os.ReadFile(filepath.Join(root, ".git/index"))
	must(t, err)
	c := inProcess(t, newServer(t, root, Options{Write: true}))
	call[gitStatusOutput](t, c, "git_status", args{})
	call[gitDiffOutput](t, c, "git_diff", args{})
	call[gitDiffOutput](t, c, "git_diff", args{"base": "HEAD"})
	if _, err := os.Stat(mark); err == nil {
		t.Error("a program of the repository ran and wrote")
	}
	after, err := os.ReadFile(filepath.Join(root, ".git/index"))
	must(t, err)
	if string(before) != string(after) {
		t.Error("git wrote its index")
	}
}

func TestGitOutputIsBounded(t *testing.T) {
	root := repo(t)
	must(t, os.WriteFile(filepath.Join(root, "a.txt"), []byte(strings.Repeat("a long line of text\n", 50_000)), 0o600))
	out := call[gitDiffOutput](t, inProcess(t, newServer(t, root, Options{Write: true})), "git_diff", args{})
	if len(out.Diff) != maxGitOutput || out.Truncated < 500_000 {
		t.Errorf("%d bytes, %d left out", len(out.Diff), out.Truncated)
	}
}

// D12: a program in the workspace cannot make git read what lies around it by writing what git itself writes for a worktree.
func TestGitFoldersAreNotForged(t *testing.T) {
	for _, own := range []string{"z", "z/worktrees/z", "worktrees/z", "link/worktrees/z"} {
		t.Run(own, func(t *testing.T) {
			root, private := repo(t), t.TempDir()
			own := filepath.Join(root, own)
			if filepath.Base(filepath.Dir(filepath.Dir(own))) == "link" {
				symlink(t, private, filepath.Join(root, "link"))
				must(t, os.Mkdir(filepath.Join(private, "worktrees"), 0o700))
				symlink(t, root, filepath.Join(private, "worktrees/z"))
				must(t, os.RemoveAll(filepath.Join(root, ".git")))
			} else {
				must(t, os.MkdirAll(filepath.Dir(own), 0o700))
				must(t, os.Rename(filepath.Join(root, ".git"), own))
			}
			must(t, os.WriteFile(filepath.Join(own, "gitdir"), []byte(filepath.Join(root, ".git")+"\n"), 0o600))
			must(t, os.WriteFile(filepath.Join(root, ".git"), []byte("gitdir: "+own+"\n"), 0o600))
			wantContains(t, callError(t, inProcess(t, newServer(t, root, Options{Write: true})), "git_diff", args{}), "no git repository")
		})
	}
}
