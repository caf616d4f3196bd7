package registry

import (
	"net/url"
	"path/filepath"
	"strings"
)

const (
	maxRoots   = 100
	maxRootLen = 4096
)

// ReadRoots makes file URIs of folders that are given as such, or as absolute paths. The error is *Invalid.
func ReadRoots(folders []string) ([]string, error) {
	if len(folders) > maxRoots {
		return nil, invalid("roots", "holds more than %d folders", maxRoots)
	}
	var roots []string
	for _, folder := range folders {
		uri := folder
		if filepath.IsAbs(folder) {
			uri = (&url.URL{Scheme: "file", Path: slashed(folder)}).String()
		}
		u, err := url.Parse(uri)
		if err != nil || u.Scheme != "file" || !strings.HasPrefix(u.Path, "/") || len(folder) > maxRootLen || strings.ContainsRune(folder, 0) {
			return nil, invalid("roots", "%.200q is neither an absolute path nor a file: URI", folder)
		}
		roots = append(roots, uri)
	}
	return roots, nil
}

// slashed is a path as URIs have them: also one that begins with a drive's letter begins with a slash.
func slashed(path string) string {
	path = filepath.ToSlash(filepath.Clean(path))
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return path
}
