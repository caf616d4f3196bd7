package step

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

// applyPauseAndBudget completes a draft: a requested pause replaces the lanes' questions, and a spent budget ends the task instead of a planner
// call.
func (d *Draft) applyPauseAndBudget() {
	if d.err == nil && !d.ended() && !d.taskEnding() {
		d.resumeWaiting()
	}
	for _, l := range d.Lanes() {
		if d.err != nil || d.ended() || d.taskEnding() {
			return
		}
		switch l.State.GetPhase() {
		case storagev1.Phase_PHASE_CALL, storagev1.Phase_PHASE_WAIT, storagev1.Phase_PHASE_IDLE:
		default:
			if d.Checkpoint.GetPauseRequested() {
				l.pause()
			} else if l.asksPlanner() {
				l.applyBudget()
			}
		}
	}
	if d.err == nil && !d.ended() && !d.canGoOn() && slices.ContainsFunc(d.Checkpoint.GetLanes(), isPaused) {
		d.enterPause()
	}
}

func isPaused(l *storagev1.Lane) bool {
	return l.GetPhase() == storagev1.Phase_PHASE_WAIT && l.GetPausedPhase() != storagev1.Phase_PHASE_UNSPECIFIED
}

// dropActions removes the lane's actions from the draft.
func (l Lane) dropActions() {
	l.actions = slices.DeleteFunc(l.actions, func(a flow.LaneAction) bool { return a.Lane == l.State.GetId() })
}

func (l Lane) asksPlanner() bool {
	return slices.ContainsFunc(l.actions, func(a flow.LaneAction) bool {
		ask, ok := a.Action.(flow.Ask)
		_, lists := ask.Question.(flow.RefreshTool)
		return ok && !lists && a.Lane == l.State.GetId()
	})
}

// requestPause records a request to start nothing new. applyPauseAndBudget then drops planning; running calls end first.
func (d *Draft) requestPause(p *storagev1.Pause) {
	if d.Checkpoint.GetPauseRequested() {
		d.unchanged = true
		return
	}
	d.Checkpoint.PauseRequested = true
	reason := "pause requested"
	if p.GetReason() != "" {
		reason += ": " + p.GetReason()
	}
	d.addStatusFact(d.Checkpoint.GetStatus(), "", reason)
	if d.Checkpoint.GetStatus() == taskWaiting {
		d.openWait(nil, waitPause, p.GetReason())
	}
}

// pause makes a lane wait for unpause, in place of what it would do.
func (l Lane) pause() {
	l.dropActions()
	l.Schedule(flow.Abandon{}) // also ends a running planner call
	l.unchanged = false
	l.settleLost() // the dropped planner call may have been made
	l.State.PausedPhase = l.State.GetPhase()
	l.setPhase(storagev1.Phase_PHASE_WAIT)
}

// leavePause returns the lane to the phase in which it was paused, or began to wait for budgets.
func (l Lane) leavePause() {
	l.setPhase(l.State.GetPausedPhase())
	l.State.PausedPhase = storagev1.Phase_PHASE_UNSPECIFIED
}

// enterPause makes the task wait for unpause.
func (d *Draft) enterPause() {
	wasWaiting := d.Checkpoint.GetStatus() == taskWaiting // for something else, too
	if !wasWaiting {
		d.SetStatus(taskRunning) // INIT must become RUNNING first
		d.SetStatus(taskWaiting)
	}
	if !slices.ContainsFunc(d.Checkpoint.GetWaits(), func(w *storagev1.Wait) bool { return w.GetKind() == waitPause }) {
		d.openWait(nil, waitPause, "paused")
	}
	if !wasWaiting {
		d.addStatusFact(taskRunning, "", "paused")
	}
}

// closePause closes the wait of a pause and returns its id; empty if there was none.
func (d *Draft) closePause() (id string) {
	d.deleteWaits(func(w *storagev1.Wait) bool {
		if w.GetKind() == waitPause {
			id = w.GetId()
		}
		return w.GetKind() == waitPause
	})
	return id
}

// unpause continues a paused task.
func (d *Draft) unpause(u *storagev1.Unpause) {
	if !d.Checkpoint.GetPauseRequested() {
		d.Refuse(errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN, "the task is not paused"))
		return
	}
	closedID := d.closePause()
	if u.GetWaitId() != "" && closedID != "" && u.GetWaitId() != closedID {
		d.Refuse(notOpenError(u.GetWaitId()))
		return
	}
	d.Checkpoint.PauseRequested = false
	before, resumed := d.Checkpoint.GetStatus(), []Lane{}
	for _, l := range d.Lanes() {
		if isPaused(l.State) {
			l.leavePause()
			resumed = append(resumed, l)
		}
	}
	if len(resumed) > 0 {
		d.SetStatus(taskRunning)
	}
	d.addStatusFact(before, closedID, "unpaused")
	for _, l := range resumed {
		if l.open() {
			l.resume()
		}
	}
}

func (d *Draft) addStatusFact(from executorv1.ExecutorStatus, waitID, reason string) {
	d.AddFact(&storagev1.Fact{WaitId: waitID, Kind: &storagev1.Fact_StatusChanged{StatusChanged: &storagev1.StatusChanged{From: from, Reason: reason}}})
}

// timeout handles an expired wait, or a run time that is over: that of the task, or else of a lane. A running call is stopped first.
func (d *Draft) timeout() {
	for _, w := range d.Checkpoint.GetWaits() {
		if w.GetDeadline() != 0 && w.GetDeadline() <= d.Task.Now.UnixNano() {
			d.expireWait(w)
			return
		}
	}
	d.unchanged = true
	if d.Checkpoint.GetStatus() == taskWaiting {
		return
	}
	spent := d.spentRunTime()
	if spent == "" {
		d.stopLanes()
		return
	}
	if !d.taskEnding() && (!d.anyCalls() || len(d.Checkpoint.GetLanes()) > 1) {
		d.unchanged = false
		for _, l := range d.Lanes() {
			if !l.calling() {
				l.Schedule(flow.Abandon{})
			}
		}
		d.failBudget(spent)
	}
	for _, l := range d.Lanes() {
		if l.calling() { // the task ends with the call
			l.Schedule(flow.StopCall{Reason: "the task's run time is spent"})
		}
	}
}

// stopLanes stops the lanes whose own run time is spent.
func (d *Draft) stopLanes() {
	for _, l := range d.Lanes() {
		switch spent := l.SpentRunTime(); {
		case spent == "" || l.State.GetPhase() == storagev1.Phase_PHASE_WAIT || l.State.GetPhase() == storagev1.Phase_PHASE_IDLE:
		case l.calling():
			l.Schedule(flow.StopCall{Reason: "the subtask's run time is spent"}) // the lane ends with the call
		default:
			d.unchanged = false
			l.Schedule(flow.Abandon{})
			l.rules.Stopped(l, "its limit of "+spent+" is spent")
		}
	}
}

// expireWait fails the step that waits; the flow decides how the task continues. If the pool gave up a call's question, the call continues
// without an answer.
func (d *Draft) expireWait(w *storagev1.Wait) {
	if d.poolGaveUp(w) {
		d.giveUpElicitation(w)
		return
	}
	e := &storagev1.ErrorNote{
		ErrMsg: fmt.Sprintf("no answer to %s within %s; start a new task, or fork this one, if necessary with a longer wait timeout",
			w.GetId(), humantime.Text(time.Duration(w.GetDeadline()-w.GetCreateTime()))),
		Reason: commonv1.ErrorReason_ERROR_REASON_WAIT_EXPIRED,
	}
	l, ok := d.Lane(w.GetLane())
	if !ok {
		return
	}
	if w.GetKind() != waitPlan {
		s := l.activeStepWith(w.GetOrdinal())
		switch {
		case s == nil:
			return
		case l.hasOpenElicitation(s):
			l.withdraw(s, "no answer in time")
			l.recordError(s, e, s.GetOutcome(), executorv1.Recovery_RECOVERY_STOP)
			if !isRepeatable(s) {
				l.recordUnknown(s)
			}
			l.lastFact().WaitId = w.GetId()
		default:
			l.FailWaitingStep(s, e, w.GetId(), executorv1.Recovery_RECOVERY_STOP)
		}
	}
	l.closeWaits()
	l.rules.WaitExpired(l, e)
}

// closeWaits removes the lane's waits.
func (l Lane) closeWaits() {
	l.deleteWaits(func(w *storagev1.Wait) bool { return w.GetLane() == l.State.GetId() && w.GetKind() != waitPause })
}

// deleteWaits removes waits from a copy of the list, over which the caller may range.
func (d *Draft) deleteWaits(closed func(*storagev1.Wait) bool) {
	d.Checkpoint.Waits = slices.DeleteFunc(slices.Clone(d.Checkpoint.GetWaits()), closed)
}

// countRecovery counts a recovery, and the usage that a crash may have left unrecorded. It also starts the run time of a fork, which is stored
// as running.
func (d *Draft) countRecovery(recovered bool) {
	if d.Checkpoint.GetStatus() == taskRunning && d.Checkpoint.GetRunSince() == 0 && d.Task.Head.GetLimits().GetMaxRunTime() > 0 {
		d.countRunTime(true)
	}
	if !recovered {
		return
	}
	d.Checkpoint.Recoveries++
	down := d.Checkpoint.GetUpdateTime()
	if since := d.Checkpoint.GetRunSince(); since != 0 {
		d.Checkpoint.RunTime += max(0, down-since)
		d.Checkpoint.RunSince = d.Task.Now.UnixNano()
	}
	for _, l := range d.Lanes() {
		l.settleLost() // the planner call may have been made
		if since := l.State.GetRunSince(); since != 0 {
			l.State.RunTime += max(0, down-since)
			l.State.RunSince = d.Task.Now.UnixNano()
		}
	}
}

// recoverySettled resets the recovery count: the task did not crash this process.
func (d *Draft) recoverySettled() {
	d.unchanged = d.Checkpoint.GetRecoveries() == 0
	d.Checkpoint.Recoveries = 0
}

// blocked records which service a running task waits for.
func (d *Draft) blocked(in flow.Blocked) {
	if d.Checkpoint.GetStatus() == taskWaiting || d.Checkpoint.GetStatusReason() == in.Reason {
		d.unchanged = true
		return
	}
	d.Checkpoint.StatusReason = in.Reason
	d.addStatusFact(d.Checkpoint.GetStatus(), "", in.Reason)
}

// failNow ends a task that cannot continue, without waiting for the outcomes of running calls.
func (d *Draft) failNow(e *storagev1.ErrorNote) {
	for _, l := range d.Lanes() {
		s := l.State.GetStep()
		if s != nil && (l.State.GetPhase() == storagev1.Phase_PHASE_CALL || l.hasOpenElicitation(s)) {
			l.withdraw(s, e.GetErrMsg())
			l.recordError(s, e, cmp.Or(s.GetOutcome(), outcomeUnknown), executorv1.Recovery_RECOVERY_STOP)
			l.closeWaits() // the call is withdrawn only once
		}
	}
	d.FailTask(e)
}
