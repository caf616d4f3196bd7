package executor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/fake"
)

const (
	inputWait     = executorv1.WaitKind_WAIT_KIND_INPUT
	inputRequired = executorv1.EventType_EVENT_TYPE_INPUT_REQUIRED

	citySchema = `{"type":"object","properties":{"city":{"type":"string","minLength":2}},"required":["city"],"additionalProperties":false}`
)

// form asks for a city.
func form(id string) *mcppoolv1.CallInputRequired {
	return &mcppoolv1.CallInputRequired{InputId: id, Message: "Which city (" + id + ")?", SchemaJson: citySchema}
}

// elicit makes every call ask the questions of each round in turn, and return the answers as its result.
func (r *rig) elicit(rounds ...[]*mcppoolv1.CallInputRequired) {
	r.pool.Detached, r.keepPool = true, true
	r.t.Cleanup(r.pool.Die) // calls that wait for an answer
	r.pool.CallFn = func(ctx context.Context, req *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		var said []string
		for _, a := range req.GetAnswers() {
			said = append(said, a.GetContentJson())
		}
		for _, questions := range rounds {
			if req.GetRequestState() != "" {
				break
			}
			answers, err := r.pool.Ask(ctx, send, questions...)
			if err != nil {
				return err
			}
			for _, a := range answers {
				said = append(said, strings.TrimPrefix(a.GetAction().String(), "ACTION_")+a.GetContentJson())
			}
		}
		return send(fake.TextResult(strings.Join(said, " "), false))
	}
}

// round is the questions that a call asks at once.
func round(questions ...*mcppoolv1.CallInputRequired) []*mcppoolv1.CallInputRequired {
	return questions
}

func (r *rig) input(id, wait string, action executorv1.InputAnswer_Action, content string) (*executorv1.Task, error) {
	return r.tasks.ResumeTask(r.t.Context(), &executorv1.ResumeTaskRequest{
		Id: id, WaitId: wait, Answer: &executorv1.ResumeTaskRequest_Input{Input: &executorv1.InputAnswer{Action: action, ContentJson: content}},
	})
}

func (r *rig) mustInput(id, wait, content string) {
	r.t.Helper()
	if _, err := r.input(id, wait, executorv1.InputAnswer_ACTION_ACCEPT, content); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) output(id string) string {
	r.t.Helper()
	steps := r.steps(id)
	return steps[len(steps)-1].GetOutputJson()
}

// A5, A26: a question of the tool's server is one transition to WAITING; after the answer, the same call of the same attempt
// goes on.
func TestInputRequired(t *testing.T) {
	r := newRig(t, fake.Script("read"))
	r.elicit(round(form("q1")))
	id := r.create(auto("ask me")).GetId()
	w := r.untilWait(id, inputWait)
	if w.GetMessage() != "Which city (q1)?" || w.GetParamsSchemaJson() != citySchema || w.GetStepId() != "step-1" || w.GetToolId() != "t/read" || w.GetUrl() != "" {
		t.Errorf("asked %v", w)
	}
	task, step := r.task(id), r.steps(id)[0]
	if task.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING || step.GetStatus() != executorv1.StepStatus_STEP_STATUS_WAITING ||
		step.GetWaitId() != w.GetId() || task.GetActiveSteps()[0].GetWaitId() != w.GetId() || step.GetAttempt() != 1 {
		t.Errorf("task %s, step %v", task.GetStatus(), step)
	}
	for name, bad := range map[string]struct {
		action  executorv1.InputAnswer_Action
		content string
	}{
		"misfit":       {executorv1.InputAnswer_ACTION_ACCEPT, `{"city":"x"}`},
		"nothing":      {executorv1.InputAnswer_ACTION_ACCEPT, ""},
		"no object":    {executorv1.InputAnswer_ACTION_UNSPECIFIED, `[1]`},
		"with decline": {executorv1.InputAnswer_ACTION_DECLINE, `{"city":"Bern"}`},
	} {
		if _, err := r.input(id, w.GetId(), bad.action, bad.content); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v, want INVALID_ARGUMENT", name, err)
		}
	}
	if _, err := r.approve(id, w.GetId(), ""); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "input") {
		t.Errorf("approving a question: %v", err)
	}
	r.mustInput(id, w.GetId(), `{"city":"Bern"}`)
	r.until(id, flowSuccess)
	wantTypes(t, r.events(id), "FLOW_START", "STEP_INIT", "STEP_INPUT", "INPUT_REQUIRED", "FLOW_STOP", "STATUS_CHANGED", "STEP_OUTPUT", "TEXT_ADD", "FLOW_SUCCESS")
	if got := r.output(id); got != `{"message":"ACCEPT{\"city\":\"Bern\"}"}` {
		t.Errorf("output %s", got)
	}
	if calls := r.pool.Called(); len(calls) != 1 {
		t.Errorf("%d calls", len(calls))
	}
	e := r.until(id, inputRequired)
	if in := e.GetInputRequired(); in.GetMessage() != w.GetMessage() || in.GetSchemaJson() != citySchema || in.GetSchema() == nil || e.GetWaitId() != w.GetId() || e.GetAttempt() != 1 {
		t.Errorf("the event %v", e)
	}
	// As with other waits, the same answer may be repeated, and a different one is refused.
	r.mustInput(id, w.GetId(), `{"city":"Bern"}`)
	if _, err := r.input(id, w.GetId(), executorv1.InputAnswer_ACTION_ACCEPT, `{"city":"Basel"}`); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN {
		t.Errorf("another answer: %v", err)
	}
}

// A tool is told that its question was declined or dismissed, and goes on. What a person enters in a browser does not pass
// through Pawl.
func TestInputDeclinedAndByAddress(t *testing.T) {
	r := newRig(t, fake.Script("read"))
	page := &mcppoolv1.CallInputRequired{InputId: "page", Message: "Sign in", Url: "https://example.com/sign-in"}
	r.elicit(round(form("q1")), round(form("q2")), round(page))
	id := r.create(auto("ask me")).GetId()
	for _, action := range []executorv1.InputAnswer_Action{executorv1.InputAnswer_ACTION_DECLINE, executorv1.InputAnswer_ACTION_CANCEL} {
		if _, err := r.input(id, r.untilWait(id, inputWait).GetId(), action, ""); err != nil {
			t.Fatal(err)
		}
	}
	w := r.untilWait(id, inputWait)
	if w.GetUrl() != page.GetUrl() {
		t.Errorf("asked %v", w)
	}
	if _, err := r.input(id, w.GetId(), executorv1.InputAnswer_ACTION_ACCEPT, `{"password":"x"}`); status.Code(err) != codes.InvalidArgument {
		t.Errorf("content for an address: %v", err)
	}
	if _, err := r.input(id, w.GetId(), executorv1.InputAnswer_ACTION_UNSPECIFIED, ""); err != nil {
		t.Fatal(err)
	}
	r.until(id, flowSuccess)
	if got := r.output(id); got != `{"message":"DECLINE CANCEL ACCEPT"}` {
		t.Errorf("output %s", got)
	}
}

// Questions that a server asks together are shown together, and their answers are sent once all of them are given.
func TestSeveralQuestionsAtOnce(t *testing.T) {
	r := newRig(t, fake.Script("read"))
	r.elicit(round(form("q1"), form("q2")))
	id := r.create(auto("ask me")).GetId()
	r.untilWait(id, inputWait)
	waits := r.task(id).GetWaits()
	if len(waits) != 2 {
		t.Fatalf("waits %v", waits)
	}
	r.mustInput(id, waits[1].GetId(), `{"city":"Rome"}`)
	if task := r.task(id); task.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING || len(task.GetWaits()) != 1 || len(r.pool.Seen().Answers) != 0 {
		t.Errorf("after one answer: %s with %v, %d given", task.GetStatus(), task.GetWaits(), len(r.pool.Seen().Answers))
	}
	if s := r.steps(id)[0]; s.GetWaitId() != waits[0].GetId() || s.GetStatus() != executorv1.StepStatus_STEP_STATUS_WAITING {
		t.Errorf("step %v", s)
	}
	r.mustInput(id, waits[1].GetId(), `{"city":"Rome"}`)
	r.mustInput(id, waits[0].GetId(), `{"city":"Oslo"}`)
	r.until(id, flowSuccess)
	if got := r.output(id); got != `{"message":"ACCEPT{\"city\":\"Oslo\"} ACCEPT{\"city\":\"Rome\"}"}` {
		t.Errorf("output %s", got)
	}
}

// A question survives a restart of the executor: its call continues in the pool.
func TestInputAfterRestart(t *testing.T) {
	r := newRig(t, fake.Script("write"))
	r.elicit(round(form("q1")), round(form("q2")))
	id := r.create(free(r)).GetId()
	first := r.untilWait(id, inputWait)
	r.stop()
	r.start()
	r.mustInput(id, first.GetId(), `{"city":"Bern"}`)
	second := r.untilWait(id, inputWait)
	if second.GetId() == first.GetId() || second.GetMessage() != "Which city (q2)?" {
		t.Errorf("asked %v", second)
	}
	r.mustInput(id, second.GetId(), `{"city":"Basel"}`)
	r.until(id, flowSuccess)
	if len(r.pool.Called()) != 1 || r.output(id) != `{"message":"ACCEPT{\"city\":\"Bern\"} ACCEPT{\"city\":\"Basel\"}"}` {
		t.Errorf("%d calls, output %s", len(r.pool.Called()), r.output(id))
	}
}

// free creates an agent that never asks for approval, and returns a request for a task of this agent.
func free(r *rig) *executorv1.CreateTaskRequest {
	r.t.Helper()
	_, err := r.agents.CreateAgent(r.t.Context(), &executorv1.CreateAgentRequest{
		AgentId: "free", Agent: &executorv1.Agent{Confirm: executorv1.Confirm_CONFIRM_NEVER}, RequestId: "free",
	})
	if err != nil {
		r.t.Fatal(err)
	}
	req := auto("ask me")
	req.AgentId = "free"
	return req
}

// The pool dies while a person is asked. If the server sent a request state with its question, the call is repeated with that state
// and the answers, in the same attempt but under a call id of its own. Otherwise the call's outcome is unknown.
func TestInputAfterThePoolDied(t *testing.T) {
	for name, c := range map[string]struct {
		state, tool string
		calls       []string
		kind        executorv1.WaitKind
		output      string
		attempt     uint32
	}{
		"request state":         {"s1", "write", []string{"/step-1/1", "/step-1/1/2"}, 0, `{"message":"{\"city\":\"Bern\"}"}`, 1},
		"no state, repeatable":  {"", "read", []string{"/step-1/1", "/step-1/2"}, 0, `{"message":"ACCEPT{\"city\":\"Bern\"}"}`, 2},
		"no state, side effect": {"", "write", []string{"/step-1/1"}, outcomeWait, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fake.Script(c.tool))
			q := form("q1")
			q.RequestState = c.state
			r.elicit(round(q))
			id := r.create(free(r)).GetId()
			w := r.untilWait(id, inputWait)
			r.pool.Restart()
			r.mustInput(id, w.GetId(), `{"city":"Bern"}`)
			if c.kind == 0 {
				r.until(id, flowSuccess)
				if got := r.output(id); got != c.output {
					t.Errorf("output %s", got)
				}
				if s := r.steps(id)[0]; s.GetAttempt() != c.attempt {
					t.Errorf("step %v", s)
				}
			} else {
				r.untilWait(id, c.kind)
			}
			calls := r.pool.Called()
			for i, want := range c.calls {
				if len(calls) != len(c.calls) || calls[i].GetCallId() != id+want || calls[i].GetIdempotencyKey() != calls[0].GetIdempotencyKey() {
					t.Fatalf("calls %v, want %v", calls, c.calls)
				}
			}
			if last := calls[len(calls)-1]; c.state != "" && (last.GetRequestState() != c.state || len(last.GetAnswers()) != 1 || last.GetAnswers()[0].GetInputId() != "q1") {
				t.Errorf("the second call %v", last)
			}
		})
	}
}

// Answers that may have reached a call before its pool died are not given to another call: the first may have had its effect.
func TestAnswersThatMayHaveArrivedAreNotGivenTwice(t *testing.T) {
	r := newRig(t, fake.Script("write"))
	q := form("q1")
	q.RequestState = "s1"
	r.elicit(round(q))
	id := r.create(free(r)).GetId()
	w := r.untilWait(id, inputWait)
	r.pool.BeforeAnswer = func(*mcppoolv1.AnswerCallRequest) error {
		r.pool.BeforeAnswer = nil
		r.pool.Restart()
		return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR, "the connection broke")
	}
	r.mustInput(id, w.GetId(), `{"city":"Bern"}`)
	if w := r.untilWait(id, outcomeWait); len(r.pool.Called()) != 1 {
		t.Errorf("asked %v after %d calls", w, len(r.pool.Called()))
	}
}

// A cancel and a task's wait timeout end the call in the pool; its outcome is unknown.
func TestInputCancelledAndExpired(t *testing.T) {
	r := newRig(t, fake.Script("write"))
	r.elicit(round(form("q1")))
	req := free(r)
	id := r.create(req).GetId()
	r.untilWait(id, inputWait)
	task, err := r.tasks.CancelTask(t.Context(), &executorv1.CancelTaskRequest{Id: id})
	if err != nil || task.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED || task.GetUsage().GetToolCalls() != 1 {
		t.Errorf("%v, %v", task, err)
	}
	if e := r.until(id, executorv1.EventType_EVENT_TYPE_STEP_CANCEL); e.GetStepCancel().GetOutcome() != commonv1.Outcome_OUTCOME_UNKNOWN || e.GetAttempt() != 1 {
		t.Errorf("the step's end %v", e)
	}
	r.untilCallStopped(id + "/step-1/1")

	req.WaitTimeout, req.Goal = durationpb.New(50*time.Millisecond), "be quick"
	id = r.create(req).GetId()
	if e := r.until(id, flowFailed); e.GetFlowFailed().GetError().GetReason() != commonv1.ErrorReason_ERROR_REASON_WAIT_EXPIRED {
		t.Errorf("the end %v", e)
	}
	r.untilCallStopped(id + "/step-1/1")
	wantTypes(t, r.events(id), "FLOW_START", "STEP_INIT", "STEP_INPUT", "INPUT_REQUIRED", "FLOW_STOP", "STEP_ERROR", "FLOW_FAILED")
}

// untilCallStopped waits until the pool was told to stop a call.
func (r *rig) untilCallStopped(call string) {
	r.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		for _, id := range r.pool.Seen().Stopped {
			if id == call {
				return
			}
		}
	}
}

// A question that expires is answered with CANCEL, and the tool goes on.
func TestQuestionExpires(t *testing.T) {
	r := newRig(t, fake.Script("read"))
	q := form("q1")
	q.ExpireTime = timestamppb.New(time.Now().Add(100 * time.Millisecond))
	r.elicit(round(q))
	id := r.create(auto("ask me")).GetId()
	r.until(id, flowSuccess)
	if got := r.output(id); got != `{"message":"CANCEL"}` {
		t.Errorf("output %s", got)
	}
	wantTypes(t, r.events(id), "FLOW_START", "STEP_INIT", "STEP_INPUT", "INPUT_REQUIRED", "FLOW_STOP", "STATUS_CHANGED", "STEP_OUTPUT", "TEXT_ADD", "FLOW_SUCCESS")
}

// A pause does not stop a running call, even if the call waits for an answer.
func TestInputWhilePaused(t *testing.T) {
	r := newRig(t, fake.Script("read"))
	r.elicit(round(form("q1")))
	id := r.create(auto("ask me")).GetId()
	w := r.untilWait(id, inputWait)
	if _, err := r.tasks.PauseTask(t.Context(), &executorv1.PauseTaskRequest{Id: id}); err != nil {
		t.Fatal(err)
	}
	stale := r.untilWait(id, pauseWait).GetId()
	r.mustInput(id, w.GetId(), `{"city":"Bern"}`)
	r.until(id, executorv1.EventType_EVENT_TYPE_STEP_OUTPUT)
	if w := r.untilWait(id, pauseWait); w.GetId() == stale {
		t.Errorf("%s is open again", stale)
	}
	if _, err := r.tasks.ResumeTask(t.Context(), &executorv1.ResumeTaskRequest{
		Id: id, Answer: &executorv1.ResumeTaskRequest_Unpause{Unpause: &executorv1.Unpause{}},
	}); err != nil {
		t.Fatal(err)
	}
	r.until(id, flowSuccess)
}

// A fork of a task that waits for an answer drops the question, and treats the outcome of the call as unknown.
func TestForkOfATaskThatAsks(t *testing.T) {
	p := fake.Script("read", "write")
	r := newRig(t, p)
	plain := r.pool.CallFn
	r.elicit(round(form("q1")))
	ask := r.pool.CallFn
	r.pool.CallFn = func(ctx context.Context, req *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		if req.GetName() == "write" {
			return ask(ctx, req, send)
		}
		return send(fake.TextResult("read", false))
	}
	id := r.create(free(r)).GetId()
	r.untilWait(id, inputWait)
	r.pool.CallFn = plain
	fork, err := r.tasks.ForkTask(t.Context(), &executorv1.ForkTaskRequest{Id: id})
	if err != nil {
		t.Fatal(err)
	}
	if w := r.untilWait(fork.GetId(), approveWait); !strings.Contains(w.GetRisk().GetReason(), "not known whether it ran") {
		t.Errorf("the fork asks %v", w)
	}
}

// The id of an MCP task is stored, so that another pool can ask the server for its result.
func TestMCPTask(t *testing.T) {
	for _, dies := range []string{"the pool", "both"} {
		t.Run(dies, func(t *testing.T) {
			r := newRig(t, fake.Script("write"))
			r.stop()
			r.cfg.DrainTimeout = time.Millisecond
			r.pool.Detached, r.keepPool = true, true
			r.start()
			r.pool.CallFn = func(ctx context.Context, _ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
				if err := send(&mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Task{Task: &mcppoolv1.CallTask{TaskId: "mcp-7"}}}); err != nil {
					return err
				}
				if err := send(&mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Progress{Progress: &mcppoolv1.CallProgress{Progress: 1}}}); err != nil {
					return err
				}
				<-ctx.Done()
				return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR, "the pool died")
			}
			r.pool.TaskFn = func(req *mcppoolv1.AttachCallRequest) (*mcppoolv1.CallResult, error) {
				if req.GetTaskId() != "mcp-7" || req.GetMcpId() != "t" || req.GetName() != "write" {
					return nil, fmt.Errorf("asked for %v", req)
				}
				return fake.TextResult("from the server", false).GetResult(), nil
			}
			id := r.create(free(r)).GetId()
			r.until(id, executorv1.EventType_EVENT_TYPE_TOOL_PROGRESS)
			if dies == "both" {
				r.stop()
			}
			r.pool.Die()
			if dies == "both" {
				r.start()
			}
			r.until(id, flowSuccess)
			if len(r.pool.Called()) != 1 || r.output(id) != `{"message":"from the server"}` {
				t.Errorf("%d calls, output %s", len(r.pool.Called()), r.output(id))
			}
		})
	}
}

// A call whose questions will get no answer is acknowledged, so that the pool does not keep it.
func TestWithdrawnCallIsAcknowledged(t *testing.T) {
	r := newRig(t, fake.Script("read"))
	r.elicit(round(form("q1")))
	id := r.create(auto("ask me")).GetId()
	r.untilWait(id, inputWait)
	if _, err := r.tasks.CancelTask(t.Context(), &executorv1.CancelTaskRequest{Id: id}); err != nil {
		t.Fatal(err)
	}
	call := r.pool.Called()[0].GetCallId()
	r.untilCallStopped(call)
	r.stop() // sends what is left to acknowledge
	if !slices.Contains(r.pool.Seen().Acked, call) {
		t.Errorf("%s is not acknowledged: %v", call, r.pool.Seen().Acked)
	}
}
