package cli

import (
	"runtime"

	"pawl.dev/cmd/internal/render"
)

// VersionCmd is `pawl version`.
type VersionCmd struct{}

// Help is shown by --help.
func (VersionCmd) Help() string {
	return `Examples:

    pawl version
    pawl version --json`
}

// Run prints the version of this program.
func (c *VersionCmd) Run(a *App, g *Globals) error {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	if g.JSON {
		return render.JSONValue(a.Console.Out, map[string]string{"version": a.Version, "go": runtime.Version(), "platform": platform})
	}
	a.printf("pawl %s (%s, %s)\n", a.Version, runtime.Version(), platform)
	return nil
}
