package registry

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// reference is a secret that stays in the pool's environment, or in a file, until a connection is made.
var reference = regexp.MustCompile(`\$\{(env|file):([^}]*)\}`)

// maxSecret is the longest secret that a file may hold, in bytes.
const maxSecret = 64 << 10

// HasReference reports whether a value refers to the pool's environment or to a file.
func HasReference(value string) bool { return reference.MatchString(value) }

// Expand replaces ${env:NAME} and ${file:PATH} in values of the server's configuration. Servers of plain users have no references.
func (s *Server) Expand(values map[string]string, getenv func(string) (string, bool)) (map[string]string, error) {
	if !s.ByOperator {
		return values, nil
	}
	out := make(map[string]string, len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		var failed error
		out[key] = reference.ReplaceAllStringFunc(values[key], func(match string) string {
			parts := reference.FindStringSubmatch(match)
			value, err := secret(parts[1], parts[2], getenv)
			if err != nil && failed == nil {
				failed = fmt.Errorf("MCP server %s: %q refers to %w", s.ID, key, err)
			}
			return value
		})
		if failed != nil {
			return nil, failed
		}
	}
	return out, nil
}

// secret is what one reference stands for.
func secret(kind, name string, getenv func(string) (string, bool)) (string, error) {
	if kind == "file" {
		return secretFile(name)
	}
	value, ok := getenv(name)
	if !ok {
		return "", fmt.Errorf("the environment variable %s, which the pool does not have; set it where the pool is started", name)
	}
	return value, nil
}

// secretFile reads a file such as container platforms mount; the line's end is not part of the secret.
func secretFile(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("the file %q; give its whole path", path)
	}
	f, err := os.Open(path)
	if err != nil {
		var why *os.PathError
		if errors.As(err, &why) {
			err = why.Err
		}
		return "", fmt.Errorf("the file %s, which the pool cannot read: %w", path, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("the file %s, which the pool cannot read: %w", path, err)
	case len(text) > maxSecret:
		return "", fmt.Errorf("the file %s, which has more than %d KiB; a secret is shorter", path, maxSecret>>10)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}
