package task

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// Detail shows one task as a whole.
type Detail struct {
	Style   ui.Style
	Columns int // of the terminal; 0 if there is none
	Now     time.Time
	Whole   bool // show whole inputs and outputs of steps
	Alias   func(toolID string) string
	Ways    func(*executorv1.Wait) []Way    // the commands that answer a wait
	Asked   func(*executorv1.Wait) []string // what a wait asks for, a line each
}

// Task shows the task, what it waits for, its steps and its answer.
func (d Detail) Task(w io.Writer, task *executorv1.Task, steps []*executorv1.Step) error {
	var b strings.Builder
	d.head(&b, task)
	if len(steps) > 0 {
		b.WriteByte('\n')
	}
	for _, s := range steps {
		if s.GetType() != executorv1.StepType_STEP_TYPE_FINAL {
			d.step(&b, s)
		}
	}
	for _, wait := range Waits(task) {
		d.wait(&b, wait)
	}
	if e := task.GetError(); e != nil {
		fmt.Fprintf(&b, "\n%s %s\n", d.Style.Red("✗ failed:"), ui.Text(e.GetErrMsg()))
	}
	if answer := task.GetFullAnswer(); answer != "" {
		b.WriteString("\n" + strings.TrimRight(ui.Text(answer), "\n") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (d Detail) head(b *strings.Builder, task *executorv1.Task) {
	st := d.Style
	title := task.GetGoal()
	if title == "" {
		title = task.GetName()
	}
	fmt.Fprintf(b, "%s\n", st.Bold(ui.Line(title)))
	row := func(name, value string) { b.WriteString(st.Field(name, 9, value)) }
	row("task", task.GetId())
	row("state", d.state(task))
	row("waits for", task.GetStatusReason())
	if f := task.GetForkedFrom(); f != nil {
		row("fork of", fmt.Sprintf("%s, at event %d", f.GetTaskId(), f.GetSeq()))
	}
	row("created", d.when(task))
	row("agent", ui.Line(task.GetAgentId()))
	row("model", ui.Line(task.GetModel()))
	row("servers", ui.Line(strings.Join(task.GetMcpIds(), ", ")))
	row("asks", map[string]string{"always": "before each step", "by-risk": "by risk", "never": "never"}[ui.EnumName(task.GetConfirm())])
	row("risk", strings.TrimPrefix(riskText("", task.GetRisk()), "risk "))
	row("cost", costText(task.GetUsage()))
	row("budget", budgetText(task.GetBudget()))
	row("bounds", bounds(task))
	row("events", fmt.Sprint(task.GetLastSeq()))
}

func (d Detail) state(task *executorv1.Task) string {
	state := d.Style.StatusStyle(ui.StateName(task))
	if task.GetCancelRequested() && task.GetEndTime() == nil {
		state += d.Style.Dim(", cancellation was asked for")
	}
	return state
}

func (d Detail) when(task *executorv1.Task) string {
	text := task.GetCreateTime().AsTime().In(d.Now.Location()).Format("2006-01-02 15:04:05") + " (" + ui.Age(task.GetCreateTime().AsTime(), d.Now) + " ago)"
	if task.GetEndTime() != nil {
		text += ", took " + ui.Duration(task.GetEndTime().AsTime().Sub(task.GetCreateTime().AsTime()))
	}
	return text
}

func (d Detail) step(b *strings.Builder, s *executorv1.Step) {
	e := Events{cfg: EventsConfig{Style: d.Style, Columns: func() int { return d.Columns }, Alias: d.Alias}}
	view := &stepView{tool: s.GetToolId(), input: s.GetInputJson(), attempt: s.GetAttempt()}
	if d.Whole {
		view.input = ""
	}
	took := time.Duration(-1)
	if s.GetRunTime() != nil {
		took = s.GetRunTime().AsDuration()
	} else if s.GetEndTime() != nil && s.GetStartTime() != nil {
		took = s.GetEndTime().AsTime().Sub(s.GetStartTime().AsTime())
	}
	fmt.Fprintf(b, "%s\n", e.stepLine(stepMark(d.Style, s.GetStatus()), view, took, 0))
	if d.Whole {
		block(b, d.Style.Dim("why   "), ui.Line(s.GetDescription()))
		block(b, d.Style.Dim("input "), indent(ui.PrettyJSON(s.GetInputJson(), "")))
		if s.GetOutputJson() != "" {
			block(b, d.Style.Dim("output"), indent(outputText(s.GetOutputJson())))
		}
	}
	if s.GetError() != nil {
		block(b, "", strings.ReplaceAll(d.Style.Red(failureText(s.GetError(), s.GetOutcome())), "\n", "\n    "))
	} else if s.GetStatus() == executorv1.StepStatus_STEP_STATUS_CANCELLED && s.GetOutcome() == commonv1.Outcome_OUTCOME_UNKNOWN {
		block(b, "", d.Style.Yellow(strings.TrimSpace(outcomeText(s.GetOutcome()))))
	}
}

// outputText is a step's message as text, where it has one: that is what the planner read.
func outputText(raw string) string {
	var output struct {
		Message string `json:"message"`
	}
	if json.Unmarshal([]byte(raw), &output) != nil || output.Message == "" {
		return ui.PrettyJSON(raw, "")
	}
	return ui.Text(strings.TrimRight(output.Message, "\n"))
}

func (d Detail) wait(b *strings.Builder, wait *executorv1.Wait) {
	st := d.Style
	fmt.Fprintf(b, "\n%s %s\n", st.Yellow("⏸"), d.asks(wait))
	block(b, st.Dim("wait  "), wait.GetId())
	if wait.GetToolId() != "" {
		block(b, st.Dim("input "), indent(ui.PrettyJSON(wait.GetInputJson(), "")))
	}
	block(b, st.Dim("open  "), ui.Line(wait.GetUrl()))
	if kind := wait.GetKind(); kind == executorv1.WaitKind_WAIT_KIND_PARAMS || kind == executorv1.WaitKind_WAIT_KIND_INPUT && wait.GetUrl() == "" {
		block(b, st.Dim("asked "), indent(strings.Join(d.Asked(wait), "\n")))
	}
	if wait.GetDeadline() != nil {
		block(b, st.Dim("lapses"), "in "+ui.Duration(wait.GetDeadline().AsTime().Sub(d.Now)))
	}
	b.WriteString(Ways(st, d.Ways(wait)))
}

func (d Detail) asks(wait *executorv1.Wait) string {
	tool := d.Style.Bold(ui.Line(d.Alias(wait.GetToolId())))
	switch wait.GetKind() {
	case executorv1.WaitKind_WAIT_KIND_PARAMS:
		return tool + " waits for parameters" + because(wait.GetMessage())
	case executorv1.WaitKind_WAIT_KIND_OUTCOME:
		return tool + " was called, and it is not known whether it ran" + because(wait.GetMessage())
	case executorv1.WaitKind_WAIT_KIND_INPUT:
		return tool + " asks" + because(wait.GetMessage())
	case executorv1.WaitKind_WAIT_KIND_PAUSE:
		return "the task is paused" + because(strings.TrimPrefix(wait.GetMessage(), "paused"))
	}
	return tool + " waits for approval" + d.Style.Yellow(riskText(", ", wait.GetRisk()))
}

func block(b *strings.Builder, name, text string) {
	if text == "" {
		return
	}
	if name != "" {
		name += " "
	}
	fmt.Fprintf(b, "    %s%s\n", name, text)
}

// indent puts the lines after the first one under it.
func indent(text string) string { return strings.ReplaceAll(text, "\n", "\n           ") }
