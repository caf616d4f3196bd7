package task

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// lane shows an event about a plan or a subtask. It reports false for other events.
func (e *Events) lane(ev *executorv1.ExecutorEvent) bool {
	id := ev.GetSubtaskId()
	if ev.GetThought() == nil && id != "" {
		e.endThought(id)
	}
	switch p := ev.GetPayload().(type) {
	case *executorv1.ExecutorEvent_PlanCreated:
		e.planCreated(p.PlanCreated)
	case *executorv1.ExecutorEvent_SubtaskChanged:
		e.subtaskChanged(e.subtask(id), p.SubtaskChanged)
	case *executorv1.ExecutorEvent_Thought:
		e.thought(id, p.Thought)
	case *executorv1.ExecutorEvent_Reflection:
		if r := p.Reflection; !r.GetDone() { // the summary of a subtask that is done is shown with its end
			e.aside(id, "↻ ", joined(" → ", r.GetSummary(), r.GetNext()))
		}
	case *executorv1.ExecutorEvent_FileChanged:
		e.files = append(e.files, p.FileChanged)
		e.fileChanged(id, p.FileChanged)
	default:
		return false
	}
	return true
}

// subtask returns the display state of a subtask.
func (e *Events) subtask(id string) *executorv1.Subtask {
	if e.plan == nil {
		e.plan = newPlanView(nil)
	}
	return e.plan.find(id)
}

// planCreated shows a plan, or what was changed in it. A live display shows the whole plan anyway.
func (e *Events) planCreated(created *executorv1.PlanCreated) {
	if e.plan == nil {
		e.plan = newPlanView(nil)
	}
	whole := e.plan.apply(created)
	if created.GetPlan().GetRevision() > 1 {
		e.line("%s", fitted(e.cfg.Columns(), part{text: "↻ the plan is changed" + reasonText(created.GetReason()), paint: e.cfg.Style.Yellow}))
	}
	if whole && !e.cfg.Live {
		e.printPlan()
	}
	for _, s := range created.GetPlan().GetSubtasks() {
		if !whole {
			e.line("%s", fitted(e.cfg.Columns(), part{text: "  + ", paint: e.cfg.Style.Green}, part{text: label(s)}))
		}
	}
}

func (e *Events) printPlan() {
	for _, line := range e.plan.draw(e.cfg.Style, e.cfg.Columns(), 0, func(*executorv1.Subtask) string { return "" }) {
		e.line("%s", line)
	}
}

// subtaskChanged shows that a subtask has started or ended.
func (e *Events) subtaskChanged(s *executorv1.Subtask, changed *executorv1.SubtaskChanged) {
	s.Status, s.Summary = changed.GetTo(), changed.GetSummary()
	if s.GetStatus() < inProgress {
		return
	}
	mark, paint := subtaskMark(e.cfg.Style, s.GetStatus())
	e.line("%s", fitted(e.cfg.Columns(), part{text: mark + " ", paint: paint}, part{text: label(s), paint: e.cfg.Style.Bold}))
	if s.GetSummary() != "" {
		e.line("    %s", ui.Wrap(s.GetSummary(), e.cfg.Columns(), 4, 4))
	}
}

// maxThought bounds the part of a thought that is kept, in bytes.
const maxThought = 4000

// thought collects a piece of a thought. A new id means that the thought before broke off, and that this one takes its place.
func (e *Events) thought(id string, t *executorv1.Thought) {
	e.subtask(id) // is in the plan from now on
	before := e.plan.thoughts[id]
	switch {
	case before.GetThoughtId() != t.GetThoughtId():
		e.plan.thoughts[id] = proto.CloneOf(t)
	case len(before.GetText()) < maxThought:
		before.Text += t.GetText()
	}
}

// endThought shows the beginning of a subtask's thought, which is complete.
func (e *Events) endThought(id string) {
	if e.plan == nil {
		return
	}
	if text := e.plan.thoughts[id].GetText(); text != "" {
		e.aside(id, "", text)
	}
	delete(e.plan.thoughts, id)
}

// aside shows the beginning of a dimmed text about a subtask.
func (e *Events) aside(id, mark, text string) {
	e.line("%s", fitted(e.cfg.Columns(), part{text: "  " + tag(id) + mark + strings.Join(strings.Fields(text), " "), paint: e.cfg.Style.Dim}))
}

// tag labels a line with its subtask; "" without one.
func tag(id string) string {
	if id == "" {
		return ""
	}
	return "[" + id + "] "
}

func (e *Events) fileChanged(id string, f *executorv1.FileChange) {
	about := ui.EnumName(f.GetType())
	if f.GetFromPath() != "" {
		about += ", moved from " + f.GetFromPath()
	}
	e.line("%s", fileLine(e.cfg.Style, e.cfg.Columns(), f.GetType(), tag(id), f.GetPath(), about))
}

// fileLine formats a change of a file.
func fileLine(st ui.Style, columns int, t executorv1.FileChangeType, tag, path, about string) string {
	mark := part{text: "~ ", paint: st.Yellow}
	switch t {
	case fileCreated:
		mark = part{text: "+ ", paint: st.Green}
	case fileDeleted:
		mark = part{text: "- ", paint: st.Red}
	}
	return fitted(columns, mark, part{text: tag, paint: st.Dim}, part{text: path}, part{text: "  " + about, paint: st.Dim})
}

// drawPlan draws the plan with what each subtask does now, in at most half of the terminal.
func (e *Events) drawPlan(now time.Time) {
	rows := 0
	if e.cfg.Rows != nil {
		rows = e.cfg.Rows()
	}
	lines := e.plan.draw(e.cfg.Style, e.cfg.Columns(), max(rows/2, 4), func(s *executorv1.Subtask) string { return e.activity(s.GetId(), now) })
	if awaited := e.awaited(now); awaited != "" && len(e.running) == 0 {
		lines = append(lines, fitted(e.cfg.Columns(), part{text: awaited, paint: e.cfg.Style.Dim}))
	}
	e.live.Draw(strings.Join(lines, "\n"))
}

// activity returns what a subtask does now: it waits for a person, runs a tool, or thinks.
func (e *Events) activity(subtask string, now time.Time) string {
	ofSubtask := func(id string) bool { return e.steps[id].subtask == subtask }
	if slices.ContainsFunc(e.waiting, ofSubtask) {
		return "⏸ waits for you"
	}
	if i := slices.IndexFunc(e.running, ofSubtask); i >= 0 {
		step := e.steps[e.running[i]]
		return e.cfg.Alias(step.tool) + " " + step.progress + " " + ui.Duration(now.Sub(step.started).Truncate(time.Second))
	}
	if words := strings.Fields(e.plan.thoughts[subtask].GetText()); len(words) > 0 {
		return strings.Join(words[max(len(words)-12, 0):], " ")
	}
	return ""
}

// printSummary prints what a task with a plan has reached: its subtasks and the files that it changed.
func (e *Events) printSummary() {
	if e.plan == nil {
		return
	}
	e.live.Clear()
	e.printPlan()
	changes := netChanges(e.files)
	for _, c := range changes {
		count := ""
		if e.cfg.Diff != nil {
			if d, err := e.cfg.Diff(c); err == nil {
				count = d.counts()
			}
		}
		e.line("%s", fileLine(e.cfg.Style, e.cfg.Columns(), c.kind(), "", c.path, count))
	}
	if len(changes) > 0 {
		id := ui.ShortID(e.last.GetTaskId())
		e.line("  %s", e.cfg.Style.Dim(ui.Wrap("to see the changes: pawl diff "+id+"; to take them back: pawl undo "+id, e.cfg.Columns(), 2, 2)))
	}
}

// resultNote summarises the output of a tool of the workspace server whose result matters more than its input, and reports whether the result is
// good. It returns "" for other tools.
func resultNote(toolID, outputJSON string) (note string, good bool) {
	var output struct {
		Structured struct {
			Runner         string
			Passed, Failed int
			OK             bool
			Failures       []struct{ Name string }
			ExitCode       int  `json:"exit_code"`
			TimedOut       bool `json:"timed_out"`
		}
	}
	name := path.Base(toolID)
	if name != "run_tests" && name != "execute_command" || json.Unmarshal([]byte(outputJSON), &output) != nil {
		return "", true
	}
	r := output.Structured
	switch {
	case r.TimedOut:
		return "timed out", false
	case r.Runner == "" && r.ExitCode != 0:
		return fmt.Sprintf("exit code %d", r.ExitCode), false
	case r.Runner == "":
		return "", true
	}
	note = fmt.Sprintf("%s: %d passed, %d failed", r.Runner, r.Passed, r.Failed)
	names := make([]string, len(r.Failures))
	for i, f := range r.Failures {
		names[i] = f.Name
	}
	return strings.TrimSuffix(note+": "+strings.Join(names, ", "), ": "), r.OK
}
