package mcppool

import (
	"os"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/services/errs"
)

func kill(t *testing.T, pid int) {
	t.Helper()
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// DESIGN 4: a stalled owner of a task cannot start a call once a newer owner has called or attached.
func TestStaleOwner(t *testing.T) {
	s := startFake(t, Config{})
	ann := s.as("ann")
	call := func(id, session string, epoch uint64) reply {
		return invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "count", CallId: id, SessionId: session, Epoch: epoch})
	}
	for i, o := range []reply{call("a", "t1", 3), call("b", "t1", 3), call("c", "t2", 1)} {
		if o.err != nil || o.text() != strconv.Itoa(i+1) {
			t.Errorf("call %d: %+v", i, o)
		}
	}
	call("d", "t1", 2).want(t, codes.FailedPrecondition, "STALE_OWNER", errs.OutcomeNotExecuted)
	call("e", "t1", 0).want(t, codes.FailedPrecondition, "STALE_OWNER", errs.OutcomeNotExecuted)
	// This call ran: a refusal must not say NOT_EXECUTED.
	call("a", "t1", 2).want(t, codes.FailedPrecondition, "STALE_OWNER", errs.OutcomeUnknown)
	attachAs := func(epoch uint64) reply {
		return attach(t.Context(), ann, &mcppoolv1.AttachCallRequest{
			CallId: "a", RequestHash: requestHash("count", "{}"), SessionId: "t1", Epoch: epoch,
		})
	}
	if o := attachAs(4); o.text() != "1" {
		t.Errorf("the new owner: %+v", o)
	}
	attachAs(3).want(t, codes.FailedPrecondition, "STALE_OWNER", errs.OutcomeUnknown)
	call("f", "t1", 3).want(t, codes.FailedPrecondition, "STALE_OWNER", errs.OutcomeNotExecuted)
	if o := call("f", "t1", 4); o.text() != "4" {
		t.Errorf("the refusal is remembered as the call's end: %+v", o)
	}
	if o := invoke(t, s.as("bob"), &mcppoolv1.CallToolRequest{McpId: "fake", Name: "count", CallId: "a", SessionId: "t1", Epoch: 1}); o.err != nil {
		t.Errorf("another user's session of that name: %v", o.err)
	}
}

func TestTooLate(t *testing.T) {
	var c clock
	s := startWith(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"fake": mcptest.Good})}}, Deps{Now: c.now})
	ann := s.as("ann")
	by := timestamppb.New(c.now().Add(time.Minute))
	if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "count", CallId: "a", StartBy: by}); o.err != nil {
		t.Error(o.err)
	}
	c.move(time.Minute)
	invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "count", CallId: "b", StartBy: by}).
		want(t, codes.FailedPrecondition, "TOO_LATE", errs.OutcomeNotExecuted)
	// A call that started in time can be asked for at any time.
	if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "count", CallId: "a", StartBy: by}); o.text() != "1" {
		t.Errorf("the finished call: %+v", o)
	}
	if n := text(t, ann, "count"); n != "2" {
		t.Errorf("count says %s: a call was made too late", n)
	}
}

// start_by is checked when the request would be sent: time spent connecting counts.
func TestTooLateAfterConnecting(t *testing.T) {
	var c clock
	slow := mcptest.Stdio(mcptest.Good)
	hold := t.TempDir() + "/go"
	slow.Env[mcptest.WaitVariable] = hold
	s := startWith(t, Config{MCPConfigs: []string{writeConfig(t, map[string]any{"mcpServers": map[string]any{
		"fake": map[string]any{"command": slow.Command, "env": slow.Env},
	}})}}, Deps{Now: c.now})
	ann := s.as("ann")
	by := timestamppb.New(c.now().Add(time.Minute))
	ended := make(chan reply, 1)
	go func() {
		ended <- invokeCtx(t.Context(), ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "count", CallId: "a", StartBy: by})
	}()
	waitConnecting(t, ann)
	c.move(time.Minute)
	if err := os.WriteFile(hold, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := <-ended
	o.want(t, codes.FailedPrecondition, "TOO_LATE", errs.OutcomeNotExecuted)
	if n := text(t, ann, "count"); n != "1" {
		t.Errorf("count says %s: the call was made", n)
	}
	// AttachCall gets the same end.
	attachTo(t, ann, "count", "a").want(t, codes.FailedPrecondition, "TOO_LATE", errs.OutcomeNotExecuted)
}

func waitConnecting(t *testing.T, c client) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		server, err := c.GetMcpServer(t.Context(), &mcppoolv1.GetMcpServerRequest{Id: "fake"})
		if err != nil {
			t.Fatal(err)
		}
		if server.GetState() == mcppoolv1.ConnectionState_CONNECTION_STATE_CONNECTING {
			return
		}
		<-tick.C
	}
}

// An approval is bound to the configuration that was shown: a call is refused after a change of what calls mean, and only then.
func TestExpectedConfigRevision(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"fixed": mcptest.Good})}})
	op := s.as("op")
	create(t, op, fake("fake", mcptest.Good))
	revision := func(id string) uint64 {
		t.Helper()
		return listTools(t, op, &mcppoolv1.ListToolsRequest{McpId: id}).GetTools()[0].GetConfigRevision()
	}
	call := func(id, callID string, want uint64) reply {
		return invoke(t, op, &mcppoolv1.CallToolRequest{McpId: id, Name: "info", CallId: callID, ExpectedConfigRevision: want})
	}
	before := revision("fake")
	if before == 0 || before == revision("fixed") {
		t.Errorf("revisions: %d and %d", before, revision("fixed"))
	}
	if o := call("fake", "a", before); o.err != nil {
		t.Error(o.err)
	}
	for _, irrelevant := range []*mcppoolv1.McpServer{
		{Id: "fake", CallTimeout: durationpb.New(50 * time.Second)}, {Id: "fake", Description: "else"}, {Id: "fake", CacheTtl: durationpb.New(time.Second)},
	} {
		if _, err := op.UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: irrelevant}); err != nil {
			t.Fatal(err)
		}
		if now := revision("fake"); now != before {
			t.Errorf("%v changes the revision", irrelevant)
		}
	}
	if _, err := op.UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: &mcppoolv1.McpServer{
		Id: "fake", ToolPolicies: map[string]*mcppoolv1.ToolPolicy{"info": {Effect: 1}},
	}}); err != nil {
		t.Fatal(err)
	}
	call("fake", "b", before).want(t, codes.FailedPrecondition, "DEFINITION_CHANGED", errs.OutcomeNotExecuted)
	if now := revision("fake"); now == before {
		t.Error("a tool policy does not change the revision")
	} else if o := call("fake", "c", now); o.err != nil {
		t.Error(o.err)
	}
	if o := call("fixed", "d", revision("fixed")); o.err != nil {
		t.Error(o.err)
	}
	call("fixed", "e", 1).want(t, codes.FailedPrecondition, "DEFINITION_CHANGED", errs.OutcomeNotExecuted)
}

// A configuration file's servers have the same revision in each process that reads the same text.
func TestConfigRevisionsAreStable(t *testing.T) {
	path := fakeConfig(t, map[string]string{"fake": mcptest.Good})
	revision := func(path string) uint64 {
		s := start(t, Config{MCPConfigs: []string{path}})
		return listTools(t, s.as("ann"), &mcppoolv1.ListToolsRequest{McpId: "fake"}).GetTools()[0].GetConfigRevision()
	}
	a, b, c := revision(path), revision(path), revision(fakeConfig(t, map[string]string{"fake": mcptest.Noisy}))
	if a != b || a == c {
		t.Errorf("revisions %d, %d and, of another text, %d", a, b, c)
	}
}

func TestResultsAreKeptForAWhile(t *testing.T) {
	var c clock
	s := startWith(t, Config{MaxResults: 2, MCPConfigs: []string{fakeConfig(t, map[string]string{"fake": mcptest.Good})}}, Deps{Now: c.now})
	ann := s.as("ann")
	pool := listTools(t, ann, &mcppoolv1.ListToolsRequest{McpId: "fake"}).GetPoolId()
	ask := func(id string) reply {
		return attach(t.Context(), ann, &mcppoolv1.AttachCallRequest{CallId: id, RequestHash: requestHash("count", "{}"), PoolId: pool})
	}
	for _, id := range []string{"a", "b", "c"} {
		if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "count", CallId: id}); o.err != nil {
			t.Fatal(o.err)
		}
	}
	ask("a").want(t, codes.NotFound, "CALL_NOT_FOUND", errs.OutcomeUnknown) // evicted, but it ran
	c.move(15*time.Minute - time.Second)
	if o := ask("b"); o.text() != "2" {
		t.Errorf("before 15 minutes: %+v", o)
	}
	c.move(time.Second)
	ask("b").want(t, codes.NotFound, "CALL_NOT_FOUND", errs.OutcomeUnknown)
	invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "count", CallId: "c"}).
		want(t, codes.AlreadyExists, "ALREADY_EXISTS", errs.OutcomeUnknown)
	if n := text(t, ann, "count"); n != "4" {
		t.Errorf("count says %s: a finished call was made again", n)
	}
}

func TestRunningCallsOfAUserAreLimited(t *testing.T) {
	s := startFake(t, Config{MaxCallsPerUser: 1})
	ended := running(t.Context(), t, s.as("ann"), "wait", "c1")
	invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"}).
		want(t, codes.ResourceExhausted, "LIMIT_REACHED", errs.OutcomeNotExecuted)
	if o := invoke(t, s.as("bob"), &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"}); o.err != nil {
		t.Errorf("another user: %v", o.err)
	}
	if err := cancelCall(t, s.as("ann"), "c1"); err != nil {
		t.Error(err)
	}
	<-ended
	if o := invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"}); o.err != nil {
		t.Error(o.err)
	}
}

// A call for another pool process is refused: else AttachCall there could say that it was not executed, while it ran here.
func TestCallForAnotherPool(t *testing.T) {
	s := startFake(t, Config{})
	ann := s.as("ann")
	tools, err := ann.ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "fake"})
	if err != nil {
		t.Fatal(err)
	}
	call := func(pool string) reply {
		return invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "count", CallId: "a", PoolId: pool})
	}
	call("another").want(t, codes.FailedPrecondition, "OTHER_POOL", errs.OutcomeNotExecuted)
	if o := call(tools.GetPoolId()); o.text() != "1" {
		t.Errorf("the pool's own: %+v", o)
	}
}
