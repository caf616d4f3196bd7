package offline

import (
	"strings"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/goal"
	"pawl.dev/planner-svc/internal/input"
	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/result"
)

// work is the goal worked through, as far as the history goes.
type work struct {
	l        lang.Lang
	catalog  *catalog.Catalog
	clauses  []goal.Clause
	sections []section
	extras   []*result.Result // steps of the history that this plan did not ask for
	next     *step            // nil: nothing is left to do

	history []*result.Result
	seen    map[string]*result.Result // by tool and input
	failed  bool                      // a step failed; from then on only reading goes on
}

// section is a clause and what was done for it.
type section struct {
	clause  goal.Clause
	done    []done
	tools   []*catalog.Tool // that it uses
	matched bool
	skipped *catalog.Tool // was not called, since a step before it had failed
}

// newWork replays the history against the goal. Steps are matched by tool, not by input, since a person may have edited it.
func newWork(tc *plannerv1.TaskContext) *work {
	p := &work{
		l:       lang.Of(tc.GetLanguage(), tc.GetGoal()),
		catalog: catalog.New(tc.GetTools()),
		seen:    map[string]*result.Result{},
	}
	for _, e := range tc.GetHistory() {
		p.history = append(p.history, result.Of(e))
	}
	p.clauses = goal.Parse(tc.GetGoal(), p.catalog)
	for _, c := range p.clauses {
		if p.follow(c); p.next != nil {
			break
		}
	}
	if p.next == nil {
		p.extras = append(p.extras, p.history...)
	}
	return p
}

// follow takes up one clause: it consumes the history of its steps and stops at the first step that is not done yet.
func (p *work) follow(c goal.Clause) {
	s := section{clause: c}
	run, tools := p.script(c)
	s.tools, s.matched = tools, run != nil
	for run != nil {
		st := run(s.done)
		if st == nil {
			break
		}
		res := p.seen[key(st)]
		if res == nil {
			res = p.take(st)
		}
		if res == nil && p.failed && !st.tool.Reads() {
			if st.part != lookAround { // that one only tries to help
				s.skipped = st.tool
			}
			break
		}
		if res == nil {
			p.next = st
			break
		}
		s.done = append(s.done, done{step: st, res: res, again: p.told(st, res)})
	}
	p.sections = append(p.sections, s)
}

// told tells whether an earlier clause has the same result for the same question.
func (p *work) told(st *step, res *result.Result) bool {
	for _, s := range p.sections {
		for _, d := range s.done {
			if d.res == res && d.item.intent == st.item.intent && d.part == st.part {
				return true
			}
		}
	}
	return false
}

// take returns the next entry of the history if it is of that tool. Entries of other tools before it were not asked for by
// this plan: they are kept, for the answer and so that they are not repeated.
func (p *work) take(st *step) *result.Result {
	for len(p.history) > 0 {
		r := p.history[0]
		p.history = p.history[1:]
		// What a person said to go on without is no reason to stop.
		p.failed = p.failed || !r.OK() && r.GetResult() != plannerv1.StepResult_STEP_RESULT_SKIPPED
		p.seen[r.GetToolId()+" "+r.GetInputJson()] = r
		if r.GetToolId() == st.tool.GetId() {
			p.seen[key(st)] = r
			return r
		}
		p.extras = append(p.extras, r)
		if same := p.seen[key(st)]; same != nil {
			return same
		}
	}
	return nil
}

func key(st *step) string { return st.tool.GetId() + " " + st.input.String() }

// known tells what the steps so far found out, the newest first.
func (p *work) known() input.Known {
	var k input.Known
	for i := len(p.sections) - 1; i >= 0; i-- {
		for j := len(p.sections[i].done) - 1; j >= 0; j-- {
			d := p.sections[i].done[j]
			if !d.res.OK() {
				continue
			}
			paths := pathsOf(d)
			if k.Text == "" {
				if k.Text = strings.Join(paths, "\n"); k.Text == "" || d.item.intent == goal.ReadFile {
					k.Text = d.res.Message
				}
			}
			if len(k.Paths) == 0 {
				k.Paths = paths
			}
		}
	}
	return k
}

// pathsOf returns the files that a step was about or found.
func pathsOf(d done) []string {
	switch d.item.intent {
	case goal.SearchText, goal.FindDefinition:
		s, _ := d.res.Search()
		return s.Paths()
	case goal.CountFiles, goal.FindFiles:
		return d.res.Files().Paths
	case goal.ListFolder:
		l, _ := d.res.Listing()
		return l.Paths()
	case goal.ReadFile, goal.DescribeFile, goal.About:
		return []string{d.item.path}
	}
	return nil
}
