package process

import "sync"

// stderrLimit is how much of a child's stderr is kept.
const stderrLimit = 64 << 10

// ring keeps the last bytes written to it.
type ring struct {
	mu  sync.Mutex
	buf []byte // guarded by mu
	cut bool   // guarded by mu; something was dropped
}

// Write never fails and never blocks for long, so that a child cannot hang on its stderr.
func (r *ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(p)
	r.cut = r.cut || len(r.buf)+n > stderrLimit
	p = p[max(0, n-stderrLimit):]
	if drop := len(r.buf) + len(p) - stderrLimit; drop > 0 {
		r.buf = append(r.buf[:0], r.buf[drop:]...)
	}
	r.buf = append(r.buf, p...)
	return n, nil
}

func (r *ring) wasCut() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cut
}

func (r *ring) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.buf)
}
