package admin

import (
	"runtime"

	"pawl.dev/cmd/internal/ui"
)

// VersionCmd is `pawl version`.
type VersionCmd struct{}

// Run prints the version of this program.
func (c *VersionCmd) Run(u *ui.UI, h *Host) error {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	return u.Result(map[string]string{"version": h.Version, "go": runtime.Version(), "platform": platform},
		"pawl %s (%s, %s)", h.Version, runtime.Version(), platform)
}
