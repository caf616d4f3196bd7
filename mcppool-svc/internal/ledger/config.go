package ledger

import "time"

// Config bounds a ledger. Zero values mean the defaults.
type Config struct {
	MaxRunning        int           // calls at once, in all; 10,000
	MaxRunningPerUser int           // 1,000
	MaxFinished       int           // results kept; 10,000
	MaxFinishedBytes  int64         // their size; 256 MiB
	MaxTombstones     int           // ids of calls that are over, 100 bytes each; 100,000
	MaxSessions       int           // sessions whose newest owner is known, 100 bytes each; 100,000
	Memory            time.Duration // how long a result waits to be acknowledged; 15 minutes

	Now func() time.Time // time.Now where nil
}

func (c Config) withDefaults() Config {
	for _, n := range []struct {
		field *int
		value int
	}{
		{&c.MaxRunning, 10_000}, {&c.MaxRunningPerUser, 1_000}, {&c.MaxFinished, 10_000},
		{&c.MaxTombstones, 100_000}, {&c.MaxSessions, 100_000},
	} {
		if *n.field == 0 {
			*n.field = n.value
		}
	}
	if c.MaxFinishedBytes == 0 {
		c.MaxFinishedBytes = 256 << 20
	}
	if c.Memory == 0 {
		c.Memory = 15 * time.Minute
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}
