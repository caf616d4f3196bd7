package replica

import (
	"fmt"
	"time"
)

// MaxAhead is how far ahead of the local clock another replica's time may be. More means that a clock is wrong.
const MaxAhead = 5 * time.Minute

// logicalBits is the number of a clock's bits that count the events within one millisecond.
const logicalBits = 16

// clock is a hybrid logical clock (Kulkarni et al., Logical Physical Clocks, 2014): close to the wall clock, and never
// behind a time that it observed. The Store's mu guards it.
type clock struct {
	now  func() time.Time
	last uint64
}

// stampOf returns the first clock value of a wall-clock time.
func stampOf(t time.Time) uint64 { return uint64(max(t.UnixMilli(), 1)) << logicalBits }

// timeOf returns the wall-clock time of a clock value.
func timeOf(stamp uint64) time.Time { return time.UnixMilli(int64(stamp >> logicalBits)) }

// tick returns a time that is later than all before, and those that were observed.
func (c *clock) tick() uint64 {
	c.last = max(stampOf(c.now()), c.last+1)
	return c.last
}

// observe advances the clock to the time of another replica.
func (c *clock) observe(stamp uint64) { c.last = max(c.last, stamp) }

// ahead reports whether a time is too far in the future.
func (c *clock) ahead(stamp uint64) error {
	if by := timeOf(stamp).Sub(c.now()); by > MaxAhead {
		return fmt.Errorf("it is from %s in the future: the clock there, or the one here, is wrong", by.Round(time.Second))
	}
	return nil
}
