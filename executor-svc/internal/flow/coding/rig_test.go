package coding

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// tester is a test, or a check of rapid.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// rig drives the flow as the engine does: it keeps the state, and the actions that run.
type rig struct {
	tester
	task    *flow.Task
	pending []flow.LaneAction
	stopped []uint32 // lanes whose calls were told to stop
	facts   []*storagev1.Fact
	seen    int // how many facts events has returned
	// lost is what questions had reserved whose results were lost.
	lost storagev1.Usage
}

func newRig(t tester, change ...func(*storagev1.TaskHead)) *rig {
	head := &storagev1.TaskHead{
		UserSub: "u", Goal: "g", Flow: Kind, Confirm: executorv1.Confirm_CONFIRM_BY_RISK,
		Limits: &storagev1.Limits{MaxSteps: 25, MaxFailedSteps: 3, MaxAttempts: 5, MaxRecoveries: 5},
	}
	for _, c := range change {
		c(head)
	}
	head.PlanOptions = Flow{}.PlanOptions(head.PlanOptions)
	r := &rig{tester: t, task: &flow.Task{ID: "task", Head: head, State: Flow{}.Start(), Now: time.Unix(1000, 0)}}
	r.resume(false)
	return r
}

func (r *rig) resume(recovered bool) {
	r.Helper()
	before := proto.CloneOf(r.task.State)
	r.drop(before, func(flow.LaneAction) bool { return true })
	r.stopped = nil
	tr, err := Flow{}.Resume(r.task, recovered)
	if err != nil {
		r.Fatalf("Resume: %v", err)
	}
	r.take(before, tr)
}

// crash loses what runs; the task is loaded from what was stored.
func (r *rig) crash() {
	r.Helper()
	raw, err := proto.Marshal(r.task.State)
	if err != nil {
		r.Fatal(err)
	}
	r.task.State = &storagev1.Checkpoint{}
	if err := proto.Unmarshal(raw, r.task.State); err != nil {
		r.Fatal(err)
	}
	r.resume(true)
}

// on applies an input and returns the flow's error. As in the engine, a refused or Unchanged transition leaves the state as it was.
func (r *rig) on(lane uint32, in flow.Input) error {
	r.Helper()
	before := proto.CloneOf(r.task.State)
	tr, err := Flow{}.Apply(r.task, lane, in)
	if err != nil {
		r.task.State = before
		return err
	}
	r.take(before, tr)
	return nil
}

// must applies an input that the flow must accept.
func (r *rig) must(lane uint32, in flow.Input) {
	r.Helper()
	if err := r.on(lane, in); err != nil {
		r.Fatalf("%T: %v after %v", in, err, r.all())
	}
}

func (r *rig) command(c *storagev1.Command) error {
	r.Helper()
	return r.on(0, flow.Command{Command: c})
}

func (r *rig) take(before *storagev1.Checkpoint, tr flow.Transition) {
	if tr.Unchanged {
		r.task.State = before
	}
	r.facts = append(r.facts, tr.Facts...)
	r.task.State.LastSeq += uint64(len(tr.Facts))
	r.task.State.UpdateTime = r.task.Now.UnixNano()
	for _, a := range tr.Actions {
		switch a.Action.(type) {
		case flow.Abandon:
			r.drop(before, func(p flow.LaneAction) bool { return p.Lane == a.Lane })
		case flow.StopCall:
			r.stopped = append(r.stopped, a.Lane)
		case flow.Withdraw:
		default:
			r.pending = append(r.pending, a)
		}
	}
}

// drop loses running actions.
func (r *rig) drop(before *storagev1.Checkpoint, lost func(flow.LaneAction) bool) {
	r.pending = slices.DeleteFunc(r.pending, func(a flow.LaneAction) bool {
		if lost(a) && asksPlanner(a.Action) {
			l := flow.LaneOf(before, a.Lane)
			flow.AddUsage(&r.lost, &storagev1.Usage{ModelCalls: l.GetReservedModelCalls(), InputTokens: l.GetReservedTokens(), CostNanoUsd: l.GetReservedCostNanoUsd()})
		}
		return lost(a)
	})
}

// asksPlanner reports whether an action asks the planner.
func asksPlanner(a flow.Action) bool {
	ask, ok := a.(flow.Ask)
	_, lists := ask.Question.(flow.RefreshTool)
	return ok && !lists
}

// pop returns an action of a subtask's lanes that fits, and removes it; subtask "" is lane 0.
func (r *rig) pop(subtask string, fits func(flow.Action) bool) flow.LaneAction {
	r.Helper()
	for i, a := range r.pending {
		if flow.LaneOf(r.task.State, a.Lane).GetSubtaskId() == subtask && fits(a.Action) {
			r.pending = slices.Delete(r.pending, i, i+1)
			return a
		}
	}
	r.Fatalf("nothing that fits runs for %q; there is %v after %v", subtask, r.pending, r.all())
	return flow.LaneAction{}
}

func asks[Q flow.Question](a flow.Action) bool {
	ask, ok := a.(flow.Ask)
	if !ok {
		return false
	}
	_, ok = ask.Question.(Q)
	return ok
}

// plan answers CreatePlan with the subtasks of "a b:a".
func (r *rig) plan(plan string, risk ...commonv1.RiskLevel) {
	r.Helper()
	a := r.pop("", asks[flow.CreatePlan])
	in := flow.PlanCreated{Tools: &storagev1.ToolsLoaded{}, Name: "name", Risk: &storagev1.RiskNote{Level: 1}, MainTask: "main", Subtasks: subtasks(plan)}
	if len(risk) > 0 {
		in.Risk.Level = risk[0]
	}
	r.must(a.Lane, in)
}

func subtasks(plan string) (out []*storagev1.PlannedSubtask) {
	for _, n := range nodes(plan) {
		out = append(out, &storagev1.PlannedSubtask{Id: n.id, Title: n.id, DependsOn: n.dependsOn})
	}
	return out
}

// thinks answers Think of a subtask.
func (r *rig) thinks(subtask string, in flow.Thought) {
	r.Helper()
	r.must(r.pop(subtask, asks[flow.Think]).Lane, in)
}

// reflects answers Reflect of a subtask.
func (r *rig) reflects(subtask string, in *storagev1.Reflection) {
	r.Helper()
	r.must(r.pop(subtask, asks[flow.Reflect]).Lane, flow.Thought{Reflection: in})
}

func calls(tools ...string) flow.Thought {
	in := flow.Thought{Reflection: &storagev1.Reflection{Summary: "so far", Next: "go on"}}
	for _, tool := range tools {
		p := &flow.PlannedStep{ToolID: "w/" + tool, InputJSON: `{}`, Risk: &storagev1.RiskNote{Level: 1}}
		p.Effect, p.RiskFloor = commonv1.Effect_EFFECT_READ, commonv1.RiskLevel_RISK_LEVEL_LOW
		switch {
		case strings.HasPrefix(tool, "run"): // writes, but needs no approval
			p.Effect = commonv1.Effect_EFFECT_WRITE
		case strings.HasPrefix(tool, "write"):
			p.Effect, p.RiskFloor = commonv1.Effect_EFFECT_WRITE, commonv1.RiskLevel_RISK_LEVEL_MEDIUM
		case strings.HasPrefix(tool, "bad"):
			p.Problem = "the path is missing"
		}
		in.Steps = append(in.Steps, p)
	}
	return in
}

func done(summary string) flow.Thought {
	return flow.Thought{Reflection: &storagev1.Reflection{Done: true, Summary: summary}}
}

func undone(summary string) flow.Thought {
	return flow.Thought{Reflection: &storagev1.Reflection{Summary: summary, Next: "more"}}
}

// isCall reports whether an action runs a call, or attaches to one.
func isCall(a flow.Action) bool {
	switch a.(type) {
	case flow.Call, flow.Attach:
		return true
	}
	return false
}

// called ends the first running call of a subtask.
func (r *rig) called(subtask string, out flow.Called) {
	r.Helper()
	a := r.pop(subtask, isCall)
	s := flow.LaneOf(r.task.State, a.Lane).GetStep()
	out.Ordinal, out.Attempt = s.GetOrdinal(), s.GetAttempt()
	if out.Outcome == 0 {
		out.Outcome = commonv1.Outcome_OUTCOME_KNOWN
	}
	if out.Err == nil && out.Output == "" {
		out.Output = `{"message":"ok"}`
	}
	r.must(a.Lane, out)
}

func failure(reason, text string) flow.Called {
	return flow.Called{Err: &storagev1.ErrorNote{ErrMsg: text, Reason: commonv1.ErrorReason(commonv1.ErrorReason_value["ERROR_REASON_"+reason])}}
}

func (r *rig) answer() {
	r.Helper()
	a := r.pop("", asks[flow.Answer])
	r.must(a.Lane, flow.Answered{FullAnswer: "answer", CutShort: a.Action.(flow.Ask).Question.(flow.Answer).CutShort})
}

func (r *rig) approve(wait string) {
	r.Helper()
	if err := r.command(&storagev1.Command{Kind: &storagev1.Command_Approve{Approve: &storagev1.Approve{WaitId: wait}}}); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) reject(wait, reason string) {
	r.Helper()
	if err := r.command(&storagev1.Command{Kind: &storagev1.Command_Reject{Reject: &storagev1.Reject{WaitId: wait, Reason: reason}}}); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) cancel(subtask string) error {
	r.Helper()
	return r.command(&storagev1.Command{Kind: &storagev1.Command_Cancel{Cancel: &storagev1.Cancel{SubtaskId: subtask}}})
}

// observation returns what the running thought of a subtask is told.
func (r *rig) observation(subtask string) string {
	r.Helper()
	a := r.pop(subtask, asks[flow.Think])
	r.pending = append(r.pending, a)
	return a.Action.(flow.Ask).Question.(flow.Think).Observation
}

// events returns the new events in short.
func (r *rig) events() string {
	var words []string
	for _, f := range r.facts[r.seen:] {
		words = append(words, shortly(f))
	}
	r.seen = len(r.facts)
	return strings.Join(words, " ")
}

func (r *rig) all() string {
	r.seen = 0
	return r.events()
}

func (r *rig) want(events string) {
	r.Helper()
	if got := r.events(); got != strings.Join(strings.Fields(events), " ") {
		r.Errorf("events:\n%s\nwant:\n%s", got, strings.Join(strings.Fields(events), " "))
	}
}

func (r *rig) status(want executorv1.ExecutorStatus) {
	r.Helper()
	if got := r.task.State.GetStatus(); got != want {
		r.Errorf("the task is %s, want %s", got, want)
	}
}

// shortly names a fact, with its subtask and step.
func shortly(f *storagev1.Fact) string {
	name := strings.TrimPrefix(fmt.Sprintf("%T", f.GetKind()), "*storagev1.Fact_")
	where := f.GetSubtaskId()
	if f.GetOrdinal() != 0 {
		where += fmt.Sprintf("/%d", f.GetOrdinal())
	}
	switch k := f.GetKind().(type) {
	case *storagev1.Fact_SubtaskChanged:
		return where + ":" + strings.TrimPrefix(k.SubtaskChanged.GetTo().String(), "SUBTASK_STATUS_")
	case *storagev1.Fact_PlanCreated:
		name = fmt.Sprintf("Plan%d", k.PlanCreated.GetRevision())
	case *storagev1.Fact_StepError:
		name += "," + strings.TrimPrefix(k.StepError.GetErrorClass().String(), "ERROR_CLASS_") + "," + strings.TrimPrefix(k.StepError.GetRecovery().String(), "RECOVERY_")
	case *storagev1.Fact_FileChanged:
		name += "," + k.FileChanged.GetPath()
	case *storagev1.Fact_StatusChanged:
		name = "Note"
	}
	if where != "" {
		name = where + ":" + name
	}
	return name
}
