package task

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"pawl.dev/cmd/internal/ui"
)

// maxPlaybook is how many bytes of a playbook the services take.
const maxPlaybook = 256 << 10

// readPlaybook returns the text of a file; `-` is standard input.
func readPlaybook(u *ui.UI, file string) (string, error) {
	in, name := u.In, "on standard input"
	switch {
	case file != "-":
		f, err := os.Open(file)
		if err != nil {
			return "", ui.Errorf("read the playbook: %v", err)
		}
		defer func() { _ = f.Close() }()
		in, name = f, file
	case u.InTTY:
		return "", ui.Usagef("there is no playbook on standard input, which is a terminal").
			Then("pawl run --playbook FILE, or pawl run --playbook - < FILE")
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxPlaybook+1))
	switch text := string(raw); {
	case err != nil:
		return "", ui.Errorf("read the playbook: %v", err)
	case len(text) > maxPlaybook:
		return "", ui.Usagef("the playbook %s has more than %d bytes", name, maxPlaybook).Then("make several of it")
	case !utf8.ValidString(text):
		return "", ui.Usagef("the playbook %s is not UTF-8 text", name).Then("give a YAML file, saved as UTF-8")
	case strings.TrimSpace(text) == "":
		return "", ui.Usagef("the playbook %s is empty", name).Then("write its steps, or leave --playbook out")
	default:
		return text, nil
	}
}
