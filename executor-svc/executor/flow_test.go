package executor_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/fake"
)

const (
	flowStop     = executorv1.EventType_EVENT_TYPE_FLOW_STOP
	flowSuccess  = executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS
	flowFailed   = executorv1.EventType_EVENT_TYPE_FLOW_FAILED
	flowCancel   = executorv1.EventType_EVENT_TYPE_FLOW_CANCEL
	toolProgress = executorv1.EventType_EVENT_TYPE_TOOL_PROGRESS
)

// A1, A3, A7, A12, A17, A21, A22, A23, A24, A26, A27: two steps that may run by themselves, then the answer.
func TestAutomaticTask(t *testing.T) {
	p := fake.Script("read", "read")
	p.Usage = &commonv1.Usage{ModelCalls: 1, InputTokens: 10, OutputTokens: 5}
	r := newRig(t, p)
	events := r.run(auto("look twice"))
	wantTypes(t, events, "FLOW_START", "STEP_INIT", "STEP_INPUT", "STEP_OUTPUT", "STEP_INIT", "STEP_INPUT", "STEP_OUTPUT", "TEXT_ADD", "FLOW_SUCCESS")
	checkLog(t, events)

	id := events[0].GetTaskId()
	task := r.task(id)
	if task.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS || task.GetStepCount() != 2 || task.GetName() != "test flow" {
		t.Errorf("task %v", task)
	}
	if want := "step-1:SUCCESS step-2:SUCCESS done"; task.GetFullAnswer() != want {
		t.Errorf("answer %q, want %q", task.GetFullAnswer(), want)
	}
	if task.GetUsage().GetToolCalls() != 2 || task.GetUsage().GetModelCalls() != 3 || task.GetUsage().GetInputTokens() != 30 {
		t.Errorf("usage %v", task.GetUsage())
	}
	steps := r.steps(id)
	if len(steps) != 2 || steps[1].GetOutputJson() != `{"message":"read 2"}` || steps[1].GetStatus() != executorv1.StepStatus_STEP_STATUS_SUCCESS {
		t.Errorf("steps %v", steps)
	}
	calls := r.pool.Called()
	if len(calls) != 2 || calls[0].GetCallId() != id+"/step-1/1" || calls[0].GetExpectedDefinitionHash() != "hash-read" || calls[0].GetSessionId() != id {
		t.Errorf("calls %v", calls)
	}
	r.stop() // waits for the release
	if released := r.pool.Seen().Released; len(released) != 1 || released[0] != id {
		t.Errorf("released %v, want the task's session once (A23)", released)
	}
}

// A8, A9: what is shown is what runs.
func TestApproval(t *testing.T) {
	r := newRig(t, fake.Script("write"))
	events := r.run(manual("change something"))
	wantTypes(t, events, "FLOW_START", "STEP_INIT", "STEP_WAITING_FOR_START", "FLOW_STOP")
	asked := events[len(events)-2]
	if asked.GetStepWaitingForStart().GetInputJson() != `{"text":"write 1"}` ||
		asked.GetStepWaitingForStart().GetRisk().GetLevel() != commonv1.RiskLevel_RISK_LEVEL_MEDIUM {
		t.Errorf("asked %v; want the exact input and the tool's floor as risk (A29)", asked)
	}
	id := asked.GetTaskId()
	task := r.task(id)
	if len(task.GetWaits()) != 1 || task.GetWaits()[0].GetId() != asked.GetWaitId() || task.GetWaits()[0].GetHash() == "" || len(r.pool.Called()) != 0 {
		t.Fatalf("task %v, calls %v", task, r.pool.Called())
	}
	if _, err := r.approve(id, asked.GetWaitId(), ""); err != nil {
		t.Fatal(err)
	}
	r.until(id, flowSuccess)
	if calls := r.pool.Called(); len(calls) != 1 || calls[0].GetInputJson() != `{"text":"write 1"}` {
		t.Errorf("calls %v", calls)
	}
	wantTypes(t, r.events(id), "FLOW_START", "STEP_INIT", "STEP_WAITING_FOR_START", "FLOW_STOP", "STEP_INPUT", "STEP_OUTPUT", "TEXT_ADD", "FLOW_SUCCESS")

	if _, err := r.approve(id, asked.GetWaitId(), ""); err != nil {
		t.Errorf("repeating the answer: %v, want no error", err)
	}
	if _, err := r.reject(id, asked.GetWaitId()); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN {
		t.Errorf("another answer: %v, want WAIT_NOT_OPEN", err)
	}
	if _, err := r.approve(id, "wait-9", ""); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("unknown wait: %v", err)
	}
}

func TestApprovalWithEditedInput(t *testing.T) {
	r := newRig(t, fake.Script("write"))
	events := r.run(manual("change something"))
	id, wait := events[0].GetTaskId(), events[len(events)-2].GetWaitId()
	if _, err := r.approve(id, wait, `{"txt":1}`); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT {
		t.Errorf("an edit that does not fit: %v, want INVALID_TOOL_INPUT", err)
	}
	if _, err := r.approve(id, wait, `{"text":"edited"}`); err != nil {
		t.Fatal(err)
	}
	r.until(id, flowSuccess)
	if calls := r.pool.Called(); len(calls) != 1 || calls[0].GetInputJson() != `{"text":"edited"}` {
		t.Errorf("calls %v", calls)
	}
}

// A9: a rejection cancels step and task.
func TestRejection(t *testing.T) {
	r := newRig(t, fake.Script("write"))
	events := r.run(manual("change something"))
	id, wait := events[0].GetTaskId(), events[len(events)-2].GetWaitId()
	task, err := r.reject(id, wait)
	if err != nil || task.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED {
		t.Fatalf("reject: %v, %v", task, err)
	}
	wantTypes(t, r.events(id), "FLOW_START", "STEP_INIT", "STEP_WAITING_FOR_START", "FLOW_STOP", "STEP_CANCEL", "FLOW_CANCEL")
	if s := r.steps(id); s[0].GetStatus() != executorv1.StepStatus_STEP_STATUS_CANCELLED || len(r.pool.Called()) != 0 {
		t.Errorf("steps %v, calls %v", s, r.pool.Called())
	}
	if _, err := r.reject(id, wait); err != nil {
		t.Errorf("repeating the answer: %v", err)
	}
}

// A29: with automatic execution LOW runs and MEDIUM asks; a model cannot lower the floor.
func TestRiskDecides(t *testing.T) {
	r := newRig(t, fake.Script("read", "write", "destroy"))
	events := r.run(auto("look, then change"))
	wantTypes(t, events, "FLOW_START", "STEP_INIT", "STEP_INPUT", "STEP_OUTPUT", "STEP_INIT", "STEP_WAITING_FOR_START", "FLOW_STOP")
	id := events[0].GetTaskId()
	if _, err := r.approve(id, events[len(events)-2].GetWaitId(), ""); err != nil {
		t.Fatal(err)
	}
	stop := r.untilAfter(id, events[len(events)-1].GetSeq(), flowStop)
	last := r.events(id)[stop.GetSeq()-2]
	if got := last.GetStepWaitingForStart().GetRisk().GetLevel(); got != commonv1.RiskLevel_RISK_LEVEL_HIGH {
		t.Errorf("risk of a destructive tool: %v", got)
	}
}

// A10, A15, A16: a missing parameter is asked for and filled in, and the input is shown again.
func TestMissingParameters(t *testing.T) {
	p := fake.Script("write")
	p.Steps[0].InputJson = `{}`
	r := newRig(t, p)
	events := r.run(manual("write something"))
	wantTypes(t, events, "FLOW_START", "STEP_INIT", "STEP_INPUT", "STEP_ERROR", "STEP_WAITING_FOR_PARAM", "FLOW_STOP")
	id, asked := events[0].GetTaskId(), events[len(events)-2]
	if !strings.Contains(asked.GetStepWaitingForParam().GetParamsSchemaJson(), `"text"`) || asked.GetFlow().GetStepStatus() != executorv1.StepStatus_STEP_STATUS_PARAM {
		t.Errorf("asked %v", asked)
	}
	if e := events[len(events)-3]; e.GetStepError().GetOutcome() != commonv1.Outcome_OUTCOME_NOT_EXECUTED || len(r.pool.Called()) != 0 {
		t.Errorf("error %v, calls %v: an input that does not fit must not be sent", e, r.pool.Called())
	}
	if _, err := r.params(id, asked.GetWaitId(), `{}`); status.Code(err) != codes.InvalidArgument {
		t.Errorf("empty params: %v", err)
	}
	if _, err := r.approve(id, asked.GetWaitId(), ""); status.Code(err) != codes.InvalidArgument {
		t.Errorf("approving a question for parameters: %v", err)
	}
	if _, err := r.params(id, asked.GetWaitId(), `{"text":"supplied"}`); err != nil {
		t.Fatal(err)
	}
	stop := r.untilAfter(id, asked.GetSeq()+1, flowStop)
	again := r.events(id)[stop.GetSeq()-2]
	if again.GetStepWaitingForStart().GetInputJson() != `{"text":"supplied"}` {
		t.Fatalf("after params %v, want the filled input to be shown", again)
	}
	if _, err := r.approve(id, again.GetWaitId(), ""); err != nil {
		t.Fatal(err)
	}
	r.until(id, flowSuccess)
	if calls := r.pool.Called(); len(calls) != 1 || calls[0].GetInputJson() != `{"text":"supplied"}` || calls[0].GetCallId() != id+"/step-1/2" {
		t.Errorf("calls %v", calls)
	}
	if _, err := r.params(id, asked.GetWaitId(), `{"text":"supplied"}`); err != nil {
		t.Errorf("repeating the answer: %v", err)
	}
}

// A13, A15, A20: an error of the tool keeps its text, and the next step is planned.
func TestToolErrorGoesOn(t *testing.T) {
	r := newRig(t, fake.Script("read", "read"))
	r.pool.CallFn = func(_ context.Context, req *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		return send(fake.TextResult("no such file", strings.Contains(req.GetInputJson(), "read 1")))
	}
	events := r.run(auto("look"))
	wantTypes(t, events, "FLOW_START", "STEP_INIT", "STEP_INPUT", "STEP_ERROR", "STEP_INIT", "STEP_INPUT", "STEP_OUTPUT", "TEXT_ADD", "FLOW_SUCCESS")
	checkLog(t, events)
	s := r.steps(events[0].GetTaskId())[0]
	if s.GetError().GetErrMsg() != "no such file" || s.GetOutcome() != commonv1.Outcome_OUTCOME_KNOWN {
		t.Errorf("step %v", s)
	}
}

// A11: with automatic execution the planner derives the input of the next attempt from the error of the failed one.
func TestFailedAttemptGetsANewInput(t *testing.T) {
	p := fake.Script("read")
	p.DeriveFn = func(req *plannerv1.GetFirstInputParamsRequest) string {
		if !strings.Contains(req.GetError(), "bad text") {
			t.Errorf("the planner does not get the error: %v", req)
		}
		return `{"text":"better"}`
	}
	r := newRig(t, p)
	r.pool.CallFn = func(_ context.Context, req *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		return send(fake.TextResult("bad text", !strings.Contains(req.GetInputJson(), "better")))
	}
	events := r.run(auto("look"))
	wantTypes(t, events, "FLOW_START", "STEP_INIT", "STEP_INPUT", "STEP_ERROR", "STEP_INPUT", "STEP_OUTPUT", "TEXT_ADD", "FLOW_SUCCESS")
	checkLog(t, events)
}

// A18, A19: three failed steps end the task, in both modes, and no success follows.
func TestFailedStepsAtTheLimit(t *testing.T) {
	for name, req := range map[string]*executorv1.CreateTaskRequest{"auto": auto("look"), "manual": manual("look")} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fake.Script("read", "read", "read", "read"))
			r.pool.CallFn = func(_ context.Context, _ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
				return send(fake.TextResult("broken", true))
			}
			events := r.run(req)
			for events[len(events)-1].GetType() == flowStop {
				last := events[len(events)-1]
				if _, err := r.approve(last.GetTaskId(), last.GetFlowStop().GetWaitIds()[0], ""); err != nil {
					t.Fatal(err)
				}
				events = r.untilStopOrEnd(last.GetTaskId(), last.GetSeq())
			}
			task := r.task(events[0].GetTaskId())
			if task.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR || task.GetErrorCount() != 3 || task.GetError().GetReason() != commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED {
				t.Errorf("task %v", task)
			}
			all := r.events(task.GetId())
			if all[len(all)-1].GetType() != flowFailed {
				t.Errorf("last event %v", all[len(all)-1])
			}
		})
	}
}

// A21: at the limit of steps, and if the planner names a tool that does not exist, the next step is FINAL. An error of the planner
// ends the task.
func TestFinalWithoutThePlanner(t *testing.T) {
	t.Run("limit", func(t *testing.T) {
		r := newRig(t, fake.Script("read"))
		r.planner.PlanFn = func(context.Context, *plannerv1.TaskContext) (*plannerv1.PlanStepsResponse, error) {
			return &plannerv1.PlanStepsResponse{Steps: r.planner.Steps}, nil
		}
		events := r.run(auto("look for ever"))
		task := r.task(events[0].GetTaskId())
		if task.GetStepCount() != 25 || !strings.HasPrefix(task.GetFullAnswer(), "The limit of 25 steps was reached.") {
			t.Errorf("%d steps, answer %q", task.GetStepCount(), task.GetFullAnswer())
		}
	})
	t.Run("limit in a loop", func(t *testing.T) {
		r := newRig(t, fake.Script("read", "read"))
		r.planner.CutResult = plannerv1.GoalResult_GOAL_RESULT_NOT_FULFILLED
		r.planner.PlanFn = func(_ context.Context, c *plannerv1.TaskContext) (*plannerv1.PlanStepsResponse, error) {
			return &plannerv1.PlanStepsResponse{Steps: r.planner.Steps[min(1, len(c.GetHistory())):][:1]}, nil
		}
		events := r.run(auto("look for ever"))
		const want = "the goal was not reached; the answer says what is missing. The limit of 25 steps was reached. The last 24 steps made the same call of t/read."
		if got := r.task(events[0].GetTaskId()).GetError().GetErrMsg(); got != want {
			t.Errorf("error %q", got)
		}
		if got := events[len(events)-1].GetFlowFailed().GetError().GetErrMsg(); got != want {
			t.Errorf("the event says %q", got)
		}
	})
	t.Run("unknown tool", func(t *testing.T) {
		r := newRig(t, fake.Script("no-such"))
		events := r.run(auto("look"))
		wantTypes(t, events, "FLOW_START", "TEXT_ADD", "FLOW_SUCCESS")
		if got := len(r.planner.Contexts()); got != 3 {
			t.Errorf("asked %d times, want 3 (A18)", got)
		}
	})
	t.Run("planner fails", func(t *testing.T) {
		r := newRig(t, fake.Script())
		r.planner.PlanFn = func(context.Context, *plannerv1.TaskContext) (*plannerv1.PlanStepsResponse, error) {
			return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_INVALID_PLAYBOOK, "step x: no output a.b")
		}
		events := r.run(auto("look"))
		wantTypes(t, events, "FLOW_START", "FLOW_FAILED")
		if task := r.task(events[0].GetTaskId()); task.GetError().GetErrMsg() != "step x: no output a.b" {
			t.Errorf("error %v", task.GetError())
		}
	})
}

// If the outcome of a WRITE call is unknown, a person is asked; for a repeatable tool it is recorded, and the task goes on (A14).
func TestUnknownOutcome(t *testing.T) {
	for _, tool := range []string{"read", "write", "idempotent"} {
		t.Run(tool, func(t *testing.T) {
			r := newRig(t, fake.Script(tool))
			r.pool.CallFn = lose
			events := r.run(auto("go"))
			id := events[0].GetTaskId()
			if last := events[len(events)-1]; last.GetType() == flowStop {
				if _, err := r.approve(id, last.GetFlowStop().GetWaitIds()[0], ""); err != nil {
					t.Fatal(err)
				}
			}
			if tool == "write" {
				r.untilWait(id, executorv1.WaitKind_WAIT_KIND_OUTCOME)
			} else {
				r.until(id, flowSuccess)
			}
			if s := r.steps(id)[0]; s.GetOutcome() != commonv1.Outcome_OUTCOME_UNKNOWN || len(r.pool.Called()) != 1 {
				t.Errorf("step %v, %d calls", s, len(r.pool.Called()))
			}
		})
	}
}

// lose ends a call with an unknown outcome.
func lose(context.Context, *mcppoolv1.CallToolRequest, func(*mcppoolv1.CallToolResponse) error) error {
	return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR, "connection lost").With(errs.OutcomeKey, "UNKNOWN")
}

// A cancel stops a running call, and the call's outcome is recorded.
func TestCancelRunningCall(t *testing.T) {
	for name, tc := range map[string]struct {
		after func(context.Context, func(*mcppoolv1.CallToolResponse) error) error
		want  []string
	}{
		"it stops": {
			func(ctx context.Context, _ func(*mcppoolv1.CallToolResponse) error) error {
				return errs.New(codes.Canceled, commonv1.ErrorReason_ERROR_REASON_CANCELLED, "stopped").With(errs.OutcomeKey, "UNKNOWN")
			},
			[]string{"FLOW_START", "STEP_INIT", "STEP_INPUT", "STEP_CANCEL", "FLOW_CANCEL"},
		},
		"its result comes all the same": {
			func(_ context.Context, send func(*mcppoolv1.CallToolResponse) error) error {
				return send(fake.TextResult("done anyway", false))
			},
			[]string{"FLOW_START", "STEP_INIT", "STEP_INPUT", "STEP_OUTPUT", "FLOW_CANCEL"},
		},
		"its error comes all the same": {
			func(_ context.Context, send func(*mcppoolv1.CallToolResponse) error) error {
				return send(fake.TextResult("failed anyway", true))
			},
			[]string{"FLOW_START", "STEP_INIT", "STEP_INPUT", "STEP_ERROR", "FLOW_CANCEL"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fake.Script("read", "read"))
			running := make(chan struct{}, 1)
			r.pool.CallFn = func(ctx context.Context, _ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
				running <- struct{}{}
				<-ctx.Done()
				return tc.after(ctx, send)
			}
			id := r.create(auto("look")).GetId()
			<-running // STEP_INPUT alone does not say so: a call that is cancelled before it is sent never begins
			task, err := r.tasks.CancelTask(t.Context(), &executorv1.CancelTaskRequest{Id: id, Reason: "enough"})
			if err != nil {
				t.Fatal(err)
			}
			if !task.GetCancelRequested() && task.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED {
				t.Errorf("task %v", task)
			}
			if e := r.until(id, flowCancel); e.GetFlowCancel().GetReason() != "enough" {
				t.Errorf("reason %v", e)
			}
			wantTypes(t, r.events(id), tc.want...)
			if _, err := r.tasks.CancelTask(t.Context(), &executorv1.CancelTaskRequest{Id: id}); err != nil {
				t.Errorf("cancelling again: %v", err)
			}
		})
	}
}

func TestCancelWaitingAndPlanning(t *testing.T) {
	t.Run("waiting", func(t *testing.T) {
		r := newRig(t, fake.Script("write"))
		id := r.run(manual("change"))[0].GetTaskId()
		task, err := r.tasks.CancelTask(t.Context(), &executorv1.CancelTaskRequest{Id: id})
		if err != nil || task.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED {
			t.Fatalf("%v, %v", task, err)
		}
		wantTypes(t, r.events(id), "FLOW_START", "STEP_INIT", "STEP_WAITING_FOR_START", "FLOW_STOP", "STEP_CANCEL", "FLOW_CANCEL")
	})
	t.Run("while the planner hangs", func(t *testing.T) {
		r := newRig(t, fake.Script())
		asked := make(chan struct{}, 1)
		r.planner.PlanFn = func(ctx context.Context, _ *plannerv1.TaskContext) (*plannerv1.PlanStepsResponse, error) {
			asked <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		id := r.create(auto("look")).GetId()
		<-asked
		task, err := r.tasks.CancelTask(t.Context(), &executorv1.CancelTaskRequest{Id: id})
		if err != nil || task.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED {
			t.Fatalf("%v, %v", task, err)
		}
		wantTypes(t, r.events(id), "FLOW_CANCEL")
	})
}

func TestProgressIsShown(t *testing.T) {
	r := newRig(t, fake.Script("read"))
	seen := make(chan struct{})
	r.pool.CallFn = func(_ context.Context, _ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		if err := send(&mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Progress{Progress: &mcppoolv1.CallProgress{Progress: 1, Total: 2, Message: "half"}}}); err != nil {
			return err
		}
		<-seen
		return send(fake.TextResult("ok", false))
	}
	id := r.create(auto("look")).GetId()
	if e := r.until(id, toolProgress); e.GetToolProgress().GetMessage() != "half" || e.GetAttempt() != 1 {
		t.Errorf("progress %v", e)
	}
	close(seen)
	r.until(id, flowSuccess)
}

// untilStopOrEnd watches a task until it stops or ends.
func (r *rig) untilStopOrEnd(id string, after uint64) []*executorv1.ExecutorEvent {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	stream, err := r.tasks.WatchTask(ctx, &executorv1.WatchTaskRequest{Id: id, AfterSeq: after})
	if err != nil {
		r.t.Fatal(err)
	}
	var events []*executorv1.ExecutorEvent
	for {
		e, err := stream.Recv()
		if err != nil {
			if len(events) > 0 {
				return events
			}
			r.t.Fatal(err)
		}
		events = append(events, e)
		if e.GetType() == flowStop {
			return events
		}
	}
}
