package config

import (
	"path/filepath"
	"strings"

	"pawl.dev/mcppool-svc/internal/spec"
)

// roots reads the folders that a server is told of. Relative paths count from the file's folder, as `cwd` does.
func (f *fields) roots(s *spec.Server, dir string) error {
	var folders []string
	ok, err := take(f, "roots", `a list of folders such as ["/srv/project", "file:///srv/data"]`, &folders)
	if !ok || err != nil {
		return err
	}
	for i, folder := range folders {
		if !filepath.IsAbs(folder) && !strings.HasPrefix(folder, "file:") {
			folders[i] = filepath.Join(dir, folder)
		}
	}
	s.Roots, err = spec.ReadRoots(folders)
	return err
}
