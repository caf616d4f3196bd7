package mcppool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/services/errs"
)

type client = mcppoolv1.McpPoolServiceClient

// requestHash computes the contract's request_hash for a call to server `fake`, independently of the pool.
func requestHash(name, input string) string {
	sum := sha256.Sum256([]byte("fake\x00" + name + "\x00" + input))
	return hex.EncodeToString(sum[:])
}

// attach follows a call with AttachCall to its end.
func attach(ctx context.Context, c client, req *mcppoolv1.AttachCallRequest) reply {
	stream, err := c.AttachCall(ctx, req)
	if err != nil {
		return reply{err: err}
	}
	var o reply
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return o
		}
		if err != nil {
			o.err = err
			return o
		}
		switch e := m.GetEvent().(type) {
		case *mcppoolv1.AttachCallResponse_Result:
			o.result = e.Result
		case *mcppoolv1.AttachCallResponse_Progress:
			o.events = append(o.events, &mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Progress{Progress: e.Progress}})
		case *mcppoolv1.AttachCallResponse_Log:
			o.events = append(o.events, &mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Log{Log: e.Log}})
		}
	}
}

// attachTo attaches to a call of a tool without input.
func attachTo(t *testing.T, c client, tool, id string) reply {
	t.Helper()
	return attach(t.Context(), c, &mcppoolv1.AttachCallRequest{CallId: id, RequestHash: requestHash(tool, "{}")})
}

// startFake starts a pool with the good fake server as `fake`.
func startFake(t *testing.T, cfg Config) *suite {
	t.Helper()
	cfg.MCPConfigs = []string{fakeConfig(t, map[string]string{"fake": mcptest.Good})}
	return start(t, cfg)
}

func text(t *testing.T, c client, tool string) string {
	t.Helper()
	return textIn(t, c, "", tool)
}

func (o reply) want(t *testing.T, code codes.Code, reason, outcome string) {
	t.Helper()
	if status.Code(o.err) != code || o.reason() != reason || o.outcome() != outcome {
		t.Errorf("got %v %s %s (%v), want %v %s %s", status.Code(o.err), o.reason(), o.outcome(), o.err, code, reason, outcome)
	}
}

// DESIGN 4: the executor dies during a call. The call continues; AttachCall and a second CallTool get its further events and its
// result; the tool runs once.
func TestNamedCallOutlivesItsStream(t *testing.T) {
	s := startFake(t, Config{})
	ann := s.as("ann")
	ctx, die := context.WithCancel(t.Context())
	died := running(ctx, t, ann, "hold", "c1")
	die()
	<-died

	stream, err := ann.AttachCall(t.Context(), &mcppoolv1.AttachCallRequest{CallId: "c1", RequestHash: requestHash("hold", "{}")})
	if err != nil {
		t.Fatal(err)
	}
	again := make(chan reply, 1)
	go func() {
		again <- invokeCtx(t.Context(), ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "hold", CallId: "c1"})
	}()
	waitFollowers(t, s, "ann", 3) // the cancelled stream counts too: it runs the call
	if n := text(t, ann, "release"); n != "1" {
		t.Errorf("%s calls were held, want 1", n)
	}
	progress, err := stream.Recv()
	if err != nil || progress.GetProgress().GetProgress() != 1 {
		t.Errorf("progress: %v, %v", progress, err)
	}
	end, err := stream.Recv()
	if err != nil || end.GetResult().GetContent()[0].GetText() != "call 1" || end.GetResult().GetCallId() != "c1" {
		t.Errorf("result: %v, %v", end, err)
	}
	if o := <-again; o.err != nil || len(o.events) != 1 || o.text() != "call 1" {
		t.Errorf("the second CallTool: %+v", o)
	}
	if o := attachTo(t, ann, "hold", "c1"); o.text() != "call 1" || len(o.events) != 0 {
		t.Errorf("attached after the end: %+v", o)
	}
	if n := text(t, ann, "count"); n != "2" {
		t.Errorf("the tool was called again: %s calls", n)
	}
}

// waitFollowers waits until n streams follow or run a user's call c1.
func waitFollowers(t *testing.T, s *suite, user string, n int) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for s.calls.Followers(user, "c1") != n {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("the call does not have %d followers", n)
		}
	}
}

// A11: one call id is one call, however many clients send it at once, and whatever its result.
func TestSingleFlight(t *testing.T) {
	s := startFake(t, Config{})
	for id, tool := range map[string]string{"ok": "count", "error": "error", "refused": "nope"} {
		var wg sync.WaitGroup
		outcomes := make([]reply, 16)
		for i := range outcomes {
			wg.Go(func() {
				outcomes[i] = invokeCtx(t.Context(), s.as("ann"), &mcppoolv1.CallToolRequest{McpId: "fake", Name: tool, CallId: id})
			})
		}
		wg.Wait()
		outcomes = append(outcomes, attachTo(t, s.as("ann"), tool, id))
		for _, o := range outcomes {
			first := outcomes[0]
			if diff := cmp.Diff(first.result, o.result, protocmp.Transform()); diff != "" || o.reason() != first.reason() || o.outcome() != first.outcome() {
				t.Errorf("%s: %+v and %+v", id, first, o)
			}
		}
		if o := outcomes[0]; (o.err == nil) != (id == "ok") {
			t.Errorf("%s: %v", id, o.err)
		}
	}
	if n := text(t, s.as("ann"), "count"); n != "2" {
		t.Errorf("count says %s: the tool ran more than once for one id", n)
	}
}

func TestIDOfAnotherRequest(t *testing.T) {
	s := startFake(t, Config{})
	ann := s.as("ann")
	invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "echo", CallId: "c1", InputJson: `{ "text": "a" }`})
	invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "echo", CallId: "c1", InputJson: `{"text":"b"}`}).
		want(t, codes.InvalidArgument, "REQUEST_ID_REUSED", errs.OutcomeNotExecuted)
	attach(t.Context(), ann, &mcppoolv1.AttachCallRequest{CallId: "c1", RequestHash: requestHash("echo", `{"text":"b"}`)}).
		want(t, codes.InvalidArgument, "REQUEST_ID_REUSED", errs.OutcomeUnknown)
	// The text may be written as it was sent, or as compact JSON.
	for _, input := range []string{`{ "text": "a" }`, `{"text":"a"}`} {
		if o := attach(t.Context(), ann, &mcppoolv1.AttachCallRequest{CallId: "c1", RequestHash: requestHash("echo", input)}); o.text() != `{"text":"a"}` {
			t.Errorf("hash of %s: %+v", input, o)
		}
	}
	// Another user's call of the same id is another call, and neither user can tell that the other's exists.
	attachTo(t, s.as("bob"), "echo", "c1").want(t, codes.NotFound, "CALL_NOT_FOUND", errs.OutcomeUnknown)
	if o := invoke(t, s.as("op"), &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info", CallId: "c1"}); o.err != nil {
		t.Errorf("another user's call of that id: %v", o.err)
	}
}

// DESIGN 4, rule 1: AttachCall with an unknown id ends with NOT_EXECUTED only if that is proven. Such an id is never called later.
func TestAttachToAnUnknownCall(t *testing.T) {
	s := startFake(t, Config{})
	ann := s.as("ann")
	pool := listTools(t, ann, &mcppoolv1.ListToolsRequest{McpId: "fake"}).GetPoolId()
	if other := startFake(t, Config{}); pool == "" || pool == listTools(t, other.as("ann"), &mcppoolv1.ListToolsRequest{McpId: "fake"}).GetPoolId() {
		t.Errorf("two pools have the id %q", pool)
	}
	for id, tt := range map[string]struct{ pool, outcome string }{
		"here": {pool, errs.OutcomeNotExecuted}, "elsewhere": {"another", errs.OutcomeUnknown}, "somewhere": {"", errs.OutcomeUnknown},
	} {
		attach(t.Context(), ann, &mcppoolv1.AttachCallRequest{CallId: id, RequestHash: requestHash("count", "{}"), PoolId: tt.pool}).
			want(t, codes.NotFound, "CALL_NOT_FOUND", tt.outcome)
		invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "count", CallId: id}).
			want(t, codes.AlreadyExists, "ALREADY_EXISTS", errs.OutcomeNotExecuted)
	}
	if n := text(t, ann, "count"); n != "1" {
		t.Errorf("count says %s: a late call was made", n)
	}
}

func TestAckForgets(t *testing.T) {
	s := startFake(t, Config{})
	ann := s.as("ann")
	call := func(id string, ack ...string) {
		t.Helper()
		if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info", CallId: id, AckCallIds: ack}); o.err != nil {
			t.Error(o.err)
		}
	}
	gone := func(id string) {
		t.Helper()
		pool := listTools(t, ann, &mcppoolv1.ListToolsRequest{McpId: "fake"}).GetPoolId()
		attach(t.Context(), ann, &mcppoolv1.AttachCallRequest{CallId: id, RequestHash: requestHash("info", "{}"), PoolId: pool}).
			want(t, codes.NotFound, "CALL_NOT_FOUND", errs.OutcomeUnknown)
		invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info", CallId: id}).
			want(t, codes.AlreadyExists, "ALREADY_EXISTS", errs.OutcomeUnknown)
	}
	call("1")
	call("2", "1", "never")
	gone("1")
	if o := attachTo(t, ann, "info", "2"); o.err != nil {
		t.Errorf("a result that was not acknowledged is gone: %v", o.err)
	}
	if r, err := s.as("bob").AckCall(t.Context(), &mcppoolv1.AckCallRequest{CallIds: []string{"2"}}); err != nil || r.GetAcknowledged() != 0 {
		t.Errorf("bob acknowledges ann's call: %v, %v", r, err)
	}
	if r, err := ann.AckCall(t.Context(), &mcppoolv1.AckCallRequest{CallIds: []string{"2", "1", "never"}}); err != nil || r.GetAcknowledged() != 1 {
		t.Errorf("acknowledged: %v, %v", r, err)
	}
	gone("2")
	call("3")
	if _, err := ann.ReleaseSession(t.Context(), &mcppoolv1.ReleaseSessionRequest{SessionId: "t1", AckCallIds: []string{"3"}}); err != nil {
		t.Fatal(err)
	}
	gone("3")
	call("never")
}

// Acknowledging a running call takes nothing from its followers.
func TestAckWhileAttached(t *testing.T) {
	s := startFake(t, Config{})
	ann := s.as("ann")
	first := running(t.Context(), t, ann, "hold", "c1")
	second := make(chan reply, 1)
	go func() { second <- attachTo(t, ann, "hold", "c1") }()
	waitFollowers(t, s, "ann", 2)
	if r, err := ann.AckCall(t.Context(), &mcppoolv1.AckCallRequest{CallIds: []string{"c1"}}); err != nil || r.GetAcknowledged() != 1 {
		t.Errorf("acknowledged: %v, %v", r, err)
	}
	text(t, ann, "release")
	for _, o := range []reply{<-first, <-second} {
		if o.err != nil || o.text() != "call 1" {
			t.Errorf("got %+v", o)
		}
	}
	attachTo(t, ann, "hold", "c1").want(t, codes.NotFound, "CALL_NOT_FOUND", errs.OutcomeUnknown)
}

// A client that attaches while a call ends gets its result.
func TestAttachWhileItEnds(t *testing.T) {
	s := startFake(t, Config{})
	ann := s.as("ann")
	for i := range 30 {
		id := strconv.Itoa(i)
		done := running(t.Context(), t, ann, "hold", id)
		attached := make(chan reply, 4)
		for range cap(attached) {
			go func() { attached <- attachTo(t, ann, "hold", id) }()
		}
		text(t, ann, "release")
		want := (<-done).text()
		for range cap(attached) {
			if o := <-attached; o.err != nil || o.text() != want || want == "" {
				t.Fatalf("call %s: %+v, want %q", id, o, want)
			}
		}
	}
}

// A14: the server dies under a call without followers; one that attaches later gets an unknown outcome.
func TestServerDiesUnderADetachedCall(t *testing.T) {
	s := startFake(t, Config{})
	ann := s.as("ann")
	pid := mustAtoi(t, text(t, ann, "info"))
	ctx, die := context.WithCancel(t.Context())
	died := running(ctx, t, ann, "hold", "c1")
	die()
	<-died
	kill(t, pid)
	for range 2 {
		attachTo(t, ann, "hold", "c1").want(t, codes.Unavailable, "MCP_SERVER_UNAVAILABLE", errs.OutcomeUnknown)
	}
	invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "hold", CallId: "c1"}).
		want(t, codes.Unavailable, "MCP_SERVER_UNAVAILABLE", errs.OutcomeUnknown)
}

func TestDetachedCallCanBeCancelledAndTimesOut(t *testing.T) {
	s := startFake(t, Config{})
	ann := s.as("ann")
	ctx, die := context.WithCancel(t.Context())
	died := running(ctx, t, ann, "wait", "c1")
	die()
	<-died
	if err := cancelCall(t, ann, "c1"); err != nil {
		t.Fatal(err)
	}
	if o := attachTo(t, ann, "wait", "c1"); o.text() != "stopped in time" {
		t.Errorf("cancelled: %+v", o)
	}
	if status.Code(cancelCall(t, ann, "c1")) != codes.NotFound {
		t.Error("a finished call can be cancelled")
	}
	brief := &mcppoolv1.CallToolRequest{McpId: "fake", Name: "hang", CallId: "c2", Timeout: durationpb.New(200 * time.Millisecond)}
	ctx, die = context.WithCancel(t.Context())
	stream, err := ann.CallTool(ctx, brief)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	die()
	attachTo(t, ann, "hang", "c2").want(t, codes.DeadlineExceeded, "TIMEOUT", errs.OutcomeUnknown)
}

// A stopping pool gives detached calls their time as well, and reports an unknown outcome for those that need more.
func TestStopDrainsDetachedCalls(t *testing.T) {
	s := startFake(t, Config{DrainTimeout: 100 * time.Millisecond})
	ann := s.as("ann")
	ctx, die := context.WithCancel(t.Context())
	died := running(ctx, t, ann, "hang", "c1")
	die()
	<-died
	attached := make(chan reply, 1)
	go func() { attached <- attachTo(t, ann, "hang", "c1") }()
	waitFollowers(t, s, "ann", 2) // the cancelled stream counts too: it runs the call
	stop, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(stop); err != nil {
		t.Error(err)
	}
	o := <-attached
	o.want(t, codes.Unavailable, "SHUTTING_DOWN", errs.OutcomeUnknown)
	attachTo(t, ann, "hang", "c1").want(t, codes.Unavailable, "SHUTTING_DOWN", errs.OutcomeUnknown)
}

// A23: a call that was cancelled before it arrived is not made.
func TestCancelComesBeforeTheCall(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"fake": mcptest.Good})}})
	ann := s.as("ann")
	_, err := ann.CancelCall(t.Context(), &mcppoolv1.CancelCallRequest{CallId: "c1"})
	wantReason(t, err, "CALL_NOT_FOUND", "")
	o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "count", CallId: "c1"})
	if o.reason() != "ALREADY_EXISTS" || o.outcome() != errs.OutcomeNotExecuted {
		t.Errorf("a call that was cancelled before: %v, %s", o.err, o.outcome())
	}
	if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "count", CallId: "c2"}); o.text() != "1" {
		t.Errorf("the tool ran %q times, %v", o.text(), o.err)
	}
}
