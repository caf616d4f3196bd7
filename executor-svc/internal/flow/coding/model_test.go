package coding

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// model drives the flow with what a planner, a pool, people, clocks and crashes may do, and checks what must hold after each input.
type model struct {
	*rapid.T
	rig      *rig
	checked  int // facts
	subtasks map[string]executorv1.SubtaskStatus
	needs    map[string][]string
	attempts map[string]bool // true once it has ended
	thoughts map[string]uint64
	starts   int
	ended    bool
	// spent is what models used; beyond is the part that answers used although it was not reserved for them.
	spent, beyond storagev1.Usage
}

// D1, D2, D3, D7, A17, A26: whatever happens, the task ends, and the rules of checks hold.
func TestFlowHoldsWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { newModel(t).finish() })
}

func newModel(t *rapid.T) *model {
	m := &model{T: t}
	m.clear()
	m.rig = newRig(t, m.head)
	m.check()
	return m
}

// clear forgets all facts.
func (m *model) clear() {
	m.subtasks, m.needs, m.attempts, m.thoughts = map[string]executorv1.SubtaskStatus{}, map[string][]string{}, map[string]bool{}, map[string]uint64{}
}

// finish moves until the task ends.
func (m *model) finish() {
	for n := 0; !m.ended; n++ {
		if n > 3000 {
			m.Fatalf("no end after %d moves: %s", n, m.rig.all())
		}
		m.move()
		m.check()
	}
	m.checkEnd()
}

func (m *model) head(h *storagev1.TaskHead) {
	h.Confirm = rapid.SampledFrom([]executorv1.Confirm{
		executorv1.Confirm_CONFIRM_ALWAYS, executorv1.Confirm_CONFIRM_BY_RISK, executorv1.Confirm_CONFIRM_NEVER,
	}).Draw(m.T, "confirm")
	h.OnUnknownOutcome = executorv1.OnUnknownOutcome(rapid.IntRange(0, 3).Draw(m.T, "unknown outcomes"))
	h.WaitTimeout = int64(rapid.IntRange(0, 1).Draw(m.T, "wait timeout")) * int64(time.Minute)
	h.PlanOptions = &executorv1.PlanOptions{
		Confirm:     executorv1.ConfirmPlan(rapid.IntRange(0, 3).Draw(m.T, "confirm plan")),
		MaxParallel: uint32(rapid.IntRange(1, 4).Draw(m.T, "max_parallel")), MaxLoops: uint32(rapid.IntRange(1, 6).Draw(m.T, "max_loops")), MaxSubtasks: 12,
	}
	if rapid.IntRange(0, 3).Draw(m.T, "limited") == 0 {
		h.PlanOptions.MaxSubtaskRunTime = durationpb.New(time.Duration(rapid.IntRange(1, 200).Draw(m.T, "subtask run time")) * time.Second)
		h.Limits.MaxRunTime = int64(rapid.IntRange(0, 500).Draw(m.T, "run time")) * int64(time.Second)
		h.Limits.MaxModelCalls = uint32(rapid.IntRange(0, 40).Draw(m.T, "model calls"))
		h.Limits.MaxTokens = uint64(rapid.IntRange(0, 400).Draw(m.T, "tokens"))
		h.Limits.MaxCostNanoUsd = uint64(rapid.IntRange(0, 400).Draw(m.T, "money"))
		h.Limits.MaxToolCalls = uint32(rapid.IntRange(0, 20).Draw(m.T, "tool calls"))
	} else {
		h.Limits.MaxRecoveries = 0
	}
}

// move lets one thing happen: mostly the next result, sometimes a person, a clock or a crash.
func (m *model) move() {
	r := m.rig
	r.task.Now = r.task.Now.Add(time.Duration(rapid.IntRange(0, 10).Draw(m.T, "seconds")) * time.Second)
	switch what := rapid.IntRange(0, 29).Draw(m.T, "what"); {
	case what == 0:
		m.interrupt()
	case what == 1 && rapid.IntRange(0, 9).Draw(m.T, "cancel") == 0:
		_ = r.cancel("")
	case what == 2 && len(m.subtasks) > 0:
		_ = r.cancel(rapid.SampledFrom(m.known()).Draw(m.T, "cancelled"))
	case what == 3:
		_ = r.command(&storagev1.Command{Kind: &storagev1.Command_Pause{Pause: &storagev1.Pause{}}})
	case what == 4:
		r.must(0, flow.Timeout{})
	case len(r.task.State.GetWaits()) > 0 && (len(r.pending) == 0 || what < 10):
		m.person()
	case len(r.pending) > 0:
		i := rapid.IntRange(0, len(r.pending)-1).Draw(m.T, "which")
		a := r.pending[i]
		r.pending = slices.Delete(r.pending, i, i+1)
		m.result(a)
	default:
		m.Fatalf("nothing runs and no one is asked: %s", r.all())
	}
}

func (m *model) known() (ids []string) {
	for id := range m.subtasks {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// interrupt ends the process; some calls had not been sent, and are known to be.
func (m *model) interrupt() {
	for _, a := range m.rig.pending {
		if call, ok := a.Action.(flow.Call); ok && rapid.Bool().Draw(m.T, "not sent") {
			m.rig.must(a.Lane, flow.NotStarted{Ordinal: call.Ordinal})
		}
	}
	m.rig.crash()
}

func (m *model) person() {
	waits := m.rig.task.State.GetWaits()
	w := waits[rapid.IntRange(0, len(waits)-1).Draw(m.T, "wait")]
	c := &storagev1.Command{}
	switch n := rapid.IntRange(0, 4).Draw(m.T, "answer"); {
	case w.GetKind() == executorv1.WaitKind_WAIT_KIND_PAUSE:
		c.Kind = &storagev1.Command_Unpause{Unpause: &storagev1.Unpause{}}
	case w.GetKind() == executorv1.WaitKind_WAIT_KIND_INPUT:
		c.Kind = &storagev1.Command_Input{Input: &storagev1.SupplyInput{WaitId: w.GetId(), Action: executorv1.InputAnswer_Action(max(1, min(n, 3)))}}
	case n == 0:
		c.Kind = &storagev1.Command_Reject{Reject: &storagev1.Reject{WaitId: w.GetId()}}
	case w.GetKind() == executorv1.WaitKind_WAIT_KIND_OUTCOME:
		o := &storagev1.SettleOutcome{WaitId: w.GetId(), Answer: &storagev1.SettleOutcome_Retry{Retry: true}}
		switch n {
		case 1:
			o.Answer = &storagev1.SettleOutcome_Skip{}
		case 2:
			o.Answer = &storagev1.SettleOutcome_OutputJson{OutputJson: `{"message":"seen"}`}
		}
		c.Kind = &storagev1.Command_Outcome{Outcome: o}
	default:
		a := &storagev1.Approve{WaitId: w.GetId()}
		if w.GetKind() == executorv1.WaitKind_WAIT_KIND_PLAN && n == 1 {
			a.Plan = &storagev1.PlanCreated{Subtasks: m.draw(nil)}
		}
		c.Kind = &storagev1.Command_Approve{Approve: a}
	}
	if err := m.rig.command(c); err != nil {
		m.Fatalf("%v: %v; %v: %s", c, err, m.rig.task.State, m.rig.all())
	}
}

// draw draws subtasks of a plan, or of a change of the plan.
func (m *model) draw(g *graph) []*storagev1.PlannedSubtask {
	var out []*storagev1.PlannedSubtask
	for _, n := range drawNodes(m.T, g) {
		out = append(out, &storagev1.PlannedSubtask{Id: n.id, DependsOn: n.dependsOn})
	}
	return out
}

// result lets an action end, or go on.
func (m *model) result(a flow.LaneAction) {
	r := m.rig
	switch action := a.Action.(type) {
	case flow.Ask:
		if _, thinks := action.Question.(flow.Think); thinks && rapid.IntRange(0, 2).Draw(m.T, "more") == 0 {
			r.must(a.Lane, flow.Thinking{Text: "é"})
			r.pending = append(r.pending, a)
			return
		}
		usage := m.use(a)
		switch q := action.Question.(type) {
		case flow.CreatePlan:
			in := m.planned(usage)
			in.Err = m.tooSmall(in.Err)
			r.must(a.Lane, in)
		case flow.Think:
			in := m.thought(usage)
			in.Err = m.tooSmall(in.Err)
			r.must(a.Lane, in)
		case flow.Reflect:
			r.must(a.Lane, flow.Thought{Reflection: &storagev1.Reflection{Done: rapid.Bool().Draw(m.T, "done")}, Usage: usage})
		case flow.RefreshTool:
			r.must(a.Lane, flow.ToolRefreshed{Ordinal: q.Ordinal, Tool: &flow.Tool{DefinitionHash: fmt.Sprint(rapid.IntRange(0, 3).Draw(m.T, "definition"))}})
		case flow.Answer:
			out := flow.Answered{FullAnswer: "answer", Usage: usage}
			if rapid.IntRange(0, 9).Draw(m.T, "no answer") == 0 {
				out.Err = &storagev1.ErrorNote{ErrMsg: "no model"}
			}
			r.must(a.Lane, out)
		default:
			m.Fatalf("the flow asks %T", q)
		}
	default:
		m.called(a)
	}
}

func (m *model) planned(usage *storagev1.Usage) flow.PlanCreated {
	in := flow.PlanCreated{Tools: &storagev1.ToolsLoaded{}, Risk: &storagev1.RiskNote{Level: levels.Draw(m.T, "risk")}, Subtasks: m.draw(nil), Usage: usage}
	switch rapid.IntRange(0, 14).Draw(m.T, "plan") {
	case 0:
		in.Subtasks = subtasks("a:b b:a")
	case 1:
		in.Tools, in.Err = nil, &storagev1.ErrorNote{ErrMsg: "no plan"}
	}
	return in
}

var levels = rapid.Map(rapid.IntRange(1, 3), func(n int) commonv1.RiskLevel { return commonv1.RiskLevel(n) })

func (m *model) thought(usage *storagev1.Usage) flow.Thought {
	var tools []string
	for range max(0, rapid.IntRange(-2, 10).Draw(m.T, "calls")) {
		tools = append(tools, rapid.SampledFrom([]string{"read", "read", "read", "run", "write", "bad"}).Draw(m.T, "tool"))
	}
	in := calls(tools...)
	in.Usage = usage
	for i, s := range in.Steps {
		s.InputJSON = fmt.Sprintf(`{"n":%d}`, rapid.IntRange(0, 9).Draw(m.T, "input"))
		s.DefinitionHash = fmt.Sprint(i % 2)
	}
	switch rapid.IntRange(0, 9).Draw(m.T, "thought") {
	case 0, 1, 2:
		in.Reflection.Done = true
	case 3:
		in.Reflection = nil
	case 4:
		in = flow.Thought{Err: &storagev1.ErrorNote{ErrMsg: "cannot think"}, Usage: usage}
	case 5:
		g := &rules{}
		if loaded, err := load(m.rig.task.State); err == nil {
			g = loaded
		}
		in.Change = &flow.PlanChange{Add: m.draw(&g.graph), Drop: []string{drawID(m.T, &g.graph)}, Order: []string{drawID(m.T, &g.graph)}}
	}
	return in
}

// called ends a call, or lets it ask a person.
func (m *model) called(a flow.LaneAction) {
	r := m.rig
	s := flow.LaneOf(r.task.State, a.Lane).GetStep()
	out := flow.Called{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt(), Round: s.GetRound(), Outcome: commonv1.Outcome_OUTCOME_KNOWN, Output: `{}`}
	fail := func(reason string, o commonv1.Outcome) { out.Err, out.Outcome = failure(reason, reason).Err, o }
	attach, attached := a.Action.(flow.Attach)
	switch rapid.IntRange(0, 9).Draw(m.T, "called") {
	case 0:
		fail("TOOL_EXECUTION_FAILED", commonv1.Outcome_OUTCOME_KNOWN)
	case 1:
		fail("LOGIN_REQUIRED", commonv1.Outcome_OUTCOME_NOT_EXECUTED)
	case 2:
		fail("TOOL_NOT_FOUND", commonv1.Outcome_OUTCOME_NOT_EXECUTED)
	case 3:
		fail("NETWORK_ERROR", commonv1.Outcome_OUTCOME_UNKNOWN)
		out.Lost = rapid.Bool().Draw(m.T, "lost by Pawl")
	case 4:
		fail("DEFINITION_CHANGED", commonv1.Outcome_OUTCOME_NOT_EXECUTED)
	case 5:
		if !attached || !attach.Stopping {
			r.must(a.Lane, flow.Elicited{Ordinal: out.Ordinal, Attempt: out.Attempt, Elicitations: []flow.Elicitation{{InputID: "q", Message: "which?"}}})
			return
		}
	case 6:
		r.must(a.Lane, flow.Progress{Ordinal: out.Ordinal, Attempt: out.Attempt, Progress: &storagev1.ToolProgress{}})
		r.pending = append(r.pending, a)
		return
	}
	if out.Outcome == commonv1.Outcome_OUTCOME_KNOWN && rapid.IntRange(0, 3).Draw(m.T, "asks models") == 0 {
		out.Usage = m.use(a)
	}
	if slices.Contains(r.stopped, a.Lane) && rapid.Bool().Draw(m.T, "stopped") {
		fail("CANCELLED", commonv1.Outcome_OUTCOME_KNOWN)
	}
	r.must(a.Lane, out)
}
