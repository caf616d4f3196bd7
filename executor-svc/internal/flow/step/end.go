package step

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// calling reports whether the lane's call runs.
func (l Lane) calling() bool {
	return l.State.GetPhase() == storagev1.Phase_PHASE_CALL && l.State.GetStep().GetStatus() == stepRunning
}

// anyCalls reports whether a lane's call runs.
func (d *Draft) anyCalls() bool { return slices.ContainsFunc(d.Lanes(), Lane.calling) }

// taskEnding reports that the task ends once the running calls have ended.
func (d *Draft) taskEnding() bool {
	return d.Checkpoint.GetCancelRequested() || d.Checkpoint.GetFailing() != nil
}

// cancelled reports whether the lane's running call was cancelled, and why.
func (l Lane) cancelled() (reason string, ok bool) {
	if l.Checkpoint.GetCancelRequested() {
		return l.Checkpoint.GetCancelReason(), true
	}
	return l.State.GetCancelReason(), l.State.GetCancelRequested()
}

// ending reports that the lane ends with its running call.
func (l Lane) ending() bool { return l.taskEnding() || l.State.GetCancelRequested() }

// stopped continues after the call of an ending lane.
func (l Lane) stopped() {
	switch {
	case !l.taskEnding():
		l.rules.Stopped(l, l.State.GetCancelReason())
	case l.anyCalls():
		l.Close()
	case l.Checkpoint.GetFailing() != nil:
		e := l.Checkpoint.GetFailing()
		l.Checkpoint.Failing = nil
		l.finish(taskFailed, &storagev1.Fact{Kind: &storagev1.Fact_FlowFailed{FlowFailed: e}})
	default:
		l.EndCancelled(l.Checkpoint.GetCancelReason(), "")
	}
}

// end ends the task. Calls that run in other lanes end first, if the task has failed.
func (d *Draft) end(to executorv1.ExecutorStatus, e *storagev1.ErrorNote, f *storagev1.Fact) {
	if d.ended() {
		d.Refuse(endedError(d.Checkpoint.GetStatus()))
		return
	}
	d.Checkpoint.Error = e
	if len(d.Checkpoint.GetLanes()) > 1 {
		reason := "the task ends"
		if e != nil {
			reason += ": " + e.GetErrMsg()
		}
		for _, l := range d.Lanes() {
			if !l.calling() {
				l.drop(reason)
				l.Close()
			}
		}
		if e != nil && d.anyCalls() {
			d.Checkpoint.Failing = e
			d.SetStatus(taskRunning)
			return
		}
	}
	d.finish(to, f)
}

// drop ends the step of a lane whose call does not run.
func (l Lane) drop(reason string) {
	s := l.State.GetStep()
	if s == nil {
		return
	}
	l.withdraw(s, reason)
	switch s.GetStatus() {
	case stepInit, stepWaiting, stepParam:
		l.cancelStep(s, reason, "", s.GetOutcome())
	}
}

// finish ends the task now.
func (d *Draft) finish(to executorv1.ExecutorStatus, f *storagev1.Fact) {
	d.SetStatus(to)
	d.Checkpoint.Lanes, d.Checkpoint.Waits = nil, nil
	d.Checkpoint.EndTime = d.Task.Now.UnixNano()
	d.AddFact(f)
}

// EndCancelled ends the task as cancelled, once all running calls have ended.
func (d *Draft) EndCancelled(reason, waitID string) {
	if d.anyCalls() {
		d.cancelLanes(reason)
		return
	}
	d.end(taskCancelled, nil, &storagev1.Fact{WaitId: waitID, Kind: &storagev1.Fact_FlowCancel{FlowCancel: reason}})
}

// cancelLanes stops the running calls, and closes the lanes without one.
func (d *Draft) cancelLanes(reason string) {
	d.Checkpoint.CancelRequested, d.Checkpoint.CancelReason, d.Checkpoint.Failing = true, reason, nil // a cancellation replaces a failure
	for _, l := range d.Lanes() {
		if l.calling() {
			l.Schedule(flow.StopCall{Reason: "the task was cancelled"})
		} else {
			l.cancelOpenStep(reason)
			l.Close()
		}
	}
	d.SetStatus(taskRunning)
}

// cancel cancels a subtask, or the task.
func (d *Draft) cancel(c *storagev1.Cancel) {
	reason := cmp.Or(c.GetReason(), CancelledByUser)
	switch {
	case c.GetSubtaskId() != "" && d.taskEnding():
		d.unchanged = true // the task is ending, and its subtasks end with it, after their running calls
	case c.GetSubtaskId() != "":
		d.rules.CancelSubtask(d, c.GetSubtaskId(), reason)
	case d.Checkpoint.GetCancelRequested():
		d.unchanged = true
	case d.anyCalls():
		d.cancelLanes(reason)
	default:
		for _, l := range d.Lanes() {
			l.cancelOpenStep(reason)
			l.Schedule(flow.Abandon{})
		}
		d.finish(taskCancelled, &storagev1.Fact{Kind: &storagev1.Fact_FlowCancel{FlowCancel: reason}})
	}
}

// cancelOpenStep cancels the step of a lane whose call does not run.
func (l Lane) cancelOpenStep(reason string) {
	if s := l.State.GetStep(); s != nil {
		l.withdraw(s, reason)
		l.cancelStep(s, reason, "", s.GetOutcome())
	}
}

// Cancel cancels the lane's step and what runs in the lane. Rules.Stopped is called now, or once the lane's running call has ended.
func (l Lane) Cancel(reason string) {
	if l.calling() {
		if !l.State.GetCancelRequested() {
			l.State.CancelRequested, l.State.CancelReason = true, reason
			l.Schedule(flow.StopCall{Reason: reason})
		}
		return
	}
	l.cancelOpenStep(reason)
	l.rules.Stopped(l, reason)
}

// endCancelledCall records the end of a call of a lane that ends.
func (l Lane) endCancelledCall(s *storagev1.ActiveStep, in flow.Called) {
	reason, cancelled := l.cancelled()
	saysCancelled := in.Err.GetReason() == commonv1.ErrorReason_ERROR_REASON_CANCELLED || strings.HasSuffix(in.Err.GetErrMsg(), context.Canceled.Error())
	if !cancelled || in.Outcome == outcomeKnown && !saysCancelled {
		l.recordError(s, in.Err, in.Outcome, executorv1.Recovery_RECOVERY_STOP)
	} else {
		l.cancelStep(s, reason, "", in.Outcome)
	}
	l.stopped()
}

// NoSubtaskError returns the error of a request that names a subtask that the task does not have.
func NoSubtaskError(id string) error {
	return errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_RESOURCE_NOT_FOUND,
		"the task has no subtask %q; GET /v1/tasks/{id}/result lists its subtasks", id)
}
