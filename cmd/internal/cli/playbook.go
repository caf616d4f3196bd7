package cli

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"pawl.dev/cmd/internal/exit"
)

// maxPlaybook is how many bytes of a playbook the services take.
const maxPlaybook = 256 << 10

// readPlaybook returns the text of a file; `-` is standard input.
func readPlaybook(a *App, file string) (string, error) {
	in, name := a.Console.In, "on standard input"
	switch {
	case file != "-":
		f, err := os.Open(file)
		if err != nil {
			return "", exit.Newf("read the playbook: %v", err)
		}
		defer func() { _ = f.Close() }()
		in, name = f, file
	case a.Console.InTTY:
		return "", exit.Usagef("there is no playbook on standard input, which is a terminal").
			Then("pawl run --playbook FILE, or pawl run --playbook - < FILE")
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxPlaybook+1))
	switch text := string(raw); {
	case err != nil:
		return "", exit.Newf("read the playbook: %v", err)
	case len(text) > maxPlaybook:
		return "", exit.Usagef("the playbook %s has more than %d bytes", name, maxPlaybook).Then("make several of it")
	case !utf8.ValidString(text):
		return "", exit.Usagef("the playbook %s is not UTF-8 text", name).Then("give a YAML file, saved as UTF-8")
	case strings.TrimSpace(text) == "":
		return "", exit.Usagef("the playbook %s is empty", name).Then("write its steps, or leave --playbook out")
	default:
		return text, nil
	}
}
