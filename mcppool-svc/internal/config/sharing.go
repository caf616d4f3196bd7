package config

import (
	"fmt"
	"strings"

	"pawl.dev/mcppool-svc/internal/spec"
)

// sharing reads who shares connections to the server, and for how long results of reading tools are kept.
func (f *fields) sharing(s *spec.Server) (bool, error) {
	var name string
	ok, err := take(f, "isolation", "a text", &name)
	if err != nil {
		return false, err
	}
	if ok {
		if s.Isolation, ok = spec.ParseIsolation(name); !ok {
			return false, fmt.Errorf(`"isolation" must be one of %s`, strings.Join(spec.Isolations(), ", "))
		}
	}
	if _, err := take(f, "maxConnections", "a whole number", &s.MaxConnections); err != nil {
		return false, err
	}
	return f.duration("cacheTtl", spec.LongestCache, &s.CacheTTL)
}
