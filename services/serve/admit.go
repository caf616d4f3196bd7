package serve

import (
	linked "container/list"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of connections on which no valid credential has arrived yet. They are for the memory of a container of 1 GiB.
const (
	maxStrangers   = 256         // more close the oldest of them
	strangerTime   = time.Minute // from the connection's start
	strangerBytes  = 256 << 10   // that it may send, handshake and headers included
	maxConnections = 8192        // of all kinds; more are closed at once
	// strangerGrace is how long a connection that has sent strangerBytes waits for its credential to be checked: a client may send a large
	// request with its first call. Meanwhile nothing more is read.
	strangerGrace = 5 * time.Second
)

// Admit returns a listener that bounds the connections on which no valid credential has arrived: they are few, short, and send little.
// Trust lifts the bounds of a connection.
func Admit(lis net.Listener) net.Listener { return &admission{Listener: lis} }

type admission struct {
	net.Listener
	mu        sync.Mutex  // guards the following
	open      int         // connections
	strangers linked.List // *admitted without a valid credential so far, oldest first
}

// Accept implements net.Listener.
func (a *admission) Accept() (net.Conn, error) {
	for {
		conn, err := a.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := a.admit(conn); c != nil {
			return c, nil
		}
		_ = conn.Close() // there are too many
	}
}

// admit adds a connection, or returns nil if there are too many. If there are too many strangers, it closes the oldest one.
func (a *admission) admit(conn net.Conn) *admitted {
	c := &admitted{Conn: conn, from: a, decided: make(chan struct{})}
	oldest, ok := a.add(c)
	if !ok {
		return nil
	}
	if oldest != nil {
		_ = oldest.Close()
	}
	c.timer = time.AfterFunc(strangerTime, func() {
		if !c.trusted.Load() {
			_ = c.Close()
		}
	})
	return c
}

// add counts a connection, unless there are too many, and returns the oldest stranger if there are too many of them.
func (a *admission) add(c *admitted) (oldest *admitted, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open >= maxConnections {
		return nil, false
	}
	a.open++
	if a.strangers.Len() >= maxStrangers {
		oldest, _ = a.strangers.Front().Value.(*admitted)
	}
	c.entry = a.strangers.PushBack(c)
	return oldest, true
}

// admitted is a connection of an admission.
type admitted struct {
	net.Conn
	from     *admission
	entry    *linked.Element
	timer    *time.Timer
	trusted  atomic.Bool
	decided  chan struct{} // closed when the connection is trusted or closed
	decide   sync.Once
	received atomic.Int64 // bytes, until it is trusted
	closed   sync.Once
}

var errStranger = errors.New("the connection sent too much without a valid credential")

// Read implements net.Conn.
func (c *admitted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.trusted.Load() && c.received.Add(int64(n)) > strangerBytes {
		defer time.AfterFunc(strangerGrace, func() { c.decide.Do(func() { close(c.decided) }) }).Stop()
		if <-c.decided; !c.trusted.Load() {
			_ = c.Close()
			return 0, errStranger
		}
	}
	return n, err
}

// Close implements net.Conn.
func (c *admitted) Close() error {
	c.closed.Do(func() {
		c.timer.Stop()
		c.decide.Do(func() { close(c.decided) })
		c.from.mu.Lock()
		defer c.from.mu.Unlock()
		c.from.open--
		c.from.strangers.Remove(c.entry)
	})
	return c.Conn.Close()
}

// CloseWrite closes the direction to the client, for a TLS alert (lingeringConn).
func (c *admitted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// trust lifts the bounds.
func (c *admitted) trust() {
	if c.trusted.Load() || !c.trusted.CompareAndSwap(false, true) {
		return
	}
	c.decide.Do(func() { close(c.decided) })
	c.timer.Stop()
	c.from.mu.Lock()
	defer c.from.mu.Unlock()
	c.from.strangers.Remove(c.entry)
}

// LocalAddr implements net.Conn. The address leads Trust to the connection, also through TLS.
func (c *admitted) LocalAddr() net.Addr { return &admittedAddr{c.Conn.LocalAddr(), c} }

type admittedAddr struct {
	net.Addr
	conn *admitted
}

// Trust lifts the bounds of the connection that has the local address, because a valid credential arrived on it. It does nothing for
// connections that do not come from Admit.
func Trust(local net.Addr) {
	if addr, ok := local.(*admittedAddr); ok {
		addr.conn.trust()
	}
}
