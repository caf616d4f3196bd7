package task

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// step shows an event about a step. It ignores unknown kinds of events.
func (e *Events) step(ev *executorv1.ExecutorEvent) {
	id := ev.GetFlow().GetStepId()
	switch p := ev.GetPayload().(type) {
	case *executorv1.ExecutorEvent_StepInit:
		s := e.viewOf(id, ev)
		s.tool = p.StepInit.GetToolId()
		if s.final = s.tool == "FINAL"; !s.final {
			e.toolSteps++
		}
	case *executorv1.ExecutorEvent_StepInput:
		s := e.viewOf(id, ev)
		s.input, s.progress, s.started, s.attempt = p.StepInput.GetInputJson(), "", ev.GetTime().AsTime(), ev.GetAttempt()
		e.markRunning(id)
		e.Tick(s.started)
	case *executorv1.ExecutorEvent_ToolProgress:
		e.viewOf(id, ev).progress = ui.Progress(p.ToolProgress.GetProgress(), p.ToolProgress.GetTotal(), p.ToolProgress.GetMessage())
		e.Tick(ev.GetTime().AsTime())
	case *executorv1.ExecutorEvent_StepOutput:
		s := e.viewOf(id, ev)
		e.forgetFailures(s)
		note, good := resultNote(s.tool, p.StepOutput.GetOutputJson())
		status := executorv1.StepStatus_STEP_STATUS_SUCCESS
		if s.note = note; !good {
			status = executorv1.StepStatus_STEP_STATUS_ERROR
		}
		e.showEnd(id, ev, status, "")
	case *executorv1.ExecutorEvent_StepError:
		e.showEnd(id, ev, executorv1.StepStatus_STEP_STATUS_ERROR, failureText(p.StepError.GetError(), p.StepError.GetOutcome())+recoveryText(p.StepError))
	case *executorv1.ExecutorEvent_StepCancel:
		e.showEnd(id, ev, executorv1.StepStatus_STEP_STATUS_CANCELLED, strings.TrimPrefix(reasonText(p.StepCancel.GetReason()), ": ")+outcomeText(p.StepCancel.GetOutcome()))
	case *executorv1.ExecutorEvent_StepWaitingForStart:
		e.showWait(id, ev, p.StepWaitingForStart.GetInputJson(), startText(p.StepWaitingForStart))
	case *executorv1.ExecutorEvent_StepWaitingForParam:
		e.showWait(id, ev, "", "needs parameters: "+ui.Line(p.StepWaitingForParam.GetMessage()))
	case *executorv1.ExecutorEvent_InputRequired:
		e.showInputRequest(id, ev, p.InputRequired)
	case *executorv1.ExecutorEvent_StatusChanged:
		e.showStatus(p.StatusChanged.GetReason())
		if ev.GetFlow().GetStepStatus() == executorv1.StepStatus_STEP_STATUS_RUNNING {
			e.markResumed(id, ev)
		}
	}
}

// showInputRequest shows a server's request for input during a call.
func (e *Events) showInputRequest(id string, ev *executorv1.ExecutorEvent, in *executorv1.InputRequired) {
	s := e.viewOf(id, ev)
	if s.asked.IsZero() {
		s.asked = ev.GetTime().AsTime()
	}
	e.showWait(id, ev, "", "asks: "+ui.Line(in.GetMessage()))
	if in.GetUrl() != "" {
		e.line("    %s", e.cfg.Style.Bold(ui.Line(in.GetUrl())))
	}
}

// markResumed marks the step as running again, and excludes the time spent waiting for a person from its running time.
func (e *Events) markResumed(id string, ev *executorv1.ExecutorEvent) {
	s := e.viewOf(id, ev)
	if !s.asked.IsZero() {
		s.started = s.started.Add(ev.GetTime().AsTime().Sub(s.asked))
	}
	s.asked = time.Time{}
	e.markRunning(id)
}

// startText returns why a waiting step does not run: it needs approval, or the outcome of its call is unknown.
func startText(w *executorv1.StepWaitingForStart) string {
	if w.GetOutcomeUnknown() {
		return "it is not known whether it ran: " + ui.Line(errorText(w.GetError()))
	}
	return "needs approval" + riskText(", ", w.GetRisk())
}

// showStatus shows a status change that has a reason, such as a pause.
func (e *Events) showStatus(reason string) {
	switch {
	case reason == "":
	case strings.HasPrefix(reason, "pause"):
		e.line("%s %s", e.cfg.Style.Yellow("⏸"), ui.Line(reason))
	default:
		e.line("%s", e.cfg.Style.Dim("· "+ui.Line(reason)))
	}
}

func (e *Events) viewOf(id string, ev *executorv1.ExecutorEvent) *stepView {
	s := e.steps[id]
	if s == nil {
		s = &stepView{tool: ev.GetFlow().GetStepName(), subtask: ev.GetSubtaskId(), started: ev.GetTime().AsTime()}
		s.final = ev.GetFlow().GetStepType() == executorv1.StepType_STEP_TYPE_FINAL
		e.steps[id] = s
	}
	return s
}

// forgetFailures removes the failed steps with the tool and input of s, which has succeeded.
func (e *Events) forgetFailures(s *stepView) {
	maps.DeleteFunc(e.failed, func(id string, _ bool) bool {
		before := e.steps[id]
		return before != nil && before.tool == s.tool && before.input == s.input
	})
}

func (e *Events) markRunning(id string) {
	e.markStopped(id)
	e.running = append(e.running, id)
}

func (e *Events) markStopped(id string) {
	same := func(other string) bool { return other == id }
	e.running, e.waiting = slices.DeleteFunc(e.running, same), slices.DeleteFunc(e.waiting, same)
}

func (e *Events) showEnd(id string, ev *executorv1.ExecutorEvent, status executorv1.StepStatus, detail string) {
	s := e.viewOf(id, ev)
	e.markStopped(id)
	s.announced, s.progress = false, ""
	if s.final && detail == "" { // the answer itself is shown
		return
	}
	took := time.Duration(-1)
	if s.attempt > 0 {
		took = ev.GetTime().AsTime().Sub(s.started)
	}
	e.line("%s", e.stepLine(stepMark(e.cfg.Style, status), s, took, 0))
	if detail != "" {
		e.line("    %s", ui.Wrap(ui.Failure(detail), e.cfg.Columns(), 4, 4))
	}
}

func (e *Events) showWait(id string, ev *executorv1.ExecutorEvent, input, why string) {
	s := e.viewOf(id, ev)
	if input != "" {
		s.input = input
	}
	e.markStopped(id)
	e.waiting = append(e.waiting, id)
	s.progress = ""
	e.line("%s", e.stepLine(stepMark(e.cfg.Style, executorv1.StepStatus_STEP_STATUS_WAITING), s, -1, 0))
	e.line("    %s", e.cfg.Style.Yellow(ui.Wrap(why, e.cfg.Columns(), 4, 4)))
}

// plainColumns is the width of lines if the output is not a terminal.
const plainColumns = 200

// stepLine formats mark, tool, input, progress and time in one line that fits the terminal. It omits a negative time, and a time of 0 if the
// display is not live. moreSteps is the number of further running steps.
func (e *Events) stepLine(mark part, s *stepView, took time.Duration, moreSteps int) string {
	tail, clock, columns, st := "", "", cmp.Or(e.cfg.Columns(), plainColumns), e.cfg.Style
	if s.progress != "" {
		tail += "  " + s.progress
	}
	if moreSteps > 0 {
		tail += "  (and " + ui.Plural(moreSteps, "more step") + ")"
	}
	if s.attempt > 1 {
		tail += "  attempt " + fmt.Sprint(s.attempt)
	}
	if took > 0 || took == 0 && e.cfg.Live {
		clock = "  " + ui.Duration(took)
	}
	input := cmp.Or(s.note, ui.CompactJSON(s.input))
	if input != "" {
		input = " " + input
	}
	return fitted(columns, mark, part{text: " "}, part{text: ui.Fit(tag(s.subtask), max(columns/4, 6)), paint: st.Cyan}, part{text: e.cfg.Alias(s.tool), elastic: true},
		part{text: input, paint: st.Dim, elastic: true}, part{text: tail, paint: st.Cyan}, part{text: clock, paint: st.Dim})
}

// failureText returns an error's message and, if the message does not say it, the outcome of the call.
func failureText(e *commonv1.ErrorMessage, o commonv1.Outcome) string {
	text := ui.Text(errorText(e))
	if e.GetReason() == commonv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN {
		return text
	}
	return text + outcomeText(o)
}

// recoveryText returns a line on the class of an error and how the task continues; "" if neither is said.
func recoveryText(e *executorv1.StepError) string {
	text := ui.EnumName(e.GetErrorClass()) + " error; next: " + strings.ReplaceAll(ui.EnumName(e.GetRecovery()), "-", " ")
	if text == " error; next: " {
		return ""
	}
	return "\n" + strings.TrimSuffix(text, "; next: ")
}

func outcomeText(o commonv1.Outcome) string {
	switch o {
	case commonv1.Outcome_OUTCOME_UNKNOWN:
		return "\nit is not known whether the tool ran"
	case commonv1.Outcome_OUTCOME_NOT_EXECUTED:
		return "\nthe tool did not run"
	}
	return ""
}

// stepMark returns the mark of a step's status.
func stepMark(s ui.Style, status executorv1.StepStatus) part {
	switch status {
	case executorv1.StepStatus_STEP_STATUS_SUCCESS:
		return part{text: "✓", paint: s.Green}
	case executorv1.StepStatus_STEP_STATUS_ERROR:
		return part{text: "✗", paint: s.Red}
	case executorv1.StepStatus_STEP_STATUS_CANCELLED:
		return part{text: "⊘", paint: s.Yellow}
	case executorv1.StepStatus_STEP_STATUS_WAITING, executorv1.StepStatus_STEP_STATUS_PARAM:
		return part{text: "⏸", paint: s.Yellow}
	}
	return part{text: "…", paint: s.Cyan}
}
