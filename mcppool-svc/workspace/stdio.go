package workspace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mark3labs/mcp-go/server"
)

const (
	// maxMessageBytes bounds one message from the client; a call of these
	// tools is a few hundred bytes.
	maxMessageBytes = 1 << 20
	// writerGrace is how long a client that does not read may hold up the end.
	writerGrace = 2 * time.Second
)

// ServeStdio serves one client: JSON-RPC messages, one to a line, on in and
// out. It returns nil when in ends, after answering what was asked, or when ctx
// is done. A read that is then still blocked ends only when in is closed.
//
// It stands in for mcp-go's StdioServer, which keeps its session in a package
// variable (two servers in a process get each other's notifications), reads
// lines of any length, drops running calls at the end of its input, and may
// send progress behind the result it belongs to.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	id := fmt.Sprintf("stdio-%d", s.sessions.Add(1))
	session := server.NewInProcessSession(id, nil)
	if err := s.mcp.RegisterSession(ctx, session); err != nil {
		return fmt.Errorf("serve stdio: %w", err)
	}
	defer s.mcp.UnregisterSession(context.WithoutCancel(ctx), id)

	w := newStdioWriter(out, session.ClientNotifications())
	go w.run(stop)
	c := newStdioConn(s.mcp, w)
	err := c.serve(s.mcp.WithContext(ctx, session), in)
	c.calls.Wait()
	w.finish(ctx)
	if failed, ok := errors.AsType[*writeError](context.Cause(ctx)); ok {
		return failed
	}
	return err
}

// message is one line of the client's.
type message struct {
	line    []byte
	tooLong bool
}

// readMessages sends the lines of in until it ends or done is closed. The
// channel is closed at the end; the error, if any, is sent first.
func readMessages(in io.Reader, lines chan<- message, failed chan<- error, done <-chan struct{}) {
	defer close(lines)
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		m, err := readMessage(r)
		if len(m.line) > 0 || m.tooLong {
			select {
			case lines <- m:
			case <-done:
				return
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				failed <- err
			}
			return
		}
	}
}

// readMessage reads a line; of one that is too long it keeps nothing.
func readMessage(r *bufio.Reader) (message, error) {
	var m message
	for {
		part, err := r.ReadSlice('\n')
		if len(m.line)+len(part) > maxMessageBytes {
			m = message{tooLong: true}
		}
		if !m.tooLong {
			m.line = append(m.line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return m, err
		}
	}
}
