package workspace

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"pawl.dev/mcppool-svc/internal/process"
)

// scratch is a private folder for programs, with their home folder and their temporary files. It is made when it is first used.
type scratch struct {
	mu   sync.Mutex
	dir  string   // guarded by mu
	lock *os.File // dir, locked, so that no other process removes it; guarded by mu
}

const scratchPrefix = "pawl-workspace-"

// removeAbandoned removes the private folders of processes that were killed, which are not locked. The lock of a new folder follows soon.
func removeAbandoned() {
	folders, _ := filepath.Glob(filepath.Join(os.TempDir(), scratchPrefix+"*"))
	for _, folder := range folders {
		info, err := os.Lstat(folder)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		if f, err := os.Open(folder); err == nil {
			if tryLock(f) {
				_ = os.RemoveAll(folder)
			}
			_ = f.Close()
		}
	}
}

func (s *scratch) path() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir != "" {
		return s.dir, nil
	}
	removeAbandoned()
	dir, err := os.MkdirTemp("", scratchPrefix)
	if err != nil {
		return "", fmt.Errorf("make a folder for temporary files: %w", err)
	}
	if s.lock, err = os.Open(dir); err == nil {
		tryLock(s.lock)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "home"), 0o700), os.Mkdir(filepath.Join(dir, "tmp"), 0o700)); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	s.dir = dir
	return dir, nil
}

func (s *scratch) remove() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" {
		return nil
	}
	return errors.Join(os.RemoveAll(s.dir), s.lock.Close())
}

// passedOn are the variables that build tools read, which programs get as they are here.
var passedOn = []string{
	"GOROOT", "GOTOOLCHAIN", "GOFLAGS", "GOPROXY", "GOSUMDB", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOEXPERIMENT", "CGO_ENABLED", "CC", "CXX",
	"JAVA_HOME", "VIRTUAL_ENV", "NODE_PATH", "RUSTUP_TOOLCHAIN", "SSL_CERT_FILE", "SSL_CERT_DIR",
}

// toolFolders are the folders of build tools below the user's home folder that programs may read, by the variable that names them. Programs have
// another home folder, so the variable is set for them. Only the parts are read, if there are any, because others hold secrets.
var toolFolders = []struct {
	variable, folder string
	parts            []string
}{
	{"GOCACHE", ".cache/go-build", nil},
	{"GOMODCACHE", "go/pkg/mod", nil},
	{"CARGO_HOME", ".cargo", []string{"bin", "registry", "git", "config.toml"}},
	{"RUSTUP_HOME", ".rustup", nil},
	{"PYENV_ROOT", ".pyenv", nil},
	{"NVM_DIR", ".nvm", nil},
}

// environment returns the environment of programs whose private folder is given, and the folders that they read beside the system's.
func environment(private string, network bool) (env map[string]string, read []string) {
	env = map[string]string{
		"HOME": filepath.Join(private, "home"), "TMPDIR": filepath.Join(private, "tmp"), "LANG": cmp.Or(os.Getenv("LANG"), "C.UTF-8"),
		"TERM": "dumb", "NO_COLOR": "1", "PAGER": "cat", "GIT_TERMINAL_PROMPT": "0",
	}
	for _, name := range passedOn {
		if value, ok := os.LookupEnv(name); ok {
			env[name] = value
		}
	}
	home, _ := os.UserHomeDir() // without one, the default folders do not exist
	for _, tool := range toolFolders {
		folder := cmp.Or(os.Getenv(tool.variable), filepath.Join(home, tool.folder))
		if _, err := os.Stat(folder); err != nil { //nolint:gosec // folders that the user of this process named
			continue
		}
		env[tool.variable] = folder
		if tool.parts == nil {
			read = append(read, folder)
		}
		for _, part := range tool.parts {
			read = append(read, filepath.Join(folder, part))
		}
	}
	if self, err := os.Executable(); err == nil && env["GOCACHE"] != "" {
		env["GOCACHEPROG"] = fmt.Sprintf("%q %s %q %q", self, goCacheName, env["GOCACHE"], filepath.Join(private, "go-build"))
		read = append(read, self)
	}
	delete(env, "GOCACHE") // the go command writes there too
	if network {
		// New modules go to the private home folder, whose files must be removable.
		delete(env, "GOMODCACHE")
		env["GOFLAGS"] = strings.TrimSpace(env["GOFLAGS"] + " -modcacherw")
	} else {
		env["GOPROXY"] = "off"
	}
	return env, append(read, installed(home)...)
}

// beside are what programs below the home folder need beside their bin folder. Other files there may be secrets, such as login data.
var beside = []string{"lib", "lib64", "libexec", "share", "include", "conf", "release", "pyvenv.cfg"}

// installed returns the folders in PATH, and those around them: programs often need what lies beside their bin folder.
func installed(home string) (folders []string) {
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	tooWide := func(dir string) bool { return dir == filepath.Dir(dir) || isWithin(home, dir) }
	for _, bin := range filepath.SplitList(os.Getenv("PATH")) {
		bin, err := filepath.EvalSymlinks(bin)
		if err != nil || !filepath.IsAbs(bin) || tooWide(bin) {
			continue
		}
		folders = append(folders, bin)
		around := filepath.Dir(bin)
		switch {
		case tooWide(around) || around == filepath.Join(home, ".local"):
		case !isWithin(around, home) || isGoRoot(around):
			folders = append(folders, around)
		default:
			for _, name := range beside {
				folders = append(folders, filepath.Join(around, name))
			}
		}
	}
	for _, folder := range []string{"lib", "share/uv", "share/pipx", "share/pnpm", "share/fnm", "share/mise"} {
		folders = append(folders, filepath.Join(home, ".local", folder))
	}
	return folders
}

// isWithin reports whether a path is dir or below it.
func isWithin(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// isGoRoot reports whether a folder is an installation of Go, whose programs need all of it.
func isGoRoot(dir string) bool {
	_, versionErr := os.Stat(filepath.Join(dir, "VERSION"))  //nolint:gosec // a folder that the user of this process named
	_, toolErr := os.Stat(filepath.Join(dir, "pkg", "tool")) //nolint:gosec // as above
	return versionErr == nil && toolErr == nil
}

// environ returns an environment as a list, with further variables, which take precedence.
func environ(env, extra map[string]string) []string {
	all := maps.Clone(env)
	maps.Copy(all, extra)
	return process.Environ(os.Environ(), all, nil)
}
