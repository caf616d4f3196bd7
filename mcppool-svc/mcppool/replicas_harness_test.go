package mcppool

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"pawl.dev/mcppool-svc/internal/peer"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/identity"
)

// replicas are pools that know of each other, over a network that tests break.
type replicas struct {
	pools []*suite

	mu    sync.Mutex
	conns map[int]*grpc.ClientConn // guarded by mu; to each replica, with role service
	cut   map[[2]int]bool          // guarded by mu; by sender and receiver: nothing gets through
	stuck map[int]bool             // guarded by mu; replicas that do not answer
	hung  int                      // guarded by mu; writes pushed to a replica that does not answer
}

// startReplicas starts n replicas and waits until all reach each other. edit, unless nil, changes the settings of replica i.
func startReplicas(t *testing.T, n int, edit func(i int, cfg *Config, deps *Deps)) *replicas {
	t.Helper()
	r := beginReplicas(t, n, edit)
	r.settle(t)
	return r
}

// beginReplicas is startReplicas without the wait.
func beginReplicas(t *testing.T, n int, edit func(i int, cfg *Config, deps *Deps)) *replicas {
	t.Helper()
	r := &replicas{conns: map[int]*grpc.ClientConn{}, cut: map[[2]int]bool{}, stuck: map[int]bool{}}
	for i := range n {
		cfg, deps := Config{}, Deps{peerInterval: 20 * time.Millisecond}
		for j := range n {
			cfg.Peers = append(cfg.Peers, fmt.Sprintf("127.0.0.1:%d", j+1)) // itself too, as a DNS name of all replicas would
		}
		deps.dialPeer = func(_, addr string) (peer.Conn, error) {
			var to int
			_, err := fmt.Sscanf(addr, "127.0.0.1:%d", &to)
			return &wire{r: r, from: i, to: to - 1}, err
		}
		if edit != nil {
			edit(i, &cfg, &deps)
		}
		s := startWith(t, cfg, deps)
		r.mu.Lock()
		r.conns[i] = s.dial(s.keys.Ephemeral("svc", []identity.Role{identity.RoleService}))
		r.mu.Unlock()
		r.pools = append(r.pools, s)
	}
	return r
}

// settle returns when all reach each other.
func (r *replicas) settle(t *testing.T) {
	t.Helper()
	eventually(t, "the replicas do not find each other", func() bool {
		for _, p := range r.pools {
			up := 0
			for _, s := range p.peers.Status() {
				if s.Up {
					up++
				}
			}
			if up != len(r.pools)-1 {
				return false
			}
		}
		return true
	})
}

// setCut cuts one replica off from others, or connects it again.
func (r *replicas) setCut(one int, cut bool, others ...int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range others {
		r.cut[[2]int{one, o}], r.cut[[2]int{o, one}] = cut, cut
	}
}

func (r *replicas) setStuck(one int, stuck bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stuck[one] = stuck
}

// hungWrites counts the writes that were pushed to a replica that does not answer.
func (r *replicas) hungWrites() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hung
}

// wire is a connection from one replica to another.
type wire struct {
	r        *replicas
	from, to int
}

// Invoke implements grpc.ClientConnInterface.
func (w *wire) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	w.r.mu.Lock()
	conn, cut, stuck := w.r.conns[w.to], w.r.cut[[2]int{w.from, w.to}], w.r.stuck[w.to]
	w.r.mu.Unlock()
	switch {
	case stuck:
		if method == mcppoolv1.McpPoolPeerService_PushEntries_FullMethodName {
			w.r.mu.Lock()
			w.r.hung++
			w.r.mu.Unlock()
		}
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	case conn == nil || cut:
		return status.Error(codes.Unavailable, "cut")
	}
	return conn.Invoke(ctx, method, args, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (w *wire) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "no streams")
}

// Close implements peer.Conn.
func (w *wire) Close() error { return nil }

// eventually polls until done, and fails with failure after 20 s.
func eventually(t *testing.T, failure string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !done() {
		select {
		case <-look.C:
		case <-ctx.Done():
			t.Fatal(failure)
		}
	}
}

// lockedBuffer is a log that several replicas write.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

// Write implements io.Writer.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *lockedBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }
