package inflight

import (
	"cmp"
	"time"
)

// Config sets limits. Zero values mean the defaults.
type Config struct {
	MaxRunning        int           // calls at once, in all; 10,000
	MaxRunningPerUser int           // 1,000
	MaxFinished       int           // results kept; 10,000
	MaxFinishedBytes  int64         // their size; 256 MiB
	MaxTombstones     int           // ids of forgotten calls, 100 bytes each; 100,000
	MaxSessions       int           // sessions whose newest owner is kept, 100 bytes each; 100,000
	ResultTimeout     time.Duration // how long a result waits to be acknowledged; 15 minutes

	Now func() time.Time // nil: time.Now
}

func (c Config) withDefaults() Config {
	c.MaxRunning = cmp.Or(c.MaxRunning, 10_000)
	c.MaxRunningPerUser = cmp.Or(c.MaxRunningPerUser, 1_000)
	c.MaxFinished = cmp.Or(c.MaxFinished, 10_000)
	c.MaxFinishedBytes = cmp.Or(c.MaxFinishedBytes, 256<<20)
	c.MaxTombstones = cmp.Or(c.MaxTombstones, 100_000)
	c.MaxSessions = cmp.Or(c.MaxSessions, 100_000)
	c.ResultTimeout = cmp.Or(c.ResultTimeout, 15*time.Minute)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}
