package agent_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/flow/agent"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// world drives the flow with whatever a planner, a pool, people and crashes may do, and checks what must hold (A3–A6,
// A17, A19, A21, A26).
type world struct {
	*rapid.T
	task     *flow.Task
	pending  []flow.Effect
	events   []string
	attempts map[string]string // how each attempt ended; "" while it runs
	starts   int
	ended    bool
	// unsure holds "tool input" of calls that may have had their effect.
	unsure map[string]bool
	tools  map[uint32]string
}

var effectOf = map[string]commonv1.Effect{
	"t/read": commonv1.Effect_EFFECT_READ, "t/write": commonv1.Effect_EFFECT_WRITE, "t/destroy": commonv1.Effect_EFFECT_DESTRUCTIVE,
}

func TestFlowHoldsWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.takeUp()
		for n := 0; !w.ended; n++ {
			if n > 2000 {
				t.Fatalf("no end after %d moves: %v", n, w.events)
			}
			w.move()
		}
		for attempt, end := range w.attempts {
			if end == "" {
				t.Errorf("attempt %s has no end: %v", attempt, w.events)
			}
		}
	})
}

func newWorld(t *rapid.T) *world {
	head := &storagev1.TaskHead{
		UserSub: "u", Goal: "g", Flow: "agent",
		Confirm: rapid.SampledFrom([]executorv1.Confirm{
			executorv1.Confirm_CONFIRM_ALWAYS, executorv1.Confirm_CONFIRM_BY_RISK, executorv1.Confirm_CONFIRM_NEVER,
		}).Draw(t, "confirm"),
		Limits: &storagev1.Limits{MaxSteps: 6, MaxFailedSteps: 3, MaxAttempts: 5},
	}
	cp := &storagev1.Checkpoint{Status: executorv1.ExecutorStatus_EXECUTOR_STATUS_INIT, Phase: storagev1.Phase_PHASE_BEGIN}
	return &world{
		T: t, task: &flow.Task{ID: "task", Head: head, State: cp, Now: time.Unix(1, 0)},
		attempts: map[string]string{}, unsure: map[string]bool{}, tools: map[uint32]string{},
	}
}

// move lets one thing happen: mostly the next result, sometimes a person, sometimes a crash.
func (w *world) move() {
	switch what := rapid.IntRange(0, 9).Draw(w.T, "what"); {
	case what == 0:
		w.crash()
	case what == 1 && rapid.IntRange(0, 4).Draw(w.T, "cancel") == 0:
		w.command(&storagev1.Command{Kind: &storagev1.Command_Cancel{Cancel: &storagev1.Cancel{}}})
	case len(w.pending) > 0:
		w.result()
	case w.task.State.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING:
		w.person()
	default:
		w.Fatalf("nothing runs and nobody is asked in phase %s: %v", w.task.State.GetPhase(), w.events)
	}
}

// crash loses everything that was running; the task is taken up from its checkpoint.
func (w *world) crash() {
	for _, e := range w.pending {
		c, ok := e.(flow.Call)
		switch {
		case !ok:
		case rapid.Bool().Draw(w.T, "not started"):
			t, err := agent.Flow{}.On(w.task, flow.NotStarted{Ordinal: c.Ordinal})
			if err != nil {
				w.Fatal(err)
			}
			w.apply(t)
		default:
			w.mayHaveRun(c)
		}
	}
	w.pending = nil
	raw, err := proto.Marshal(w.task.State)
	if err != nil {
		w.Fatal(err)
	}
	w.task.State = &storagev1.Checkpoint{}
	if err := proto.Unmarshal(raw, w.task.State); err != nil {
		w.Fatal(err)
	}
	if w.task.State.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING {
		w.takeUp()
	}
}

func (w *world) takeUp() {
	t, err := agent.Flow{}.TakeUp(w.task)
	if err != nil {
		w.Fatalf("TakeUp: %v", err)
	}
	w.apply(t)
}

// command may be refused; then nothing may have changed (A6).
func (w *world) command(c *storagev1.Command) {
	before := proto.Clone(w.task.State).(*storagev1.Checkpoint)
	t, err := agent.Flow{}.On(w.task, flow.Command{Command: c})
	if err != nil {
		w.task.State = before // as the engine does
		return
	}
	w.apply(t)
}

func (w *world) person() {
	wait := w.task.State.GetWaits()[0].GetId()
	if rapid.IntRange(0, 5).Draw(w.T, "mistaken") == 0 {
		wait = "wait-0"
	}
	switch rapid.IntRange(0, 5).Draw(w.T, "answer") {
	case 0:
		w.command(&storagev1.Command{Kind: &storagev1.Command_Reject{Reject: &storagev1.Reject{WaitId: wait}}})
	case 1, 2:
		w.command(&storagev1.Command{Kind: &storagev1.Command_Params{Params: &storagev1.SupplyParams{WaitId: wait, Supplied: &storagev1.Supplied{ContentJson: "{}"}}}})
	default:
		w.command(&storagev1.Command{Kind: &storagev1.Command_Approve{Approve: &storagev1.Approve{WaitId: wait}}})
	}
}

func (w *world) result() {
	e := w.pending[0]
	w.pending = w.pending[1:]
	in := w.answer(e)
	if in == nil {
		return
	}
	t, err := agent.Flow{}.On(w.task, in)
	if err != nil {
		w.Fatalf("%T after %v: %v", in, w.events, err)
	}
	w.apply(t)
}

func (w *world) answer(e flow.Effect) flow.Input {
	switch e := e.(type) {
	case flow.Begin:
		return flow.Begun{Tools: &storagev1.ToolsLoaded{}, Name: "n", Risk: &storagev1.RiskNote{}, Plan: w.plan()}
	case flow.Plan:
		return w.plan()
	case flow.Call:
		return w.called(e)
	case flow.Derive:
		return w.derived(e.Ordinal)
	case flow.Fill:
		return w.derived(e.Ordinal)
	case flow.Judge:
		return flow.Judged{Ordinal: e.Ordinal, IsParamError: e.Known || rapid.Bool().Draw(w.T, "param error"), Message: "m", SchemaJSON: "{}"}
	case flow.Answer:
		if rapid.IntRange(0, 3).Draw(w.T, "more text") > 0 {
			w.pending = append(w.pending, e)
			return flow.Text{Text: "text"}
		}
		if rapid.IntRange(0, 4).Draw(w.T, "answer fails") == 0 {
			return flow.Answered{Err: &storagev1.ErrorNote{ErrMsg: "model"}}
		}
		return flow.Answered{FullAnswer: "text"}
	}
	return nil
}

func (w *world) plan() flow.Planned {
	switch rapid.IntRange(0, 9).Draw(w.T, "plan") {
	case 0:
		return flow.Planned{}
	case 1:
		return flow.Planned{Err: &storagev1.ErrorNote{ErrMsg: "no way on"}}
	}
	tool := rapid.SampledFrom([]string{"t/read", "t/write", "t/destroy"}).Draw(w.T, "tool")
	return flow.Planned{Step: &flow.PlannedStep{
		ToolID: tool, InputJSON: w.input(), Effect: effectOf[tool], Problem: w.problem(),
		Risk: &storagev1.RiskNote{Level: commonv1.RiskLevel_RISK_LEVEL_LOW}, RiskFloor: commonv1.RiskLevel(effectOf[tool]),
	}}
}

func (w *world) input() string {
	return fmt.Sprintf(`{"n":%d}`, rapid.IntRange(0, 3).Draw(w.T, "input"))
}

func (w *world) problem() string {
	return rapid.SampledFrom([]string{"", "", "", "does not fit"}).Draw(w.T, "problem")
}

func (w *world) derived(ordinal uint32) flow.Derived {
	if rapid.IntRange(0, 5).Draw(w.T, "underivable") == 0 {
		return flow.Derived{Ordinal: ordinal, Err: &storagev1.ErrorNote{ErrMsg: "cannot"}}
	}
	return flow.Derived{Ordinal: ordinal, Input: w.input(), Problem: w.problem()}
}

func (w *world) called(c flow.Call) flow.Called {
	out := flow.Called{Ordinal: c.Ordinal, Attempt: c.Attempt, Outcome: commonv1.Outcome_OUTCOME_KNOWN}
	switch rapid.IntRange(0, 4).Draw(w.T, "called") {
	case 0:
		out.Err = &storagev1.ErrorNote{ErrMsg: "tool", Reason: commonv1.ErrorReason_ERROR_REASON_TOOL_EXECUTION_FAILED}
	case 1:
		out.Err, out.Outcome = &storagev1.ErrorNote{ErrMsg: "refused", Reason: commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED}, commonv1.Outcome_OUTCOME_NOT_EXECUTED
	case 2:
		out.Err, out.Outcome = &storagev1.ErrorNote{ErrMsg: "lost", Reason: commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR}, commonv1.Outcome_OUTCOME_UNKNOWN
		w.mayHaveRun(c)
	default:
		out.Output = `{"message":"ok"}`
	}
	return out
}

func (w *world) mayHaveRun(c flow.Call) {
	for _, s := range w.task.State.GetActiveSteps() {
		if s.GetOrdinal() == c.Ordinal && s.GetEffect() != commonv1.Effect_EFFECT_READ {
			w.unsure[s.GetToolId()] = true
		}
	}
}

// apply checks a transition and takes its effects.
func (w *world) apply(t flow.Transition) {
	for _, f := range t.Facts {
		w.fact(f)
	}
	w.task.State.LastSeq += uint64(len(t.Facts))
	for _, e := range t.Effects {
		switch e := e.(type) {
		case flow.Call:
			w.mayCall(e)
			w.pending = append(w.pending, e)
		case flow.Abandon:
			w.pending = nil
		case flow.StopCall, flow.Release:
		default:
			w.pending = append(w.pending, e)
		}
	}
	if idle := t.Idle; idle != (w.ended || w.task.State.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING) {
		w.Fatalf("idle is %v in status %s", idle, w.task.State.GetStatus())
	}
	if w.ended != state.Ended(w.task.State.GetStatus()) {
		w.Fatalf("status %s does not fit the events %v", w.task.State.GetStatus(), w.events)
	}
}

// mayCall: a tool with a side effect whose outcome is unknown is never called again, by itself or another way.
func (w *world) mayCall(c flow.Call) {
	for _, s := range w.task.State.GetActiveSteps() {
		if s.GetOrdinal() == c.Ordinal && w.unsure[s.GetToolId()] {
			w.Fatalf("%s is called again although it may have run: %v", s.GetToolId(), w.events)
		}
	}
}

func (w *world) fact(f *storagev1.Fact) {
	if w.ended {
		w.Fatalf("%T after the end: %v", f.GetKind(), w.events)
	}
	w.events = append(w.events, fmt.Sprintf("%T(%d/%d)", f.GetKind(), f.GetOrdinal(), f.GetAttempt()))
	attempt := fmt.Sprintf("%d/%d", f.GetOrdinal(), f.GetAttempt())
	switch f.GetKind().(type) {
	case *storagev1.Fact_FlowStart:
		if w.starts++; w.starts > 1 {
			w.Fatalf("FLOW_START again: %v", w.events)
		}
	case *storagev1.Fact_StepInput:
		if _, known := w.attempts[attempt]; known {
			w.Fatalf("attempt %s begins again: %v", attempt, w.events)
		}
		w.attempts[attempt] = ""
	case *storagev1.Fact_StepOutput, *storagev1.Fact_StepError:
		if f.GetAttempt() == 0 {
			return // an error of the step: what a person supplied could not be filled in
		}
		if end, known := w.attempts[attempt]; !known || end != "" {
			w.Fatalf("attempt %s ends twice, or without a beginning: %v", attempt, w.events)
		}
		w.attempts[attempt] = "ended"
	case *storagev1.Fact_StepCancel:
		if _, known := w.attempts[attempt]; known {
			w.attempts[attempt] = "cancelled"
		}
	case *storagev1.Fact_FlowSuccess, *storagev1.Fact_FlowFailed, *storagev1.Fact_FlowCancel:
		w.ended = true
	}
}
