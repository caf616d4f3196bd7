package jsonrpc

import "time"

// How much a server may say without being asked, per connection: what is above that is read later, so that a server that
// floods waits for its own turn, and takes a small part of one processor at most.
const (
	noteRate  = 5_000  // per second
	noteBurst = 20_000 // at once
	// noteSize is what counts as one more notification, in bytes.
	noteSize = 16 << 10
	// question is how many notifications a request of the server counts as: each is answered by a goroutine of its own.
	question = 80
)

// Throttle is a token bucket. It belongs to one reader.
type Throttle struct {
	rate, burst float64
	used        float64 // tokens taken and not yet grown again
	last        time.Time
}

// NewThrottle makes one of a connection.
func NewThrottle() *Throttle { return &Throttle{rate: noteRate, burst: noteBurst} }

// take returns how long to wait before a notification of this size may be passed on.
func (b *Throttle) take(size int, now time.Time) time.Duration {
	b.used = max(0, b.used-now.Sub(b.last).Seconds()*b.rate) + 1 + float64(size)/noteSize
	b.last = now
	if b.used <= b.burst {
		return 0
	}
	return time.Duration((b.used - b.burst) / b.rate * float64(time.Second))
}

// Ask is Wait for a request of the server.
func (b *Throttle) Ask(size int) { b.Wait(size + (question-1)*noteSize) }

// Wait is take, and waits.
func (b *Throttle) Wait(size int) {
	if d := b.take(size, time.Now()); d > 0 {
		<-time.After(d)
	}
}
