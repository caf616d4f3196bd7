package executor_test

import (
	"fmt"
	"strings"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/fake"
)

// asks waits until a task asks for approval, and returns the wait and the event that shows it.
func (r *rig) asks(id string) (*executorv1.Wait, *executorv1.ExecutorEvent) {
	r.t.Helper()
	w := r.untilWait(id, executorv1.WaitKind_WAIT_KIND_APPROVAL)
	for _, e := range r.events(id) {
		if e.GetWaitId() == w.GetId() && e.GetStepWaitingForStart() != nil {
			return w, e
		}
	}
	r.t.Fatalf("no event shows %s", w.GetId())
	return nil, nil
}

func (r *rig) mustApprove(id, wait, input string) {
	r.t.Helper()
	if _, err := r.approve(id, wait, input); err != nil {
		r.t.Fatal(err)
	}
}

// only applies change to the tool of that name.
func only(name string, change func(*commonv1.Tool)) func(*commonv1.Tool) *commonv1.Tool {
	return func(t *commonv1.Tool) *commonv1.Tool {
		if t.GetName() == name {
			change(t)
		}
		return t
	}
}

// An approval is for exactly what was shown. If the server has changed meanwhile, the step is shown again as it is now, with the
// reason; an edited input is kept.
func TestApprovalOfWhatChangedMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*commonv1.Tool) *commonv1.Tool
		why    string
		risk   commonv1.RiskLevel
	}{
		"configuration": {nil, "configuration of its MCP server has changed", commonv1.RiskLevel_RISK_LEVEL_MEDIUM},
		"definition": {only("write", func(t *commonv1.Tool) { t.DefinitionHash = "hash-other" }),
			"definition of the tool has changed", commonv1.RiskLevel_RISK_LEVEL_MEDIUM},
		"policy": {only("write", func(t *commonv1.Tool) { t.RiskFloor = commonv1.RiskLevel_RISK_LEVEL_HIGH }),
			"configuration of its MCP server has changed", commonv1.RiskLevel_RISK_LEVEL_HIGH},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fake.Script("write"))
			events := r.run(manual("change something"))
			id := events[0].GetTaskId()
			first, _ := r.asks(id)
			r.pool.Reconfigure(c.change)
			r.mustApprove(id, first.GetId(), `{"text":"edited"}`)
			r.untilAfter(id, events[len(events)-1].GetSeq(), flowStop)

			again, shown := r.asks(id)
			risk := shown.GetStepWaitingForStart().GetRisk()
			if again.GetId() == first.GetId() || again.GetHash() == first.GetHash() || shown.GetStepWaitingForStart().GetInputJson() != `{"text":"edited"}` {
				t.Errorf("asked %v with %v after %v", again, shown, first)
			}
			if !strings.Contains(risk.GetReason(), c.why) || !strings.Contains(again.GetMessage(), c.why) || risk.GetLevel() != c.risk {
				t.Errorf("shown %v and %q, want %s because %q", risk, again.GetMessage(), c.risk, c.why)
			}
			r.mustApprove(id, again.GetId(), "")
			r.until(id, flowSuccess)
			wantTypes(t, r.events(id), "FLOW_START", "STEP_INIT", "STEP_WAITING_FOR_START", "FLOW_STOP", "STEP_INPUT", "STEP_ERROR",
				"STEP_WAITING_FOR_START", "FLOW_STOP", "STEP_INPUT", "STEP_OUTPUT", "TEXT_ADD", "FLOW_SUCCESS")
			if calls := r.pool.Called(); len(calls) != 1 || calls[0].GetExpectedConfigRevision() != 2 || calls[0].GetInputJson() != `{"text":"edited"}` {
				t.Errorf("calls %v", calls)
			}
			if task := r.task(id); task.GetUsage().GetToolCalls() != 1 || task.GetErrorCount() != 0 {
				t.Errorf("%v was spent, %d steps failed; what was refused is no call and no failure", task.GetUsage(), task.GetErrorCount())
			}
		})
	}
}

// A29: a step whose tool has changed and now needs no approval runs without another question.
func TestChangeThatNeedsNoApproval(t *testing.T) {
	r := newRig(t, fake.Script("write"))
	events := r.run(auto("change something")) // BY_RISK
	id := events[0].GetTaskId()
	first, _ := r.asks(id)
	r.pool.Reconfigure(only("write", func(t *commonv1.Tool) {
		t.Effect, t.RiskFloor = commonv1.Effect_EFFECT_READ, commonv1.RiskLevel_RISK_LEVEL_LOW
	}))
	r.mustApprove(id, first.GetId(), "")
	r.until(id, flowSuccess)
	wantTypes(t, r.events(id), "FLOW_START", "STEP_INIT", "STEP_WAITING_FOR_START", "FLOW_STOP", "STEP_INPUT", "STEP_ERROR",
		"STEP_INPUT", "STEP_OUTPUT", "TEXT_ADD", "FLOW_SUCCESS")
}

// A11: a server that changes all the time does not loop for ever.
func TestServerThatAlwaysChanges(t *testing.T) {
	r := newRig(t, fake.Script("write"))
	events := r.run(manual("change something"))
	id, asked := events[0].GetTaskId(), map[string]bool{}
	for seq := events[len(events)-1].GetSeq(); ; {
		wait, _ := r.asks(id)
		if asked[wait.GetId()] = true; len(asked) > 10 {
			t.Fatal("the task asks for ever")
		}
		r.pool.Reconfigure(nil)
		r.mustApprove(id, wait.GetId(), "")
		next := r.untilAny(id, seq, flowStop, flowSuccess)
		if seq = next.GetSeq(); next.GetType() == flowSuccess {
			break
		}
	}
	if n := len(r.pool.Seen().Refused); n != 5 || len(r.pool.Called()) != 0 {
		t.Errorf("%d calls were refused, %d made; want as many as a step has attempts", n, len(r.pool.Called()))
	}
	if s := r.steps(id)[0]; s.GetStatus() != executorv1.StepStatus_STEP_STATUS_ERROR || s.GetError().GetReason() != commonv1.ErrorReason_ERROR_REASON_DEFINITION_CHANGED {
		t.Errorf("step %v", s)
	}
}

// If the tool is gone or quarantined, the step fails with an error that names it; if its schema no longer fits the input, that is an
// error about parameters like any other (A15).
func TestToolThatIsGoneOrChanged(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*commonv1.Tool) *commonv1.Tool
		reason commonv1.ErrorReason
		words  string
	}{
		"quarantined": {nil, commonv1.ErrorReason_ERROR_REASON_TOOL_QUARANTINED, "`pawl mcp approve t write` approves it"},
		"gone": {func(t *commonv1.Tool) *commonv1.Tool {
			if t.GetName() == "write" {
				return nil
			}
			return t
		}, commonv1.ErrorReason_ERROR_REASON_TOOL_NOT_FOUND, "t/write"},
		"schema": {only("write", func(t *commonv1.Tool) {
			t.DefinitionHash, t.InputSchemaJson = "other", `{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`
		}), commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT, "path"},
	} {
		t.Run(name, func(t *testing.T) {
			p := fake.Script("write")
			r := newRig(t, p)
			id := r.run(manual("change something"))[0].GetTaskId()
			wait, _ := r.asks(id)
			if name == "quarantined" {
				r.pool.Quarantined = "write"
			}
			r.pool.Reconfigure(c.change)
			r.mustApprove(id, wait.GetId(), "")
			var found *executorv1.StepError
			for seq := uint64(0); found == nil; {
				e := r.untilAfter(id, seq, executorv1.EventType_EVENT_TYPE_STEP_ERROR)
				seq = e.GetSeq()
				if e.GetStepError().GetError().GetReason() == c.reason {
					found = e.GetStepError()
				}
			}
			if !strings.Contains(found.GetError().GetErrMsg(), c.words) || found.GetOutcome() != commonv1.Outcome_OUTCOME_NOT_EXECUTED {
				t.Errorf("error %v, want %q in it", found, c.words)
			}
			if len(r.pool.Called()) != 0 {
				t.Errorf("calls %v", r.pool.Called())
			}
		})
	}
}

// If a person retries a call with an unknown outcome and the server has changed meanwhile, the call is shown again before it is made.
func TestRetryOfWhatChangedMeanwhile(t *testing.T) {
	r, id, wait := lostWrite(t, "write")
	r.pool.Reconfigure(nil)
	if _, err := r.outcome(id, wait.GetId(), retry()); err != nil {
		t.Fatal(err)
	}
	again, shown := r.asks(id)
	reason := shown.GetStepWaitingForStart().GetRisk().GetReason()
	for _, want := range []string{"has changed", "not known whether it ran"} {
		if !strings.Contains(reason, want) {
			t.Errorf("shown %q, want %q in it", reason, want)
		}
	}
	calls := len(r.pool.Called())
	r.mustApprove(id, again.GetId(), "")
	r.until(id, flowSuccess)
	if n := len(r.pool.Called()); n != calls+1 {
		t.Errorf("%d calls, want one more than %d", n, calls)
	}
}

// untilAny waits for an event of one of these kinds.
func (r *rig) untilAny(id string, after uint64, kinds ...executorv1.EventType) *executorv1.ExecutorEvent {
	r.t.Helper()
	stream, err := r.tasks.WatchTask(r.t.Context(), &executorv1.WatchTaskRequest{Id: id, AfterSeq: after})
	if err != nil {
		r.t.Fatal(err)
	}
	for {
		e, err := stream.Recv()
		if err != nil {
			r.t.Fatal(fmt.Errorf("waiting for %v: %w", kinds, err))
		}
		for _, k := range kinds {
			if e.GetType() == k {
				return e
			}
		}
	}
}
