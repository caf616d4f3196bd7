package serve

import (
	linked "container/list"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

// strangerGrace is how long a connection that has sent Limits.AnonymousBytes waits for its credential to be checked: a client may send a large
// request with its first call. Meanwhile nothing more is read.
const strangerGrace = 5 * time.Second

// Admit returns a listener that bounds its connections. Those on which no valid credential has arrived are few, short, and send little; Trust lifts
// these bounds of a connection. The metric pawl.connections.used shows the connections under the listener's name.
func Admit(lis net.Listener, name string, limits Limits) net.Listener {
	a := &admission{Listener: lis, limits: limits.WithDefaults(), networks: map[netip.Prefix]int{}, users: map[string]int{}}
	count := func(of func() int) func() int64 {
		return func() int64 {
			a.mu.Lock()
			defer a.mu.Unlock()
			return int64(of())
		}
	}
	for kind, of := range map[string]func() int{"client": func() int { return a.open }, "anonymous": func() int { return a.strangers.Len() }} {
		attrs := []attribute.KeyValue{attribute.String("listener", name), attribute.String("kind", kind)}
		observe("pawl.connections.used", "", "Connections that are open now: of clients, and those of them without a valid credential so far.", count(of), attrs...)
	}
	return a
}

type admission struct {
	net.Listener
	limits    Limits
	mu        sync.Mutex           // guards the following
	open      int                  // connections
	strangers linked.List          // *admitted without a valid credential so far, oldest first
	networks  map[netip.Prefix]int // strangers by network
	users     map[string]int       // trusted connections by user
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

// admit adds a connection, or returns nil if there are too many. If there are too many strangers, it closes one.
func (a *admission) admit(conn net.Conn) *admitted {
	c := &admitted{Conn: conn, from: a, network: networkOf(conn.RemoteAddr()), decided: make(chan struct{})}
	excess, ok := a.add(c)
	if !ok {
		return nil
	}
	if excess != nil {
		_ = excess.Close()
	}
	c.timer = time.AfterFunc(a.limits.AnonymousTime, func() {
		if !c.trusted.Load() {
			_ = c.Close()
		}
	})
	return c
}

// networkOf returns the address of a client, of IPv6 the /64 that one host usually has; the zero value for addresses that are not of TCP.
func networkOf(addr net.Addr) netip.Prefix {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip, bits := tcp.AddrPort().Addr().Unmap(), 64
	if ip.Is4() {
		bits = 32
	}
	network, _ := ip.Prefix(bits) // fails only for an invalid address
	return network
}

// add counts a connection, unless there are too many. If there are too many strangers, it returns the oldest one of the network that has the most
// of them, so that a client that reconnects all the time ends its own connections and not those of others.
func (a *admission) add(c *admitted) (excess *admitted, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open >= a.limits.ClientConnections {
		return nil, false
	}
	a.open++
	c.entry = a.strangers.PushBack(c)
	a.networks[c.network]++
	if a.strangers.Len() <= a.limits.AnonymousConnections {
		return nil, true
	}
	most := 0
	for _, n := range a.networks {
		most = max(most, n)
	}
	for e := a.strangers.Front(); ; e = e.Next() {
		if excess = e.Value.(*admitted); a.networks[excess.network] == most { //nolint:forcetypeassert // the list holds nothing else
			return excess, true
		}
	}
}

// forget removes a connection from the strangers. The caller holds mu.
func (a *admission) forget(c *admitted) {
	a.strangers.Remove(c.entry)
	c.entry = nil
	less(a.networks, c.network)
}

// less counts a connection of key less. The caller holds mu.
func less[K comparable](of map[K]int, key K) {
	if of[key]--; of[key] == 0 {
		delete(of, key)
	}
}

// admitted is a connection of an admission.
type admitted struct {
	net.Conn
	from     *admission
	network  netip.Prefix
	entry    *linked.Element // in from.strangers; nil once it is trusted or closed. Guarded by from.mu
	user     string          // whose connection it is, once it is trusted; "" for services. Guarded by from.mu
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
	if !c.trusted.Load() && c.received.Add(int64(n)) > c.from.limits.AnonymousBytes {
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
		if c.entry != nil {
			c.from.forget(c)
		} else {
			less(c.from.users, c.user)
		}
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

// trust lifts the bounds, unless the user has too many connections.
func (c *admitted) trust(user string) error {
	if c.trusted.Load() {
		return nil
	}
	c.from.mu.Lock()
	defer c.from.mu.Unlock()
	if c.entry == nil {
		return nil
	}
	if user != "" && c.from.users[user] >= c.from.limits.UserConnections {
		return errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED,
			"you have %d connections, the most that a user may have; close some, or use one for several calls; an operator can raise the bound with --user-connections",
			c.from.limits.UserConnections).WithRetryAfter(retryAfter)
	}
	c.user = user
	c.from.users[user]++
	c.trusted.Store(true)
	c.decide.Do(func() { close(c.decided) })
	c.timer.Stop()
	c.from.forget(c)
	return nil
}

// LocalAddr implements net.Conn. The address leads Trust to the connection, also through TLS.
func (c *admitted) LocalAddr() net.Addr { return &admittedAddr{c.Conn.LocalAddr(), c} }

type admittedAddr struct {
	net.Addr
	conn *admitted
}

// Trust lifts the bounds of the connection that has the local address, because a valid credential of the user arrived on it; "" stands for
// services. It does nothing for connections that do not come from Admit. The error says that the user has too many connections.
func Trust(local net.Addr, user string) error {
	if addr, ok := local.(*admittedAddr); ok {
		return addr.conn.trust(user)
	}
	return nil
}
