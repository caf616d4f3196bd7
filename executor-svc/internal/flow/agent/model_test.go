package agent_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/flow/agent"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// world drives the flow with whatever a planner, a pool, people, clocks and crashes may do, and checks what must hold. The
// pool is modelled with what it knows and with what really happened.
type world struct {
	*rapid.T
	task     *flow.Task
	pending  []flow.LaneAction
	branches int
	lane     uint32 // whose turn it is
	events   []string
	attempts map[string]string // how each attempt ended; "" while it runs
	starts   int
	ended    bool
	pool     *poolModel
	refused  refusals
	accepted acceptances
	approved approvals
}

func TestFlowHoldsWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.resume(false)
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
	limits := &storagev1.Limits{MaxSteps: 6, MaxFailedSteps: 3, MaxAttempts: 5}
	if rapid.IntRange(0, 2).Draw(t, "bounded") == 0 {
		limits.MaxToolCalls = uint32(rapid.IntRange(0, 4).Draw(t, "tool calls"))
		limits.MaxModelCalls = uint32(rapid.IntRange(0, 8).Draw(t, "model calls"))
		limits.MaxTokens = uint64(rapid.IntRange(0, 50).Draw(t, "tokens"))
		limits.MaxRunTime = int64(rapid.IntRange(0, 100).Draw(t, "run time")) * int64(time.Second)
		limits.MaxRecoveries = uint32(rapid.IntRange(0, 5).Draw(t, "recoveries"))
	}
	head := &storagev1.TaskHead{
		UserSub: "u", Goal: "g", Flow: "agent", Limits: limits,
		Confirm: rapid.SampledFrom([]executorv1.Confirm{
			executorv1.Confirm_CONFIRM_ALWAYS, executorv1.Confirm_CONFIRM_BY_RISK, executorv1.Confirm_CONFIRM_NEVER,
		}).Draw(t, "confirm"),
		OnUnknownOutcome: executorv1.OnUnknownOutcome(rapid.IntRange(0, 3).Draw(t, "policy")),
		WaitTimeout:      int64(rapid.IntRange(0, 1).Draw(t, "wait timeout")) * int64(time.Minute),
	}
	cp := agent.New().Start()
	cp.LastSeq = 0
	w := &world{
		T: t, task: &flow.Task{ID: "task", Head: head, State: cp, Now: time.Unix(1, 0)}, attempts: map[string]string{}, refused: refusals{}, accepted: acceptances{}, approved: approvals{},
	}
	w.pool = newPoolModel(w)
	return w
}

// move lets one thing happen: mostly the next result, sometimes a person, a clock or a crash.
func (w *world) move() {
	w.task.Now = w.task.Now.Add(time.Duration(rapid.IntRange(0, 20).Draw(w.T, "seconds")) * time.Second)
	switch what := rapid.IntRange(0, 19).Draw(w.T, "what"); {
	case what <= 1:
		w.crash()
	case what == 2 && rapid.IntRange(0, 4).Draw(w.T, "cancel") == 0:
		w.command(&storagev1.Command{Kind: &storagev1.Command_Cancel{Cancel: &storagev1.Cancel{}}})
	case what == 3:
		w.command(&storagev1.Command{Kind: &storagev1.Command_Pause{Pause: &storagev1.Pause{}}})
	case what == 4:
		w.apply(w.on(0, flow.Timeout{}))
	case what == 5:
		w.pool.revision++ // an operator changes the server
	case what == 6 && len(w.task.State.GetWaits()) > 0:
		w.person() // also while other lanes go on
	case len(w.pending) > 0:
		w.result()
	case w.status() == executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING:
		w.person()
	default:
		w.Fatalf("nothing runs and no one is asked in lanes %v: %v", w.task.State.GetLanes(), w.events)
	}
}

func (w *world) status() executorv1.ExecutorStatus { return w.task.State.GetStatus() }

// on gives the flow an input that it must accept. As in the engine, an Unchanged transition leaves the state as it was.
func (w *world) on(lane uint32, in flow.Input) flow.Transition {
	before := proto.Clone(w.task.State).(*storagev1.Checkpoint)
	t, err := agent.New().Apply(w.task, lane, in)
	if err != nil {
		w.Fatalf("%T in lane %d of %v after %v: %v", in, lane, before.GetLanes(), w.events, err)
	}
	if t.Unchanged {
		w.task.State = before
	}
	return t
}

// crash loses everything that was running; the task is loaded from its checkpoint. The pool may die with it.
func (w *world) crash() {
	for _, p := range w.pending {
		switch e := p.Action.(type) {
		case flow.Call:
			w.pool.interrupted(p.Lane, e)
		case flow.Attach:
			w.pool.answered(e)
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
	w.pool.forget(rapid.Bool().Draw(w.T, "the pool dies too"))
	w.resume(true)
}

func (w *world) resume(recovered bool) {
	before := proto.Clone(w.task.State).(*storagev1.Checkpoint)
	t, err := agent.New().Resume(w.task, recovered)
	if err != nil {
		w.Fatalf("Resume: %v", err)
	}
	if t.Unchanged {
		w.task.State = before
	}
	w.apply(t)
}

// command gives the flow a command, which it may refuse. As in the engine, a refusal leaves the state as it was.
func (w *world) command(c *storagev1.Command) {
	before := proto.Clone(w.task.State).(*storagev1.Checkpoint)
	t, err := agent.New().Apply(w.task, 0, flow.Command{Command: c})
	if err != nil || t.Unchanged {
		w.task.State = before // as the engine does
	}
	if err == nil {
		w.apply(t)
	}
}

func (w *world) person() {
	waits := w.task.State.GetWaits()
	i := rapid.IntRange(0, len(waits)-1).Draw(w.T, "wait")
	wait := waits[i].GetId()
	w.lane = waits[i].GetLane()
	if rapid.IntRange(0, 5).Draw(w.T, "mistaken") == 0 {
		wait = "wait-0"
	}
	w.pool.deciding(w.task.State.GetLanes())
	if w.pool.isQuestion(wait) && rapid.IntRange(0, 3).Draw(w.T, "input") > 0 {
		action := executorv1.InputAnswer_Action(rapid.IntRange(1, 3).Draw(w.T, "action"))
		w.refused.said(w.pool.stepOf(wait), action)
		w.accepted.said(w.pool.step(w.pool.stepOf(wait)), action)
		w.command(&storagev1.Command{Kind: &storagev1.Command_Input{Input: &storagev1.SupplyInput{WaitId: wait, Action: action}}})
		return
	}
	if rapid.IntRange(0, 4).Draw(w.T, "the pool dies meanwhile") == 0 {
		w.pool.forget(true)
	}
	switch rapid.IntRange(0, 9).Draw(w.T, "answer") {
	case 0:
		w.command(&storagev1.Command{Kind: &storagev1.Command_Reject{Reject: &storagev1.Reject{WaitId: wait}}})
	case 1, 2:
		w.command(&storagev1.Command{Kind: &storagev1.Command_Params{Params: &storagev1.SupplyParams{WaitId: wait, Supplied: &storagev1.Supplied{ContentJson: "{}"}}}})
	case 3, 4:
		w.command(&storagev1.Command{Kind: &storagev1.Command_Unpause{Unpause: &storagev1.Unpause{}}})
	case 5:
		w.accepted.retry(w.pool.stepOf(wait))
		w.approved.said(w.pool.step(w.pool.stepOf(wait)))
		w.command(outcome(&storagev1.SettleOutcome{WaitId: wait, Answer: &storagev1.SettleOutcome_Retry{Retry: true}}))
	case 6:
		w.pool.seen(wait)
		w.command(outcome(&storagev1.SettleOutcome{WaitId: wait, Answer: &storagev1.SettleOutcome_OutputJson{OutputJson: `{"message":"seen"}`}}))
	case 7:
		w.command(outcome(&storagev1.SettleOutcome{WaitId: wait, Answer: &storagev1.SettleOutcome_Skip{}}))
	default:
		a := &storagev1.Approve{WaitId: wait}
		if rapid.IntRange(0, 3).Draw(w.T, "edited") == 0 {
			a.InputJson = w.input()
		}
		if a.Grant = levels.Draw(w.T, "grant"); a.Grant != 0 {
			w.approved.granted(w.pool.step(w.pool.stepOf(wait)), w.task.State.GetLanes())
		}
		w.approved.said(w.pool.step(w.pool.stepOf(wait)))
		w.command(&storagev1.Command{Kind: &storagev1.Command_Approve{Approve: a}})
	}
	w.pool.deciding(nil)
}

func outcome(o *storagev1.SettleOutcome) *storagev1.Command {
	return &storagev1.Command{Kind: &storagev1.Command_Outcome{Outcome: o}}
}

func (w *world) result() {
	i := rapid.IntRange(0, len(w.pending)-1).Draw(w.T, "result")
	e := w.pending[i]
	w.pending = slices.Delete(w.pending, i, i+1)
	w.lane = e.Lane
	if in := w.answer(e); in != nil {
		w.apply(w.on(e.Lane, in))
	}
}

// apply checks a transition and takes its actions.
func (w *world) apply(t flow.Transition) {
	for _, f := range t.Facts {
		w.fact(f)
	}
	w.task.State.LastSeq += uint64(len(t.Facts))
	w.task.State.UpdateTime = w.task.Now.UnixNano()
	for _, a := range t.Actions {
		switch e := a.Action.(type) {
		case flow.Call:
			w.pool.started(e)
			w.pending = append(w.pending, a)
		case flow.Abandon:
			w.pending = slices.DeleteFunc(w.pending, func(p flow.LaneAction) bool { return p.Lane == a.Lane })
		case flow.StopCall:
		case flow.Withdraw:
			if !w.pool.withdrawn(e) {
				w.Fatalf("a call is withdrawn that does not wait: %v", w.events)
			}
		default:
			w.pending = append(w.pending, a)
		}
	}
	if w.ended != state.Ended(w.status()) {
		w.Fatalf("status %s does not fit the events %v", w.status(), w.events)
	}
	w.waitsFit()
}

// waitsFit: a task waits for people exactly while there is something to answer and nothing runs in any lane.
func (w *world) waitsFit() {
	waiting := w.status() == executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING
	if waits := len(w.task.State.GetWaits()); waiting && waits == 0 || !waiting && waits > 0 && len(w.pending) == 0 {
		w.Fatalf("%d waits in status %s: %v", waits, w.status(), w.events)
	}
	if waiting && len(w.pending) > 0 {
		w.Fatalf("%T runs while the task waits: %v", w.pending[0], w.events)
	}
}

func (w *world) fact(f *storagev1.Fact) {
	if w.ended {
		w.Fatalf("%T after the end: %v", f.GetKind(), w.events)
	}
	w.events = append(w.events, fmt.Sprintf("%T(%d/%d)", f.GetKind(), f.GetOrdinal(), f.GetAttempt())[len("*storagev1.Fact_"):])
	attempt := fmt.Sprintf("%d/%d", f.GetOrdinal(), f.GetAttempt())
	switch k := f.GetKind().(type) {
	case *storagev1.Fact_FlowStart:
		if w.starts++; w.starts > 1 {
			w.Fatalf("FLOW_START again: %v", w.events)
		}
	case *storagev1.Fact_StepInput:
		if _, known := w.attempts[attempt]; known {
			w.Fatalf("attempt %s begins again: %v", attempt, w.events)
		}
		if w.refused.final(f.GetOrdinal()) {
			w.Fatalf("%s is called again although a person said no: %v", f.GetToolId(), w.events)
		}
		w.refused.asked(f.GetOrdinal()) // a person decided on this attempt after saying no
		if wrong := w.approved.void(w.pool.step(f.GetOrdinal())); wrong != "" {
			w.Fatalf("%s: %v", wrong, w.events)
		}
		w.attempts[attempt] = ""
	case *storagev1.Fact_InputRequired:
		if end, begun := w.attempts[attempt]; !begun || end != "" {
			w.Fatalf("attempt %s asks, and does not run: %v", attempt, w.events)
		}
		w.refused.asked(f.GetOrdinal())
	case *storagev1.Fact_StepOutput:
		w.attemptEnds(f, attempt)
	case *storagev1.Fact_StepError:
		w.attemptEnds(f, attempt)
		w.refused.failed(f.GetOrdinal(), k.StepError.GetOutcome())
		w.accepted.failed(f.GetOrdinal(), k.StepError.GetOutcome())
	case *storagev1.Fact_StatusChanged:
		if wrong := w.accepted.again(f, repeats(f.GetToolId())); wrong != "" {
			w.Fatalf("%s: %v", wrong, w.events)
		}
	case *storagev1.Fact_StepWaitingForStart:
		if k.StepWaitingForStart.GetOutcomeUnknown() != nil {
			w.attemptEnds(f, attempt)
		}
	case *storagev1.Fact_StepCancel:
		if f.GetAttempt() != 0 {
			w.attemptEnds(f, attempt)
		}
	case *storagev1.Fact_FlowSuccess, *storagev1.Fact_FlowFailed, *storagev1.Fact_FlowCancel:
		w.ended = true
	}
}

func (w *world) attemptEnds(f *storagev1.Fact, attempt string) {
	if f.GetAttempt() == 0 {
		return // the step's end, after that of its attempts
	}
	if end, known := w.attempts[attempt]; !known || end != "" {
		w.Fatalf("attempt %s ends twice, or without a beginning: %v", attempt, w.events)
	}
	w.attempts[attempt] = "ended"
}
