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

// attendance follows a task to its end: it shows the events and asks the person when the task waits.
type attendance struct {
	u    *ui.UI
	s    *discover.Session
	view view
	ask  *Asker // nil if there is no terminal

	task  string
	after uint64
	// past is set if the command goes on watching when the task waits and there is no person to ask.
	past bool
	// open are the waits of the last FLOW_STOP event, which are handled once all events up to `until` have been shown.
	open  []string
	until uint64
	// owned is set if an interrupt cancels the task, provided that it runs in this process.
	owned bool

	asking     *question
	interrupts int
	idle       int    // ticks since the last event
	told       string // why the task is stalled, as printed since the last event
}

// question is the wait that the person is being asked about.
type question struct {
	wait    *executorv1.Wait
	cancel  context.CancelFunc
	answers chan answered
}

type answered struct {
	req *executorv1.ResumeTaskRequest // nil: the wait stays open
	err error
}

// run follows the task until it ends or stops; the error's exit code tells which.
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

// next handles one event, answer, interrupt or tick, and reports whether run is done.
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
	// longIdle is the number of ticks without an event after which tick asks the server why the task is stalled.
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

// stalled returns why a task makes no progress; "" if it does.
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
		wait := t.asking.wait // the event's output interrupted the question, so ask it again
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

// stop handles a task that waits: it asks the person, or prints what to do. If there are newer events, they are shown first.
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
		return false, nil // the wait was answered in the meantime
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

// answered sends the person's answer, and asks again if the server refuses it.
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
	// Events announce new waits, but not the other input waits of the same stop, which are still open.
	t.open, t.until = nil, task.GetLastSeq()
	for _, w := range task.GetWaits() {
		if w.GetKind() == waitInput && w.GetId() != wait.GetId() {
			t.open = append(t.open, w.GetId())
		}
	}
	return false, nil
}

// refused prints why the server refused an answer, and asks again if the person can correct it.
func (t *attendance) refused(ctx context.Context, wait *executorv1.Wait, err error) (bool, error) {
	switch errs.Reason(err) {
	case commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN, commonv1.ErrorReason_ERROR_REASON_TASK_ENDED:
		t.u.Note("it was answered elsewhere")
		return false, nil // the events show the result
	case commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST:
		t.u.Eprintf("    %s\n", t.u.ErrStyle().Red("not taken: "+ui.Text(ui.AsError(err).Message)))
		t.startAsking(ctx, wait)
		return false, nil
	}
	return true, err
}

// interrupted handles Ctrl-C. The task of another process goes on; a task that this command created in this process is cancelled, so that
// its running call ends in order. A second Ctrl-C exits at once.
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

// cancel requests the task's cancellation; the events show the result.
func (t *attendance) cancel(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := t.s.Tasks.CancelTask(ctx, &executorv1.CancelTaskRequest{Id: t.task, Reason: "interrupted at the terminal"}); err != nil {
		t.u.Warn("the task could not be cancelled: %s", ui.AsError(err).Message)
	}
}

// leaving prints how the task continues, when the process is told to stop, and returns the command's error.
func (t *attendance) leaving() error {
	if t.s.Embedded() {
		t.u.Note("stopping; the task goes on with the next pawl command")
	} else {
		t.u.Note("%s", "the task goes on: pawl watch "+t.task+t.s.Flags())
	}
	return ui.Exit(ui.Stopped)
}

// settled returns the command's error for a task that has ended.
func (t *attendance) settled(ctx context.Context) error {
	if ctx.Err() != nil {
		return t.leaving()
	}
	task, err := t.s.Tasks.GetTask(ctx, &executorv1.GetTaskRequest{Id: t.task})
	if err != nil {
		return err
	}
	return exitError(task)
}

// exitError returns the error that gives the command its exit code, or nil. A task whose steps all failed may still end with an answer, but
// scripts must not take it for a success.
func exitError(task *executorv1.Task) error {
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

// attend returns an attendance that begins after a sequence number. It writes steps to steps and the answer to stdout.
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
