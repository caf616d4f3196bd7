package conn

import (
	"context"
	"testing"
	"time"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
)

// sleeper is a connection that counts its rests and wakes.
type sleeper struct {
	*fakeClient
	rests, wakes *int
}

// Rest implements mcp.Client. Rest and Wake run under the pool's lock.
func (c sleeper) Rest() bool { *c.rests++; return true }

// Wake implements mcp.Client.
func (c sleeper) Wake() { *c.wakes++ }

// A connection that is not used, held or watched rests once, and is woken before it is used again. A held one rests later.
func TestConnectionsRest(t *testing.T) {
	for name, tt := range map[string]struct {
		session string
		watched bool
		after   time.Duration // 0: never
	}{
		"no user": {"", false, suspendAfter},
		"held":    {"task", false, suspendHeldAfter},
		"watched": {"", true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inPool(t, Config{IdleTimeout: time.Hour}, func(t *testing.T, p *Pool, f *fakes) {
				var rests, wakes int
				counts := func() (int, int) {
					p.mu.Lock()
					defer p.mu.Unlock()
					return rests, wakes
				}
				p.SetWatched(func(user string) bool { return tt.watched && user == "ann" })
				connect := p.connect
				p.connect = func(ctx context.Context, s *registry.Server, user string) (mcp.Client, error) {
					c, err := connect(ctx, s, user)
					if err != nil {
						return nil, err
					}
					return sleeper{c.(*fakeClient), &rests, &wakes}, nil
				}
				use := Use{Server: server, User: "ann", Session: tt.session}
				l := acquire(t, p, use)
				<-time.After(2 * suspendHeldAfter) // a call may take long
				if r, w := counts(); r != 0 || w != 0 {
					t.Errorf("in use: %d rests, %d wakes", r, w)
				}
				l.Release()
				if tt.after == 0 {
					<-time.After(2 * suspendHeldAfter)
					if r, _ := counts(); r != 0 {
						t.Errorf("%d rests", r)
					}
					return
				}
				<-time.After(tt.after - time.Second)
				before, _ := counts()
				<-time.After(sweepInterval + time.Second)
				<-time.After(suspendHeldAfter)
				if after, w := counts(); before != 0 || after != 1 || w != 0 {
					t.Errorf("%d rests before, %d after, %d wakes", before, after, w)
				}
				p.Wake("bob")
				if _, w := counts(); w != 0 {
					t.Errorf("woken for another user")
				}
				acquire(t, p, use).Release()
				p.Wake("ann")
				if _, w := counts(); w != 1 || f.count() != 1 {
					t.Errorf("%d wakes of %d connections", w, f.count())
				}
			})
		})
	}
}
