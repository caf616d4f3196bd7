package task

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
)

// view shows events.
type view interface {
	Event(ev *executorv1.ExecutorEvent)
	// Tick is called while nothing happens.
	Tick(now time.Time)
	// Suspend makes room for other output.
	Suspend()
}

// attendance stays with a task: shows its events, asks the person where it waits, and ends where it ends.
type attendance struct {
	u    *ui.UI
	s    *discover.Session
	view view
	ask  *Asker // nil: no person is there to ask

	task  string
	after uint64
	// past makes waits no reason to stop: the watcher waits along.
	past bool
	// open are waits that were asked by an event; they are dealt with once all events up to `until` have been shown.
	open  []string
	until uint64
	// owned: an interrupt cancels the task, if it runs in this process.
	owned bool

	asking     *question
	interrupts int
	idle       int    // ticks since the last event
	told       string // what the task waits for, as it was told since then; "" if nothing was
}

// question is a wait that the person is being asked for.
type question struct {
	wait    *executorv1.Wait
	cancel  context.CancelFunc
	answers chan answered
}

type answered struct {
	req *executorv1.ResumeTaskRequest // nil: the wait stays open
	err error
}

// run attends until the task ends or stops; the exit code tells which.
func (t *attendance) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer t.view.Suspend()
	items := Follow(ctx, t.s, t.task, t.after)
	interrupts, release := t.u.Signals.Take()
	defer release()
	ticks := time.NewTicker(tickEvery)
	defer ticks.Stop()
	for {
		done, err := t.next(ctx, items, interrupts, ticks.C)
		if done || err != nil {
			return err
		}
	}
}

// next deals with one thing that happens; done ends the attendance.
func (t *attendance) next(ctx context.Context, items <-chan Item, interrupts <-chan struct{}, ticks <-chan time.Time) (done bool, err error) {
	var answers chan answered
	if t.asking != nil {
		answers = t.asking.answers
	}
	select {
	case item, open := <-items:
		if !open {
			return true, t.settled(ctx)
		}
		if item.Err != nil {
			return true, item.Err
		}
		return t.event(ctx, item.Event)
	case a := <-answers:
		return t.answered(ctx, a)
	case <-interrupts:
		return t.interrupted(ctx)
	case <-ticks:
		t.tick(ctx)
	case <-ctx.Done():
		return true, t.leaving()
	}
	return false, nil
}

const (
	tickEvery = 100 * time.Millisecond
	// longIdle is after how many ticks without an event the task is asked what it waits for.
	longIdle = 15
)

func (t *attendance) tick(ctx context.Context) {
	if t.asking != nil {
		return
	}
	if t.told == "" {
		t.view.Tick(t.u.Now())
	}
	if t.idle++; t.idle%longIdle != 0 {
		return
	}
	task, err := t.s.Tasks.GetTask(ctx, &executorv1.GetTaskRequest{Id: t.task})
	if why := stalled(task); err == nil && why != t.told {
		t.told = why
		t.view.Suspend()
		if why != "" {
			t.u.Note("%s", why)
		}
	}
}

// stalled says why a task makes no progress; "" if it does.
func stalled(task *executorv1.Task) string {
	switch {
	case task.GetQueued():
		return "the task is queued: it goes on when fewer others run"
	case task.GetStatusReason() != "":
		return "the task waits: " + task.GetStatusReason()
	}
	return ""
}

func (t *attendance) event(ctx context.Context, ev *executorv1.ExecutorEvent) (bool, error) {
	if t.asking != nil && !t.stillOpen(ctx, t.asking.wait.GetId()) {
		t.stopAsking()
		t.u.Eprintf("\n")
		t.u.Note("it was answered elsewhere")
	}
	t.idle, t.told = 0, ""
	t.view.Event(ev)
	if t.asking != nil && ev.GetType() != executorv1.EventType_EVENT_TYPE_FLOW_STOP {
		wait := t.asking.wait // the event stands in the middle of the question: it is put again
		t.stopAsking()
		t.startAsking(ctx, wait)
	}
	switch ev.GetType() {
	case executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS:
		return true, t.settled(ctx)
	case executorv1.EventType_EVENT_TYPE_FLOW_FAILED:
		return true, ui.Exit(ui.Failed)
	case executorv1.EventType_EVENT_TYPE_FLOW_CANCEL:
		return true, ui.Exit(ui.Stopped)
	case executorv1.EventType_EVENT_TYPE_FLOW_STOP:
		t.open, t.until = ev.GetFlowStop().GetWaitIds(), ev.GetSeq()
	}
	if len(t.open) > 0 && ev.GetSeq() >= t.until {
		return t.stop(ctx, ev.GetSeq())
	}
	return false, nil
}

// stop deals with a task that waits: the person is asked, or told what to do. Where more has happened since, that is
// shown first.
func (t *attendance) stop(ctx context.Context, seq uint64) (bool, error) {
	task, err := t.s.Tasks.GetTask(ctx, &executorv1.GetTaskRequest{Id: t.task})
	if err != nil {
		return true, err
	}
	i := slices.IndexFunc(task.GetWaits(), func(w *executorv1.Wait) bool { return slices.Contains(t.open, w.GetId()) })
	if i >= 0 && seq < task.GetLastSeq() {
		t.until = task.GetLastSeq()
		return false, nil
	}
	t.open = nil
	if i < 0 {
		return false, nil // answered since
	}
	t.view.Suspend()
	noteShown(t.u, t.s, task)
	if t.asking != nil {
		t.stopAsking()
	}
	if t.ask == nil {
		howToGoOn(t.u, t.s, task)
		if t.past {
			return false, nil
		}
		return true, ui.Exit(ui.Stopped)
	}
	t.startAsking(ctx, task.GetWaits()[i])
	return false, nil
}

func (t *attendance) startAsking(ctx context.Context, wait *executorv1.Wait) {
	ctx, cancel := context.WithCancel(ctx)
	t.asking = &question{wait: wait, cancel: cancel, answers: make(chan answered, 1)}
	go func(q *question) {
		req, err := t.ask.Ask(ctx, wait)
		q.answers <- answered{req, err}
	}(t.asking)
}

func (t *attendance) stopAsking() {
	t.asking.cancel()
	<-t.asking.answers
	t.asking = nil
}

func (t *attendance) stillOpen(ctx context.Context, waitID string) bool {
	task, err := t.s.Tasks.GetTask(ctx, &executorv1.GetTaskRequest{Id: t.task})
	return err == nil && slices.ContainsFunc(task.GetWaits(), func(w *executorv1.Wait) bool { return w.GetId() == waitID })
}

// answered sends what the person said, and asks again where it was refused.
func (t *attendance) answered(ctx context.Context, a answered) (bool, error) {
	wait := t.asking.wait
	t.asking.cancel()
	t.asking = nil
	switch {
	case errors.Is(a.err, ErrCancel):
		t.cancel(ctx)
		return false, nil
	case a.err != nil:
		return true, a.err
	case a.req == nil:
		laterHint(t.u, t.s, t.task, wait)
		return true, ui.Exit(ui.Stopped)
	}
	a.req.Id = t.task
	task, err := t.s.Tasks.GetTask(ctx, &executorv1.GetTaskRequest{Id: t.task})
	if err == nil {
		task, err = resume(ctx, t.s, task, a.req)
	}
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

// settled is the exit of a task whose end was seen before.
func (t *attendance) settled(ctx context.Context) error {
	if ctx.Err() != nil {
		return t.leaving()
	}
	task, err := t.s.Tasks.GetTask(ctx, &executorv1.GetTaskRequest{Id: t.task})
	if err != nil {
		return err
	}
	return codeOf(task)
}

// codeOf is how a command ends whose task is like that. A task that could do nothing of what it tried was answered, but
// no script should take it for done.
func codeOf(task *executorv1.Task) error {
	switch task.GetStatus() {
	case executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS:
		if n := task.GetErrorCount(); n > 0 && n >= task.GetStepCount() {
			return ui.Exit(ui.Failed)
		}
		return nil
	case executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR:
		return ui.Exit(ui.Failed)
	}
	return ui.Exit(ui.Stopped)
}

// attend prepares to stay with a task from a seq on. Steps go to steps, the answer to standard output.
func attend(u *ui.UI, s *discover.Session, taskID string, after uint64, steps io.Writer, alias func(string) string) *attendance {
	t := &attendance{u: u, s: s, task: taskID, after: after}
	if u.JSON {
		t.view = jsonView{u.Out}
		return t
	}
	t.view = eventsView(u, steps, alias)
	if u.CanAsk() {
		prompter := u.Prompter()
		prompter.Alias = alias
		t.ask = &Asker{prompter}
	}
	return t
}

func eventsView(u *ui.UI, steps io.Writer, alias func(string) string) *Events {
	style, tty := u.ErrStyle(), u.ErrTTY
	if steps == u.Out {
		style, tty = u.OutStyle(), u.OutTTY
	}
	cfg := EventsConfig{Log: steps, Out: u.Out, Style: style, Alias: alias, Live: u.Live && tty, SeparateAnswer: u.OutTTY}
	if tty {
		cfg.Columns = u.Columns
	}
	return NewEvents(cfg)
}

// jsonView writes each event as a line of JSON.
type jsonView struct{ w io.Writer }

func (v jsonView) Event(ev *executorv1.ExecutorEvent) { _ = ui.JSONLine(v.w, ev) }
func (jsonView) Tick(time.Time)                       {}
func (jsonView) Suspend()                             {}
