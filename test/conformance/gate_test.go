package conformance

import (
	"context"
	"io"
	"net"
	"testing"

	"golang.org/x/sync/semaphore"
)

// gateVariable has the address at which a client waits for its turn: the suite starts all at once.
const gateVariable = "PAWL_CONFORMANCE_GATE"

// gate lets as many clients run at once as there are processors. A client that is judged by the clock runs alone.
type gate struct {
	addr  string
	room  *semaphore.Weighted
	width int64
}

func openGate(t *testing.T, width int) *gate {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lis.Close() })
	g := &gate{addr: lis.Addr().String(), room: semaphore.NewWeighted(int64(width)), width: int64(width)}
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			go g.admit(t.Context(), conn)
		}
	}()
	return g
}

// admit reads a byte, the room that a client needs, answers with one when it has it, and takes the room back when
// the client is gone.
func (g *gate) admit(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	wish := make([]byte, 1)
	if _, err := io.ReadFull(conn, wish); err != nil {
		return
	}
	weight := int64(1)
	if wish[0] == wishAlone {
		weight = g.width
	}
	if g.room.Acquire(ctx, weight) != nil {
		return
	}
	defer g.room.Release(weight)
	if _, err := conn.Write(wish); err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, conn)
}

// The requests of a client: to run among others, or alone.
const (
	wishAmong byte = 'a'
	wishAlone byte = 'o'
)

// enter waits for the client's turn, which lasts until the returned Closer is closed or the process ends.
func enter(addr string, alone bool) (io.Closer, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	wish := wishAmong
	if alone {
		wish = wishAlone
	}
	if _, err := conn.Write([]byte{wish}); err != nil {
		return nil, err
	}
	_, err = io.ReadFull(conn, make([]byte, 1))
	return conn, err
}
