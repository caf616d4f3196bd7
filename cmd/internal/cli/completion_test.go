package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pawl.dev/cmd/internal/clitest"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// words returns the candidates without their descriptions.
func words(out string) string {
	var list []string
	for line := range strings.Lines(out) {
		word, _, _ := strings.Cut(line, "\t")
		list = append(list, word)
	}
	return strings.Join(list, " ")
}

func TestComplete(t *testing.T) {
	w := newWorld(t)
	files := stdio("files", "x")
	files.Active = true
	w.register(files, stdio("web", "x"))
	w.tools = map[string][]*commonv1.Tool{"files": {{Id: "files/read", Description: "Reads a file. Twice."}}}
	w.agents = clitest.NewAgents(t, &executorv1.Agent{Id: "reader", Description: "reads"})
	w.executor.Add("one")
	w.executor.Add("two")
	w.executor.Add("three").Play(clitest.Stop("s1"))
	w.executor.Add("four").Play(clitest.Success("x"))
	w.serveElsewhere()
	for line, want := range map[string]string{
		"r":                          "run reject",
		"run --lang":                 "--language",
		"run --language ":            "zh en",
		"run --language=z":           "--language=zh",
		"run --playbook ":            ":files",
		"run --workspace ":           ":folders",
		"run --model ":               "offline playbook fast",
		"run --agent r":              "reader",
		"run --mcp ":                 "files web",
		"run --server ":              "",
		"mcp ac":                     "activate",
		"mcp show f":                 "files",
		"mcp call ":                  "files/read",
		"mcp tools --query x f":      "files files/read",
		"--json mcp li":              "list",
		"show a":                     "a0000004 a0000003 a0000002 a0000001",
		"approve ":                   "a0000003 last",
		"cancel a0":                  "a0000003 a0000002 a0000001",
		"approve l":                  "last",
		"completion ":                "bash zsh fish",
		"tasks --status w":           "waiting",
		"nosuch ":                    "",
		"mcp add x --from ":          ":files",
		"run --no-workspace --works": "--workspace",
	} {
		got := w.pawl(append([]string{"__complete"}, strings.Split(line, " ")...)...)
		if got.code != 0 || got.err != "" || line != "nosuch " && words(got.out) != want {
			t.Errorf("%q: code %d, %q, want %q; %s", line, got.code, words(got.out), want, got.err)
		}
	}
	if got := w.pawl("__complete", "mcp", "call", "").out; got != "files/read\tReads a file\n" {
		t.Errorf("%q", got)
	}
}

// Completion asks a server that runs and starts none.
func TestCompleteWithoutAServer(t *testing.T) {
	w := newWorld(t)
	if got := w.pawl("__complete", "show", ""); got.out != "" || got.code != 0 || len(w.suites) > 0 {
		t.Error(got.whole(), len(w.suites))
	}
}

func TestCompletionScripts(t *testing.T) {
	w := newWorld(t)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		got := w.pawl("completion", shell)
		got.expect(t, 0, "__complete", "")
		path, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		file := filepath.Join(t.TempDir(), "script")
		if err := os.WriteFile(file, []byte(got.out), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(path, "-n", file).CombinedOutput(); err != nil {
			t.Errorf("%s does not take its script: %v\n%s", shell, err, out)
		}
	}
}

// The script for bash offers the candidates that pawl returns, or folders for :folders.
func TestBashCompletion(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	script := newWorld(t).pawl("completion", "bash").out
	for answer, want := range map[string]string{`run\tRuns a goal.\nreject\t`: "run reject", `:folders\t`: "sub", ``: ""} {
		code := "compopt() { :; }\npawl() { printf '" + answer + "\\n'; }\n" + script + "COMP_WORDS=(pawl '')\nCOMP_CWORD=1\n_pawl\necho ${COMPREPLY[*]}"
		cmd := exec.Command(bash, "-c", code)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%q: got %q, %v; want %q", answer, got, err, want)
		}
	}
}
