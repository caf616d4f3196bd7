package step

import (
	"fmt"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/humantime"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Budgets of models (calls, tokens, money) are shared by a task's lanes. Before a lane asks the planner, and before its tool call, whose server
// may ask models, it reserves a share of what is left and no other lane has reserved. The result replaces the reservation with what was used. So
// the lanes never hold more than is left, whatever their order; a budget is exceeded only by as much as a model uses beyond what it was allowed.
//
// A lane that gets nothing, because others have reserved all that is left, waits for them (PHASE_IDLE, with the phase it continues in). A
// question that is refused because its share is too small is asked again with all that is left, once no other lane holds a reservation.

// questionCalls bounds the model calls that are reserved for a question; more are seldom needed. A question that is refused for want of them is
// asked again with all that are left.
const questionCalls = 3

// modelUse counts model calls, tokens, and money in billionths of a US dollar.
type modelUse [3]uint64

func (d *Draft) modelLimits() modelUse {
	l := d.Task.Head.GetLimits()
	return modelUse{uint64(l.GetMaxModelCalls()), l.GetMaxTokens(), l.GetMaxCostNanoUsd()}
}

func (d *Draft) modelsUsed() modelUse {
	u := d.Checkpoint.GetUsage()
	return modelUse{uint64(u.GetModelCalls()), u.GetInputTokens() + u.GetOutputTokens(), u.GetCostNanoUsd()}
}

func reserved(l *storagev1.Lane) modelUse {
	return modelUse{uint64(l.GetReservedModelCalls()), l.GetReservedTokens(), l.GetReservedCostNanoUsd()}
}

func (l Lane) setReserved(u modelUse) {
	l.State.ReservedModelCalls, l.State.ReservedTokens, l.State.ReservedCostNanoUsd = uint32(u[0]), u[1], u[2]
}

// reserve reserves a share of the budgets, and at most maxCalls model calls. It returns false if the lane has to wait for other lanes.
func (l Lane) reserve(maxCalls uint64) bool {
	share, ok := l.share(maxCalls)
	if ok {
		l.setReserved(share)
	}
	return ok
}

// share returns the share of the budgets that the lane may reserve; ok is false if it has to wait for other lanes.
func (l Lane) share(maxCalls uint64) (share modelUse, ok bool) {
	if l.modelLimits() == (modelUse{}) {
		return share, true
	}
	held, sharing := modelUse{}, uint64(1)
	for _, other := range l.Checkpoint.GetLanes() {
		switch r := reserved(other); {
		case other == l.State:
		case other.GetBudgetShort() && (r != modelUse{} || !l.State.GetBudgetShort() || other.GetId() < l.State.GetId()):
			return share, false // its turn comes first
		case r != modelUse{}:
			held = modelUse{held[0] + r[0], held[1] + r[1], held[2] + r[2]}
		case waitsForBudget(other) || other.GetPhase() != storagev1.Phase_PHASE_WAIT && other.GetPhase() != storagev1.Phase_PHASE_IDLE:
			sharing++
		}
	}
	if l.State.GetBudgetShort() {
		if held != (modelUse{}) {
			return share, false
		}
		sharing = 1
	}
	return l.divide(held, sharing, maxCalls)
}

// divide returns the lane's share of what is left besides held; ok is false if nothing is left of a budget.
func (l Lane) divide(held modelUse, sharing, maxCalls uint64) (share modelUse, ok bool) {
	used := l.modelsUsed()
	for i, limit := range l.modelLimits() {
		if limit == 0 {
			continue
		}
		left := limit - min(limit, used[i]+held[i])
		if share[i] = (left + sharing - 1) / sharing; left == 0 {
			return modelUse{}, false
		}
	}
	if !l.State.GetBudgetShort() {
		share[0] = min(share[0], maxCalls)
	}
	return share, true
}

// waitsForBudget reports whether a lane waits for what other lanes have reserved.
func waitsForBudget(l *storagev1.Lane) bool {
	return l.GetPhase() == storagev1.Phase_PHASE_IDLE && l.GetPausedPhase() != storagev1.Phase_PHASE_UNSPECIFIED
}

// getsBudget reports whether a lane that waits for budgets can continue now: with a share, or to end the task because a budget is spent.
func (l Lane) getsBudget() bool {
	if !waitsForBudget(l.State) || l.Checkpoint.GetPauseRequested() {
		return false
	}
	_, ok := l.share(questionCalls)
	return ok || l.spentModels() != ""
}

// settle replaces the lane's reservation with what was used.
func (l Lane) settle(u *storagev1.Usage) {
	l.setReserved(modelUse{})
	l.AddUsage(u)
}

// settleLost replaces the reservation of a question whose result is lost. Its model calls count as made, each with as many tokens and as much
// money as the task's calls used on average.
func (l Lane) settleLost() {
	r, used := reserved(l.State), l.modelsUsed()
	if l.State.GetPhase() == storagev1.Phase_PHASE_CALL || r == (modelUse{}) {
		return
	}
	average := func(i int) uint64 { return min(r[i], used[i]*max(1, r[0])/max(1, used[0])) }
	l.settle(&storagev1.Usage{ModelCalls: uint32(r[0]), InputTokens: average(1), CostNanoUsd: average(2)})
}

// settleAnswer settles the reservation of a question that in ends. If the question was refused because its share was too small, it is asked
// again with all that is left, and settleAnswer returns true.
func (l Lane) settleAnswer(in flow.Input) (asksAgain bool) {
	usage, err, ends := flow.AskEnd(in)
	if !ends {
		return false
	}
	limits, used, r := l.modelLimits(), l.modelsUsed(), reserved(l.State)
	for i, limit := range limits {
		asksAgain = asksAgain || used[i]+r[i] < limit
	}
	l.settle(usage)
	l.State.BudgetShort = asksAgain && err.GetReason() == commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED
	if l.State.GetBudgetShort() {
		l.unchanged = false
		l.resume()
	}
	return l.State.GetBudgetShort()
}

// applyBudget reserves what the lane's question may use. If other lanes hold all that is left, the lane waits; if a budget is spent, the task
// ends.
func (l Lane) applyBudget() {
	spent := l.spentModels()
	if spent == "" {
		spent = l.spentRunTime()
	}
	switch {
	case spent != "":
		l.dropActions()
		l.failBudget(spent)
	case l.modelLimits() == modelUse{}:
		return
	case reserved(l.State) == modelUse{} && !l.reserve(questionCalls):
		l.dropActions()
		l.State.PausedPhase = l.State.GetPhase()
		l.Idle()
	default:
		l.askAfterCommit()
	}
	l.unchanged = false
}

// askAfterCommit makes the lane's question start once its reservation is durable.
func (l Lane) askAfterCommit() {
	for i, a := range l.actions {
		if ask, ok := a.Action.(flow.Ask); ok && a.Lane == l.State.GetId() {
			ask.AfterCommit = true
			l.actions[i].Action = ask
		}
	}
}

// resumeWaiting continues the lanes that waited for budgets and get a share now. A pause that was requested holds them.
func (d *Draft) resumeWaiting() {
	for _, l := range d.Lanes() {
		switch {
		case l.getsBudget():
			d.SetStatus(taskRunning)
			l.reserve(questionCalls)
			l.leavePause()
			l.resume()
		case waitsForBudget(l.State) && d.Checkpoint.GetPauseRequested():
			l.setPhase(storagev1.Phase_PHASE_WAIT)
		}
	}
}

// spentModels names the budget of models that is spent, or returns "".
func (d *Draft) spentModels() string {
	limits, used := d.modelLimits(), d.modelsUsed()
	for i, limit := range limits {
		if limit > 0 && used[i] >= limit {
			return []string{Plural(uint32(limits[0]), "model call"), fmt.Sprintf("%d tokens", limit), fmt.Sprintf("$%g for models", float64(limit)/1e9)}[i]
		}
	}
	return ""
}

// spentCallBudget names the budget that allows no further tool call, or returns "". Calls that have not ended count as made.
func (d *Draft) spentCallBudget(s *storagev1.ActiveStep) string {
	made := d.Checkpoint.GetUsage().GetToolCalls()
	for _, l := range d.Lanes() {
		if open := l.State.GetStep(); l.calling() && !flow.IsReadOutput(open) || open != nil && d.hasOpenElicitation(open) {
			made++
		}
	}
	if l := d.Task.Head.GetLimits().GetMaxToolCalls(); l > 0 && made >= l && !flow.IsReadOutput(s) {
		return Plural(l, "tool call")
	}
	return d.spentRunTime()
}

// spentRunTime names the task's budget of run time if it is spent, or returns "".
func (d *Draft) spentRunTime() string {
	limit := d.Task.Head.GetLimits().GetMaxRunTime()
	if limit > 0 && flow.RunTime(d.Checkpoint, d.Task.Now) >= limit {
		return fmt.Sprintf("%s of running", humantime.Text(time.Duration(limit)))
	}
	return ""
}

// SpentRunTime names the lane's own limit of run time if it is spent, or returns "".
func (l Lane) SpentRunTime() string {
	limit := l.State.GetMaxRunTime()
	if limit > 0 && flow.RunTime(l.State, l.Task.Now) >= limit {
		return humantime.Text(time.Duration(limit)) + " of running"
	}
	return ""
}

func (d *Draft) failBudget(spent string) {
	d.FailTask(&storagev1.ErrorNote{
		ErrMsg: "the task's budget of " + spent + " is spent; start a new task, or fork this one, with a larger budget",
		Reason: commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED,
	})
}
