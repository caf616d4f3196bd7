package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/inproc"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// counting is a pool that ends each call with an empty result, and counts its streams and how they ended.
type counting struct {
	mcppoolv1.UnimplementedMcpPoolServiceServer
	mu                      sync.Mutex
	opened, closed, dropped int
	calls                   int
	released                []string
}

func (p *counting) CallTools(s callsStream) error {
	p.count(&p.opened)
	for {
		if _, err := s.Recv(); errors.Is(err, io.EOF) {
			p.count(&p.closed)
			return nil
		} else if err != nil {
			p.count(&p.dropped)
			return err
		}
		p.count(&p.calls)
		end := &mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Result{Result: &mcppoolv1.CallResult{}}}
		if err := s.Send(&mcppoolv1.CallToolsResponse{Event: &mcppoolv1.CallToolsResponse_Call{Call: end}}); err != nil {
			return err
		}
	}
}

func (p *counting) ReleaseSession(_ context.Context, r *mcppoolv1.ReleaseSessionRequest) (*mcppoolv1.ReleaseSessionResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.released = append(p.released, r.GetSessionId())
	return &mcppoolv1.ReleaseSessionResponse{}, nil
}

func (p *counting) count(n *int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*n++
}

func (p *counting) streams() [3]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return [3]int{p.opened, p.closed, p.dropped}
}

func runnerOf(p *counting) *Runner {
	conn := inproc.New(nil, nil)
	mcppoolv1.RegisterMcpPoolServiceServer(conn, p)
	return New(Config{}, nil, mcppoolv1.NewMcpPoolServiceClient(conn), slog.New(slog.DiscardHandler))
}

// makeCall makes a call of a task in ctx, and returns the task's session.
func makeCall(ctx context.Context, t *testing.T, r *Runner, id, user, pool string) *Session {
	t.Helper()
	head := &storagev1.TaskHead{UserSub: user}
	st := &storagev1.ActiveStep{Ordinal: 1, Attempt: 1, ToolId: "t/write", InputJson: "{}", PoolId: pool}
	task := &flow.Task{ID: id, Head: head, State: &storagev1.Checkpoint{Lanes: []*storagev1.Lane{{Step: st}}}, Now: time.Now()}
	s := r.Session(id, 1, head, Memory{})
	s.callTool(ctx, task, 0, st, 1, nil)(ctx, func(in flow.Input) {
		if c, ok := in.(flow.Called); !ok || c.Err != nil {
			t.Errorf("%s: got %+v", id, in)
		}
	})
	return s
}

// Tasks use the same stream one after another, also if the context of the first has ended. A task of another user or pool does not.
func TestStreamsAreReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &counting{}
		r := runnerOf(p)
		for _, id := range []string{"one", "two", "three"} {
			ctx, end := context.WithCancel(t.Context())
			s := makeCall(ctx, t, r, id, "ann", "p1")
			end()
			s.Leave(t.Context(), true)
		}
		if got := p.streams(); got != [3]int{1, 0, 0} {
			t.Errorf("streams opened, closed, dropped: %v", got)
		}
		makeCall(t.Context(), t, r, "four", "bob", "p1").Leave(t.Context(), false)
		makeCall(t.Context(), t, r, "five", "ann", "p2").Leave(t.Context(), false)
		if got := p.streams(); got != [3]int{3, 0, 0} {
			t.Errorf("streams of other users and pools: %v", got)
		}
		if len(p.released) != 3 {
			t.Errorf("A23: released %v", p.released)
		}
		<-time.After(2 * streamIdle)
		synctest.Wait()
		if got := p.streams(); got != [3]int{3, 3, 0} {
			t.Errorf("after a while without a task: %v", got)
		}
		makeCall(t.Context(), t, r, "six", "ann", "p1").Leave(t.Context(), false)
		r.Close()
		synctest.Wait()
		if got := p.streams(); got != [3]int{4, 3, 1} {
			t.Errorf("after the end of the runner: %v", got)
		}
		makeCall(t.Context(), t, r, "seven", "ann", "p1").Leave(t.Context(), false)
		synctest.Wait()
		if got := p.streams(); got != [3]int{5, 3, 2} {
			t.Errorf("a stream is kept after the end of the runner: %v", got)
		}
	})
}

// At most maxIdleStreams idle streams are kept.
func TestIdleStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &counting{}
		r := runnerOf(p)
		defer r.Close()
		for i := range maxIdleStreams + 3 {
			makeCall(t.Context(), t, r, "one", fmt.Sprint("user", i), "p1").Leave(t.Context(), false)
		}
		synctest.Wait()
		if got := p.streams(); got != [3]int{maxIdleStreams + 3, 0, 3} {
			t.Errorf("streams opened, closed, dropped: %v", got)
		}
	})
}

// A call whose context ended before it began is not sent.
func TestGivenUpBeforeItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &counting{}
		r := runnerOf(p)
		defer r.Close()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		head := &storagev1.TaskHead{UserSub: "ann"}
		st := &storagev1.ActiveStep{Ordinal: 1, Attempt: 1, ToolId: "t/write", InputJson: "{}", PoolId: "p"}
		task := &flow.Task{ID: "t", Head: head, State: &storagev1.Checkpoint{Lanes: []*storagev1.Lane{{Step: st}}}, Now: time.Now()}
		for range 50 {
			s := r.Session("t", 1, head, Memory{})
			s.callTool(gone, task, 0, st, 1, nil)(gone, func(in flow.Input) {
				if c, ok := in.(flow.Called); !ok || c.Outcome != commonv1.Outcome_OUTCOME_UNKNOWN { // the next owner asks the pool
					t.Errorf("got %+v", in)
				}
			})
			s.Leave(t.Context(), false)
		}
		synctest.Wait()
		if got := p.streams(); got != [3]int{} || p.calls != 0 {
			t.Errorf("streams opened, closed, dropped: %v; %d calls", got, p.calls)
		}
	})
}
