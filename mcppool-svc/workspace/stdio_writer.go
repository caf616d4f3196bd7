package workspace

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// stdioWriter is the one goroutine that writes to a client. Notifications that
// were queued before an answer go out before it.
type stdioWriter struct {
	out     io.Writer
	notes   <-chan mcp.JSONRPCNotification
	answers chan mcp.JSONRPCMessage
	done    chan struct{}
	broken  bool // a write failed; what follows is dropped
}

// writeError is why a session ended whose client could not be written to.
type writeError struct{ err error }

func (e *writeError) Error() string {
	return fmt.Sprintf("serve stdio: write to the client: %v", e.err)
}
func (e *writeError) Unwrap() error { return e.err }

func newStdioWriter(out io.Writer, notes <-chan mcp.JSONRPCNotification) *stdioWriter {
	return &stdioWriter{out: out, notes: notes, answers: make(chan mcp.JSONRPCMessage), done: make(chan struct{})}
}

// run writes until finish; stop is called with the first failure.
func (w *stdioWriter) run(stop context.CancelCauseFunc) {
	defer close(w.done)
	for {
		select {
		case note := <-w.notes:
			w.write(note, stop)
		case answer, more := <-w.answers:
			w.drain(stop)
			if !more {
				return
			}
			w.write(answer, stop)
		}
	}
}

func (w *stdioWriter) drain(stop context.CancelCauseFunc) {
	for {
		select {
		case note := <-w.notes:
			w.write(note, stop)
		default:
			return
		}
	}
}

func (w *stdioWriter) write(m any, stop context.CancelCauseFunc) {
	if w.broken {
		return
	}
	line, err := json.Marshal(m)
	if err == nil {
		_, err = w.out.Write(append(line, '\n'))
	}
	if err != nil {
		w.broken = true
		stop(&writeError{err})
	}
}

// send hands an answer over, or gives it up when ctx is done.
func (w *stdioWriter) send(ctx context.Context, answer mcp.JSONRPCMessage) {
	select {
	case w.answers <- answer:
	case <-ctx.Done():
	}
}

// finish waits until everything is written: once ctx is done no longer than
// writerGrace, since a client that does not read would block it for ever.
func (w *stdioWriter) finish(ctx context.Context) {
	close(w.answers)
	select {
	case <-w.done:
		return
	case <-ctx.Done():
	}
	select {
	case <-w.done:
	case <-time.After(writerGrace):
	}
}
