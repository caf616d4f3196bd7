package conn

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/mcptest/mcpfake"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeClient is a connection without a server; fail and Close end it.
type fakeClient struct {
	mcpfake.Static
	server *registry.Server
	done   chan struct{}
	end    func() // closes done
	mu     sync.Mutex
	err    error
	closed bool
}

func newFakeClient(s *registry.Server) *fakeClient {
	c := &fakeClient{server: s, done: make(chan struct{})}
	c.end = sync.OnceFunc(func() { close(c.done) })
	return c
}

func (c *fakeClient) Info() mcp.Info                                       { return mcp.Info{Name: "fake", Protocol: "x"} }
func (c *fakeClient) ToolsVersion() uint64                                 { return 0 }
func (c *fakeClient) ListTools(context.Context) ([]json.RawMessage, error) { return nil, nil }
func (c *fakeClient) Done() <-chan struct{}                                { return c.done }
func (c *fakeClient) CallTool(context.Context, mcp.Call) (json.RawMessage, error) {
	return nil, nil
}

func (c *fakeClient) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *fakeClient) fail(err error) {
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
	c.end()
}

func (c *fakeClient) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.end()
	return nil
}

func (c *fakeClient) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// fakes makes connections and remembers them.
type fakes struct {
	mu    sync.Mutex
	made  []*fakeClient // nil for a failed connect
	fail  error         // of the next connects; nil: they succeed
	delay time.Duration // of the next connects
}

func (f *fakes) connect(ctx context.Context, s *registry.Server, _ string) (mcp.Client, error) {
	f.mu.Lock()
	delay, fail := f.delay, f.fail
	f.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return nil, &mcp.Error{Kind: mcp.Unavailable, Message: "gave up", Err: ctx.Err()}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if fail != nil {
		f.made = append(f.made, nil)
		return nil, fail
	}
	c := newFakeClient(s)
	f.made = append(f.made, c)
	return c, nil
}

func (f *fakes) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.made)
}

func (f *fakes) set(fail error, delay time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail, f.delay = fail, delay
}

var server = &registry.Server{UID: "uid-1", ID: "one", Stdio: &registry.Stdio{Command: "x"}}

// inPool runs a test on virtual time with a pool whose background work runs too.
func inPool(t *testing.T, cfg Config, test func(t *testing.T, p *Pool, f *fakes)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{}
		p := New(cfg, f.connect, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan struct{})
		go func() { defer close(ran); p.Run(ctx) }()
		test(t, p, f)
		cancel()
		<-ran
		p.Close()
		for i, c := range f.made {
			if c != nil && !c.isClosed() {
				t.Errorf("connection %d is open after Close", i)
			}
		}
	})
}

func acquire(t *testing.T, p *Pool, use Use) *Lease {
	t.Helper()
	if use.Server == nil {
		use.Server = server
	}
	l, err := p.Acquire(t.Context(), use)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func fakeOf(l *Lease) *fakeClient { return l.Client().(*fakeClient) }

func TestUsersNeverShareAConnection(t *testing.T) {
	inPool(t, Config{}, func(t *testing.T, p *Pool, _ *fakes) {
		a, b := acquire(t, p, Use{User: "ann"}), acquire(t, p, Use{User: "bob"})
		again := acquire(t, p, Use{User: "ann"})
		if a.Client() == b.Client() {
			t.Error("two users share a connection")
		}
		if a.Client() != again.Client() {
			t.Error("one user has two connections to one server")
		}
		a.Release()
		b.Release()
		again.Release()
	})
}

func TestConcurrentCallersShareOneConnect(t *testing.T) {
	inPool(t, Config{}, func(t *testing.T, p *Pool, f *fakes) {
		f.set(nil, time.Second)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { acquire(t, p, Use{User: "ann"}).Release() })
		}
		wg.Wait()
		if n := f.count(); n != 1 {
			t.Errorf("%d connects", n)
		}
	})
}

func TestOneCallersPatienceIsItsOwn(t *testing.T) {
	inPool(t, Config{}, func(t *testing.T, p *Pool, f *fakes) {
		f.set(nil, 5*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := p.Acquire(ctx, Use{Server: server, User: "ann"})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v", err)
		}
		acquire(t, p, Use{User: "ann"}).Release()
		if n := f.count(); n != 1 {
			t.Errorf("%d connects; the attempt should have gone on", n)
		}
	})
}

// A23: the pool is reference-counted; one session's end never closes a connection that another uses.
func TestA23SessionsHoldConnections(t *testing.T) {
	inPool(t, Config{IdleTimeout: time.Minute}, func(t *testing.T, p *Pool, f *fakes) {
		for _, session := range []string{"task-1", "task-2"} {
			acquire(t, p, Use{User: "ann", Session: session}).Release()
		}
		acquire(t, p, Use{User: "bob", Session: "task-1"}).Release()
		anns := f.made[0]
		if n := p.ReleaseSession("ann", "task-1"); n != 1 {
			t.Errorf("released %d", n)
		}
		if n := p.ReleaseSession("ann", "task-1"); n != 0 {
			t.Errorf("released %d the second time", n)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if anns.isClosed() {
			t.Fatal("the end of one session closed the connection of another")
		}
		if f.made[1].isClosed() {
			t.Fatal("one user released another's session")
		}
		p.ReleaseSession("ann", "task-2")
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if anns.isClosed() {
			t.Error("closed before the idle timeout")
		}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if !anns.isClosed() {
			t.Error("not closed after the idle timeout")
		}
	})
}

func TestCallsHoldConnections(t *testing.T) {
	inPool(t, Config{IdleTimeout: time.Minute}, func(t *testing.T, p *Pool, f *fakes) {
		l := acquire(t, p, Use{User: "ann"})
		time.Sleep(time.Hour)
		synctest.Wait()
		if f.made[0].isClosed() {
			t.Fatal("closed under a running call")
		}
		l.Release()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if !f.made[0].isClosed() {
			t.Error("not closed when idle")
		}
	})
}

func TestForgottenSessionsEnd(t *testing.T) {
	inPool(t, Config{IdleTimeout: time.Minute, SessionTimeout: 10 * time.Minute}, func(t *testing.T, p *Pool, f *fakes) {
		acquire(t, p, Use{User: "ann", Session: "task-1"}).Release()
		time.Sleep(9 * time.Minute)
		synctest.Wait()
		if f.made[0].isClosed() {
			t.Fatal("closed while the session was held")
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if !f.made[0].isClosed() {
			t.Error("a session that was never released holds its connection for ever")
		}
	})
}

// C2: calls in flight finish on the old configuration, new ones use the new.
func TestC2ReplacedConfiguration(t *testing.T) {
	inPool(t, Config{}, func(t *testing.T, p *Pool, f *fakes) {
		old := acquire(t, p, Use{User: "ann", Session: "task-1"})
		changed := server.Clone()
		changed.Stdio.Command = "y"
		p.Retire(server.UID, changed.Revision())
		synctest.Wait()
		if fakeOf(old).isClosed() {
			t.Fatal("closed under a running call")
		}
		fresh := acquire(t, p, Use{Server: changed, User: "ann"})
		if fakeOf(fresh).server.Stdio.Command != "y" {
			t.Error("a new call uses the old configuration")
		}
		p.Retire(server.UID, changed.Revision())
		old.Release()
		synctest.Wait()
		if !fakeOf(old).isClosed() {
			t.Error("the old connection outlived its last call")
		}
		if fakeOf(fresh).isClosed() {
			t.Error("the new connection was closed")
		}
		fresh.Release()
	})
}

func TestRetireUser(t *testing.T) {
	inPool(t, Config{}, func(t *testing.T, p *Pool, f *fakes) {
		acquire(t, p, Use{User: "ann"}).Release()
		acquire(t, p, Use{User: "bob"}).Release()
		p.RetireUser(server.UID, "ann")
		synctest.Wait()
		if !f.made[0].isClosed() || f.made[1].isClosed() {
			t.Errorf("closed: ann %v, bob %v", f.made[0].isClosed(), f.made[1].isClosed())
		}
	})
}

func TestFailedConnectIsNotRepeatedInAHotLoop(t *testing.T) {
	inPool(t, Config{}, func(t *testing.T, p *Pool, f *fakes) {
		f.set(&mcp.Error{Message: "no such program"}, 0)
		for range 10 {
			if _, err := p.Acquire(t.Context(), Use{Server: server, User: "ann"}); err == nil || !strings.Contains(err.Error(), "no such program") {
				t.Fatalf("error = %v", err)
			}
		}
		if n := f.count(); n != 1 {
			t.Errorf("%d connects within a second", n)
		}
		if st := p.Status(server, "ann"); st.State != Failed || st.Err == nil {
			t.Errorf("status = %+v", st)
		}
		// Another configuration is tried at once.
		changed := server.Clone()
		changed.Stdio.Command = "y"
		f.set(nil, 0)
		acquire(t, p, Use{Server: changed, User: "ann"}).Release()

		time.Sleep(retryAfter)
		acquire(t, p, Use{User: "ann"}).Release()
		if st := p.Status(server, "ann"); st.State != Ready || st.Err != nil {
			t.Errorf("status = %+v", st)
		}
	})
}

func TestDeadConnectionIsReplaced(t *testing.T) {
	inPool(t, Config{}, func(t *testing.T, p *Pool, f *fakes) {
		l := acquire(t, p, Use{User: "ann", Session: "task-1"})
		fakeOf(l).fail(errors.New("exit status 7"))
		l.Release()
		synctest.Wait()
		if st := p.Status(server, "ann"); st.State != Failed || st.Err == nil || st.Err.Error() != "exit status 7" {
			t.Errorf("status = %+v", st)
		}
		if !f.made[0].isClosed() {
			t.Error("a dead connection was not closed")
		}
		again := acquire(t, p, Use{User: "ann", Session: "task-1"})
		if again.Client() == l.Client() {
			t.Error("a dead connection was handed out")
		}
		again.Release()
	})
}

func TestServerThatDiesEachTimeIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		p := New(Config{}, func(context.Context, *registry.Server, string) (mcp.Client, error) {
			n++
			c := newFakeClient(server)
			c.fail(errors.New("exit status 7"))
			return c, nil
		}, slog.New(slog.DiscardHandler))
		if _, err := p.Acquire(t.Context(), Use{Server: server, User: "ann"}); err == nil || err.Error() != "exit status 7" {
			t.Errorf("error = %v", err)
		}
		if n != 2 {
			t.Errorf("%d connects", n)
		}
		p.Close()
	})
}

func TestCloseAfterLoss(t *testing.T) {
	inPool(t, Config{}, func(t *testing.T, p *Pool, f *fakes) {
		a, b := acquire(t, p, Use{User: "ann"}), acquire(t, p, Use{User: "ann"})
		a.Close(&mcp.Error{Lost: true, Message: "session lost"})
		synctest.Wait()
		if f.made[0].isClosed() {
			t.Error("closed under another call")
		}
		c := acquire(t, p, Use{User: "ann"})
		if c.Client() == b.Client() {
			t.Error("a discarded connection was handed out")
		}
		b.Release()
		c.Release()
		synctest.Wait()
		if !f.made[0].isClosed() || f.made[1].isClosed() {
			t.Error("the wrong connection was closed")
		}
	})
}

func TestLimits(t *testing.T) {
	inPool(t, Config{MaxConnections: 3, MaxPerUser: 2}, func(t *testing.T, p *Pool, f *fakes) {
		numbered := func(id string) *registry.Server {
			return &registry.Server{UID: id, ID: id, Stdio: &registry.Stdio{Command: "x"}}
		}
		a1 := acquire(t, p, Use{Server: numbered("s1"), User: "ann"})
		a2 := acquire(t, p, Use{Server: numbered("s2"), User: "ann"})
		_, err := p.Acquire(t.Context(), Use{Server: numbered("s3"), User: "ann"})
		if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED || !strings.Contains(err.Error(), "you have 2") {
			t.Errorf("error = %v", err)
		}
		b1 := acquire(t, p, Use{Server: numbered("s1"), User: "bob"})
		_, err = p.Acquire(t.Context(), Use{Server: numbered("s2"), User: "bob"})
		if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED || !strings.Contains(err.Error(), "the pool has 3") {
			t.Errorf("error = %v", err)
		}
		// An idle connection is closed to make room.
		a1.Release()
		b2 := acquire(t, p, Use{Server: numbered("s2"), User: "bob"})
		synctest.Wait()
		if !f.made[0].isClosed() {
			t.Error("the idle connection was not closed")
		}
		for _, l := range []*Lease{a2, b1, b2} {
			l.Release()
		}
	})
}

func TestCloseEndsConnectsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{delay: time.Hour}
		p := New(Config{}, f.connect, slog.New(slog.DiscardHandler))
		failed := make(chan error)
		go func() {
			_, err := p.Acquire(t.Context(), Use{Server: server, User: "ann"})
			failed <- err
		}()
		synctest.Wait()
		if st := p.Status(server, "ann"); st.State != Connecting {
			t.Errorf("status = %+v", st)
		}
		go p.Close()
		if err := <-failed; err == nil {
			t.Error("connected after Close")
		}
		synctest.Wait()
		if _, err := p.Acquire(t.Context(), Use{Server: server, User: "ann"}); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN {
			t.Errorf("error = %v", err)
		}
	})
}
