package task

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

const (
	pending    = executorv1.SubtaskStatus_SUBTASK_STATUS_PENDING
	inProgress = executorv1.SubtaskStatus_SUBTASK_STATUS_IN_PROGRESS
)

// planView is the display state of a task's plan.
type planView struct {
	subtasks []*executorv1.Subtask          // in the plan's order
	thoughts map[string]*executorv1.Thought // by subtask: its thought so far; none between two thoughts
}

// newPlanView returns the display state of a whole plan.
func newPlanView(plan *executorv1.Plan) *planView {
	p := &planView{thoughts: map[string]*executorv1.Thought{}}
	p.add(plan.GetSubtasks())
	return p
}

// apply applies an event's plan. It reports whether the plan is whole, which it is unless a subtask has started.
func (p *planView) apply(created *executorv1.PlanCreated) (whole bool) {
	if !slices.ContainsFunc(p.subtasks, func(s *executorv1.Subtask) bool { return s.GetStatus() >= inProgress }) {
		*p = *newPlanView(created.GetPlan())
		return true
	}
	p.add(created.GetPlan().GetSubtasks())
	rank := map[string]int{}
	for i, id := range created.GetOrder() {
		rank[id] = i + 1
	}
	slices.SortStableFunc(p.subtasks, func(a, b *executorv1.Subtask) int { return rank[a.GetId()] - rank[b.GetId()] })
	return false
}

// add adds the subtasks that are not known yet.
func (p *planView) add(subtasks []*executorv1.Subtask) {
	for _, s := range subtasks {
		if p.index(s.GetId()) < 0 {
			p.subtasks = append(p.subtasks, proto.CloneOf(s))
		}
	}
}

func (p *planView) index(id string) int {
	return slices.IndexFunc(p.subtasks, func(s *executorv1.Subtask) bool { return s.GetId() == id })
}

// find returns the subtask with that id. It adds one that is not known, because the plan's event was not shown.
func (p *planView) find(id string) *executorv1.Subtask {
	i := p.index(id)
	if i < 0 {
		i = len(p.subtasks)
		p.subtasks = append(p.subtasks, &executorv1.Subtask{Id: id, Status: inProgress})
	}
	return p.subtasks[i]
}

// draw returns the plan as a tree of at most rows lines, each narrower than columns; 0 limits neither. If there are too many subtasks, it prefers
// those in progress, then those that follow, and counts the others in the last line. note returns what a subtask in progress does now.
func (p *planView) draw(st ui.Style, columns, rows int, note func(*executorv1.Subtask) string) []string {
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
		mark, paint := subtaskMark(st, s.GetStatus())
		about := s.GetSummary()
		switch {
		case s.GetStatus() == inProgress:
			about = note(s)
		case s.GetStatus() < inProgress && len(s.GetDependsOn()) > 0:
			about = "after " + strings.Join(s.GetDependsOn(), ", ")
		}
		lines = append(lines, fitted(columns, part{text: branch, paint: st.Dim}, part{text: mark + " ", paint: paint}, part{text: label(s)}, part{text: "  " + about, paint: st.Dim}))
	}
	if hidden > 0 {
		lines = append(lines, fitted(columns, part{text: "└ and " + ui.Plural(hidden, "more subtask"), paint: st.Dim}))
	}
	return lines
}

// mostRelevant returns n subtasks in the plan's order: first those in progress, then those to come, then those that have ended.
func (p *planView) mostRelevant(n int) []*executorv1.Subtask {
	urgency := func(s *executorv1.Subtask) int {
		switch {
		case s.GetStatus() == inProgress:
			return 0
		case s.GetStatus() < inProgress:
			return 1
		}
		return 2
	}
	byUrgency := slices.Clone(p.subtasks)
	slices.SortStableFunc(byUrgency, func(a, b *executorv1.Subtask) int { return urgency(a) - urgency(b) })
	return slices.DeleteFunc(slices.Clone(p.subtasks), func(s *executorv1.Subtask) bool { return !slices.Contains(byUrgency[:n], s) })
}

// label returns a subtask's id and title.
func label(s *executorv1.Subtask) string {
	return strings.TrimSuffix(s.GetId()+": "+s.GetTitle(), ": ")
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

// part is a part of a line.
type part struct {
	text    string
	paint   func(string) string // nil paints nothing
	elastic bool                // it is cut before other parts, and before elastic ones to its left
}

// fitted joins the parts and cuts them so that the line is narrower than columns; 0 stands for plainColumns. The texts become safe to print.
func fitted(columns int, parts ...part) string {
	const little = 8 // columns of an elastic part, of which less is not shown
	room := cmp.Or(columns, plainColumns) - 1
	over := -room
	for i := range parts {
		parts[i].text = ui.Line(parts[i].text)
		over += ui.Width(parts[i].text)
	}
	for i := len(parts) - 1; i >= 0 && over > 0; i-- {
		if width := ui.Width(parts[i].text); parts[i].elastic {
			kept := ui.Fit(parts[i].text, max(width-over, 1))
			if width-over < little {
				kept = ""
			}
			over -= width - ui.Width(kept)
			parts[i].text = kept
		}
	}
	var b strings.Builder
	for i, p := range parts {
		if room <= 0 || strings.TrimSpace(p.text) == "" && i == len(parts)-1 {
			break
		}
		text := ui.Fit(p.text, room)
		room -= ui.Width(text)
		if text != p.text {
			room = 0
		}
		if p.paint != nil {
			text = p.paint(text)
		}
		b.WriteString(text)
	}
	return b.String()
}
