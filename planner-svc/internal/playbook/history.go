package playbook

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/jsonref"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/lang"
)

// maxItems bounds how often a `foreach` calls its tool.
const maxItems = 1000

// The statuses of steps that have ended, as expressions see them.
const (
	success = "success"
	skipped = "skipped"
	failure = "error"
)

// place identifies a call within a playbook: the step, the item of its list, and how many attempts have failed.
type place struct{ step, item, failures int }

// call is a call in the history.
type call struct {
	place
	entry *plannerv1.HistoryEntry
}

// state is the progress of a step.
type state struct {
	status     string   // "" until it has ended
	count      int      // the number of its calls; 0 until its `if` and `foreach` are evaluated
	items      []string // JSON of the items, if it has `foreach`
	outputs    []string // JSON, of the calls that have ended
	omitted    bool     // some outputs were not sent to the planner
	notSuccess string   // the status of the last call that did not succeed; "" if all did
	output     string   // JSON of the step, once it has ended
	value      any      // what expressions read of the step; nil until needed
	plannedID  string   // the id of its planned call, if later inputs can refer to it
}

// replay follows the history to the call that is due on the line of the request, or to the branches that are due. It evaluates conditions and lists
// again; they depend only on the playbook, the inputs and the history, so the same history always leads to the same call. It fails if the history does
// not match the playbook, a step without `on_error: continue` failed, or an expectation does not hold.
func (r *run) replay() error {
	entries := map[string][]*plannerv1.HistoryEntry{} // by branch
	for _, e := range r.tc.GetHistory() {
		entries[e.GetBranch()] = append(entries[e.GetBranch()], e)
	}
	p, err := r.follow("", 0, entries)
	for err == nil && r.atBlock(p) && len(r.open) == 0 {
		var after int
		if after, err = r.followBranches(p.step, entries); r.branch != "" {
			return nil
		}
		if err == nil && len(r.open) == 0 {
			p, err = r.follow("", after, entries)
		}
	}
	switch r.due = p; {
	case err != nil:
		return err
	case r.tc.GetBranch() != "":
		return planningFailed("the branch %q of the playbook does not run at this point", r.tc.GetBranch())
	case len(r.calls) < len(r.tc.GetHistory()):
		return planningFailed("the task has done %d steps, but the playbook has %d; it is not the playbook that the task began with", len(r.tc.GetHistory()), len(r.calls))
	}
	return nil
}

// followBranches replays the branches of the block that begins at step i, and returns the step after the block. It sets r.open to the branches with a
// call that is due. A branch that fails ends alone: its error is returned once no branch is open. If the request is about one of the branches, it stops
// there, with r.branch set.
func (r *run) followBranches(i int, entries map[string][]*plannerv1.HistoryEntry) (after int, failed error) {
	block, before := r.Steps[i].block, r.before
	made := before
	for i < len(r.Steps) && r.Steps[i].block == block {
		branch := r.Steps[i].branch
		r.before = before
		p, err := r.follow(branch, i, entries)
		if err == nil && !r.atEnd(p) {
			if _, err = r.propose(p); err == nil {
				r.open = append(r.open, branch)
			}
		}
		if branch == r.tc.GetBranch() {
			if r.due, r.open = p, nil; err != nil {
				r.blocked = errs.From(err).Message
			}
			return i, nil
		}
		if made += r.before - before; failed == nil {
			failed = err
		}
		for i < len(r.Steps) && r.Steps[i].branch == branch {
			i++
		}
	}
	if r.before, r.branch = made, ""; len(r.open) > 0 {
		failed = nil
	}
	return i, failed
}

// atBlock reports whether a place of the main line is the beginning of a block of branches.
func (r *run) atBlock(p place) bool { return r.branch == "" && p.step < len(r.Steps) && r.atEnd(p) }

// atEnd reports whether no call is left on the line that is followed.
func (r *run) atEnd(p place) bool {
	return p.step == len(r.Steps) || r.Steps[p.step].branch != r.branch
}

// follow replays the entries of one line, from step i on, to the call that is due on it. It removes the entries that it has replayed.
func (r *run) follow(branch string, i int, entries map[string][]*plannerv1.HistoryEntry) (place, error) {
	r.branch = branch
	p, err := r.enter(i)
	for err == nil && len(entries[branch]) > 0 && !r.atEnd(p) {
		e := entries[branch][0]
		entries[branch] = entries[branch][1:]
		s, st := &r.Steps[p.step], &r.states[p.step]
		if e.GetToolId() != s.Tool {
			return p, planningFailed("%s of the playbook calls %s, but the task called %s there; it is not the playbook that the task began with", r.stepName(p.step), s.Tool, e.GetToolId())
		}
		r.calls = append(r.calls, call{p, e})
		r.before++
		if p.failures+1 < s.Attempts && r.mayRetry(e) {
			p.failures++
			continue
		}
		if err := r.verify(p, e); err != nil {
			return p, err
		}
		st.add(e, s.Foreach != nil)
		p, err = r.next(p)
	}
	return p, err
}

// mayRetry reports whether a call may be repeated: it failed, and its outcome is not UNKNOWN or its tool is repeatable.
func (r *run) mayRetry(e *plannerv1.HistoryEntry) bool {
	if e.GetResult() != plannerv1.StepResult_STEP_RESULT_ERROR {
		return false
	}
	t := r.tool(e.GetToolId())
	return e.GetOutcome() != commonv1.Outcome_OUTCOME_UNKNOWN || t != nil && (t.Reads() || t.GetIdempotent())
}

// next returns the call after p; its step is len(r.Steps) if no call is left. The error is jsonref.ErrNotYet if the next call depends on the result
// of a planned call.
func (r *run) next(p place) (place, error) {
	if p.item+1 < r.states[p.step].count {
		return place{step: p.step, item: p.item + 1}, nil
	}
	return r.enter(p.step + 1)
}

// enter evaluates the conditions and lists of the line's steps from i on, up to the first step with a call, and returns that call.
func (r *run) enter(i int) (place, error) {
	for ; !r.atEnd(place{step: i}); i++ {
		s, st := &r.Steps[i], &r.states[i]
		if st.count == 0 && st.status == "" {
			if err := r.enterStep(i); errors.Is(err, jsonref.ErrNotYet) {
				return place{step: i}, err
			} else if err != nil {
				return place{step: i}, invalidLine(s.Line, "%s (%s): %w", r.stepName(i), s.Tool, err)
			}
		}
		if st.count > 0 {
			break
		}
	}
	return place{step: i}, nil
}

func (r *run) enterStep(i int) error {
	s, st := &r.Steps[i], &r.states[i]
	if s.If != nil {
		switch holds, err := r.eval(s.If, i); {
		case err != nil:
			return fmt.Errorf("its `if` cannot be evaluated: %w", err)
		case holds == "false":
			st.status, st.output = skipped, `{"error":"it was skipped: its \"if\" is false"}`
			return nil
		case holds != "true":
			return fmt.Errorf("its `if` must be true or false, but is %s", lang.Clip(holds, maxShown))
		}
	}
	if s.Foreach == nil {
		st.count = 1
		return nil
	}
	list, err := r.eval(s.Foreach, i)
	if err != nil {
		return fmt.Errorf("its `foreach` cannot be evaluated: %w", err)
	}
	if strictjson.Kind(list) != "array" {
		return fmt.Errorf("its `foreach` must be a list, but is %s", lang.Clip(list, maxShown))
	}
	st.items = slices.Collect(strictjson.Items(list))
	if st.count = len(st.items); st.count == 0 {
		st.status, st.output = success, list
	}
	return r.checkCount(st.count)
}

// checkCount refuses a list of n items that exceeds the task's limits.
func (r *run) checkCount(n int) error {
	limit, before := int(r.tc.GetMaxSteps()), r.before+r.planned
	switch {
	case n > maxItems:
		return fmt.Errorf("its `foreach` has %d items; it takes at most %d", n, maxItems)
	case limit > 0 && before+n > limit:
		return fmt.Errorf("its `foreach` has %d items, and the task may take %d steps, of which %d come before; give the task an agent with a higher "+
			"limit (`--max-steps`), or make the list shorter", n, limit, before)
	}
	return nil
}

// ended reports whether the named steps among the first n steps have ended.
func (r *run) ended(names []string, n int) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		i, ok := r.byID[name]
		return ok && i < n && r.states[i].status == ""
	})
}

// add adds the result of a call. After the last call of the step, it sets the result of the step.
func (st *state) add(e *plannerv1.HistoryEntry, isList bool) {
	st.outputs, st.omitted = append(st.outputs, output(e)), st.omitted || e.GetOutputOmitted()
	switch e.GetResult() {
	case plannerv1.StepResult_STEP_RESULT_SUCCESS:
	case plannerv1.StepResult_STEP_RESULT_SKIPPED:
		st.notSuccess = skipped
	default:
		st.notSuccess = failure
	}
	if len(st.outputs) < st.count {
		return
	}
	st.status, st.output = cmp.Or(st.notSuccess, success), st.outputs[0]
	if isList {
		st.output = strictjson.Array(st.outputs)
	}
}

// verify returns an error if an expectation of a call does not hold, or if the call failed and the step has no `on_error: continue`.
func (r *run) verify(p place, e *plannerv1.HistoryEntry) error {
	s := &r.Steps[p.step]
	if e.GetResult() != plannerv1.StepResult_STEP_RESULT_SUCCESS {
		if s.Continue || e.GetResult() == plannerv1.StepResult_STEP_RESULT_SKIPPED {
			return nil // a step is skipped if a person chose to continue without it
		}
		return planningFailed("%s (%s) of the playbook failed: %s", r.stepName(p.step), s.Tool, reasonOf(e)).With("line", strconv.Itoa(s.Line))
	}
	before := r.lookup(p)
	lookup := func(name string) (string, bool) {
		if name == s.ID {
			return output(e), true
		}
		return before(name)
	}
	for _, x := range s.Expect {
		if err := x.verify(output(e), lookup); err != nil {
			return planningFailed("%s (%s) of the playbook did not come out as expected (line %d): %w", r.stepName(p.step), s.Tool, x.Line, err).
				With("line", strconv.Itoa(x.Line))
		}
	}
	return nil
}

// missingOutputs says which of the named steps have no output and why; "" if all have an output. The output of a step with `foreach` is a
// list, even if calls failed, unless the step was skipped as a whole.
func (r *run) missingOutputs(names []string) (text string) {
	for _, name := range names {
		i, ok := r.byID[name]
		if !ok {
			continue
		}
		if st := &r.states[i]; st.status != "" && st.status != success && (r.Steps[i].Foreach == nil || st.count == 0) {
			why, _ := strictjson.Member(st.output, "error")
			text += fmt.Sprintf("; %s has no output: %s", name, strictjson.Content(why))
		}
	}
	return text
}

// namesIn returns the names that a template refers to.
func namesIn(template string) (names []string) {
	refs, _ := jsonref.Refs(template) // checked when it was parsed
	for _, ref := range refs {
		names = append(names, ref.Name)
	}
	return names
}
