package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/identity"
	"pawl.dev/services/inproc"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// releasing is a pool that records how it learns that sessions have ended.
type releasing struct {
	counting
	promptly string // server whose sessions are to be released at once
	broken   bool   // the stream of the next call breaks
	by       []string
	acks     []string
}

func (p *releasing) note(by, user, session string, acks []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.by, p.acks = append(p.by, by+" "+user+" "+session), append(p.acks, acks...)
}

func (p *releasing) heard() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	by := p.by
	p.by = nil
	return by
}

func (p *releasing) ListTools(_ context.Context, r *mcppoolv1.ListToolsRequest) (*mcppoolv1.ListToolsResponse, error) {
	return &mcppoolv1.ListToolsResponse{PoolId: "p1", LateRelease: r.GetMcpId() != p.promptly}, nil
}

func (p *releasing) CallTools(s callsStream) error {
	return p.counting.CallTools(&overheard{s, p})
}

func (p *releasing) AckCall(ctx context.Context, r *mcppoolv1.AckCallRequest) (*mcppoolv1.AckCallResponse, error) {
	who, err := identity.FromContext(ctx)
	p.note("request", who.Sub, "", r.GetCallIds())
	return &mcppoolv1.AckCallResponse{}, err
}

func (p *releasing) ReleaseSession(ctx context.Context, r *mcppoolv1.ReleaseSessionRequest) (*mcppoolv1.ReleaseSessionResponse, error) {
	who, err := identity.FromContext(ctx)
	p.note("request", who.Sub, r.GetSessionId(), r.GetAckCallIds())
	return &mcppoolv1.ReleaseSessionResponse{}, err
}

type overheard struct {
	callsStream
	p *releasing
}

func (o *overheard) Recv() (*mcppoolv1.CallToolsRequest, error) {
	req, err := o.callsStream.Recv()
	if err != nil {
		return req, err
	}
	if o.p.broken {
		o.p.broken = false
		return nil, errors.New("the stream broke")
	}
	acks := req.GetCall().GetAckCallIds()
	for _, id := range req.GetEndedSessionIds() {
		who, _ := identity.FromContext(o.Context())
		o.p.note("call", who.Sub, id, acks)
		acks = nil
	}
	return req, nil
}

// runTask runs a task that lists its tools, makes a call and ends.
func runTask(ctx context.Context, t *testing.T, r *Runner, id, user string, servers ...string) {
	t.Helper()
	head := &storagev1.TaskHead{UserSub: user, McpIds: servers}
	st := &storagev1.ActiveStep{Ordinal: 1, Attempt: 1, ToolId: "t/write", InputJson: "{}", PoolId: "p1"}
	s := r.Session(id, 1, head, Memory{})
	ctx = s.AsUser(ctx)
	if _, err := s.toolset(ctx); err != nil {
		t.Fatal(err)
	}
	task := &flow.Task{ID: id, Head: head, State: &storagev1.Checkpoint{Lanes: []*storagev1.Lane{{Step: st}}}, Now: time.Now()}
	s.callTool(ctx, task, 0, st, 1, nil)(ctx, func(flow.Input) { s.Recorded(ctx, flow.Called{Ordinal: 1, Attempt: 1}) })
	s.Leave(ctx, true)
}

func heardBy(t *testing.T, p *releasing, what string, want ...string) {
	t.Helper()
	if got := p.heard(); !reflect.DeepEqual(got, want) {
		t.Errorf("%s: the pool heard %q, want %q", what, got, want)
	}
}

// service authenticates every caller as a service, which may act for all users.
type service struct{}

func (service) Authenticate(context.Context, string) (identity.Principal, error) {
	return identity.Principal{Sub: "executor", Roles: []identity.Role{identity.RoleService}}, nil
}

func releasingRunner(t *testing.T) (*releasing, *Runner) {
	t.Helper()
	p := &releasing{}
	unary, stream, err := serve.Interceptors(serve.Options{Auth: service{}})
	if err != nil {
		t.Fatal(err)
	}
	conn := inproc.New(unary, stream)
	mcppoolv1.RegisterMcpPoolServiceServer(conn, p)
	return p, New(Config{}, nil, mcppoolv1.NewMcpPoolServiceClient(conn), slog.New(slog.DiscardHandler))
}

// A23: the release of a session is sent with its user's next call; within a second if there is none; or when the runner is closed.
func TestReleasesGoWithCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := releasingRunner(t)
		ctx := t.Context()
		runTask(ctx, t, r, "one", "ann", "t")
		heardBy(t, p, "at its end")
		runTask(ctx, t, r, "two", "bob", "t")
		heardBy(t, p, "a call of another user")
		runTask(ctx, t, r, "three", "ann", "t", "u")
		heardBy(t, p, "a call of the same user", "call ann one")
		<-time.After(time.Second)
		got := p.heard()
		if len(got) != 2 || got[0] == got[1] {
			t.Errorf("after a second: the pool heard %q", got)
		}
		runTask(ctx, t, r, "four", "ann", "t")
		heardBy(t, p, "a call after all releases")
		r.Close()
		heardBy(t, p, "at the runner's end", "request ann four")
		runTask(ctx, t, r, "five", "ann", "t")
		heardBy(t, p, "after the runner's end", "request ann five")
		if want := 5; len(p.acks) != want {
			t.Errorf("%d results are acknowledged, want %d: %q", len(p.acks), want, p.acks)
		}
		r.Close() // the streams of five
	})
}

// A session is released at once if one of its servers does not allow a delayed release.
func TestPromptRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := releasingRunner(t)
		defer r.Close()
		p.promptly = "u"
		runTask(t.Context(), t, r, "one", "ann", "t", "u")
		heardBy(t, p, "at its end", "request ann one")
	})
}

// A call that fails may not have reached the pool: the releases that it carried are sent again.
func TestReleasesSurviveLostCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := releasingRunner(t)
		defer r.Close()
		runTask(t.Context(), t, r, "one", "ann", "t")
		p.broken = true
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		runTask(ctx, t, r, "two", "ann", "t")
		<-time.After(time.Second)
		heardBy(t, p, "in the end", "request ann one", "request ann two")
	})
}

// The queue of releases is bounded, and no call carries more than the pool accepts.
func TestReleasesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := releasingRunner(t)
		for i := range maxReleases + 1 {
			r.releaseLater(t.Context(), []release{{user: "ann", session: fmt.Sprint(i), acks: make([]string, 30)}})
		}
		heardBy(t, p, "beyond the limit", fmt.Sprintf("request ann %d", maxReleases))
		for acks, want := range map[int]int{0: 33, 500: 16, 999: 0} {
			if got := r.releases.take("ann", acks); len(got) != want {
				t.Errorf("beside %d acknowledgements %d go with a call, want %d", acks, len(got), want)
			}
		}
		r.Close()
		var few releaseQueue
		for range 2 * maxReleasesPerCall {
			few.add(release{user: "ann"}, func() {})
		}
		if got := few.take("ann", 0); len(got) != maxReleasesPerCall {
			t.Errorf("%d go with a call, want %d", len(got), maxReleasesPerCall)
		}
	})
}

// Issue 13, results: a large result is acknowledged as soon as it is durable, because the pool keeps it until then.
func TestLargeResultsAreAcknowledgedAtOnce(t *testing.T) {
	p, r := releasingRunner(t)
	s := r.Session("one", 1, &storagev1.TaskHead{UserSub: "ann"}, Memory{})
	ctx := s.AsUser(t.Context())
	s.Recorded(ctx, flow.Called{Ordinal: 1, Attempt: 1, Output: "small"})
	heardBy(t, p, "after a small result")
	s.Recorded(ctx, flow.Called{Ordinal: 2, Attempt: 1, Output: strings.Repeat("x", largeOutput)})
	heardBy(t, p, "after a large result", "request ann ")
	if want := []string{"one/step-1/1", "one/step-2/1"}; !reflect.DeepEqual(p.acks, want) {
		t.Errorf("acknowledged %q, want %q", p.acks, want)
	}
}
