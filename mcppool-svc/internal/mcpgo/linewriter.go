package mcpgo

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// errNotQueued means that a message was not even accepted for sending.
var errNotQueued = errors.New("not sent")

const (
	// maxQueued is how many bytes may wait for a child to read them. One message always may.
	maxQueued = 8 << 20
	// writeChunk is how much is written under one stall limit: about what a pipe holds.
	writeChunk = 64 << 10
	// stallLimit is how long a child may leave its stdin unread while there is more to write.
	stallLimit = 30 * time.Second
	// flushLimit is how long Close lets what is queued go out.
	flushLimit = 200 * time.Millisecond
)

// deadlineWriter is a pipe whose writes can be given a deadline, as os.File is.
type deadlineWriter interface {
	io.WriteCloser
	SetWriteDeadline(t time.Time) error
}

// lineWriter stands between mcp-go and a child's stdin. mcp-go writes under a lock and would hang every call, deadlines
// or not, at a child that does not read; here a write is queued, and a goroutine of its own brings it to the pipe.
type lineWriter struct {
	out   deadlineWriter
	stall time.Duration
	fail  func(error) // told once, when the child does not read or the pipe is broken

	wake  chan struct{} // buffered; something was queued or closed
	ended chan struct{} // the goroutine is gone

	mu     sync.Mutex
	queue  [][]byte // guarded by mu
	queued int      // guarded by mu; bytes in queue and being written
	closed bool     // guarded by mu
}

func newLineWriter(out deadlineWriter, stall time.Duration, fail func(error)) *lineWriter {
	w := &lineWriter{out: out, stall: stall, fail: fail, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go w.run()
	return w
}

// Write queues one message. It never blocks.
func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, errors.Join(errNotQueued, os.ErrClosed)
	}
	if w.queued > 0 && w.queued+len(p) > maxQueued {
		return 0, errors.Join(errNotQueued, errors.New("the server does not read its stdin"))
	}
	w.queue = append(w.queue, bytes.Clone(p))
	w.queued += len(p)
	w.signal()
	return len(p), nil
}

// Close lets what is queued go out for a moment and closes the pipe.
func (w *lineWriter) Close() error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	// Also shortens the deadline of a write that hangs already.
	_ = w.out.SetWriteDeadline(time.Now().Add(flushLimit))
	w.signal()
	<-w.ended
	return nil
}

func (w *lineWriter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *lineWriter) run() {
	defer close(w.ended)
	defer w.out.Close()
	for range w.wake {
		for {
			batch, closed := w.take()
			if len(batch) == 0 {
				if closed {
					return
				}
				break
			}
			if err := w.write(batch); err != nil {
				w.stop(err)
				return
			}
		}
	}
}

// take empties the queue; its bytes count as queued until they are written.
func (w *lineWriter) take() (batch []byte, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 1 {
		batch = w.queue[0]
	} else {
		batch = bytes.Join(w.queue, nil)
	}
	w.queue = nil
	return batch, w.closed
}

func (w *lineWriter) write(batch []byte) error {
	for len(batch) > 0 {
		n := min(len(batch), writeChunk)
		if err := w.deadline(); err != nil {
			return err
		}
		if _, err := w.out.Write(batch[:n]); err != nil {
			return err
		}
		batch = batch[n:]
		w.mu.Lock()
		w.queued -= n
		w.mu.Unlock()
	}
	return nil
}

// deadline gives the next chunk its time; under the lock, so that it cannot undo Close's shorter one.
func (w *lineWriter) deadline() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	limit := w.stall
	if w.closed {
		limit = flushLimit
	}
	return w.out.SetWriteDeadline(time.Now().Add(limit))
}

// stop makes further writes fail and tells why, unless it was closed on purpose.
func (w *lineWriter) stop(err error) {
	w.mu.Lock()
	already := w.closed
	w.closed = true
	w.mu.Unlock()
	if !already {
		w.fail(err)
	}
}
