package cli

import (
	"context"
	"fmt"
	"time"

	"pawl.dev/cmd/internal/exit"
	"pawl.dev/cmd/internal/render"
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
		t.app.laterHint(t.globals, t.task, wait, t.embedded())
		return true, stopped()
	}
	if a.answer.Cancel {
		t.cancel(ctx)
		return false, nil
	}
	a.answer.Resume.Id = t.task
	task, err := t.client.ResumeTask(ctx, a.answer.Resume)
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
		t.app.note("it was answered elsewhere")
		return false, nil // the events say how it went on
	case commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST:
		t.app.eprintf("    %s\n", t.app.errStyle().Red("not taken: "+render.Text(exit.From(err).Message)))
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
		t.app.eprintf("\n")
		t.app.laterHint(t.globals, t.task, wait, t.embedded())
		return true, stopped()
	case t.interrupts > 1:
		t.app.leave = true
		return true, stopped()
	case t.owned && t.embedded():
		t.app.note("cancelling the task; Ctrl-C again leaves at once")
		t.cancel(ctx)
		return false, nil
	}
	t.app.note(fmt.Sprintf("the task goes on; pawl watch %s%s follows it, pawl cancel %s%s stops it",
		render.ShortID(t.task), t.globals.again(), render.ShortID(t.task), t.globals.again()))
	return true, stopped()
}

// cancel asks for the task's end; its events say how it came.
func (t *attendance) cancel(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := t.client.CancelTask(ctx, &executorv1.CancelTaskRequest{Id: t.task, Reason: "interrupted at the terminal"}); err != nil {
		t.app.warn("the task could not be cancelled: %s", exit.From(err).Message)
	}
}

// leaving is how it ends when this process is asked to end.
func (t *attendance) leaving() error {
	if t.embedded() {
		t.app.note("stopping; the task goes on with the next pawl command")
	} else {
		t.app.note("the task goes on: pawl watch " + t.task + t.globals.again())
	}
	return stopped()
}
