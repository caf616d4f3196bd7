package coding

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	codingv1 "pawl.dev/executor-svc/internal/flow/coding/v1"
	"pawl.dev/executor-svc/internal/state"
)

const (
	pending    = executorv1.SubtaskStatus_SUBTASK_STATUS_PENDING
	blocked    = executorv1.SubtaskStatus_SUBTASK_STATUS_BLOCKED
	inProgress = executorv1.SubtaskStatus_SUBTASK_STATUS_IN_PROGRESS
	completed  = executorv1.SubtaskStatus_SUBTASK_STATUS_COMPLETED
	failed     = executorv1.SubtaskStatus_SUBTASK_STATUS_FAILED
	cancelled  = executorv1.SubtaskStatus_SUBTASK_STATUS_CANCELLED
)

// graph is the plan's subtasks with their dependencies. Its methods keep three rules: a subtask starts only after all its dependencies are
// COMPLETED, a failed or cancelled one cancels those that depend on it, and statuses change along the table of package state.
type graph struct {
	*codingv1.State
	// changes holds the changes of statuses, in order.
	changes []change
	err     error
}

// change is a new status of a subtask.
type change struct {
	id       string
	from, to executorv1.SubtaskStatus
	summary  string
}

// node is a subtask of a proposed plan.
type node struct {
	id        string
	dependsOn []string
}

// plan sets the subtasks of a new plan, of which limit is the most. The error says what is wrong with the plan, and where; the graph is then
// unchanged.
func (g *graph) plan(nodes []node, limit int) error {
	if len(nodes) == 0 {
		return errors.New("the plan has no subtasks")
	}
	subtasks, err := extended(nil, nodes, limit)
	if err == nil {
		subtasks, err = sorted(subtasks, nil)
	}
	if err != nil {
		return err
	}
	g.Subtasks = subtasks
	g.Revision++
	g.recompute()
	return nil
}

// revision is a change of a plan.
type revision struct {
	add    []node
	drop   []string
	order  []string
	reason string
}

// revise changes the subtasks that have not started; limit is the most subtasks, with the ended and dropped ones. Ids of subtasks that have
// started meanwhile are skipped and returned. If the plan is as before, the revision is not counted. The error says what is wrong with the
// change; the graph is then unchanged.
func (g *graph) revise(r revision, limit int) (skipped []string, err error) {
	subtasks, err := extended(g.Subtasks, r.add, limit)
	if err != nil {
		return nil, err
	}
	find := func(id string) int {
		return slices.IndexFunc(subtasks, func(s *codingv1.Subtask) bool { return s.GetId() == id })
	}
	var drop, order []int
	for i, id := range slices.Concat(r.drop, r.order) {
		n := find(id)
		switch {
		case n < 0:
			return nil, fmt.Errorf("%q is not a subtask of the plan", id)
		case !waits(subtasks[n]):
			if !slices.Contains(skipped, id) {
				skipped = append(skipped, id)
			}
		case i < len(r.drop):
			drop = append(drop, n)
		case !slices.Contains(order, n):
			order = append(order, n)
		}
	}
	for _, n := range drop {
		subtasks[n].Dropped = true
	}
	if subtasks, err = sorted(subtasks, order); err != nil || len(r.add)+len(drop)+len(order) == 0 {
		return skipped, err
	}
	g.Subtasks = subtasks
	g.Revision++
	for _, s := range g.Subtasks {
		if s.GetDropped() && waits(s) {
			g.set(s, cancelled, r.reason)
		}
	}
	g.recompute()
	return skipped, nil
}

// waits reports whether a subtask has not started.
func waits(s *codingv1.Subtask) bool { return s.GetStatus() == pending || s.GetStatus() == blocked }

// extended returns copies of subtasks, followed by the added nodes. Duplicate ids, unknown dependencies and too many subtasks are errors.
func extended(subtasks []*codingv1.Subtask, add []node, limit int) ([]*codingv1.Subtask, error) {
	if n := len(subtasks) + len(add); len(add) > 0 && n > limit {
		return nil, fmt.Errorf("the plan would have %d subtasks; at most %d are allowed", n, limit)
	}
	index := map[string]int{}
	var all []*codingv1.Subtask
	for i, s := range subtasks {
		index[s.GetId()] = i
		all = append(all, proto.CloneOf(s))
	}
	for _, n := range add {
		if _, used := index[n.id]; used || n.id == "" {
			return nil, fmt.Errorf("the id %q is used twice, or empty", n.id)
		}
		index[n.id] = len(all)
		all = append(all, &codingv1.Subtask{Id: n.id, Status: pending})
	}
	for _, n := range add {
		s := all[index[n.id]]
		for _, id := range n.dependsOn {
			d, known := index[id]
			if !known {
				return nil, fmt.Errorf("%s depends on %q, which is not a subtask", n.id, id)
			}
			if !slices.Contains(s.DependsOn, uint32(d)) {
				s.DependsOn = append(s.DependsOn, uint32(d))
			}
		}
	}
	return all, nil
}

// sorted returns subtasks in plan order: those that have started, those in order, then the others, but each after its dependencies. Their
// dependencies get the new indexes. A cycle of dependencies is an error.
func sorted(subtasks []*codingv1.Subtask, order []int) (out []*codingv1.Subtask, err error) {
	place := make([]uint32, len(subtasks)) // the new indexes, from 1
	var path []string                      // ids from a subtask to the dependency being visited
	var visit func(i int) error
	visit = func(i int) error {
		s := subtasks[i]
		if at := slices.Index(path, s.GetId()); at >= 0 {
			return fmt.Errorf("the dependencies have a cycle: %s → %s", strings.Join(path[at:], " → "), s.GetId())
		}
		if place[i] > 0 {
			return nil
		}
		path = append(path, s.GetId())
		for k, d := range s.GetDependsOn() {
			if err := visit(int(d)); err != nil {
				return err
			}
			s.DependsOn[k] = place[d] - 1
		}
		path, out = path[:len(path)-1], append(out, s)
		place[i] = uint32(len(out))
		return nil
	}
	var started, all []int
	for i, s := range subtasks {
		if all = append(all, i); !waits(s) {
			started = append(started, i)
		}
	}
	for _, i := range slices.Concat(started, order, all) {
		if err := visit(i); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// recompute blocks and unblocks subtasks, and cancels those that depend on a failed or cancelled one. One pass is enough, because each subtask
// follows its dependencies.
func (g *graph) recompute() {
	for _, s := range g.Subtasks {
		if !waits(s) {
			continue
		}
		unmet := false
		for _, d := range s.GetDependsOn() {
			switch d := g.Subtasks[d]; d.GetStatus() {
			case completed:
			case failed:
				g.set(s, cancelled, "depends on "+d.GetId()+", which failed")
			case cancelled:
				g.set(s, cancelled, "depends on "+d.GetId()+", which was cancelled")
			default:
				unmet = true
			}
		}
		switch {
		case unmet && s.GetStatus() == pending:
			g.set(s, blocked, "")
		case !unmet && s.GetStatus() == blocked:
			g.set(s, pending, "")
		}
	}
}

// start moves the next subtasks that can start to IN_PROGRESS, in plan order, while fewer than limit are.
func (g *graph) start(limit int) {
	running := g.count(inProgress)
	for _, s := range g.Subtasks {
		if s.GetStatus() == pending && running < limit {
			g.set(s, inProgress, "")
			running++
		}
	}
}

// end ends a subtask as COMPLETED, FAILED or CANCELLED, with what that means for those that depend on it.
func (g *graph) end(id string, to executorv1.SubtaskStatus, summary string) {
	if s := g.subtask(id); s != nil {
		g.set(s, to, summary)
		g.recompute()
	}
}

// set changes a subtask's status. The first change that is not in the table is kept as g.err.
func (g *graph) set(s *codingv1.Subtask, to executorv1.SubtaskStatus, summary string) {
	if s.GetStatus() == to {
		return
	}
	if err := state.CheckSubtaskMove(s.GetStatus(), to); err != nil {
		if g.err == nil {
			g.err = err
		}
		return
	}
	g.changes = append(g.changes, change{s.GetId(), s.GetStatus(), to, summary})
	s.Status = to
}

// subtask returns the subtask with an id, or nil.
func (g *graph) subtask(id string) *codingv1.Subtask {
	for _, s := range g.Subtasks {
		if s.GetId() == id {
			return s
		}
	}
	return nil
}

func (g *graph) count(status executorv1.SubtaskStatus) (n int) {
	for _, s := range g.Subtasks {
		if s.GetStatus() == status {
			n++
		}
	}
	return n
}

// ended reports whether every subtask has ended.
func (g *graph) ended() bool {
	return !slices.ContainsFunc(g.Subtasks, func(s *codingv1.Subtask) bool { return !state.SubtaskEnded(s.GetStatus()) })
}

// reached reports whether every subtask is COMPLETED or was dropped from the plan.
func (g *graph) reached() bool {
	return !slices.ContainsFunc(g.Subtasks, func(s *codingv1.Subtask) bool { return s.GetStatus() != completed && !s.GetDropped() })
}
