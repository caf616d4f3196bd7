package offline

import (
	"slices"
	"strings"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/input"
	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/rank"
	"pawl.dev/planner-svc/internal/result"
)

// work is a goal with what was done for it.
type work struct {
	l             lang.Lang
	tc            *plannerv1.TaskContext
	index         *rank.Index
	demands       []demand
	notUnderstood []string // the parts of the goal that were not understood; if there are any, no tool is called
	next          *call    // nil: nothing is left to do
	extras        []*result.Result
	failed        bool // a step failed; only reading goes on
}

// demand is a part of the goal, with its calls.
type demand struct {
	text    string
	choice  choice
	done    []done
	skipped bool // was not called, since a step before it failed
}

// call is a call that the plan wants.
type call struct {
	tool  *catalog.Tool
	input *strictjson.Object
	text  string // the demand
}

// done is a call with its result.
type done struct {
	call
	res *result.Result
}

// newWork plans a goal and matches the history with its calls, by tool: a person may have edited an input.
func (p *Planner) newWork(tc *plannerv1.TaskContext) *work {
	w := &work{l: langOf(tc), tc: tc, index: p.indexes.Index(tc.GetTools())}
	if len(tc.GetGoal()) > input.MostText {
		w.notUnderstood = append(w.notUnderstood, w.l.Say("more than %d bytes", "超过 %d 字节的内容", input.MostText))
		return w
	}
	for _, text := range split(tc.GetGoal()) {
		ch := w.choose(input.Scan(text), len(w.demands) > 0)
		if ch.notUnderstood != "" {
			w.notUnderstood = append(w.notUnderstood, ch.notUnderstood)
		}
		w.demands = append(w.demands, demand{text: text, choice: ch})
	}
	if len(w.demands) == 0 {
		w.notUnderstood = append(w.notUnderstood, tc.GetGoal())
	}
	for _, e := range tc.GetHistory() {
		w.extras = append(w.extras, result.Of(e))
	}
	for i := range w.demands {
		if len(w.notUnderstood) == 0 && w.next == nil {
			w.replay(&w.demands[i])
		}
	}
	return w
}

// replay takes the results of a demand's calls from the history, and stops at the first that was not made.
func (w *work) replay(d *demand) {
	for _, c := range w.calls(d) {
		res := w.take(c)
		switch {
		case res != nil:
			d.done = append(d.done, done{call: c, res: res})
		case w.failed && !c.tool.Reads():
			d.skipped = true
		default:
			w.next = &c
			return
		}
	}
}

// take removes the first result of a tool from the history.
func (w *work) take(c call) *result.Result {
	i := slices.IndexFunc(w.extras, func(r *result.Result) bool { return r.GetToolId() == c.tool.GetId() })
	if i < 0 {
		return nil
	}
	res := w.extras[i]
	w.extras = slices.Delete(w.extras, i, i+1)
	w.failed = w.failed || !res.OK() && res.GetResult() != plannerv1.StepResult_STEP_RESULT_SKIPPED
	return res
}

// mostEach bounds the calls that are made for the things that an earlier step found.
const mostEach = 10

// calls returns the calls of a demand: one, one for each value of a list, or one for each path that the last step found.
func (w *work) calls(d *demand) []call {
	ch := d.choice
	name, values := ch.filled.EachOf, ch.filled.Each
	if ch.back != "" {
		name, values = ch.back, w.found(ch.back, w.aboutOf(ch.tool).params)
		values = values[:min(len(values), mostEach)]
	} else {
		raw, _ := ch.filled.Input.Get(name)
		values = append([]string{raw}, values...)
	}
	var out []call
	for _, raw := range values {
		in := ch.filled.Input.Clone()
		if raw != "" {
			in.Set(name, raw)
		}
		out = append(out, call{tool: ch.tool, input: in, text: d.text})
	}
	return out
}

// refersBack reports whether a clause speaks of something before it.
func refersBack(c *input.Clause) bool {
	return slices.ContainsFunc(c.Tokens, func(t input.Token) bool { return rank.In("back", t.Term) })
}

// found returns what the last step that succeeded returned, for a property: its paths, or else its text. Nothing is found before it is done.
func (w *work) found(name string, p *input.Params) []string {
	var res *result.Result
	for _, d := range w.demands {
		for _, done := range d.done {
			if done.res.OK() {
				res = done.res
			}
		}
	}
	if res == nil {
		return nil
	}
	paths := res.Paths()
	if !p.TakesPath(name) {
		paths = []string{strings.TrimSpace(strings.Join(paths, "\n"))}
		if paths[0] == "" {
			paths[0] = res.Message
		}
	}
	var out []string
	for _, path := range paths {
		out = append(out, strictjson.Quote(path))
	}
	return out
}
