package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTheRootFolderIsNotOpened(t *testing.T) {
	for _, home := range []string{"", "/", "relative", "/root"} {
		for _, path := range []string{"/bin", "/tmp", "/"} {
			t.Setenv("PATH", path)
			if folders := installed(home); slices.Contains(folders, "/") {
				t.Errorf("home %q, PATH %q: %v", home, path, folders)
			}
		}
	}
}

// D12: PATH opens what programs need beside their bin folder, and no folder that may hold secrets.
func TestInstalledFoldersHoldNoSecrets(t *testing.T) {
	top, err := filepath.EvalSymlinks(tree(t, map[string]string{
		"home/bin/": "", "home/lib/": "", "home/.ssh/key": "", "home/.fly/bin/": "", "home/.fly/config.yml": "", "home/.local/bin/": "", "home/.local/share/keyrings/": "",
		"home/node/bin/": "", "home/node/lib/": "", "home/go1/bin/": "", "home/go1/VERSION": "", "home/go1/pkg/tool/": "", "home/go1/src/": "",
		"opt/tool/bin/": "", "opt/tool/data/": "", "tools/": "",
	}))
	must(t, err)
	symlink(t, "home", filepath.Join(top, "link"))
	symlink(t, "../home/.fly/bin", filepath.Join(top, "opt/fly"))
	tests := map[string]struct {
		home, path string
		readable   []string
	}{
		"the home folder's own": {"home", "home/bin", []string{"home/bin"}},
		"a trailing slash":      {"home/", "home/bin/", []string{"home/bin"}},
		"a link to home":        {"link", "home/bin", []string{"home/bin"}},
		"home over a link":      {"home", "link/bin", []string{"home/bin"}},
		"a tool with login":     {"home", "home/.fly/bin", []string{"home/.fly/bin"}},
		"a link to its folder":  {"home", "opt/fly", []string{"home/.fly/bin"}},
		"local":                 {"home", "home/.local/bin", []string{"home/.local/bin"}},
		"node":                  {"home", "home/node/bin", []string{"home/node/bin", "home/node/lib"}},
		"Go":                    {"home", "home/go1/bin", []string{"home/go1", "home/go1/VERSION", "home/go1/bin", "home/go1/pkg", "home/go1/src"}},
		"elsewhere":             {"home", "opt/tool/bin", []string{"opt/tool", "opt/tool/bin", "opt/tool/data"}},
		"home itself":           {"home", "home", nil},
		"around home":           {"home", ".", nil},
		"beside home":           {"home", "tools", []string{"tools"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", top+string(filepath.Separator)+tt.path)
			var readable []string
			folders := installed(top + string(filepath.Separator) + tt.home)
			for _, file := range []string{
				".", "home", "home/bin", "home/lib", "home/.ssh/key", "home/.fly", "home/.fly/bin", "home/.fly/config.yml", "home/.local", "home/.local/bin", "home/.local/share/keyrings",
				"home/node", "home/node/bin", "home/node/lib", "home/go1", "home/go1/VERSION", "home/go1/bin", "home/go1/pkg", "home/go1/src", "opt/tool", "opt/tool/bin", "opt/tool/data", "tools",
			} {
				if slices.ContainsFunc(folders, func(folder string) bool {
					real, err := filepath.EvalSymlinks(folder)
					return err == nil && (real == filepath.Join(top, file) || strings.HasPrefix(filepath.Join(top, file), real+string(os.PathSeparator)))
				}) {
					readable = append(readable, file)
				}
			}
			if !slices.Equal(readable, tt.readable) {
				t.Errorf("readable: %v", readable)
			}
		})
	}
}
