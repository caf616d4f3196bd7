package mcppool

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
)

const (
	accept  = mcppoolv1.CallAnswer_ACTION_ACCEPT
	decline = mcppoolv1.CallAnswer_ACTION_DECLINE
)

// conversation is a call whose stream the test reads and whose questions it answers.
type conversation struct {
	t      *testing.T
	c      client
	id     string
	stream grpc.ServerStreamingClient[mcppoolv1.CallToolResponse]
}

func converse(t *testing.T, c client, req *mcppoolv1.CallToolRequest) *conversation {
	t.Helper()
	if req.GetMcpId() == "" {
		req.McpId = "fake"
	}
	stream, err := c.CallTool(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return &conversation{t: t, c: c, id: req.GetCallId(), stream: stream}
}

// question waits for the call's next question.
func (v *conversation) question() *mcppoolv1.CallInputRequired {
	v.t.Helper()
	for {
		m, err := v.stream.Recv()
		if err != nil || m.GetResult() != nil {
			v.t.Fatalf("the call ended without a question: %v, %v", m, err)
		}
		if q := m.GetInputRequired(); q != nil {
			return q
		}
	}
}

func (v *conversation) answer(q *mcppoolv1.CallInputRequired, action mcppoolv1.CallAnswer_Action, content string) error {
	return answerCall(v.t, v.c, v.id, q.GetInputId(), action, content)
}

func answerCall(t *testing.T, c client, call, input string, action mcppoolv1.CallAnswer_Action, content string) error {
	t.Helper()
	_, err := c.AnswerCall(t.Context(), &mcppoolv1.AnswerCallRequest{CallId: call, Answer: &mcppoolv1.CallAnswer{InputId: input, Action: action, ContentJson: content}})
	return err
}

// end reads on to the call's end.
func (v *conversation) end() reply { return drain(v.stream) }

// wantEnd fails unless the call ends with a text that holds another.
func (v *conversation) wantEnd(text string) {
	v.t.Helper()
	if o := v.end(); o.err != nil || !strings.Contains(o.text(), text) {
		v.t.Errorf("the call ended with %q, %v; want %q", o.text(), o.err, text)
	}
}

func TestAnswerCall(t *testing.T) {
	s := startFake(t, Config{})
	ann := s.as("ann")
	v := converse(t, ann, &mcppoolv1.CallToolRequest{Name: "form", CallId: "c1"})
	q := v.question()
	if q.GetMessage() != "Your name?" || q.GetUrl() != "" || q.GetRequestState() != "" || !strings.Contains(q.GetSchemaJson(), "minLength") ||
		time.Until(q.GetExpireTime().AsTime()) < 14*time.Minute {
		t.Errorf("question = %v", q)
	}
	// An answer that does not fit leaves the question open, and the error says why.
	for content, want := range map[string]string{`{"name":"A"}`: "at least 2", `{}`: "name", `[]`: "object", ``: "not", `{"name":`: "not JSON"} {
		wantReason(t, v.answer(q, accept, content), "INVALID_REQUEST", want)
	}
	wantReason(t, v.answer(q, decline, `{"name":"Ada"}`), "INVALID_REQUEST", "accepts a form")
	if err := answerCall(t, s.as("bob"), "c1", q.GetInputId(), accept, `{"name":"Bob"}`); status.Code(err) != codes.NotFound {
		t.Errorf("another user's answer: %v", err)
	}
	wantReason(t, answerCall(t, ann, "c1", "q9", accept, `{"name":"Ada"}`), "WAIT_NOT_OPEN", "no question")
	wantReason(t, answerCall(t, ann, "c9", "q1", accept, `{"name":"Ada"}`), "CALL_NOT_FOUND", "c9")

	if err := v.answer(q, accept, `{"name": "Ada"}`); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := v.answer(q, accept, `{"name":"Ada"}`); err != nil {
			t.Errorf("the same again: %v", err)
		}
		wantReason(t, v.answer(q, accept, `{"name":"Eve"}`), "WAIT_NOT_OPEN", "already")
		v.wantEnd(`{"action":"accept","content":{"name":"Ada"}}`)
		v = converse(t, ann, &mcppoolv1.CallToolRequest{Name: "form", CallId: "c1"}) // the same holds after the call's end
	}
}

// A late follower gets the questions that are still open, and nothing else.
func TestLateFollowersSeeOpenQuestions(t *testing.T) {
	s := startFake(t, Config{})
	ann := s.as("ann")
	v := converse(t, ann, &mcppoolv1.CallToolRequest{Name: "form2", CallId: "c1"})
	if err := v.answer(v.question(), accept, `{"name":"Ada"}`); err != nil {
		t.Fatal(err)
	}
	open := v.question()
	late := converse(t, ann, &mcppoolv1.CallToolRequest{Name: "form2", CallId: "c1"})
	if q := late.question(); q.GetInputId() != open.GetInputId() || q.GetMessage() != "Last name?" {
		t.Errorf("a late follower sees %v", q)
	}
	attached, err := ann.AttachCall(t.Context(), &mcppoolv1.AttachCallRequest{CallId: "c1", RequestHash: requestHash("form2", "{}")})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := attached.Recv(); err != nil || m.GetInputRequired().GetInputId() != open.GetInputId() {
		t.Errorf("AttachCall sees %v, %v", m, err)
	}
	if err := late.answer(open, accept, `{"name":"Lovelace"}`); err != nil {
		t.Fatal(err)
	}
	v.wantEnd("Lovelace")
	late.wantEnd("Lovelace")
	if m, err := attached.Recv(); err != nil || m.GetResult() == nil {
		t.Errorf("AttachCall ends with %v, %v", m, err)
	}
}

// If the executor dies while a question is open, the question stays, and the next executor answers it.
func TestQuestionOutlivesItsStream(t *testing.T) {
	s := startFake(t, Config{})
	ann := s.as("ann")
	ctx, die := context.WithCancel(t.Context())
	stream, err := ann.CallTool(ctx, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "page", CallId: "c1"})
	if err != nil {
		t.Fatal(err)
	}
	first := (&conversation{t: t, stream: stream}).question()
	die()
	_ = drain(stream)
	v := converse(t, ann, &mcppoolv1.CallToolRequest{Name: "page", CallId: "c1"})
	q := v.question()
	if q.GetInputId() != first.GetInputId() || q.GetUrl() != "https://pay.example/1" || q.GetSchemaJson() != "" {
		t.Errorf("question = %v", q)
	}
	wantReason(t, v.answer(q, accept, `{"paid":true}`), "INVALID_REQUEST", "content_json")
	if err := v.answer(q, accept, ""); err != nil {
		t.Fatal(err)
	}
	v.wantEnd(`{"action":"accept"}`)
}

func TestConcurrentAnswers(t *testing.T) {
	s := startFake(t, Config{})
	v := converse(t, s.as("ann"), &mcppoolv1.CallToolRequest{Name: "form", CallId: "c1"})
	q := v.question()
	var won atomic.Int32
	var winner atomic.Value
	var all sync.WaitGroup
	for _, name := range []string{"aa", "bb", "cc", "dd", "ee", "ff", "gg", "hh"} {
		all.Go(func() {
			if err := v.answer(q, accept, `{"name":"`+name+`"}`); err == nil {
				won.Add(1)
				winner.Store(name)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Fatalf("%d answers won", won.Load())
	}
	v.wantEnd(winner.Load().(string))
}

// If a question expires, the server is told so. The call's timeout does not run while the question is open.
func TestQuestionExpires(t *testing.T) {
	s := startFake(t, Config{InputTimeout: 300 * time.Millisecond})
	v := converse(t, s.as("ann"), &mcppoolv1.CallToolRequest{Name: "form", CallId: "c1", Timeout: durationpb.New(200 * time.Millisecond)})
	q := v.question()
	v.wantEnd(`{"action":"cancel"}`)
	wantReason(t, v.answer(q, accept, `{"name":"Ada"}`), "WAIT_NOT_OPEN", "no longer")
}

// An approval that the pool asks for holds for the configuration of the server with which the call began: after a change of what calls mean,
// the tool is not run.
func TestApprovalIsOfOneConfiguration(t *testing.T) {
	deny := &mcppoolv1.PermissionRule{Users: []string{"ann"}, Tools: []string{"info"}, Decision: mcppoolv1.PermissionDecision_PERMISSION_DECISION_DENY}
	for name, tt := range map[string]struct {
		change *mcppoolv1.McpServer
		holds  bool
	}{
		"nothing":     {nil, true},
		"description": {&mcppoolv1.McpServer{Id: "fake", Description: "else"}, true},
		"policy":      {&mcppoolv1.McpServer{Id: "fake", ToolPolicies: map[string]*mcppoolv1.ToolPolicy{"count": {Effect: commonv1.Effect_EFFECT_DESTRUCTIVE}}}, false},
		"permission":  {&mcppoolv1.McpServer{Id: "fake", Permissions: []*mcppoolv1.PermissionRule{deny}}, false},
		"disabled":    {&mcppoolv1.McpServer{Id: "fake", Disabled: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, Config{})
			op, ann := s.as("op"), s.as("ann")
			create(t, op, fake("fake", mcptest.Good))
			v := converse(t, ann, &mcppoolv1.CallToolRequest{Name: "count", CallId: "c1", AskAbove: commonv1.RiskLevel_RISK_LEVEL_LOW})
			q := v.question()
			if tt.change != nil {
				if _, err := op.UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: tt.change}); err != nil {
					t.Fatal(err)
				}
			}
			if err := v.answer(q, accept, `{}`); err != nil {
				t.Fatal(err)
			}
			if tt.holds {
				v.wantEnd("1")
				return
			}
			v.end().want(t, codes.FailedPrecondition, "DEFINITION_CHANGED", errs.OutcomeNotExecuted)
			if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "count"}); name != "disabled" && (o.err != nil || o.text() != "1") {
				t.Errorf("the first call that ran returned %q, %v, want 1: the refused one has run", o.text(), o.err)
			}
		})
	}
}

func TestCancelClosesQuestions(t *testing.T) {
	s := startFake(t, Config{})
	ann := s.as("ann")
	v := converse(t, ann, &mcppoolv1.CallToolRequest{Name: "form", CallId: "c1"})
	q := v.question()
	if _, err := ann.CancelCall(t.Context(), &mcppoolv1.CancelCallRequest{CallId: "c1"}); err != nil {
		t.Fatal(err)
	}
	v.wantEnd(`{"action":"cancel"}`) // within the grace
	wantReason(t, v.answer(q, accept, `{"name":"Ada"}`), "WAIT_NOT_OPEN", "no longer")
}

// No question stays open if its server dies or goes on without the answer.
func TestQuestionsEndWithTheirCall(t *testing.T) {
	s := startFake(t, Config{})
	ann := s.as("ann")
	v := converse(t, ann, &mcppoolv1.CallToolRequest{Name: "askcrash", CallId: "c1"})
	q := v.question()
	if err := v.answer(q, decline, ""); err != nil {
		t.Fatal(err)
	}
	v.end().want(t, codes.Unavailable, "MCP_SERVER_UNAVAILABLE", "UNKNOWN")

	o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "askanyway", CallId: "c2"})
	if o.text() != "done" {
		t.Errorf("got %q, %v", o.text(), o.err)
	}
	wantReason(t, answerCall(t, ann, "c2", "q1", decline, ""), "WAIT_NOT_OPEN", "")
}

// Questions are bounded in number and size, belong to a call, and are only put to a caller that can answer.
func TestHostileQuestions(t *testing.T) {
	s := startFake(t, Config{InputTimeout: time.Minute})
	ann := s.as("ann")
	v := converse(t, ann, &mcppoolv1.CallToolRequest{Name: "many", InputJson: `{"n":200}`, CallId: "c1"})
	for asked := 0; ; asked++ {
		m, err := v.stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if r := m.GetResult(); r != nil {
			if got := r.GetContent()[0].GetText(); got != strconv.Itoa(200-asked)+" refused" || asked == 0 || asked > 100 {
				t.Errorf("asked %d times: %s", asked, got)
			}
			break
		}
		if err := v.answer(m.GetInputRequired(), decline, ""); err != nil {
			t.Error(err)
		}
	}
	for tool, want := range map[string]string{"huge": "64 KiB", "nested": "not a plain value", "badpage": "must be https"} {
		o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: tool, InputJson: `{"n":100000}`, CallId: "h-" + tool})
		if o.err != nil || !strings.Contains(o.text(), want) || len(o.events) != 0 {
			t.Errorf("%s: %q, %v, events %v", tool, o.text(), o.err, o.events)
		}
	}
	o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "form"})
	if o.err != nil || o.text() != `{"action":"cancel"}` || len(o.events) != 1 || !strings.Contains(o.events[0].GetLog().GetDataJson(), "call_id") {
		t.Errorf("without an id: %q, %v, events %v", o.text(), o.err, o.events)
	}
}

// A pool that stops does not wait for answers.
func TestStoppingEndsQuestions(t *testing.T) {
	s := startFake(t, Config{DrainTimeout: 10 * time.Millisecond})
	v := converse(t, s.as("ann"), &mcppoolv1.CallToolRequest{Name: "form", CallId: "c1"})
	v.question()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if o := v.end(); o.err == nil {
		t.Errorf("the call ended with %v", o.result)
	}
}

// startWeb starts a pool with the server at url as `fake`; more holds further keys of its configuration.
func startWeb(t *testing.T, url string, more map[string]any) *suite {
	t.Helper()
	server := map[string]any{"url": url}
	for k, v := range more {
		server[k] = v
	}
	return start(t, Config{MCPConfigs: []string{writeConfig(t, map[string]any{"mcpServers": map[string]any{"fake": server}})}})
}

func serveFake(t *testing.T, mode string) string {
	t.Helper()
	web := httptest.NewServer(mcptest.Web(mode))
	t.Cleanup(web.Close)
	return web.URL
}

// Revision 2026-07-28: the server ends a request by asking. To callers it stays one call, and any pool can continue it.
func TestInputRequiredRounds(t *testing.T) {
	url := serveFake(t, mcptest.Modern)
	one, two := startWeb(t, url, nil), startWeb(t, url, nil)
	v := converse(t, one.as("ann"), &mcppoolv1.CallToolRequest{Name: "form2", CallId: "c1"})
	for _, name := range []string{"Ada", "Lovelace"} {
		q := v.question()
		if q.GetRequestState() == "" {
			t.Errorf("the question %s carries no state", q.GetInputId())
		}
		wantReason(t, v.answer(q, accept, `{"name":"A"}`), "INVALID_REQUEST", "at least 2")
		if err := v.answer(q, accept, `{"name":"`+name+`"}`); err != nil {
			t.Fatal(err)
		}
	}
	v.wantEnd(`"Ada"}} {"action":"accept","content":{"name":"Lovelace"}}`)

	v = converse(t, one.as("ann"), &mcppoolv1.CallToolRequest{Name: "form", CallId: "c2"})
	q := v.question()
	if err := one.Close(); err != nil {
		t.Error(err)
	}
	v.end()
	ann := two.as("ann")
	again := converse(t, ann, &mcppoolv1.CallToolRequest{Name: "form", CallId: "c3", RequestState: q.GetRequestState(),
		Answers: []*mcppoolv1.CallAnswer{{InputId: q.GetInputId(), Action: accept, ContentJson: `{"name":"Ada"}`}}})
	again.wantEnd(`{"action":"accept","content":{"name":"Ada"}}`)

	for _, req := range []*mcppoolv1.CallToolRequest{
		{McpId: "fake", Name: "form", RequestState: "s1"},
		{McpId: "fake", Name: "form", Answers: []*mcppoolv1.CallAnswer{{InputId: "r1:name", Action: accept}}},
	} {
		o := invoke(t, ann, req)
		o.want(t, codes.InvalidArgument, "INVALID_REQUEST", "NOT_EXECUTED")
	}
	o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "needmodel"})
	o.want(t, codes.FailedPrecondition, "MCP_PROTOCOL_ERROR", "KNOWN")
}

// task waits for the event that names the MCP task of the call.
func (v *conversation) task() *mcppoolv1.CallTask {
	v.t.Helper()
	for {
		m, err := v.stream.Recv()
		if err != nil {
			v.t.Fatal(err)
		}
		if task := m.GetTask(); task != nil {
			return task
		}
	}
}

// DESIGN 4: the server runs the call as an MCP task; the pool that began the call dies, and another pool gets the result.
func TestTaskFromAnotherPool(t *testing.T) {
	for _, mode := range []string{mcptest.Good, mcptest.Modern} {
		t.Run(mode, func(t *testing.T) {
			url := serveFake(t, mode)
			one := startWeb(t, url, nil)
			two := startWeb(t, url, map[string]any{"permissions": []any{map[string]any{"users": []string{"bob"}, "decision": "deny"}}})
			v := converse(t, one.as("ann"), &mcppoolv1.CallToolRequest{Name: "job", CallId: "c1"})
			task := v.task()
			if !task.GetPortable() || task.GetStatus() != "working" || task.GetTtl().AsDuration() != time.Minute {
				t.Errorf("task = %v", task)
			}
			if late := converse(t, one.as("ann"), &mcppoolv1.CallToolRequest{Name: "job", CallId: "c1"}); late.task().GetTaskId() != task.GetTaskId() {
				t.Error("a late follower is not told of the task")
			}
			if err := one.Close(); err != nil {
				t.Error(err)
			}
			died, reason := v.end(), "MCP_SERVER_UNAVAILABLE"
			if died.reason() == "SHUTTING_DOWN" {
				reason = died.reason() // the pool's stop came before the connection's end
			}
			died.want(t, codes.Unavailable, reason, "UNKNOWN")

			ann := two.as("ann")
			ask := func(id string) *mcppoolv1.AttachCallRequest {
				return &mcppoolv1.AttachCallRequest{CallId: "c1", RequestHash: requestHash("job", "{}"), TaskId: id, McpId: "fake", Name: "job"}
			}
			svc, forAnn, forBob := two.as("svc"), identity.OnBehalfOf(t.Context(), "ann"), identity.OnBehalfOf(t.Context(), "bob")
			attach(forBob, svc, ask(task.GetTaskId())).want(t, codes.PermissionDenied, "PERMISSION_DENIED", "UNKNOWN")
			// Servers need not tell users apart: a user who guesses a task id would get another's result.
			attach(t.Context(), ann, ask(task.GetTaskId())).want(t, codes.PermissionDenied, "PERMISSION_DENIED", "UNKNOWN")
			attach(forAnn, svc, ask("job-77")).want(t, codes.FailedPrecondition, "MCP_PROTOCOL_ERROR", "UNKNOWN")
			// The outcome is still unknown, so attaching can be repeated.
			stream, err := svc.AttachCall(forAnn, ask(task.GetTaskId()))
			if err != nil {
				t.Fatal(err)
			}
			if m, err := stream.Recv(); err != nil || m.GetTask().GetStatus() != "working" {
				t.Fatalf("got %v, %v", m, err)
			}
			if got := text(t, ann, "finish"); got != "finished" {
				t.Error(got)
			}
			for {
				m, err := stream.Recv()
				if err != nil {
					t.Fatal(err)
				}
				if r := m.GetResult(); r != nil {
					if !strings.Contains(r.GetContent()[0].GetText(), "job done") || r.GetCallId() != "c1" {
						t.Errorf("result = %v", r)
					}
					break
				}
			}
			// The pool keeps the result now, as of any call.
			if o := attachTo(t, ann, "job", "c1"); o.err != nil || !strings.Contains(o.text(), "job done") {
				t.Errorf("%q, %v", o.text(), o.err)
			}
		})
	}
}

// Over stdio an MCP task dies with its process. Another process is not asked for it, since it may use the same task ids.
func TestTaskOfStdio(t *testing.T) {
	s := startFake(t, Config{})
	ann := s.as("ann")
	v := converse(t, ann, &mcppoolv1.CallToolRequest{Name: "job", CallId: "c1"})
	if task := v.task(); task.GetPortable() {
		t.Errorf("task = %v", task)
	}
	forAnn := identity.OnBehalfOf(t.Context(), "ann")
	o := attach(forAnn, s.as("svc"), &mcppoolv1.AttachCallRequest{CallId: "other", RequestHash: requestHash("job", "{}"), TaskId: "job-1", McpId: "fake", Name: "job"})
	o.want(t, codes.NotFound, "CALL_NOT_FOUND", "UNKNOWN")
	o = attach(forAnn, s.as("svc"), &mcppoolv1.AttachCallRequest{CallId: "other", RequestHash: requestHash("job", "{}"), TaskId: "job-1", McpId: "none", Name: "job"})
	o.want(t, codes.NotFound, "MCP_SERVER_NOT_FOUND", "UNKNOWN")
	if _, err := ann.CancelCall(t.Context(), &mcppoolv1.CancelCallRequest{CallId: "c1", Reason: "enough"}); err != nil {
		t.Fatal(err)
	}
	v.end().want(t, codes.Canceled, "CANCELLED", "UNKNOWN")
}

// A tool that may run as a task does so if the call's timeout is long.
func TestOptionalTask(t *testing.T) {
	for timeout, want := range map[string]string{"60s": "maybejob at once", "2m": "maybejob done "} {
		stdio := mcptest.Stdio(mcptest.Good)
		path := writeConfig(t, map[string]any{"mcpServers": map[string]any{"fake": map[string]any{"command": stdio.Command, "env": stdio.Env, "timeout": timeout}}})
		s := start(t, Config{MCPConfigs: []string{path}})
		if got := text(t, s.as("ann"), "maybejob"); got != want {
			t.Errorf("with a limit of %s: %q", timeout, got)
		}
	}
}

// An answer is audited, without its content.
func TestAnswersAreAudited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	s := startFake(t, Config{Audit: path})
	v := converse(t, s.as("ann"), &mcppoolv1.CallToolRequest{Name: "form", CallId: "c1"})
	if err := v.answer(v.question(), accept, `{"name":"Ada"}`); err != nil {
		t.Fatal(err)
	}
	v.wantEnd("Ada")
	log, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(log), "Ada") {
		t.Errorf("the answer itself is in %s", log)
	}
	for line := range strings.Lines(string(log)) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r["msg"] == "tool_answer" && r["user"] == "ann" && r["call_id"] == "c1" && r["input_id"] == "q1" && r["action"] == "accept" {
			return
		}
	}
	t.Errorf("the answer is not in %s", log)
}
