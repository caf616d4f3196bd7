package agent

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/humantime"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// applyPauseAndBudget completes a draft: a requested pause replaces its actions, and a spent budget ends the task instead of a planner call.
// If the task has a budget of model calls, it reserves one for the planner call.
func (d *draft) applyPauseAndBudget() {
	if d.err != nil || d.state.GetStatus() != taskRunning && d.state.GetStatus() != taskInit {
		return
	}
	switch d.state.GetPhase() {
	case storagev1.Phase_PHASE_CALL, storagev1.Phase_PHASE_WAIT, storagev1.Phase_PHASE_END:
		return
	}
	if d.state.GetPauseRequested() {
		d.enterPause()
		return
	}
	if !d.asksPlanner() {
		return
	}
	if spent := d.spentPlannerBudget(); spent != "" {
		d.actions = nil
		d.unchanged = false
		d.failBudget(spent)
		return
	}
	if d.t.Head.GetLimits().GetMaxModelCalls() > 0 && d.state.GetReservedModelCalls() == 0 {
		d.state.ReservedModelCalls = 1
		d.unchanged = false
	}
}

func (d *draft) asksPlanner() bool {
	for _, a := range d.actions {
		switch a.(type) {
		case flow.Begin, flow.Plan, flow.Derive, flow.Diagnose, flow.Fill, flow.Answer:
			return true
		}
	}
	return false
}

// spentPlannerBudget names the budget that allows no further planner call, or returns "".
func (d *draft) spentPlannerBudget() string {
	l, u := d.t.Head.GetLimits(), d.state.GetUsage()
	switch {
	case l.GetMaxModelCalls() > 0 && u.GetModelCalls() >= l.GetMaxModelCalls():
		return plural(l.GetMaxModelCalls(), "model call")
	case l.GetMaxTokens() > 0 && u.GetInputTokens()+u.GetOutputTokens() >= l.GetMaxTokens():
		return fmt.Sprintf("%d tokens", l.GetMaxTokens())
	case l.GetMaxCostNanoUsd() > 0 && u.GetCostNanoUsd() >= l.GetMaxCostNanoUsd():
		return fmt.Sprintf("$%g for models", float64(l.GetMaxCostNanoUsd())/1e9)
	}
	return d.spentRunTime()
}

// spentCallBudget names the budget that allows no further tool call, or returns "".
func (d *draft) spentCallBudget(s *storagev1.ActiveStep) string {
	if l := d.t.Head.GetLimits().GetMaxToolCalls(); l > 0 && d.state.GetUsage().GetToolCalls() >= l && !flow.IsReadOutput(s) {
		return plural(l, "tool call")
	}
	return d.spentRunTime()
}

// spentRunTime names the task's budget of run time if it is spent, or returns "".
func (d *draft) spentRunTime() string {
	limit := d.t.Head.GetLimits().GetMaxRunTime()
	if limit > 0 && flow.RunTime(d.state, d.t.Now) >= limit {
		return fmt.Sprintf("%s of running", humantime.Text(time.Duration(limit)))
	}
	return ""
}

func (d *draft) failBudget(spent string) {
	d.failTask(&storagev1.ErrorNote{
		ErrMsg: "the task's budget of " + spent + " is spent; start a new task, or fork this one, with a larger budget",
		Reason: commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED,
	})
}

// pause records a request to start nothing new. applyPauseAndBudget then drops planning; a running call ends first.
func (d *draft) pause(p *storagev1.Pause) {
	if d.state.GetPauseRequested() {
		d.unchanged = true
		return
	}
	d.state.PauseRequested = true
	reason := "pause requested"
	if p.GetReason() != "" {
		reason += ": " + p.GetReason()
	}
	d.addStatusFact(d.state.GetStatus(), "", reason)
	if d.state.GetPhase() == storagev1.Phase_PHASE_WAIT {
		d.openWait(nil, waitPause, p.GetReason())
		d.waitForPerson()
	}
}

// enterPause replaces the draft's actions with a wait for unpause.
func (d *draft) enterPause() {
	d.actions = []flow.Action{flow.Abandon{}} // also ends running planner calls
	d.unchanged = false
	d.countReservation() // the dropped planner call may have been made
	d.state.PausedPhase = d.state.GetPhase()
	d.setStatus(taskRunning) // INIT must become RUNNING first
	d.setStatus(taskWaiting)
	if !slices.ContainsFunc(d.state.GetWaits(), func(w *storagev1.Wait) bool { return w.GetKind() == waitPause }) {
		d.openWait(nil, waitPause, "paused")
	}
	d.addStatusFact(taskRunning, "", "paused")
	d.waitForPerson()
}

// unpause continues a paused task.
func (d *draft) unpause(u *storagev1.Unpause) {
	if !d.state.GetPauseRequested() {
		d.refuse(errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN, "the task is not paused"))
		return
	}
	closedID := ""
	for i, w := range d.state.GetWaits() {
		if w.GetKind() == waitPause {
			closedID = w.GetId()
			d.state.Waits = append(d.state.Waits[:i:i], d.state.Waits[i+1:]...)
			break
		}
	}
	if u.GetWaitId() != "" && closedID != "" && u.GetWaitId() != closedID {
		d.refuse(notOpenError(u.GetWaitId()))
		return
	}
	d.state.PauseRequested = false
	if len(d.state.GetWaits()) > 0 || d.state.GetPausedPhase() == storagev1.Phase_PHASE_UNSPECIFIED || d.state.GetPhase() == storagev1.Phase_PHASE_CALL {
		d.state.PausedPhase = storagev1.Phase_PHASE_UNSPECIFIED
		d.addStatusFact(d.state.GetStatus(), closedID, "unpaused")
		return // other waits are open, or a call is running
	}
	before := d.state.GetStatus()
	d.setStatus(taskRunning)
	d.addStatusFact(before, closedID, "unpaused")
	d.state.Phase, d.state.PausedPhase = d.state.GetPausedPhase(), storagev1.Phase_PHASE_UNSPECIFIED
	d.resume()
}

func (d *draft) addStatusFact(from executorv1.ExecutorStatus, waitID, reason string) {
	d.addFact(&storagev1.Fact{WaitId: waitID, Kind: &storagev1.Fact_StatusChanged{StatusChanged: &storagev1.StatusChanged{From: from, Reason: reason}}})
}

// timeout handles an expired wait, or else ends the task if its run time is over; a running call is stopped first.
func (d *draft) timeout() {
	for _, w := range d.state.GetWaits() {
		if w.GetDeadline() != 0 && w.GetDeadline() <= d.t.Now.UnixNano() {
			d.expireWait(w)
			return
		}
	}
	spent := d.spentRunTime()
	switch {
	case d.state.GetStatus() == taskWaiting || spent == "":
		d.unchanged = true
	case d.state.GetPhase() == storagev1.Phase_PHASE_CALL:
		d.unchanged = true
		d.schedule(flow.StopCall{Reason: "the task's run time is spent"}) // the task ends with the call
	default:
		d.schedule(flow.Abandon{})
		d.failBudget(spent)
	}
}

// expireWait ends the step and the task with WAIT_EXPIRED. If the pool gave up a call's question, the call continues without an answer.
func (d *draft) expireWait(w *storagev1.Wait) {
	if d.poolGaveUp(w) {
		d.giveUpElicitation(w)
		return
	}
	e := &storagev1.ErrorNote{
		ErrMsg: fmt.Sprintf("no answer to %s within %s; start a new task, or fork this one, if necessary with a longer wait timeout",
			w.GetId(), humantime.Text(time.Duration(w.GetDeadline()-w.GetCreateTime()))),
		Reason: commonv1.ErrorReason_ERROR_REASON_WAIT_EXPIRED,
	}
	s := d.activeStepWith(w.GetOrdinal())
	if s == nil {
		return
	}
	if d.hasOpenElicitation(s) {
		d.expireElicitation(s, e, w)
		return
	}
	d.failWaitingStep(s, e, w.GetId())
	d.failTask(e)
}

// countRecovery counts a recovery, and the usage that a crash may have left unrecorded. It also starts the run time of a fork, which is stored
// as running.
func (d *draft) countRecovery(recovered bool) {
	if d.state.GetStatus() == taskRunning && d.state.GetRunSince() == 0 && d.t.Head.GetLimits().GetMaxRunTime() > 0 {
		d.countRunTime(true)
	}
	if !recovered {
		return
	}
	d.state.Recoveries++
	d.countReservation() // the planner call may have been made
	if d.state.GetRunSince() != 0 {
		d.state.RunTime += max(0, d.state.GetUpdateTime()-d.state.GetRunSince())
		d.state.RunSince = d.t.Now.UnixNano()
	}
}

// recoverySettled resets the recovery count: the task did not crash this process.
func (d *draft) recoverySettled() {
	d.unchanged = d.state.GetRecoveries() == 0
	d.state.Recoveries = 0
}

// blocked records which service a running task waits for.
func (d *draft) blocked(in flow.Blocked) {
	if d.state.GetStatus() == taskWaiting || d.state.GetStatusReason() == in.Reason {
		d.unchanged = true
		return
	}
	d.state.StatusReason = in.Reason
	d.addStatusFact(d.state.GetStatus(), "", in.Reason)
}

// failNoProgress ends a task that was recovered too often, so that it does not crash its process for ever.
func (d *draft) failNoProgress(limit uint32) {
	e := &storagev1.ErrorNote{
		ErrMsg: fmt.Sprintf("the task was recovered %d times without progress; look in the logs of the executor and the system why its process ended, "+
			"then start a new task, or fork this one", limit),
		Reason: commonv1.ErrorReason_ERROR_REASON_NO_PROGRESS,
	}
	d.closeAttempt(e)
	d.failTask(e)
}

// closeAttempt ends a running attempt, if there is one, without waiting for its outcome.
func (d *draft) closeAttempt(e *storagev1.ErrorNote) {
	if len(d.state.GetActiveSteps()) == 0 {
		return
	}
	s := d.state.GetActiveSteps()[0]
	if d.state.GetPhase() != storagev1.Phase_PHASE_CALL && !d.hasOpenElicitation(s) {
		return
	}
	d.withdraw(s, e.GetErrMsg())
	d.recordError(s, e, cmp.Or(s.GetOutcome(), outcomeUnknown))
}
