package completion_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"pawl.dev/cmd/internal/completion"
	"pawl.dev/cmd/internal/golden"
)

// grammar has one of everything.
type grammar struct {
	JSON   bool   `name:"json" help:"Print JSON: one document. Or not."`
	Server string `help:"It's the server."`

	Run struct {
		Goal     string `arg:""`
		Language string `enum:"zh,en," default:"" help:"Language."`
		Playbook string `type:"existingfile" short:"p" help:"A file."`
		Dir      string `type:"existingdir" help:"A folder."`
		Hidden   bool   `hidden:""`
	} `cmd:"" help:"Run a goal."`
	MCP struct {
		List struct{} `cmd:"" help:"List servers."`
		Add  struct {
			Name string `arg:""`
		} `cmd:"" help:"Add a server."`
	} `cmd:"" name:"mcp" help:"Servers."`
	Completion struct {
		Shell string `arg:"" enum:"bash,zsh,fish"`
	} `cmd:"" help:"A script."`
	Secret struct{} `cmd:"" hidden:""`
}

func script(t *testing.T, shell string) string {
	t.Helper()
	k, err := kong.New(&grammar{}, kong.Name("pawl"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := completion.Script(shell, completion.Of(k.Model.Node))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		golden.Check(t, shell, script(t, shell))
		path, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		file := filepath.Join(t.TempDir(), "script")
		if err := os.WriteFile(file, []byte(script(t, shell)), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(path, "-n", file).CombinedOutput(); err != nil {
			t.Errorf("%s does not take its script: %v\n%s", shell, err, out)
		}
	}
	if _, err := completion.Script("tcsh", nil); err == nil {
		t.Error("a script for tcsh")
	}
}

// What bash really offers.
func TestBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	dir := t.TempDir()
	for _, name := range []string{"a.yaml", "sub/x"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]string{
		"pawl ":                    "run mcp completion",
		"pawl r":                   "run",
		"pawl --j":                 "--json",
		"pawl run --l":             "--language",
		"pawl run --language ":     "zh en",
		"pawl run --language z":    "zh",
		"pawl run --playbook ":     "a.yaml sub",
		"pawl run -p a":            "a.yaml",
		"pawl run --dir ":          "sub",
		"pawl run --server ":       "",
		"pawl mcp ":                "list add",
		"pawl mcp add --json --s":  "--server",
		"pawl --json mcp l":        "list",
		"pawl completion ":         "bash zsh fish",
		"pawl completion b":        "bash",
		"pawl run --hid":           "",
		"pawl run list --language": "--language",
	} {
		words := strings.Split(line, " ")
		code := script(t, "bash") + "\ncompopt() { :; }\nCOMP_WORDS=(" + quoted(words) + ")\nCOMP_CWORD=" + itoa(len(words)-1) + "\n_pawl\necho ${COMPREPLY[*]}"
		cmd := exec.Command(bash, "-c", code)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%q: got %q, %v; want %q", line, got, err, want)
		}
	}
}

func quoted(words []string) string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = "'" + w + "'"
	}
	return strings.Join(list, " ")
}

func itoa(n int) string { return string(rune('0' + n)) }
