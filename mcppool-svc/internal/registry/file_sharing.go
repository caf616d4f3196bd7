package registry

import (
	"fmt"
	"strings"
)

// sharing reads who shares connections to the server, and for how long results of reading tools are kept.
func (f *fields) sharing(s *Server) (bool, error) {
	var name string
	ok, err := take(f, "isolation", "a text", &name)
	if err != nil {
		return false, err
	}
	if ok {
		if s.Isolation, ok = ParseIsolation(name); !ok {
			return false, fmt.Errorf(`"isolation" must be one of %s`, strings.Join(Isolations(), ", "))
		}
	}
	if _, err := take(f, "maxConnections", "a whole number", &s.MaxConnections); err != nil {
		return false, err
	}
	return f.duration("cacheTtl", LongestCache, &s.CacheTTL)
}
