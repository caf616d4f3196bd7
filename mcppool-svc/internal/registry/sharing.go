package registry

import (
	"time"

	"pawl.dev/services/humantime"
)

// Bounds of what operators may say.
const (
	MostConnections = 100_000
	LongestCache    = 24 * time.Hour
)

// Isolation says who shares a connection to a server.
type Isolation int

// The isolations. Stored by name: see String and ParseIsolation.
const (
	// PerUser gives each user one connection.
	PerUser Isolation = iota
	// PerTask gives each session of each user one, which closes when the session is released.
	PerTask
	// Shared gives all users the same one; for servers that keep nothing between calls.
	Shared
)

var isolations = []string{"user", "task", "shared"}

// Isolations lists the names.
func Isolations() []string { return append([]string(nil), isolations...) }

func (i Isolation) String() string { return isolations[i] }

// ParseIsolation reads a name; false if it is none.
func ParseIsolation(name string) (Isolation, bool) {
	for i, n := range isolations {
		if n == name {
			return Isolation(i), true
		}
	}
	return 0, false
}

// SameSharing reports whether two registrations agree on what only operators may say of connections, kept results and models.
func (s *Server) SameSharing(o *Server) bool {
	return s.Isolation == o.Isolation && s.MaxConnections == o.MaxConnections && s.CacheTTL == o.CacheTTL && s.Sampling.same(o.Sampling)
}

// validateSharing says what is wrong with it. The error is *Invalid.
func (s *Server) validateSharing() error {
	switch {
	case s.MaxConnections < 0 || s.MaxConnections > MostConnections:
		return invalid("max_connections", "is not between 0 and %d", MostConnections)
	case s.CacheTTL < 0 || s.CacheTTL > LongestCache:
		return invalid("cache_ttl", "is not between 0 and %s", humantime.Text(LongestCache))
	}
	return s.Sampling.validate()
}
