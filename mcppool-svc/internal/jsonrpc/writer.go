package jsonrpc

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"sync"
	"time"
)

// The errors of Write.
var (
	ErrPipeClosed = errors.New("the pipe to the server is closed")
	ErrNotRead    = errors.New("not sent: the server does not read its stdin")
)

const (
	// MaxQueued is how many bytes may wait for a child to read them. A single message may be longer.
	MaxQueued = 8 << 20
	// writeChunk is how many bytes are written under one stall limit: about what a pipe holds.
	writeChunk = 64 << 10
	// directLimit is the length up to which Write tries to write a message at once: a Linux pipe takes such a message whole or not at all.
	directLimit = 4096
	// undeliveredWait is how long Undelivered waits for a message that is being written.
	undeliveredWait = time.Second
	// flushLimit is how long Close waits for the queue to be written.
	flushLimit = 200 * time.Millisecond
)

// LineWriter writes messages to a child's stdin. Write never blocks: bytes that the pipe does not take at once are queued, and a goroutine
// writes them.
type LineWriter struct {
	out      *os.File
	stall    time.Duration
	writeNow func([]byte) int // guarded by mu; writes what the pipe takes without waiting, and returns the number of bytes; may be nil
	fail     func(error)      // see NewLineWriter

	mu      sync.Mutex
	lines   []line        // guarded by mu; the queue: messages that are not fully written yet
	queued  int           // guarded by mu; bytes of lines
	closed  bool          // guarded by mu
	drained chan struct{} // guarded by mu; closed when the goroutine that writes the queue ends; nil if there was none
}

// line is the unwritten rest of a message.
type line struct {
	id   int64 // of the request; 0 for other messages
	text []byte
}

// NewLineWriter makes a LineWriter. stall bounds how long the child may read nothing while there is more to write. fail is called at most
// once, if the child does not read or the pipe is broken before Close.
func NewLineWriter(out *os.File, stall time.Duration, fail func(error)) *LineWriter {
	return &LineWriter{out: out, writeNow: directWrite(out), stall: stall, fail: fail}
}

// Write writes or queues one message, which ends with a newline. id is the id of a request, or 0 for other messages.
func (w *LineWriter) Write(id int64, p []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return ErrPipeClosed
	case w.queued > 0 && w.queued+len(p) > MaxQueued:
		return ErrNotRead
	case w.writeNow != nil && w.queued == 0 && len(p) <= directLimit:
		if p = p[w.writeNow(p):]; len(p) == 0 {
			return nil
		}
	}
	w.queued += len(p)
	w.lines = append(w.lines, line{id: id, text: bytes.Clone(p)})
	if len(w.lines) == 1 {
		w.drained = make(chan struct{})
		go w.drain(w.drained)
	}
	return nil
}

// Close writes the queue for at most flushLimit and closes the pipe.
func (w *LineWriter) Close() error {
	w.mu.Lock()
	w.closed = true
	drained := w.drained
	_ = w.out.SetWriteDeadline(time.Now().Add(flushLimit)) // also for a write in progress
	w.mu.Unlock()
	if drained != nil {
		<-drained
	}
	return w.out.Close()
}

// drain writes the queue.
func (w *LineWriter) drain(done chan struct{}) {
	defer close(done)
	n := 0
	for {
		w.mu.Lock()
		chunk := w.next(n)
		w.mu.Unlock()
		if chunk == nil {
			return
		}
		var err error
		if n, err = w.out.Write(chunk); err != nil {
			w.writeFailed(n, err)
			return
		}
	}
}

// next takes n bytes off the queue and returns the next bytes to write, or nil. Called with mu held.
func (w *LineWriter) next(n int) []byte {
	w.lines[0].text = w.lines[0].text[n:]
	w.queued -= n
	if len(w.lines[0].text) == 0 {
		if w.lines = w.lines[1:]; len(w.lines) == 0 {
			w.lines = nil // frees the backing array
			return nil
		}
	}
	if !w.closed {
		_ = w.out.SetWriteDeadline(time.Now().Add(w.stall)) // if this fails, so does the write
	}
	text := w.lines[0].text
	return text[:min(len(text), writeChunk)]
}

// writeFailed makes further writes fail, and passes the error to fail unless the writer was closed on purpose.
func (w *LineWriter) writeFailed(written int, err error) {
	w.mu.Lock()
	w.lines[0].text = w.lines[0].text[written:]
	already := w.closed
	w.closed = true
	w.mu.Unlock()
	if !already {
		w.fail(err)
	}
}

// Undelivered reports whether it is certain that the child never receives the whole request. While the request is in the queue, Undelivered
// waits for up to undeliveredWait.
func (w *LineWriter) Undelivered(id int64) bool {
	drained := w.Holds(id)
	if drained == nil {
		return false
	}
	select {
	case <-drained:
		return w.Holds(id) != nil
	case <-time.After(undeliveredWait):
		return false
	}
}

// Holds returns nil if the request is not in the queue, otherwise a channel that is closed when writing ends. A request of which only the
// newline is unwritten does not count, because a reader may accept it.
func (w *LineWriter) Holds(id int64) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.ContainsFunc(w.lines, func(l line) bool { return l.id == id && len(l.text) > 1 }) {
		return w.drained
	}
	return nil
}
