package cli

import (
	"github.com/alecthomas/kong"

	"pawl.dev/cmd/internal/completion"
)

// CompletionCmd is `pawl completion`.
type CompletionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: ${enum}."`
}

// Help is shown by --help.
func (CompletionCmd) Help() string {
	return `Examples:

    source <(pawl completion bash)                                   # in ~/.bashrc
    pawl completion zsh > "${fpath[1]}/_pawl"
    pawl completion fish > ~/.config/fish/completions/pawl.fish`
}

// Run prints the script.
func (c *CompletionCmd) Run(a *App, model *kong.Application) error {
	script, err := completion.Script(c.Shell, completion.Of(model.Node))
	if err != nil {
		return err
	}
	a.printf("%s", script)
	return nil
}
