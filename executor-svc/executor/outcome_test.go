package executor_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"

	"pawl.dev/executor-svc/internal/fake"
)

const (
	outcomeWait = executorv1.WaitKind_WAIT_KIND_OUTCOME
	approveWait = executorv1.WaitKind_WAIT_KIND_APPROVAL
	pauseWait   = executorv1.WaitKind_WAIT_KIND_PAUSE
)

func (r *rig) outcome(id, wait string, a *executorv1.OutcomeAnswer) (*executorv1.Task, error) {
	return r.tasks.ResumeTask(r.t.Context(), &executorv1.ResumeTaskRequest{
		Id: id, WaitId: wait, Answer: &executorv1.ResumeTaskRequest_Outcome{Outcome: a},
	})
}

func retry() *executorv1.OutcomeAnswer {
	return &executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Retry{Retry: &executorv1.OutcomeRetry{}}}
}

func skip() *executorv1.OutcomeAnswer {
	return &executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Skip{Skip: &executorv1.OutcomeSkip{Reason: "looked, and it did not"}}}
}

func supply(output string) *executorv1.OutcomeAnswer {
	return &executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Output{Output: &executorv1.OutcomeOutput{OutputJson: output}}}
}

// lostWrite runs a task until it asks for the outcome of its WRITE call.
func lostWrite(t *testing.T, tools ...string) (r *rig, id string, asked *executorv1.Wait) {
	r = newRig(t, fake.Script(tools...))
	r.pool.CallFn = lose
	id = r.create(auto("change something")).GetId()
	w := r.untilWait(id, approveWait)
	if _, err := r.approve(id, w.GetId(), ""); err != nil {
		t.Fatal(err)
	}
	asked = r.untilWait(id, outcomeWait)
	r.pool.CallFn = nil
	return r, id, asked
}

// A5, A17: a call whose outcome is unknown waits for a person, who can retry it, supply its output, skip the step or cancel. The same
// answer may be repeated; a different one is refused.
func TestFourAnswersToAnUnknownOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		answer, other *executorv1.OutcomeAnswer
		calls         int
		end           []string
		step          executorv1.StepStatus
		outcome       commonv1.Outcome
	}{
		"retry": {retry(), skip(), 2, []string{"STEP_INPUT", "STEP_OUTPUT", "TEXT_ADD", "FLOW_SUCCESS"},
			executorv1.StepStatus_STEP_STATUS_SUCCESS, commonv1.Outcome_OUTCOME_KNOWN},
		"output": {supply(`{"message":"seen on the server"}`), retry(), 1, []string{"STEP_OUTPUT", "TEXT_ADD", "FLOW_SUCCESS"},
			executorv1.StepStatus_STEP_STATUS_SUCCESS, commonv1.Outcome_OUTCOME_KNOWN},
		"skip": {skip(), supply(`{"message":""}`), 1, []string{"STEP_ERROR", "TEXT_ADD", "FLOW_SUCCESS"},
			executorv1.StepStatus_STEP_STATUS_ERROR, commonv1.Outcome_OUTCOME_UNKNOWN},
	} {
		t.Run(name, func(t *testing.T) {
			r, id, asked := lostWrite(t, "write")
			if asked.GetInputJson() != `{"text":"write 1"}` || asked.GetMessage() == "" || asked.GetHash() == "" {
				t.Errorf("asked %v", asked)
			}
			if _, err := r.approve(id, asked.GetId(), ""); status.Code(err) != codes.InvalidArgument {
				t.Errorf("approving an unknown outcome: %v, want INVALID_ARGUMENT", err)
			}
			if _, err := r.outcome(id, asked.GetId(), c.answer); err != nil {
				t.Fatal(err)
			}
			r.until(id, flowSuccess)
			want := append([]string{"FLOW_START", "STEP_INIT", "STEP_WAITING_FOR_START", "FLOW_STOP", "STEP_INPUT", "STEP_WAITING_FOR_START", "FLOW_STOP"}, c.end...)
			wantTypes(t, r.events(id), want...)
			s := r.steps(id)[0]
			if s.GetStatus() != c.step || s.GetOutcome() != c.outcome || len(r.pool.Called()) != c.calls {
				t.Errorf("step %v after %d calls", s, len(r.pool.Called()))
			}
			if task := r.task(id); task.GetErrorCount() != 0 {
				t.Errorf("%d steps failed, but a person decided", task.GetErrorCount())
			}
			if _, err := r.outcome(id, asked.GetId(), c.answer); err != nil {
				t.Errorf("repeating the answer: %v", err)
			}
			if _, err := r.outcome(id, asked.GetId(), c.other); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN {
				t.Errorf("another answer: %v, want WAIT_NOT_OPEN", err)
			}
		})
	}
	t.Run("cancel", func(t *testing.T) {
		r, id, _ := lostWrite(t, "write")
		if _, err := r.tasks.CancelTask(t.Context(), &executorv1.CancelTaskRequest{Id: id}); err != nil {
			t.Fatal(err)
		}
		if e := r.events(id); e[len(e)-2].GetStepCancel().GetOutcome() != commonv1.Outcome_OUTCOME_UNKNOWN {
			t.Errorf("the step's end %v, want its outcome to stay unknown", e[len(e)-2])
		}
	})
	t.Run("reject", func(t *testing.T) {
		r, id, asked := lostWrite(t, "write")
		if task, err := r.reject(id, asked.GetId()); err != nil || task.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED {
			t.Errorf("%v, %v", task, err)
		}
	})
}

// All attempts of a step have the same idempotency key, so that a server can recognize a repeated call.
func TestRetryHasTheSameIdempotencyKey(t *testing.T) {
	r, id, asked := lostWrite(t, "write")
	if _, err := r.outcome(id, asked.GetId(), retry()); err != nil {
		t.Fatal(err)
	}
	r.until(id, flowSuccess)
	calls := r.pool.Called()
	if len(calls) != 2 || calls[0].GetIdempotencyKey() != calls[1].GetIdempotencyKey() || calls[0].GetCallId() == calls[1].GetCallId() {
		t.Errorf("calls %v", calls)
	}
}

// A later step that makes the same call as one with an unknown outcome needs a person, whatever the policy.
func TestSameCallAfterAnUnknownOutcomeAsks(t *testing.T) {
	p := fake.Script("write", "write")
	p.Steps[1].InputJson = p.Steps[0].GetInputJson()
	r := newRig(t, p)
	r.pool.CallFn = lose
	id := r.create(free(r)).GetId()
	asked := r.untilWait(id, outcomeWait)
	r.pool.CallFn = nil
	if _, err := r.outcome(id, asked.GetId(), skip()); err != nil {
		t.Fatal(err)
	}
	w := r.untilWait(id, approveWait)
	if len(r.pool.Called()) != 1 || w.GetStepId() != "step-2" {
		t.Errorf("%d calls, wait %v", len(r.pool.Called()), w)
	}
	if _, err := r.approve(id, w.GetId(), ""); err != nil {
		t.Fatal(err)
	}
	r.until(id, flowSuccess)
}

// The agent's on_unknown_outcome decides instead of a person.
func TestOnUnknownOutcomePolicy(t *testing.T) {
	for name, c := range map[string]struct {
		policy executorv1.OnUnknownOutcome
		calls  int
		want   executorv1.EventType
	}{
		"retry": {executorv1.OnUnknownOutcome_ON_UNKNOWN_OUTCOME_RETRY, 2, flowSuccess},
		"fail":  {executorv1.OnUnknownOutcome_ON_UNKNOWN_OUTCOME_FAIL, 1, flowFailed},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fake.Script("write"))
			_, err := r.agents.CreateAgent(t.Context(), &executorv1.CreateAgentRequest{
				AgentId: "a", Agent: &executorv1.Agent{Confirm: executorv1.Confirm_CONFIRM_NEVER, OnUnknownOutcome: c.policy},
			})
			if err != nil {
				t.Fatal(err)
			}
			r.pool.CallFn = onlyFirst(lose)
			req := auto("change something")
			req.AgentId = "a"
			id := r.create(req).GetId()
			r.until(id, c.want)
			r.events(id)
			if n := len(r.pool.Called()); n != c.calls {
				t.Errorf("%d calls, want %d", n, c.calls)
			}
		})
	}
}

// A restart finds the outcome of a call that continued in the pool: nothing is lost, and no person is asked.
func TestResultIsFetchedAfterARestart(t *testing.T) {
	for _, tool := range []string{"read", "write", "destroy"} {
		t.Run(tool, func(t *testing.T) {
			r := newRig(t, fake.Script(tool))
			r.keepPool = true
			id, release := r.callUntilStopped(auto("go"))
			release()
			r.start()
			r.until(id, flowSuccess)
			if len(r.pool.Called()) != 1 || len(r.pool.Seen().Attached) != 1 {
				t.Errorf("%d calls, asked %d times; want 1 and 1", len(r.pool.Called()), len(r.pool.Seen().Attached))
			}
			events := r.events(id)
			for _, e := range events {
				if e.GetStepError() != nil || e.GetStepWaitingForStart().GetOutcomeUnknown() {
					t.Errorf("the restart left a trace: %v", types(events))
				}
			}
			a, c := r.pool.Seen().Attached[0], r.pool.Called()[0]
			if a.GetCallId() != c.GetCallId() || a.GetEpoch() <= c.GetEpoch() || c.GetEpoch() == 0 || c.GetStartBy() == nil {
				t.Errorf("attached %v after %v", a, c)
			}
		})
	}
}

// The executor acknowledges the calls that it has recorded, at the latest at the task's end, so that the pool can forget them.
func TestCallsAreAcknowledged(t *testing.T) {
	r := newRig(t, fake.Script("read", "read"))
	id := r.run(auto("look"))[0].GetTaskId()
	r.stop()
	got := r.pool.Seen().Acked
	if len(got) != 2 || got[0] != id+"/step-1/1" || got[1] != id+"/step-2/1" {
		t.Errorf("acknowledged %v", got)
	}
}

// Steps that the planner knows ahead are taken without asking it again, and their references to earlier outputs are
// resolved; outcome and next intent are one commit.
func TestStepsAhead(t *testing.T) {
	p := fake.Script("read", "read", "read")
	p.Ahead = true
	p.Steps[2].InputJson, p.Steps[2].Unresolved = `{"text":"${step-1.message} and ${goal} and $${x}"}`, true
	p.Steps[2].Description = "after ${step-2.message}"
	r := newRig(t, p)
	events := r.run(auto("look"))
	wantTypes(t, events, "FLOW_START", "STEP_INIT", "STEP_INPUT", "STEP_OUTPUT", "STEP_INIT", "STEP_INPUT", "STEP_OUTPUT",
		"STEP_INIT", "STEP_INPUT", "STEP_OUTPUT", "TEXT_ADD", "FLOW_SUCCESS")
	if n := len(p.Contexts()); n != 1 {
		t.Errorf("the planner was asked %d times, want once", n)
	}
	s := r.steps(events[0].GetTaskId())[2]
	if s.GetInputJson() != `{"text":"read 1 and look and ${x}"}` || s.GetDescription() != "after read 2" {
		t.Errorf("step 3: %s, %q", s.GetInputJson(), s.GetDescription())
	}
	for i := range events[:len(events)-1] {
		if events[i].GetStepOutput() != nil && events[i+1].GetStepInit() != nil && !events[i].GetTime().AsTime().Equal(events[i+1].GetTime().AsTime()) {
			t.Errorf("events %d and %d are not of one commit", i+1, i+2)
		}
	}
}

// A step planned ahead is planned again if the step before it failed or its references cannot be resolved.
func TestStepsAheadThatDoNotHold(t *testing.T) {
	p := fake.Script("read", "read")
	p.Ahead = true
	r := newRig(t, p)
	r.pool.CallFn = onlyFirst(func(_ ctx, _ *callRequest, send func(*callResponse) error) error {
		return send(fake.TextResult("broken", true))
	})
	r.run(auto("look"))
	if n := len(p.Contexts()); n != 2 {
		t.Errorf("the planner was asked %d times, want again after the failure", n)
	}
	p2 := fake.Script("read", "read")
	p2.Ahead = true
	p2.Steps[1].InputJson, p2.Steps[1].Unresolved = `{"text":"${step-1.no.such}"}`, true
	r2 := newRig(t, p2)
	p2.PlanFn = func(c ctx, tc *plannerv1.TaskContext) (*plannerv1.PlanStepsResponse, error) {
		if len(tc.GetHistory()) > 0 {
			return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_PLANNING_FAILED, "there is no no.such")
		}
		return &plannerv1.PlanStepsResponse{Steps: p2.Steps}, nil
	}
	id := r2.run(auto("look"))[0].GetTaskId()
	if msg := r2.task(id).GetError().GetErrMsg(); msg != "there is no no.such" {
		t.Errorf("error %q, want the planner's own", msg)
	}
}

// Another user's task is NOT_FOUND for pause, fork, delete and export.
func TestControlOfAnotherUsersTask(t *testing.T) {
	r := newRig(t, fake.Script("write"))
	id := r.run(manual("change"))[0].GetTaskId()
	r.stop()
	ctx := t.Context()
	tasks, _ := withKeys(t, r)("bob", identity.RoleUser)
	for name, call := range map[string]func() error{
		"pause":  func() error { _, err := tasks.PauseTask(ctx, &executorv1.PauseTaskRequest{Id: id}); return err },
		"fork":   func() error { _, err := tasks.ForkTask(ctx, &executorv1.ForkTaskRequest{Id: id}); return err },
		"delete": func() error { _, err := tasks.DeleteTask(ctx, &executorv1.DeleteTaskRequest{Id: id}); return err },
		"export": func() error {
			s, err := tasks.ExportTask(ctx, &executorv1.ExportTaskRequest{Id: id})
			if err == nil {
				_, err = s.Recv()
			}
			return err
		},
	} {
		if err := call(); status.Code(err) != codes.NotFound {
			t.Errorf("%s: %v, want NOT_FOUND", name, err)
		}
	}
}

// If the pool restarts between two calls of a task, the second call, which names the old pool, is refused as NOT_EXECUTED and made
// again for the new pool. No event shows it.
func TestPoolRestartsBetweenCalls(t *testing.T) {
	for _, ahead := range []bool{false, true} {
		p := fake.Script("read", "read")
		p.Ahead = ahead
		r := newRig(t, p)
		r.pool.CallFn = onlyFirst(func(_ ctx, _ *callRequest, send func(*callResponse) error) error {
			r.pool.Restart()
			return send(fake.TextResult("ok", false))
		})
		events := r.run(auto("look"))
		wantTypes(t, events, "FLOW_START", "STEP_INIT", "STEP_INPUT", "STEP_OUTPUT", "STEP_INIT", "STEP_INPUT", "STEP_OUTPUT", "TEXT_ADD", "FLOW_SUCCESS")
	}
}

// A call whose intent is durable and that provably never reached the pool is repeated automatically, as a further attempt
// (A11): no person is asked, and nothing fails.
func TestCallThatNeverArrivedIsRepeated(t *testing.T) {
	for _, tool := range []string{"read", "write"} {
		t.Run(tool, func(t *testing.T) {
			r := newRig(t, fake.Script(tool))
			id := r.create(manual("go")).GetId()
			w := r.untilWait(id, approveWait)
			r.pool.Lose = true
			if _, err := r.approve(id, w.GetId(), ""); err != nil {
				t.Fatal(err)
			}
			r.until(id, flowSuccess)
			r.events(id)
			if s := r.steps(id)[0]; s.GetAttempt() != 2 || len(r.pool.Called()) != 1 {
				t.Errorf("step %v after %d calls", s, len(r.pool.Called()))
			}
		})
	}
}
