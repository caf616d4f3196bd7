package modeltest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

// isArchive reports whether a path names an archive with a repository and a script: the files in repo/, and model.yaml, which is a Coding.
func isArchive(path string) bool { return filepath.Ext(path) == ".txtar" }

// modelOf returns the script of an archive; "" if it has none.
func modelOf(archive []byte) string {
	for _, f := range txtar.Parse(archive).Files {
		if f.Name == "model.yaml" {
			return string(f.Data)
		}
	}
	return ""
}

// WriteRepository writes the repository of an archive into a folder that does not exist or is empty.
func WriteRepository(archive, dir string) error {
	a, err := txtar.ParseFile(archive)
	if err != nil {
		return err
	}
	if there, err := os.ReadDir(dir); err == nil && len(there) > 0 {
		return fmt.Errorf("the folder %s is not empty", dir)
	}
	for _, f := range a.Files {
		name, isFile := strings.CutPrefix(f.Name, "repo/")
		if !isFile {
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.Data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
