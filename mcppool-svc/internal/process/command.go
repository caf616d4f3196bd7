package process

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Find returns the absolute path of a command, looked up in path (a PATH). A relative path of the command starts at dir, which must exist unless it
// is empty.
func Find(command, path, dir string) (string, error) {
	if dir != "" {
		info, err := os.Stat(dir)
		if err != nil {
			return "", fmt.Errorf("its working directory cannot be used: %w; correct `cwd`", err)
		}
		if !info.IsDir() {
			return "", fmt.Errorf("its working directory %s is not a folder; correct `cwd`", dir)
		}
	}
	if filepath.Base(command) != command {
		full := command
		if !filepath.IsAbs(full) {
			full = filepath.Join(dir, full)
		}
		return executable(full)
	}
	for _, folder := range filepath.SplitList(path) {
		if folder == "" || !filepath.IsAbs(folder) {
			continue // a program in the current folder must be named by its path
		}
		if found, err := executable(filepath.Join(folder, command)); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("command %q was not found in PATH; install it, or give its full path as `command`", command)
}

// executable returns the absolute path of the executable file at path, or an error that tells what to correct.
func executable(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("command %s: %w", path, err)
	}
	found, err := exec.LookPath(abs)
	switch {
	case err == nil:
		return found, nil
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("command %s is not an executable file; make it one (chmod +x) or name its interpreter as `command`", abs)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("command %s does not exist; correct `command`", abs)
	default: // such as a folder
		return "", fmt.Errorf("command %s cannot be run: %w; correct `command`", abs, err)
	}
}

// inherited are the variables that programs need. Children get these and LC_*, but no others of the pool's environment, because those may
// be secret.
var inherited = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "LANG", "LANGUAGE",
	// Windows programs do not start without these.
	"SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA",
}

// Environ returns a child's environment: the inherited variables of base, those of the account (nil: the pool's own), and extra; a later one
// replaces an earlier one.
func Environ(base []string, extra map[string]string, as *Account) []string {
	env := make(map[string]string, len(extra)+len(inherited))
	for _, entry := range base {
		name, value, ok := strings.Cut(entry, "=")
		if ok && (slices.Contains(inherited, name) || strings.HasPrefix(name, "LC_")) {
			env[name] = value
		}
	}
	if as != nil {
		env["HOME"], env["USER"], env["LOGNAME"] = as.home, as.name, as.name
		delete(env, "SHELL")
		delete(env, "TMPDIR") // may be the own folder of the pool's user
	}
	maps.Copy(env, extra)
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// Getenv returns the value of a variable in an environment. If the variable occurs more than once, the last value counts, as in os/exec.
func Getenv(env []string, name string) (string, bool) {
	for _, entry := range slices.Backward(env) {
		if n, value, ok := strings.Cut(entry, "="); ok && n == name {
			return value, true
		}
	}
	return "", false
}
