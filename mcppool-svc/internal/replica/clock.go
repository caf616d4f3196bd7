package replica

import (
	"fmt"
	"time"
)

// MaxAhead is how far in the future a time may lie that another replica names. More means that a clock is wrong.
const MaxAhead = 5 * time.Minute

// logicalBits are those of a clock that count what happens within one millisecond.
const logicalBits = 16

// clock is a hybrid logical clock (Kulkarni et al., Logical Physical Clocks, 2014): close to the time of day, never behind what it
// was told. The Store's mu guards it.
type clock struct {
	now  func() time.Time
	last uint64
}

// stampOf is the first time of a moment.
func stampOf(t time.Time) uint64 { return uint64(max(t.UnixMilli(), 1)) << logicalBits }

// timeOf is the moment of a time.
func timeOf(stamp uint64) time.Time { return time.UnixMilli(int64(stamp >> logicalBits)) }

// tick returns a time that is later than all before, and those that were observed.
func (c *clock) tick() uint64 {
	c.last = max(stampOf(c.now()), c.last+1)
	return c.last
}

// observe takes in the time of another replica.
func (c *clock) observe(stamp uint64) { c.last = max(c.last, stamp) }

// ahead reports whether a time cannot be.
func (c *clock) ahead(stamp uint64) error {
	if by := timeOf(stamp).Sub(c.now()); by > MaxAhead {
		return fmt.Errorf("it is from %s in the future: the clock there, or the one here, is wrong", by.Round(time.Second))
	}
	return nil
}
