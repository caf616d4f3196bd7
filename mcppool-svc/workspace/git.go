package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxGitOutput is how many bytes of git's output are kept.
const maxGitOutput = 256 << 10

// gitOptions keep git from running programs that a repository's configuration names, as far as git lets itself be told, and from writing. The
// sandbox confines the rest, such as filters.
var gitOptions = []string{
	"git", "--no-optional-locks", "--no-pager", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.safecrlf=false",
	"-c", "core.quotePath=false", "-c", "diff.external=", "-c", "diff.ignoreSubmodules=dirty", "-c", "safe.directory=*",
}

type gitStatusOutput struct {
	Branch    string          `json:"branch"`
	Files     []gitFileStatus `json:"files"`
	Truncated int64           `json:"truncated_bytes"`
}

type gitFileStatus struct {
	Path   string `json:"path"`
	Status string `json:"status"`
	From   string `json:"from,omitempty"`
}

func (o gitStatusOutput) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "branch %s, %s\n", o.Branch, plural(len(o.Files), "changed file", "changed files"))
	for _, f := range o.Files {
		fmt.Fprintf(&b, "%s %s\n", f.Status, f.Path)
	}
	return b.String()
}

// gitStatus returns the state of the files below the root.
func (s *Server) gitStatus(ctx context.Context, _ struct{}, _ reporter) (gitStatusOutput, error) {
	text, omitted, prefix, err := s.git(ctx, "status", "--porcelain=v1", "--branch", "-z", "--untracked-files=all", "--", ".")
	if err != nil {
		return gitStatusOutput{}, err
	}
	_, text, _ = strings.Cut("\n"+text, "\n## ") // warnings come first
	entries := strings.Split(text, "\x00")
	if omitted > 0 {
		entries = append(entries[:len(entries)-1], "") // the last one may be cut
	}
	branch, _, _ := strings.Cut(entries[0], "...")
	o := gitStatusOutput{Branch: strings.TrimPrefix(branch, "No commits yet on "), Files: []gitFileStatus{}, Truncated: omitted}
	for i := 1; i < len(entries)-1; i++ {
		if len(entries[i]) < 4 {
			continue
		}
		f := gitFileStatus{Status: entries[i][:2], Path: strings.TrimPrefix(entries[i][3:], prefix)}
		if strings.ContainsAny(f.Status, "RC") {
			i++
			f.From = strings.TrimPrefix(entries[i], prefix)
		}
		if !isOwn(f.Path) {
			o.Files = append(o.Files, f)
		}
	}
	return o, nil
}

type gitDiffInput struct {
	Path   string `json:"path"`
	Staged bool   `json:"staged"`
	Base   string `json:"base"`
}

type gitDiffOutput struct {
	Diff      string `json:"diff"`
	Truncated int64  `json:"truncated_bytes"`
}

func (o gitDiffOutput) text() string { return cmp.Or(o.Diff, "no differences") }

// gitDiff returns changes below the root as a unified diff.
func (s *Server) gitDiff(ctx context.Context, in gitDiffInput, _ reporter) (gitDiffOutput, error) {
	rel, err := s.locate(cmp.Or(in.Path, "."))
	if err != nil {
		return gitDiffOutput{}, err
	}
	argv := []string{"diff", "--no-color", "--no-ext-diff", "--no-textconv", "--relative"}
	if in.Staged {
		argv = append(argv, "--cached")
	}
	if in.Base != "" {
		argv = append(argv, "--end-of-options", in.Base)
	}
	text, omitted, _, err := s.git(ctx, append(argv, "--", ":(literal)"+rel)...)
	return gitDiffOutput{Diff: text, Truncated: omitted}, err
}

// git runs git in the root and returns the beginning of its output, how many bytes are left out, and the path of the root in the
// repository, as a prefix.
func (s *Server) git(ctx context.Context, args ...string) (text string, omitted int64, prefix string, err error) {
	real := s.aliases[len(s.aliases)-1]
	top, folders := repository(real)
	if top == "" {
		return "", 0, "", errors.New("the workspace is in no git repository")
	}
	if rel, err := filepath.Rel(top, real); err == nil && rel != "." {
		prefix = filepath.ToSlash(rel) + "/"
	}
	var out beginning
	ended, err := s.runProgram(ctx, program{
		argv: append(gitOptions, args...), dir: ".", readOnly: true, read: folders,
		env: map[string]string{"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.DevNull},
	}, &out)
	if err != nil {
		return "", 0, "", err
	}
	if ended.ExitCode != 0 {
		return "", 0, "", fmt.Errorf("git %s failed (%s): %s", args[0], ended.summary(), strings.TrimSpace(toValidUTF8(out.text)))
	}
	return toValidUTF8(out.text), out.omitted, prefix, nil
}

// beginning keeps the first maxGitOutput bytes of an output.
type beginning struct {
	text    []byte
	omitted int64
}

func (b *beginning) Write(p []byte) (int, error) {
	kept := p[:min(len(p), maxGitOutput-len(b.text))]
	b.text = append(b.text, kept...)
	b.omitted += int64(len(p) - len(kept))
	return len(p), nil
}

// repository returns the top folder of the git repository that holds dir, a path without links, and git's own folders, or "" if there is none.
func repository(dir string) (top string, folders []string) {
	for top = dir; ; top = filepath.Dir(top) {
		link := filepath.Join(top, ".git")
		info, err := os.Lstat(link)
		switch {
		case err == nil && info.IsDir():
			return top, []string{link}
		case err == nil && info.Mode().IsRegular():
			if own := worktreeFolder(link, top); own != "" {
				return top, []string{link, own, filepath.Dir(filepath.Dir(own))}
			}
			return "", nil
		case err == nil || top == filepath.Dir(top):
			return "", nil
		}
	}
}

// worktreeFolder returns git's folder for the worktree top, which link names, or "". A file in the workspace must not open any other folder: the
// folder counts only if it lies outside, where git keeps those of worktrees, and names the worktree too.
func worktreeFolder(link, top string) string {
	text, _ := os.ReadFile(link)
	own, err := filepath.EvalSymlinks(strings.TrimSpace(strings.TrimPrefix(string(text), "gitdir:")))
	if err != nil || !filepath.IsAbs(own) || filepath.Base(filepath.Dir(own)) != "worktrees" || isWithin(own, top) {
		return ""
	}
	back, _ := os.ReadFile(filepath.Join(own, "gitdir")) //nolint:gosec // only compared
	if strings.TrimSpace(string(back)) != link {
		return ""
	}
	return own
}
