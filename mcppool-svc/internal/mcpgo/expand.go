package mcpgo

import (
	"maps"
	"regexp"
	"slices"

	"pawl.dev/mcppool-svc/internal/process"
	"pawl.dev/mcppool-svc/internal/upstream"
)

// reference is a secret that stays in the pool's environment until a connection is made.
var reference = regexp.MustCompile(`\$\{env:([^}]*)\}`)

// HasReference says whether a value refers to the pool's environment.
func HasReference(value string) bool { return reference.MatchString(value) }

// expand replaces ${env:NAME} in values.
func expand(values map[string]string, environ []string) (map[string]string, error) {
	out := make(map[string]string, len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		var missing string
		out[key] = reference.ReplaceAllStringFunc(values[key], func(match string) string {
			name := reference.FindStringSubmatch(match)[1]
			value, ok := process.Getenv(environ, name)
			if !ok {
				missing = name
			}
			return value
		})
		if missing != "" {
			return nil, upstream.Errorf(upstream.Misconfigured,
				"%q refers to the environment variable %s, which the pool does not have; set it where the pool is started", key, missing)
		}
	}
	return out, nil
}
