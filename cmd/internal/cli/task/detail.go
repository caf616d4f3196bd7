package task

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// detail shows one task as a whole: what it waits for, its steps and its answer.
type detail struct {
	task    *executorv1.Task
	st      ui.Style
	columns int // of the terminal; 0 if there is none
	now     time.Time
	whole   bool // show whole inputs and outputs of steps
	alias   func(toolID string) string
	flags   string // connection flags to repeat in suggested commands

	strings.Builder
}

func (d *detail) text(steps []*executorv1.Step) string {
	d.head()
	if len(steps) > 0 {
		d.WriteByte('\n')
	}
	for _, s := range steps {
		if s.GetType() != executorv1.StepType_STEP_TYPE_FINAL {
			d.step(s)
		}
	}
	for _, wait := range waits(d.task) {
		d.wait(wait)
	}
	if e := d.task.GetError(); e != nil {
		d.printf("\n%s %s\n", d.st.Red("✗ failed:"), ui.Text(e.GetErrMsg()))
	}
	if answer := d.task.GetFullAnswer(); answer != "" {
		d.printf("\n%s\n", strings.TrimRight(ui.Text(answer), "\n"))
	}
	return d.String()
}

func (d *detail) printf(format string, args ...any) { fmt.Fprintf(d, format, args...) }

func (d *detail) head() {
	task := d.task
	d.printf("%s\n", d.st.Bold(ui.Line(cmp.Or(task.GetGoal(), task.GetName()))))
	row := func(name, value string) { d.WriteString(d.st.Field(name, 9, value)) }
	row("task", task.GetId())
	row("state", d.state())
	row("waits for", task.GetStatusReason())
	if f := task.GetForkedFrom(); f != nil {
		row("fork of", fmt.Sprintf("%s, at event %d", f.GetTaskId(), f.GetSeq()))
	}
	row("created", d.when())
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

func (d *detail) state() string {
	state := d.st.StatusStyle(ui.StateName(d.task))
	if d.task.GetCancelRequested() && d.task.GetEndTime() == nil {
		state += d.st.Dim(", cancellation was asked for")
	}
	return state
}

func (d *detail) when() string {
	created := d.task.GetCreateTime().AsTime()
	text := created.In(d.now.Location()).Format(time.DateTime) + " (" + ui.Age(created, d.now) + " ago)"
	if d.task.GetEndTime() != nil {
		text += ", took " + ui.Duration(d.task.GetEndTime().AsTime().Sub(created))
	}
	return text
}

func (d *detail) step(s *executorv1.Step) {
	e := Events{cfg: EventsConfig{Style: d.st, Columns: func() int { return d.columns }, Alias: d.alias}}
	view := &stepView{tool: s.GetToolId(), input: s.GetInputJson(), attempt: s.GetAttempt()}
	if d.whole {
		view.input = ""
	}
	took := time.Duration(-1)
	if s.GetRunTime() != nil {
		took = s.GetRunTime().AsDuration()
	} else if s.GetEndTime() != nil && s.GetStartTime() != nil {
		took = s.GetEndTime().AsTime().Sub(s.GetStartTime().AsTime())
	}
	d.printf("%s\n", e.stepLine(stepMark(d.st, s.GetStatus()), view, took, 0))
	if d.whole {
		d.block(d.st.Dim("why   "), ui.Line(s.GetDescription()))
		d.block(d.st.Dim("input "), indent(ui.PrettyJSON(s.GetInputJson(), "")))
		if s.GetOutputJson() != "" {
			d.block(d.st.Dim("output"), indent(outputText(s.GetOutputJson())))
		}
	}
	if s.GetError() != nil {
		d.block("", strings.ReplaceAll(d.st.Red(failureText(s.GetError(), s.GetOutcome())), "\n", "\n    "))
	} else if s.GetStatus() == executorv1.StepStatus_STEP_STATUS_CANCELLED && s.GetOutcome() == commonv1.Outcome_OUTCOME_UNKNOWN {
		d.block("", d.st.Yellow(strings.TrimSpace(outcomeText(s.GetOutcome()))))
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

func (d *detail) wait(wait *executorv1.Wait) {
	st := d.st
	d.printf("\n%s %s\n", st.Yellow("⏸"), d.asks(wait))
	d.block(st.Dim("wait  "), wait.GetId())
	if wait.GetToolId() != "" {
		d.block(st.Dim("input "), indent(ui.PrettyJSON(wait.GetInputJson(), "")))
	}
	d.block(st.Dim("open  "), ui.Line(wait.GetUrl()))
	if kind := wait.GetKind(); kind == executorv1.WaitKind_WAIT_KIND_PARAMS || kind == executorv1.WaitKind_WAIT_KIND_INPUT && wait.GetUrl() == "" {
		d.block(st.Dim("asked "), indent(strings.Join(asked(wait), "\n")))
	}
	if wait.GetDeadline() != nil {
		d.block(st.Dim("lapses"), "in "+ui.Duration(wait.GetDeadline().AsTime().Sub(d.now)))
	}
	d.WriteString(waysText(st, ways(ui.ShortID(d.task.GetId()), wait, which(d.task, wait)+d.flags)))
}

func (d *detail) asks(wait *executorv1.Wait) string {
	tool := d.st.Bold(ui.Line(d.alias(wait.GetToolId())))
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
	return tool + " waits for approval" + d.st.Yellow(riskText(", ", wait.GetRisk()))
}

func (d *detail) block(name, text string) {
	if text == "" {
		return
	}
	if name != "" {
		name += " "
	}
	d.printf("    %s%s\n", name, text)
}

// indent puts the lines after the first one under it.
func indent(text string) string { return strings.ReplaceAll(text, "\n", "\n           ") }
