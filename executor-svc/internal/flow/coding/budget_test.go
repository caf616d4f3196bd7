package coding

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// use draws what models use for an action: usually at most what its lane has reserved.
func (m *model) use(a flow.LaneAction) *storagev1.Usage {
	l, limits := flow.LaneOf(m.rig.task.State, a.Lane), m.rig.task.Head.GetLimits()
	draw := func(what string, limit, reserved uint64) uint64 {
		if limit == 0 {
			return 1
		}
		return uint64(rapid.IntRange(0, int(reserved)).Draw(m.T, what))
	}
	if ask, ok := a.Action.(flow.Ask); ok && !asksPlanner(ask) {
		return nil
	}
	u := &storagev1.Usage{
		ModelCalls:  uint32(draw("calls", uint64(limits.GetMaxModelCalls()), uint64(l.GetReservedModelCalls()))),
		InputTokens: draw("tokens", limits.GetMaxTokens(), l.GetReservedTokens()), CostNanoUsd: draw("money", limits.GetMaxCostNanoUsd(), l.GetReservedCostNanoUsd()),
	}
	if rapid.IntRange(0, 9).Draw(m.T, "uses more than allowed") == 0 {
		more := &storagev1.Usage{InputTokens: 7, CostNanoUsd: 5}
		flow.AddUsage(&m.beyond, more)
		flow.AddUsage(u, more)
	}
	flow.AddUsage(&m.spent, u)
	return u
}

// tooSmall sometimes replaces an error, or none, with the planner's refusal of a question whose budget is too small.
func (m *model) tooSmall(e *storagev1.ErrorNote) *storagev1.ErrorNote {
	if l := m.rig.task.Head.GetLimits(); l.GetMaxModelCalls()+uint32(l.GetMaxTokens()+l.GetMaxCostNanoUsd()) > 0 && rapid.IntRange(0, 5).Draw(m.T, "refused") == 0 {
		return &storagev1.ErrorNote{ErrMsg: "too small", Reason: commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED}
	}
	return e
}

// budgets: what was used and what is reserved never exceed a budget together, but for what answers used beyond their reservation. Model calls
// never exceed it, also if crashes lose the results. Each question has a durable share of all budgets.
func (m *model) budgets() {
	s, limits := m.rig.task.State, m.rig.task.Head.GetLimits()
	held := flow.AddUsage(nil, s.GetUsage())
	for _, l := range s.GetLanes() {
		flow.AddUsage(held, &storagev1.Usage{ModelCalls: l.GetReservedModelCalls(), InputTokens: l.GetReservedTokens(), CostNanoUsd: l.GetReservedCostNanoUsd()})
	}
	check := func(what string, limit, held, spent, lost, beyond uint64) {
		if limit > 0 && (held > limit+beyond || spent > limit+lost+beyond) {
			m.Fatalf("the budget of %d %s: %d are used or reserved, %d were spent; %d without a reservation: %s", limit, what, held, spent, beyond, m.rig.all())
		}
	}
	calls := uint64(m.spent.GetModelCalls() + m.rig.lost.GetModelCalls())
	check("model calls", uint64(limits.GetMaxModelCalls()), uint64(held.GetModelCalls()), calls, 0, 0)
	check("tokens", limits.GetMaxTokens(), held.GetInputTokens(), m.spent.GetInputTokens(), m.rig.lost.GetInputTokens(), m.beyond.GetInputTokens())
	check("money", limits.GetMaxCostNanoUsd(), held.GetCostNanoUsd(), m.spent.GetCostNanoUsd(), m.rig.lost.GetCostNanoUsd(), m.beyond.GetCostNanoUsd())
	if limits.GetMaxModelCalls() == 0 && limits.GetMaxTokens() == 0 && limits.GetMaxCostNanoUsd() == 0 {
		return
	}
	for _, a := range m.rig.pending {
		l := flow.LaneOf(s, a.Lane)
		if asksPlanner(a.Action) && (!a.Action.(flow.Ask).AfterCommit || limits.GetMaxModelCalls() > 0 && l.GetReservedModelCalls() == 0 ||
			limits.GetMaxTokens() > 0 && l.GetReservedTokens() == 0 || limits.GetMaxCostNanoUsd() > 0 && l.GetReservedCostNanoUsd() == 0) {
			m.Fatalf("lane %v asks without a durable share: %+v", l, a)
		}
	}
}

// limited returns a rig with subtasks a, b, c and d, which think at once.
func limited(t *testing.T, limits *storagev1.Limits) *rig {
	t.Helper()
	r := newRig(t, func(h *storagev1.TaskHead) {
		limits.MaxSteps, limits.MaxAttempts, limits.MaxFailedSteps, limits.MaxRecoveries = 25, 5, 3, 5
		h.Limits, h.PlanOptions = limits, &executorv1.PlanOptions{Confirm: executorv1.ConfirmPlan_CONFIRM_PLAN_NEVER}
	})
	r.plan("a b c d")
	return r
}

// shares returns what the lanes have reserved, by id.
func (r *rig) shares() (calls []uint32, tokens []uint64) {
	for _, l := range r.task.State.GetLanes() {
		calls, tokens = append(calls, l.GetReservedModelCalls()), append(tokens, l.GetReservedTokens())
	}
	return calls, tokens
}

func (r *rig) wantShares(calls []uint32, tokens []uint64) {
	r.Helper()
	if c, n := r.shares(); !slices.Equal(c, calls) || !slices.Equal(n, tokens) {
		r.Errorf("the lanes have %d calls and %d tokens, want %d and %d", c, n, calls, tokens)
	}
}

// Lanes that ask at once share what is left, and never get more together; what one does not use is shared by the next questions.
func TestLanesShareBudgets(t *testing.T) {
	r := limited(t, &storagev1.Limits{MaxModelCalls: 8, MaxTokens: 1000})
	r.wantShares([]uint32{0, 2, 2, 2, 2}, []uint64{0, 250, 250, 250, 250})
	in := calls("read")
	in.Usage = &storagev1.Usage{ModelCalls: 1, InputTokens: 40, OutputTokens: 10}
	r.thinks("a", in)
	r.wantShares([]uint32{0, 1, 2, 2, 2}, []uint64{0, 200, 250, 250, 250}) // its tool's server may ask models
	r.called("a", flow.Called{Usage: &storagev1.Usage{ModelCalls: 1, InputTokens: 100}})
	r.wantShares([]uint32{0, 0, 2, 2, 2}, []uint64{0, 0, 250, 250, 250}) // no call is left for a
	for _, p := range r.pending {
		if p.Lane == 1 {
			t.Errorf("%+v runs without a share", p)
		}
	}
	end := done("b")
	end.Usage = &storagev1.Usage{ModelCalls: 1, InputTokens: 50}
	r.thinks("b", end)
	r.wantShares([]uint32{0, 1, 2, 2}, []uint64{0, 300, 250, 250})
	r.observation("a")
}

// A task ends only if its budget is spent, and not while other lanes hold the rest.
func TestSpentBudgetOfLanes(t *testing.T) {
	r := limited(t, &storagev1.Limits{MaxModelCalls: 3})
	r.wantShares([]uint32{0, 1, 1, 1, 0}, []uint64{0, 0, 0, 0, 0})
	for _, s := range []string{"a", "b", "c"} {
		in := undone(s)
		in.Usage = &storagev1.Usage{ModelCalls: 1}
		if r.status(executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING); s == "a" {
			in.Usage = nil // it did not need its call
		}
		r.thinks(s, in)
	}
	r.status(executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING)
	in := done("a or d")
	in.Usage = &storagev1.Usage{ModelCalls: 1}
	r.must(r.pending[0].Lane, in)
	r.status(executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR)
	if e := r.task.State.GetError(); e.GetReason() != commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED {
		t.Error(e)
	}
}

// A question that is refused because its share is too small is asked again with all that is left, once the other lanes have returned theirs.
func TestShareTooSmall(t *testing.T) {
	refused := flow.Thought{Err: &storagev1.ErrorNote{ErrMsg: "too small", Reason: commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED}}
	r := limited(t, &storagev1.Limits{MaxTokens: 1000})
	r.thinks("a", refused)
	r.wantShares(make([]uint32, 5), []uint64{0, 0, 250, 250, 250})
	r.thinks("b", undone("b")) // waits until a has asked
	r.thinks("c", done("c"))
	r.wantShares(make([]uint32, 4), []uint64{0, 0, 0, 250})
	r.thinks("d", done("d"))
	r.wantShares(make([]uint32, 3), []uint64{0, 1000, 0})
	again := refused
	again.Usage = &storagev1.Usage{InputTokens: 100}
	r.thinks("a", again) // with all that is left: its subtask fails
	r.wantShares(make([]uint32, 2), []uint64{0, 900})
	r.thinks("b", done("b"))
	r.answer()
	r.status(executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR)
}

// A crash counts the model calls of the questions that it interrupts as made, and as many tokens as calls used on average.
func TestCrashWhileLanesAsk(t *testing.T) {
	r := limited(t, &storagev1.Limits{MaxModelCalls: 9, MaxTokens: 1000})
	in := undone("a")
	in.Usage = &storagev1.Usage{ModelCalls: 1, InputTokens: 30, OutputTokens: 10}
	r.thinks("a", in)
	r.wantShares([]uint32{0, 2, 2, 2, 2}, []uint64{0, 210, 250, 250, 250})
	r.crash()
	if u := r.task.State.GetUsage(); u.GetModelCalls() != 9 || u.GetInputTokens()+u.GetOutputTokens() != 40+4*80 {
		t.Errorf("after the crash: %v", u)
	}
	r.status(executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR)
}

// A grant that approves more calls than the budget allows ends the task, and is not refused.
func TestGrantBeyondTheBudget(t *testing.T) {
	r := limited(t, &storagev1.Limits{MaxToolCalls: 1})
	for _, s := range []string{"a", "b", "c", "d"} {
		r.thinks(s, calls("write"))
	}
	grant := &storagev1.Approve{WaitId: "wait-1", Grant: commonv1.RiskLevel_RISK_LEVEL_HIGH}
	if err := r.command(&storagev1.Command{Kind: &storagev1.Command_Approve{Approve: grant}}); err != nil {
		t.Fatal(err)
	}
	r.called("a", flow.Called{})
	r.status(executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR)
}
