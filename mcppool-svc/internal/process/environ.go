package process

import (
	"maps"
	"slices"
	"strings"
)

// inherited are the variables that programs cannot do without. Everything else of the pool's environment, keys and
// tokens among it, stays with the pool.
var inherited = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "LANG", "LANGUAGE",
	// Windows programs do not start without these.
	"SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA",
}

// Environ is a child's environment: what it inherits of base, and extra, which wins.
func Environ(base []string, extra map[string]string) []string {
	env := make(map[string]string, len(extra)+len(inherited))
	for _, entry := range base {
		name, value, ok := strings.Cut(entry, "=")
		if ok && (slices.Contains(inherited, name) || strings.HasPrefix(name, "LC_")) {
			env[name] = value
		}
	}
	maps.Copy(env, extra)
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// Getenv returns the value of a variable in an environment.
func Getenv(env []string, name string) (string, bool) {
	// The last one wins, as it does for programs.
	for _, entry := range slices.Backward(env) {
		if n, value, ok := strings.Cut(entry, "="); ok && n == name {
			return value, true
		}
	}
	return "", false
}
