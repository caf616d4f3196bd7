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

// watcher follows a task to its end: it shows the task's events, and asks the person if the task waits.
type watcher struct {
	u    *ui.UI
	s    *discover.Session
	view *Events
	ask  *Asker // nil with --json or without a terminal

	task  string
	after uint64
	// keepWatching is set if the command goes on when the task waits and ask is nil.
	keepWatching bool
	// openWaits are the ids of waits to ask about, once the event waitsSeq has been shown.
	openWaits []string
	waitsSeq  uint64
	shown     uint64 // the seq of the newest event
	postponed bool   // the waits of subtasks were postponed until the events before them were shown
	// cancelOnInterrupt is set if an interrupt cancels a task that runs in this process.
	cancelOnInterrupt bool
	// planOnly is set if the command prints the task's plan and cancels the task.
	planOnly bool

	asking     *question
	interrupts int
	idle       int    // ticks since the last event
	stallNote  string // the printed reason of a stall; "" after an event
}

// question is a wait about which the person is being asked.
type question struct {
	wait    *executorv1.Wait
	cancel  context.CancelFunc
	answers chan reply
}

// reply is the result of asking the person.
type reply struct {
	req *executorv1.ResumeTaskRequest // nil: the wait stays open
	err error
}

// run follows the task until it ends, until it waits and cannot be answered here, or until the person leaves. The error has the exit code.
func (t *watcher) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer t.view.Suspend()
	t.loadPlan(ctx)
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

// loadPlan gives the view the plan of a task whose first events it does not get.
func (t *watcher) loadPlan(ctx context.Context) {
	if t.view.cfg.JSON != nil || t.after == 0 {
		return
	}
	task, err := t.s.Tasks.GetTask(ctx, &executorv1.GetTaskRequest{Id: t.task})
	if err != nil || task.GetAgentStatus() == executorv1.AgentStatus_AGENT_STATUS_UNSPECIFIED {
		return // an error comes again when the task is followed
	}
	if result, err := t.s.Tasks.GetTaskResult(ctx, &executorv1.GetTaskResultRequest{Id: t.task}); err == nil {
		t.view.plan, t.view.files = newPlanView(result.GetPlan()), result.GetFilesChanged()
	}
}

// next handles one event, answer, interrupt or tick, and reports whether run is done.
func (t *watcher) next(ctx context.Context, items <-chan Item, interrupts <-chan struct{}, ticks <-chan time.Time) (done bool, err error) {
	var answers chan reply
	if t.asking != nil {
		answers = t.asking.answers
	}
	select {
	case item, open := <-items:
		if !open {
			return true, t.endError(ctx)
		}
		if item.Err != nil {
			return true, item.Err
		}
		if item.Event == nil {
			t.repeatQuestion()
			return false, nil
		}
		if plan := item.Event.GetPlanCreated().GetPlan(); plan != nil && t.planOnly {
			return true, t.showPlan(ctx, plan)
		}
		return t.handleEvent(ctx, item.Event)
	case a := <-answers:
		return t.handleReply(ctx, a)
	case <-interrupts:
		return t.handleInterrupt(ctx)
	case <-ticks:
		return t.tick(ctx)
	case <-ctx.Done():
		return true, t.leave()
	}
}

const (
	tickEvery = 100 * time.Millisecond
	// stallCheckTicks is the number of ticks without an event between two requests for the reason of the stall.
	stallCheckTicks = 15
)

// tick updates the view and, every stallCheckTicks ticks, asks the server why no event comes. It does nothing while the person is being asked.
func (t *watcher) tick(ctx context.Context) (done bool, err error) {
	if t.asking != nil {
		return false, nil
	}
	if len(t.openWaits) > 0 && t.shown >= t.waitsSeq {
		return t.handleWaits(ctx, t.shown)
	}
	if t.stallNote == "" {
		t.view.Tick(t.u.Now())
	}
	if t.idle++; t.idle%stallCheckTicks != 0 {
		return false, nil
	}
	task, err := t.s.Tasks.GetTask(ctx, &executorv1.GetTaskRequest{Id: t.task})
	if why := stallReason(task); err == nil && why != t.stallNote {
		t.stallNote = why
		t.view.Suspend()
		if why != "" {
			t.u.Note("%s", why)
		}
	}
	return false, nil
}

// stallReason returns why a task makes no progress; "" if the server gives no reason.
func stallReason(task *executorv1.Task) string {
	switch {
	case task.GetQueued():
		return "the task is queued: it goes on when fewer tasks run"
	case task.GetStatusReason() != "":
		return "the task waits: " + task.GetStatusReason()
	}
	return ""
}

// handleEvent shows an event, and reports whether it ends the command.
func (t *watcher) handleEvent(ctx context.Context, ev *executorv1.ExecutorEvent) (bool, error) {
	if t.asking != nil && mayClose(ev, t.asking.wait) && !t.stillOpen(ctx, t.asking.wait.GetId()) {
		t.stopAsking()
		t.u.Eprintf("\n")
		t.u.Note("the question is no longer open")
	}
	t.idle, t.stallNote, t.shown = 0, "", ev.GetSeq()
	t.view.Event(ev)
	if t.asking != nil && t.view.Hold() {
		t.ask.Repeat()
	}
	switch {
	case isLast(ev):
		return true, t.endError(ctx)
	case isStop(ev):
		t.openWaits, t.waitsSeq = ev.GetFlowStop().GetWaitIds(), ev.GetSeq()
	case opensWait(ev) && t.ask != nil: // the other subtasks go on, so FLOW_STOP may not come for long
		t.openWaits, t.waitsSeq = append(t.openWaits, ev.GetWaitId()), max(t.waitsSeq, ev.GetSeq())
	}
	if len(t.openWaits) > 0 && t.asking == nil && ev.GetSeq() >= t.waitsSeq {
		return t.handleWaits(ctx, ev.GetSeq())
	}
	return false, nil
}

// opensWait reports whether a subtask asks a person with this event.
func opensWait(ev *executorv1.ExecutorEvent) bool {
	switch ev.GetPayload().(type) {
	case *executorv1.ExecutorEvent_StepWaitingForStart, *executorv1.ExecutorEvent_StepWaitingForParam, *executorv1.ExecutorEvent_InputRequired:
		return ev.GetSubtaskId() != "" && ev.GetWaitId() != ""
	}
	return false
}

// mayClose reports whether an event may mean that a wait is no longer open. Events of other subtasks do not.
func mayClose(ev *executorv1.ExecutorEvent, wait *executorv1.Wait) bool {
	return ev.GetThought() == nil && (ev.GetSubtaskId() == "" || ev.GetSubtaskId() == wait.GetSubtaskId())
}

// handleWaits handles a task that waits: it asks the person, or prints how to answer. If there are newer events, it returns so that they
// are shown first.
func (t *watcher) handleWaits(ctx context.Context, seq uint64) (bool, error) {
	task, err := t.s.Tasks.GetTask(ctx, &executorv1.GetTaskRequest{Id: t.task})
	if err != nil {
		return true, err
	}
	i := slices.IndexFunc(task.GetWaits(), func(w *executorv1.Wait) bool { return slices.Contains(t.openWaits, w.GetId()) })
	if i < 0 { // the waits are closed
		t.openWaits, t.postponed = nil, false
		return false, nil
	}
	wait := task.GetWaits()[i]
	if seq < task.GetLastSeq() && !t.postponed {
		t.waitsSeq, t.postponed = task.GetLastSeq(), wait.GetSubtaskId() != "" // other subtasks make new events all the time
		return false, nil
	}
	t.postponed = false
	t.openWaits = slices.DeleteFunc(t.openWaits, func(id string) bool { return id == wait.GetId() })
	t.view.Suspend()
	noteShown(t.u, t.s, task)
	if t.ask == nil {
		t.openWaits = nil
		printNextCommands(ctx, t.u, t.s, task)
		if t.keepWatching {
			return false, nil
		}
		return true, ui.Exit(ui.Stopped)
	}
	t.startAsking(ctx, wait)
	return false, nil
}

func (t *watcher) startAsking(ctx context.Context, wait *executorv1.Wait) {
	t.view.Hold()
	ctx, cancel := context.WithCancel(ctx)
	t.asking = &question{wait: wait, cancel: cancel, answers: make(chan reply, 1)}
	go func(q *question) {
		req, err := t.ask.Ask(ctx, wait)
		q.answers <- reply{req, err}
	}(t.asking)
}

func (t *watcher) stopAsking() {
	t.asking.cancel()
	<-t.asking.answers
	t.asking = nil
	t.view.Release()
}

// repeatQuestion shows the open question again, over which notes on a lost connection were written.
func (t *watcher) repeatQuestion() {
	if t.asking != nil {
		t.u.Note("connected again")
		t.ask.Repeat()
	}
}

// stillOpen reports whether the server confirms that a wait is open.
func (t *watcher) stillOpen(ctx context.Context, waitID string) bool {
	task, err := t.s.Tasks.GetTask(ctx, &executorv1.GetTaskRequest{Id: t.task})
	return err == nil && slices.ContainsFunc(task.GetWaits(), func(w *executorv1.Wait) bool { return w.GetId() == waitID })
}

// handleReply sends the person's answer. On ErrCancel it cancels the task instead, and without an answer it ends the command.
func (t *watcher) handleReply(ctx context.Context, answer reply) (bool, error) {
	wait := t.asking.wait
	t.asking.cancel()
	t.asking = nil
	t.view.Release()
	switch {
	case errors.Is(answer.err, ErrCancel):
		t.cancel(ctx, interruptReason)
		return false, nil
	case answer.err != nil:
		return true, answer.err
	case answer.req == nil:
		printLaterHint(t.u, t.s, t.task, wait)
		return true, ui.Exit(ui.Stopped)
	}
	answer.req.Id = t.task
	task, err := t.s.Tasks.GetTask(ctx, &executorv1.GetTaskRequest{Id: t.task})
	if err == nil {
		task, err = resume(ctx, t.s, task, answer.req)
	}
	if err != nil {
		return t.handleRefusal(ctx, wait, err)
	}
	// No new event announces further input waits of the same stop, and the waits of subtasks.
	t.openWaits, t.waitsSeq = nil, task.GetLastSeq()
	for _, w := range task.GetWaits() {
		if (w.GetKind() == waitInput || w.GetSubtaskId() != "") && w.GetId() != wait.GetId() {
			t.openWaits = append(t.openWaits, w.GetId())
		}
	}
	return false, nil
}

// handleRefusal prints why the server refused an answer, and asks again if the person can correct it.
func (t *watcher) handleRefusal(ctx context.Context, wait *executorv1.Wait, err error) (bool, error) {
	switch errs.Reason(err) {
	case commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN, commonv1.ErrorReason_ERROR_REASON_TASK_ENDED:
		t.u.Note("the question is no longer open")
		return false, nil // the events show the result
	case commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST:
		t.u.Eprintf("    %s\n", t.u.ErrStyle().Red(ui.Wrap("not taken: "+ui.AsError(err).Message, t.u.ErrColumns(), 4, 4)))
		t.ask.edit.refused(err)
		t.startAsking(ctx, wait)
		return false, nil
	}
	return true, err
}

// handleInterrupt handles Ctrl-C. While the person is being asked, the command ends and the wait stays open. Otherwise it cancels a task that this
// command created in this process, and leaves any other task running. A second Ctrl-C ends the command at once.
func (t *watcher) handleInterrupt(ctx context.Context) (bool, error) {
	t.view.Suspend()
	t.interrupts++
	switch {
	case t.asking != nil:
		wait := t.asking.wait
		t.stopAsking()
		t.u.Eprintf("\n")
		printLaterHint(t.u, t.s, t.task, wait)
		return true, ui.Exit(ui.Stopped)
	case t.interrupts > 1:
		t.u.LeaveNow = true
		return true, ui.Exit(ui.Stopped)
	case t.cancelOnInterrupt && t.s.Embedded():
		t.u.Note("cancelling the task; Ctrl-C again leaves at once")
		t.cancel(ctx, interruptReason)
		return false, nil
	}
	t.u.Note("the task goes on; pawl watch %s%s follows it, pawl cancel %s%s stops it",
		ui.ShortID(t.task), t.s.Flags(), ui.ShortID(t.task), t.s.Flags())
	return true, ui.Exit(ui.Stopped)
}

// showPlan prints the plan and cancels the task.
func (t *watcher) showPlan(ctx context.Context, plan *executorv1.Plan) error {
	t.view.Suspend()
	t.cancel(ctx, "only the plan was wanted")
	return t.u.Show(plan, nil, func() string { return planText(t.u.OutStyle(), t.u.OutColumns(), plan) })
}

const interruptReason = "interrupted at the terminal"

// cancel requests the task's cancellation; the events show the result.
func (t *watcher) cancel(ctx context.Context, reason string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := t.s.Tasks.CancelTask(ctx, &executorv1.CancelTaskRequest{Id: t.task, Reason: reason}); err != nil {
		t.u.Warn("the task could not be cancelled: %s", ui.AsError(err).Message)
	}
}

// leave prints how the task continues after this process was told to stop, and returns the command's error.
func (t *watcher) leave() error {
	if t.s.Embedded() {
		t.u.Note("stopping; the task goes on with the next pawl command")
	} else {
		t.u.Note("%s", "the task goes on: pawl watch "+t.task+t.s.Flags())
	}
	return ui.Exit(ui.Stopped)
}

// endError returns the command's error for a task that has ended.
func (t *watcher) endError(ctx context.Context) error {
	if ctx.Err() != nil {
		return t.leave()
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

// newWatcher returns a watcher of the events after a sequence number. It writes the task's steps to the writer steps and the answer to u.Out;
// with --json, it writes all events to u.Out.
func newWatcher(u *ui.UI, s *discover.Session, taskID string, after uint64, steps io.Writer, alias func(string) string) *watcher {
	t := &watcher{u: u, s: s, task: taskID, after: after}
	if u.JSON {
		t.view = NewEvents(EventsConfig{JSON: u.Out})
		return t
	}
	style, tty := u.ErrStyle(), u.ErrTTY
	if steps == u.Out {
		style, tty = u.OutStyle(), u.OutTTY
	}
	cfg := EventsConfig{Log: steps, Out: u.Out, Style: style, Alias: alias, Live: u.Live && tty, SeparateAnswer: u.OutTTY}
	if tty {
		cfg.Columns, cfg.Rows = u.Columns, u.Rows
	}
	cfg.Diff = func(c *change) (fileDiff, error) { return c.diff(context.Background(), s) }
	if u.CanAsk() {
		prompter := u.Prompter()
		prompter.Alias, cfg.QuestionRows = alias, prompter.Rows
		t.ask = &Asker{Prompter: prompter, s: s, task: taskID}
	}
	t.view = NewEvents(cfg)
	return t
}
