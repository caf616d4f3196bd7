package registry

import (
	"path/filepath"
	"strings"
)

// roots reads the folders that a server is told of. Relative paths count from the file's folder, as `cwd` does.
func (f *fields) roots(s *Server, dir string) error {
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
	s.Roots, err = ReadRoots(folders)
	return err
}
