package task

import (
	"context"
	"time"

	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
)

// answered sends what the person said, and asks again where it was refused.
func (t *attendance) answered(ctx context.Context, a answered) (bool, error) {
	wait := t.asking.wait
	t.asking.cancel()
	t.asking = nil
	if a.err != nil {
		return true, a.err
	}
	if a.answer.Leave {
		laterHint(t.u, t.s, t.task, wait)
		return true, ui.Exit(ui.Stopped)
	}
	if a.answer.Cancel {
		t.cancel(ctx)
		return false, nil
	}
	a.answer.Resume.Id = t.task
	task, err := resume(ctx, t.s, a.answer.Resume)
	if err != nil {
		return t.refused(ctx, wait, err)
	}
	// What it waits for next comes with the events; what was asked together with this is still to be answered.
	t.open, t.until = nil, task.GetLastSeq()
	for _, w := range task.GetWaits() {
		if w.GetKind() == waitInput && w.GetId() != wait.GetId() {
			t.open = append(t.open, w.GetId())
		}
	}
	return false, nil
}

// refused tells why an answer was not taken. One that can be mended is asked for again.
func (t *attendance) refused(ctx context.Context, wait *executorv1.Wait, err error) (bool, error) {
	switch errs.Reason(err) {
	case commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN, commonv1.ErrorReason_ERROR_REASON_TASK_ENDED:
		t.u.Note("it was answered elsewhere")
		return false, nil // the events say how it went on
	case commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST:
		t.u.Eprintf("    %s\n", t.u.ErrStyle().Red("not taken: "+ui.Text(ui.AsError(err).Message)))
		t.startAsking(ctx, wait)
		return false, nil
	}
	return true, err
}

// interrupted deals with Ctrl-C: the task of a server goes on; the task that this process runs for this command is
// cancelled, so that its running call ends in order. A second Ctrl-C leaves at once.
func (t *attendance) interrupted(ctx context.Context) (bool, error) {
	t.view.Suspend()
	t.interrupts++
	switch {
	case t.asking != nil:
		wait := t.asking.wait
		t.stopAsking()
		t.u.Eprintf("\n")
		laterHint(t.u, t.s, t.task, wait)
		return true, ui.Exit(ui.Stopped)
	case t.interrupts > 1:
		t.u.LeaveNow = true
		return true, ui.Exit(ui.Stopped)
	case t.owned && t.s.Embedded():
		t.u.Note("cancelling the task; Ctrl-C again leaves at once")
		t.cancel(ctx)
		return false, nil
	}
	t.u.Note("the task goes on; pawl watch %s%s follows it, pawl cancel %s%s stops it",
		ui.ShortID(t.task), t.s.Flags(), ui.ShortID(t.task), t.s.Flags())
	return true, ui.Exit(ui.Stopped)
}

// cancel asks for the task's end; its events say how it came.
func (t *attendance) cancel(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := t.s.Tasks.CancelTask(ctx, &executorv1.CancelTaskRequest{Id: t.task, Reason: "interrupted at the terminal"}); err != nil {
		t.u.Warn("the task could not be cancelled: %s", ui.AsError(err).Message)
	}
}

// leaving is how it ends when this process is asked to end.
func (t *attendance) leaving() error {
	if t.s.Embedded() {
		t.u.Note("stopping; the task goes on with the next pawl command")
	} else {
		t.u.Note("%s", "the task goes on: pawl watch "+t.task+t.s.Flags())
	}
	return ui.Exit(ui.Stopped)
}
