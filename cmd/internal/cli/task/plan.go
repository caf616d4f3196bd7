package task

import (
	"cmp"
	"slices"
	"strings"

	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

const (
	pending    = executorv1.SubtaskStatus_SUBTASK_STATUS_PENDING
	inProgress = executorv1.SubtaskStatus_SUBTASK_STATUS_IN_PROGRESS
)

// planView is the display state of a task's plan.
type planView struct {
	mainTask string
	subtasks []*subtaskView // in the plan's order
}

// subtaskView is the display state of a subtask.
type subtaskView struct {
	id, title, summary string
	after              []string // the subtasks that it depends on
	status             executorv1.SubtaskStatus
	thoughtID          string
	thought            string // the thought so far; "" between two thoughts
}

// newPlanView returns the display state of a whole plan.
func newPlanView(plan *executorv1.Plan) *planView {
	p := &planView{mainTask: plan.GetMainTask()}
	p.add(plan.GetSubtasks())
	return p
}

// apply applies an event's plan. It reports whether the plan is whole, which it is unless a subtask has started.
func (p *planView) apply(created *executorv1.PlanCreated) (whole bool) {
	if !slices.ContainsFunc(p.subtasks, func(s *subtaskView) bool { return s.status >= inProgress }) {
		*p = *newPlanView(created.GetPlan())
		return true
	}
	p.add(created.GetPlan().GetSubtasks())
	rank := map[string]int{}
	for i, id := range created.GetOrder() {
		rank[id] = i + 1
	}
	slices.SortStableFunc(p.subtasks, func(a, b *subtaskView) int { return rank[a.id] - rank[b.id] })
	return false
}

// add adds the subtasks that are not known yet.
func (p *planView) add(subtasks []*executorv1.Subtask) {
	for _, s := range subtasks {
		if slices.ContainsFunc(p.subtasks, func(known *subtaskView) bool { return known.id == s.GetId() }) {
			continue
		}
		p.subtasks = append(p.subtasks, &subtaskView{
			id: s.GetId(), title: s.GetTitle(), summary: s.GetSummary(), after: s.GetDependsOn(), status: cmp.Or(s.GetStatus(), pending),
		})
	}
}

// find returns the subtask with that id. It adds one that is not known, because the plan's event was not shown.
func (p *planView) find(id string) *subtaskView {
	if i := slices.IndexFunc(p.subtasks, func(s *subtaskView) bool { return s.id == id }); i >= 0 {
		return p.subtasks[i]
	}
	s := &subtaskView{id: id, status: inProgress}
	p.subtasks = append(p.subtasks, s)
	return s
}

// draw returns the plan as a tree of at most rows lines, each narrower than columns; 0 limits neither. If there are too many subtasks, it prefers
// those in progress, then those that follow, and counts the others in the last line. note returns what a subtask in progress does now.
func (p *planView) draw(st ui.Style, columns, rows int, note func(*subtaskView) string) []string {
	shown := p.subtasks
	if rows > 0 && len(shown) > rows {
		shown = p.mostRelevant(rows - 1)
	}
	hidden := len(p.subtasks) - len(shown)
	lines := make([]string, 0, len(shown)+1)
	for i, s := range shown {
		branch := "├ "
		if i == len(shown)-1 && hidden == 0 {
			branch = "└ "
		}
		mark, paint := subtaskMark(st, s.status)
		about := s.summary
		switch {
		case s.status == inProgress:
			about = note(s)
		case s.status < inProgress && len(s.after) > 0:
			about = "after " + strings.Join(s.after, ", ")
		}
		lines = append(lines, fitted(columns, part{branch, st.Dim}, part{mark + " ", paint}, part{label(s), nil}, part{"  " + about, st.Dim}))
	}
	if hidden > 0 {
		lines = append(lines, fitted(columns, part{"└ and " + ui.Plural(hidden, "more subtask"), st.Dim}))
	}
	return lines
}

// mostRelevant returns n subtasks in the plan's order.
func (p *planView) mostRelevant(n int) []*subtaskView {
	urgency := func(s *subtaskView) int {
		switch {
		case s.status == inProgress:
			return 0
		case s.status < inProgress:
			return 1
		}
		return 2
	}
	byUrgency := slices.Clone(p.subtasks)
	slices.SortStableFunc(byUrgency, func(a, b *subtaskView) int { return urgency(a) - urgency(b) })
	return slices.DeleteFunc(slices.Clone(p.subtasks), func(s *subtaskView) bool { return !slices.Contains(byUrgency[:n], s) })
}

// label returns a subtask's id and title.
func label(s *subtaskView) string {
	return strings.TrimSuffix(s.id+": "+s.title, ": ")
}

// subtaskMark returns the mark of a subtask's status and its colour.
func subtaskMark(st ui.Style, status executorv1.SubtaskStatus) (string, func(string) string) {
	switch status {
	case inProgress:
		return "…", st.Cyan
	case executorv1.SubtaskStatus_SUBTASK_STATUS_COMPLETED:
		return "✓", st.Green
	case executorv1.SubtaskStatus_SUBTASK_STATUS_FAILED:
		return "✗", st.Red
	case executorv1.SubtaskStatus_SUBTASK_STATUS_CANCELLED:
		return "⊘", st.Yellow
	}
	return "·", st.Dim
}

// part is a part of a line with its colour; nil paints nothing.
type part struct {
	text  string
	paint func(string) string
}

// fitted joins the parts and cuts them so that the line is narrower than columns; 0 stands for plainColumns. The texts become safe to print.
func fitted(columns int, parts ...part) string {
	room := cmp.Or(columns, plainColumns) - 1
	for len(parts) > 0 && strings.TrimSpace(parts[len(parts)-1].text) == "" {
		parts = parts[:len(parts)-1]
	}
	var b strings.Builder
	for _, p := range parts {
		whole := ui.Line(p.text)
		if room <= 0 {
			break
		}
		text := ui.Fit(whole, room)
		room -= ui.Width(text)
		if text != whole {
			room = 0
		}
		if p.paint != nil {
			text = p.paint(text)
		}
		b.WriteString(text)
	}
	return b.String()
}
