package task

import (
	"fmt"
	"io"
	"strings"
	"time"

	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// EventsConfig configures an Events.
type EventsConfig struct {
	Log io.Writer // steps, warnings and the closing line
	Out io.Writer // the answer

	JSON io.Writer // gets each event as a line of JSON, and nothing else is shown; may be nil

	Live           bool // Log is interactive: its last line may be rewritten
	SeparateAnswer bool // print blank lines around the answer: Out is a terminal that also shows the steps
	Style          ui.Style

	Columns func() int                      // of the terminal; 0 if there is none
	Rows    func() int                      // of the terminal; nil or 0 if there is none
	Alias   func(toolID string) string      // returns a tool's name for the user; nil: the tool's id
	Diff    func(*change) (fileDiff, error) // returns what a task changed in a file; nil: that is not known

	QuestionRows func() int // of the terminal that the open question takes; needed for Hold
}

// Events shows a task's events as they come. Only one goroutine may use it.
type Events struct {
	cfg     EventsConfig
	live    ui.LiveLine
	steps   map[string]*stepView
	running []string  // steps, oldest first
	waiting []string  // steps that wait for a person
	plan    *planView // nil: the task has none
	files   []*executorv1.FileChange
	held    bool // a question is open in the terminal's last rows, so no status is drawn there
	broken  bool // while held: the question was overwritten

	named      bool      // the flow's name has been shown
	first      time.Time // of the first event, if fromStart
	fromStart  bool      // event 1 has been shown
	toolSteps  int
	failed     map[string]bool // steps whose newest attempt failed, without those whose call a later step repeated with success
	failure    string          // the error of the newest failed attempt
	answer     answerView
	last       *executorv1.ExecutorEvent
	quietSince time.Time // the first tick since the last event; zero until that tick
}

// stepView is the display state of a step. It is kept after the step has ended.
type stepView struct {
	tool, input, progress string
	subtask, note         string // note takes the place of the input
	final                 bool
	started               time.Time
	asked                 time.Time // when the person was asked for input; zero while the call runs
	attempt               uint32
	announced             bool // the log has a line that the step runs
}

// NewEvents returns an Events that has shown nothing yet.
func NewEvents(cfg EventsConfig) *Events {
	if cfg.Columns == nil {
		cfg.Columns = func() int { return 0 }
	}
	if cfg.Alias == nil {
		cfg.Alias = func(id string) string { return id }
	}
	return &Events{cfg: cfg, live: ui.LiveLine{W: cfg.Log, On: cfg.Live}, steps: map[string]*stepView{}, failed: map[string]bool{}}
}

// Event shows one event.
func (e *Events) Event(ev *executorv1.ExecutorEvent) {
	if e.cfg.JSON != nil {
		_ = ui.JSONLine(e.cfg.JSON, ev)
		return
	}
	if ev.GetSeq() == 1 {
		e.first, e.fromStart = ev.GetTime().AsTime(), true
	}
	e.last = ev
	e.endQuiet()
	switch ev.GetType() {
	case executorv1.EventType_EVENT_TYPE_STEP_ERROR:
		e.failed[ev.GetFlow().GetStepId()] = true
		e.failure = errorText(ev.GetStepError().GetError())
	case executorv1.EventType_EVENT_TYPE_STEP_INPUT:
		delete(e.failed, ev.GetFlow().GetStepId())
	}
	switch p := ev.GetPayload().(type) {
	case *executorv1.ExecutorEvent_ToolsLoaded:
		e.toolsLoaded(p.ToolsLoaded)
	case *executorv1.ExecutorEvent_FlowStart:
		e.flowStart(p.FlowStart)
	case *executorv1.ExecutorEvent_TextAdd:
		e.live.Clear()
		e.answer.add(e.cfg, p.TextAdd)
	case *executorv1.ExecutorEvent_FlowSuccess:
		e.live.Clear()
		e.answer.complete(e.cfg, p.FlowSuccess)
		e.printSummary()
		e.printDone()
	case *executorv1.ExecutorEvent_FlowFailed:
		e.flowFailed(p.FlowFailed)
	case *executorv1.ExecutorEvent_FlowCancel:
		e.printSummary()
		e.line("%s%s", e.cfg.Style.Yellow("⊘ cancelled"), reasonText(p.FlowCancel.GetReason()))
		e.printClosing("  ", "")
	default:
		if !e.lane(ev) {
			e.step(ev)
		}
		if e.plan != nil {
			e.Tick(ev.GetTime().AsTime())
			e.quietSince = time.Time{} // which Tick has set to the time of the event
		}
	}
}

func (e *Events) flowFailed(f *executorv1.FlowFailed) {
	if f.GetAnswerId() != "" {
		e.live.Clear()
		e.answer.complete(e.cfg, &executorv1.FlowSuccess{FullAnswer: f.GetFullAnswer(), AnswerId: f.GetAnswerId()})
	}
	text := errorText(f.GetError())
	if head, ok := strings.CutSuffix(text, " failed: "+e.failure); ok { // the step's line has shown the failure
		text = head + " failed"
	}
	e.printSummary()
	e.line("%s %s", e.cfg.Style.Red("✗ failed:"), ui.Wrap(text, e.cfg.Columns(), 10, 2))
	e.printClosing("  ", "")
}

// Tick redraws the live status line or, without one, logs slow steps. Call it a few times a second while there are no events.
func (e *Events) Tick(now time.Time) {
	if e.answer.open || e.held {
		return
	}
	if e.plan != nil && e.cfg.Live {
		e.drawPlan(now)
		return
	}
	if len(e.running) == 0 {
		if awaited := e.awaited(now); awaited != "" {
			e.live.Draw(e.cfg.Style.Dim(awaited))
		}
		return
	}
	if !e.cfg.Live {
		e.announce(now)
		return
	}
	s := e.steps[e.running[len(e.running)-1]]
	e.live.Draw(e.stepLine(stepMark(e.cfg.Style, running), s, now.Sub(s.started), len(e.running)-1))
}

// Suspend clears the live status line and ends an open line of the answer, so that other text can be printed.
func (e *Events) Suspend() {
	if e.held && !e.broken {
		e.broken = true
		ui.Put(e.cfg.Log, ui.EraseRows(e.cfg.QuestionRows()))
	}
	e.live.Clear()
	e.answer.end(e.cfg)
}

// Hold keeps the terminal's last rows free for a question until Release. It reports whether the question was overwritten since the last call.
func (e *Events) Hold() (overwritten bool) {
	e.live.Clear()
	overwritten, e.held, e.broken = e.broken, true, false
	return overwritten
}

// Release ends Hold.
func (e *Events) Release() { e.held, e.broken = false, false }

const running = executorv1.StepStatus_STEP_STATUS_RUNNING

// slowStepDelay is the delay before a non-interactive log reports a running step.
const slowStepDelay = 2 * time.Second

// announce logs the steps that have run for slowStepDelay, once each.
func (e *Events) announce(now time.Time) {
	for _, id := range e.running {
		s := e.steps[id]
		if s.announced || now.Sub(s.started) < slowStepDelay {
			continue
		}
		s.announced = true
		e.line("%s", e.stepLine(stepMark(e.cfg.Style, running), s, 0, 0))
	}
}

func (e *Events) toolsLoaded(t *executorv1.ToolsLoaded) {
	for _, s := range t.GetSkipped() {
		text := fmt.Sprintf("! server %s is left out: %s", s.GetMcpId(), ui.Brief(s.GetMcpId(), s.GetMessage()))
		e.line("%s", e.cfg.Style.Yellow(ui.Wrap(text, e.cfg.Columns(), 0, 2)))
	}
}

func (e *Events) flowStart(f *executorv1.FlowStart) {
	if e.named {
		return
	}
	e.named = true
	name := ui.Wrap(ui.Line(f.GetName()), e.cfg.Columns(), 2, 2)
	used := ui.Width(name[strings.LastIndexByte(name, '\n')+1:])
	if used == ui.Width(name) {
		used += 2 // after the mark
	}
	e.line("%s %s%s", e.cfg.Style.Cyan("●"), e.cfg.Style.Bold(name), e.cfg.Style.Dim(ui.Wrap(riskText("  ", f.GetRisk()), e.cfg.Columns(), used, 0)))
}

// line prints one line of the log, after ending any unfinished line.
func (e *Events) line(format string, args ...any) {
	e.Suspend()
	ui.Put(e.cfg.Log, fmt.Sprintf(format, args...)+"\n")
}

// printDone prints the closing line of a task with an answer, and how many steps failed.
func (e *Events) printDone() {
	switch {
	case len(e.failed) == 0 || e.plan != nil: // a plan succeeds only as a whole
		e.printClosing(e.cfg.Style.Green("✓")+" ", "done")
	case e.fromStart && len(e.failed) == e.toolSteps:
		e.printClosing(e.cfg.Style.Red("✗")+" ", "no step succeeded")
	default:
		e.printClosing(e.cfg.Style.Yellow("!")+" ", fmt.Sprintf("done, but %s failed", ui.Plural(len(e.failed), "step")))
	}
}

// printClosing prints the last line: the task's id, steps, time and tokens.
func (e *Events) printClosing(mark, word string) {
	usage, steps, elapsed := e.last.GetUsage(), "", ""
	if e.fromStart {
		steps = ui.Plural(e.toolSteps, "step")
	}
	if d := e.elapsed(); d > 0 {
		elapsed = ui.Duration(d)
	}
	text := joined(" · ", word, "task "+e.last.GetTaskId(), steps, elapsed, counted(usage.GetInputTokens()+usage.GetOutputTokens(), "token"), dollars(usage.GetCostNanoUsd()))
	e.line("%s%s", mark, e.cfg.Style.Dim(ui.Wrap(text, e.cfg.Columns(), 2, 2)))
}

func (e *Events) elapsed() time.Duration {
	if e.fromStart {
		return e.last.GetTime().AsTime().Sub(e.first)
	}
	return e.last.GetUsage().GetElapsed().AsDuration()
}

// reasonText returns ": reason", or "" without a reason.
func reasonText(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + ui.Line(reason)
}

func errorText(m *commonv1.ErrorMessage) string {
	if m.GetErrMsg() == "" {
		return "no reason was given"
	}
	return m.GetErrMsg()
}

// riskText returns prefix + "risk medium: reason"; "" if no risk was assessed.
func riskText(prefix string, r *commonv1.Risk) string {
	name := ui.EnumName(r.GetLevel())
	if name == "" {
		return ""
	}
	return prefix + "risk " + name + reasonText(r.GetReason())
}

// quietFor is the time without events after which a terminal shows what the task waits for.
const quietFor = 2 * time.Second

// awaited returns what the task has waited for since a while, while no step runs and no question is open; else "".
func (e *Events) awaited(now time.Time) string {
	what := e.awaitedWork()
	if !e.cfg.Live || what == "" {
		return ""
	}
	if e.quietSince.IsZero() {
		e.quietSince = now
	}
	if d := now.Sub(e.quietSince); d >= quietFor {
		return "… waiting for " + what + " · " + ui.Duration(d.Truncate(time.Second))
	}
	return ""
}

// endQuiet ends a quiet time, because an event came.
func (e *Events) endQuiet() {
	e.quietSince = time.Time{}
	if len(e.running) == 0 && e.plan == nil {
		e.live.Clear()
	}
}

// awaitedWork returns what a task waits for after the last event; "" if it waits for a person or for nothing, or the answer has begun.
func (e *Events) awaitedWork() string {
	if e.last == nil {
		return ""
	}
	switch e.last.GetType() {
	case executorv1.EventType_EVENT_TYPE_FLOW_STOP, executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS, executorv1.EventType_EVENT_TYPE_FLOW_FAILED,
		executorv1.EventType_EVENT_TYPE_FLOW_CANCEL, executorv1.EventType_EVENT_TYPE_TEXT_ADD:
		return ""
	}
	if e.fromStart && !e.named {
		return "the tools of the MCP servers and the first step"
	}
	return "the planner"
}

// answerView prints the pieces of the answer as they come.
type answerView struct {
	id   string
	text strings.Builder
	open bool // the last piece did not end its line
}

func (a *answerView) add(cfg EventsConfig, t *executorv1.TextAdd) {
	if a.id != "" && a.id != t.GetAnswerId() {
		a.end(cfg)
		ui.Put(cfg.Log, cfg.Style.Yellow("! the answer was interrupted and starts again:")+"\n")
		a.text.Reset()
	}
	if a.id != t.GetAnswerId() && cfg.SeparateAnswer {
		ui.Put(cfg.Out, "\n")
	}
	a.id = t.GetAnswerId()
	a.text.WriteString(t.GetText())
	a.write(cfg, t.GetText())
}

// complete prints the whole answer if its pieces were not printed.
func (a *answerView) complete(cfg EventsConfig, s *executorv1.FlowSuccess) {
	if a.id == "" && s.GetFullAnswer() != "" {
		if cfg.SeparateAnswer {
			ui.Put(cfg.Out, "\n")
		}
		a.write(cfg, s.GetFullAnswer())
	}
	a.end(cfg)
	if cfg.SeparateAnswer {
		ui.Put(cfg.Out, "\n")
	}
}

func (a *answerView) write(cfg EventsConfig, text string) {
	if text == "" {
		return
	}
	a.open = !strings.HasSuffix(text, "\n")
	ui.Put(cfg.Out, ui.Text(text))
}

// end finishes the answer's last line.
func (a *answerView) end(cfg EventsConfig) {
	if a.open {
		ui.Put(cfg.Out, "\n")
		a.open = false
	}
}
