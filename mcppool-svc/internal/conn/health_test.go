package conn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
)

// mortal is a connection whose probes answer according to life.
type mortal struct {
	*fakeClient
	life *life
}

// life is the state of a server, and counts its probes.
type life struct {
	mu     sync.Mutex
	state  string // guarded by mu; "" (it answers), "gone" (connections are refused) or "silent"
	probes int    // guarded by mu
}

func (l *life) become(state string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = state
}

func (l *life) asked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.probes
}

func (c mortal) Probe(ctx context.Context) error {
	c.life.mu.Lock()
	c.life.probes++
	state := c.life.state
	c.life.mu.Unlock()
	switch state {
	case "gone":
		return &mcp.Error{Kind: mcp.Unavailable, Message: "connection refused", Lost: true}
	case "silent":
		<-ctx.Done()
		return &mcp.Error{Kind: mcp.Interrupted, Message: ctx.Err().Error(), Err: ctx.Err()}
	}
	return nil
}

func withLives(t *testing.T, test func(t *testing.T, p *Pool, f *fakes, l *life)) {
	inPool(t, Config{IdleTimeout: time.Hour}, func(t *testing.T, p *Pool, f *fakes) {
		l, connect := &life{}, p.connect
		p.connect = func(ctx context.Context, s *registry.Server, user string) (mcp.Client, error) {
			c, err := connect(ctx, s, user)
			if err != nil {
				return nil, err
			}
			return mortal{c.(*fakeClient), l}, nil
		}
		test(t, p, f, l)
	})
}

// look probes the server, as a client's look at its state does, fails unless the state is want, and returns how long the probe took.
func look(t *testing.T, p *Pool, want State) time.Duration {
	t.Helper()
	start := time.Now()
	p.Probe(t.Context(), "ann", server)
	took := time.Since(start)
	if st := p.Status(server, "ann"); st.State != want {
		t.Errorf("state %v (%v), want %v", st.State, st.Err, want)
	}
	return took
}

// A server may die without closing a connection. A look shows it as failed, and since when.
func TestLookShowsDeadServer(t *testing.T) {
	withLives(t, func(t *testing.T, p *Pool, f *fakes, l *life) {
		acquire(t, p, Use{User: "ann"}).Release()
		made := time.Now()
		l.become("gone")
		look(t, p, Ready) // too new to be probed
		if st := p.Status(server, "ann"); l.asked() != 0 || !st.Since.Equal(made) {
			t.Errorf("%d probes; ready since %v", l.asked(), st.Since)
		}
		<-time.After(p.cfg.ProbeAfter)
		look(t, p, Failed)
		synctest.Wait()
		if st := p.Status(server, "ann"); st.Err == nil || !st.Since.Equal(made.Add(p.cfg.ProbeAfter)) || !f.made[0].isClosed() {
			t.Errorf("status %+v, closed %v", st, f.made[0].isClosed())
		}
		// The next connects fail too: it is the same failure.
		since := p.Status(server, "ann").Since
		f.set(&mcp.Error{Message: "connection refused"}, time.Second)
		if _, err := p.Acquire(t.Context(), Use{Server: server, User: "ann"}); err == nil {
			t.Error("connected")
		}
		if st := p.Status(server, "ann"); !st.Since.Equal(since) {
			t.Errorf("failed since %v, want %v", st.Since, since)
		}
		f.set(nil, 0)
		l.become("")
		<-time.After(retryAfter)
		acquire(t, p, Use{User: "ann"}).Release()
		look(t, p, Ready)
	})
}

// A silent server is shown as failed when its probe times out. No look waits that long, and looks at once share a probe.
func TestLookDoesNotWaitForSilentServer(t *testing.T) {
	withLives(t, func(t *testing.T, p *Pool, _ *fakes, l *life) {
		acquire(t, p, Use{User: "ann"}).Release()
		<-time.After(p.cfg.ProbeAfter)
		l.become("silent")
		var looks sync.WaitGroup
		for range 10 {
			looks.Go(func() {
				if took := look(t, p, Ready); took != stateTimeout {
					t.Errorf("the look took %v, want %v", took, stateTimeout)
				}
			})
		}
		looks.Wait()
		<-time.After(probeTimeout)
		synctest.Wait()
		if n := l.asked(); n != 1 {
			t.Errorf("%d probes", n)
		}
		look(t, p, Failed)
	})
}

// During a call silence is no failure, since the server may be busy. A refused connection is one, but running calls continue.
func TestProbesBesideCalls(t *testing.T) {
	withLives(t, func(t *testing.T, p *Pool, f *fakes, l *life) {
		lease := acquire(t, p, Use{User: "ann"})
		<-time.After(p.cfg.ProbeAfter)
		l.become("silent")
		look(t, p, Ready)
		<-time.After(probeTimeout)
		look(t, p, Ready)
		l.become("gone")
		<-time.After(probeTimeout)
		look(t, p, Failed)
		synctest.Wait()
		if f.made[0].isClosed() {
			t.Error("the connection was closed under a call")
		}
		lease.Release()
		synctest.Wait()
		if !f.made[0].isClosed() {
			t.Error("the connection stays open")
		}
	})
}

// A connection over which a call was not answered in time is probed before its state is shown.
func TestProbeAfterTimeout(t *testing.T) {
	withLives(t, func(t *testing.T, p *Pool, _ *fakes, l *life) {
		lease := acquire(t, p, Use{User: "ann"})
		l.become("gone")
		lease.Close(&mcp.Error{Kind: mcp.Interrupted})
		look(t, p, Failed)
	})
}

// With several connections a look shows the server as ready while any of them answers, also if the first is gone, and as failed
// once all are dead.
func TestLookAtSeveralConnections(t *testing.T) {
	for name, firstGoes := range map[string]bool{"the first went before": true, "all die": false} {
		for _, isolation := range []registry.Isolation{registry.PerUser, registry.PerTask} {
			t.Run(fmt.Sprint(name, ", isolation ", isolation), func(t *testing.T) {
				withLives(t, func(t *testing.T, p *Pool, _ *fakes, l *life) {
					p.cfg.Exclusive = func(*registry.Server) bool { return true }
					s := isolated(isolation)
					use := Use{Server: s, User: "ann", Session: "task", Call: true}
					leases := []*Lease{acquire(t, p, use), acquire(t, p, use), acquire(t, p, use)}
					if firstGoes {
						leases[0].Close(&mcp.Error{Lost: true, Message: "it hung"})
						leases = leases[1:]
					}
					for _, lease := range leases {
						lease.Release()
					}
					<-time.After(p.cfg.ProbeAfter)
					p.Probe(t.Context(), "ann", s)
					if st := p.Status(s, "ann"); st.State != Ready {
						t.Fatalf("while it answers: %+v", st)
					}
					l.become("gone")
					<-time.After(p.cfg.ProbeAfter)
					gone := time.Now()
					p.Probe(t.Context(), "ann", s)
					st := p.Status(s, "ann")
					if st.State != Failed || !st.Since.Equal(gone) || st.Err == nil || st.Err.Error() != "connection refused" {
						t.Errorf("gone since %v: %+v", gone, st)
					}
					if log := p.Log(s, "ann"); log.Connected || log.Err == nil {
						t.Errorf("log %+v", log)
					}
				})
			})
		}
	}
}

// The end of a connection marks the server as failed only if no other one is left.
func TestDeathOfSeveralConnections(t *testing.T) {
	inExclusive(t, Config{}, func(t *testing.T, p *Pool, f *fakes) {
		a, b, c := acquire(t, p, callUse("")), acquire(t, p, callUse("")), acquire(t, p, callUse(""))
		f.made[2].fail(errors.New("died alone"))
		synctest.Wait()
		a.Release()
		p.mu.Lock()
		p.retire(a.entry)
		p.finish(a.entry)
		p.mu.Unlock()
		if st := p.Status(server, "ann"); st.State != Ready || st.Err != nil {
			t.Errorf("one is left: %+v", st)
		}
		<-time.After(time.Second)
		f.made[1].fail(errors.New("died last"))
		synctest.Wait()
		if st := p.Status(server, "ann"); st.State != Failed || !st.Since.Equal(time.Now()) || st.Err.Error() != "died last" {
			t.Errorf("none is left: %+v", st)
		}
		b.Release()
		c.Release()
		// The failure delays no call, and the next connect clears it.
		acquire(t, p, callUse("")).Release()
		if st := p.Status(server, "ann"); st.State != Ready {
			t.Errorf("after the next connect: %+v", st)
		}
	})
}

// A later look connects again to a server over HTTP that failed; it does not start a program.
func TestLookShowsRecoveredServer(t *testing.T) {
	web := &registry.Server{UID: "web", ID: "web", HTTP: &registry.HTTP{URL: "http://127.0.0.1:1/mcp"}}
	program := &registry.Server{UID: "program", ID: "program", Stdio: &registry.Stdio{Command: "x"}}
	for s, want := range map[*registry.Server]State{web: Ready, program: Failed} {
		withLives(t, func(t *testing.T, p *Pool, f *fakes, _ *life) {
			f.set(&mcp.Error{Message: "connection refused"}, 0)
			if _, err := p.Acquire(t.Context(), Use{Server: s, User: "ann"}); err == nil {
				t.Fatal("connected")
			}
			f.set(nil, 0)
			seen := func() State {
				p.Probe(t.Context(), "ann", s)
				return p.Status(s, "ann").State
			}
			if got := seen(); got != Failed {
				t.Errorf("%s at end: %v", s.ID, got)
			}
			<-time.After(p.cfg.ProbeAfter)
			if got := seen(); got != want {
				t.Errorf("%s a while later: %v, want %v", s.ID, got, want)
			}
		})
	}
}
