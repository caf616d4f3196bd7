package offline

import (
	"slices"
	"strings"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/extract"
	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/rank"
	"pawl.dev/planner-svc/internal/result"
)

// work is a goal with what was done for it.
type work struct {
	*Planner
	l       lang.Lang
	tc      *plannerv1.TaskContext
	index   *index
	demands []demand
	not     []string // what of the goal was not understood; nothing is called then
	next    *call    // nil: nothing is left to do
	extras  []*result.Result
	failed  bool // a step failed; only reading goes on
}

// demand is a part of the goal, with its calls.
type demand struct {
	text    string
	clause  *extract.Clause
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
	w := &work{Planner: p, l: langOf(tc), tc: tc, index: p.indexOf(tc.GetTools())}
	if len(tc.GetGoal()) > extract.MostText {
		w.not = append(w.not, w.l.Say("more than %d bytes", "超过 %d 字节的内容", extract.MostText))
		return w
	}
	w.demands = w.understand(split(tc.GetGoal()))
	if len(w.not) > 0 && len(w.demands) > 1 {
		separate, not := w.demands, w.not
		w.not = nil
		if whole := w.understand([]string{tc.GetGoal()}); len(w.not) == 0 && covers(w.index, &whole[0], separate) {
			w.demands = whole
		} else {
			w.demands, w.not = separate, not
		}
	}
	for _, e := range tc.GetHistory() {
		w.extras = append(w.extras, result.Of(e))
	}
	if len(w.not) == 0 {
		for i := range w.demands {
			if w.replay(&w.demands[i]); w.next != nil {
				break
			}
		}
	}
	return w
}

// covers reports whether one tool does what all parts of the goal begin with.
func covers(index *index, whole *demand, parts []demand) bool {
	own := index.words(whole.choice.tool.Tool)
	return !slices.ContainsFunc(parts, func(d demand) bool {
		verb := verbOf(d.clause)
		return verb != nil && !slices.ContainsFunc(append(own.name, own.about...), func(t string) bool { return t == verb.Term || slices.Contains(rank.Synonyms(t), verb.Term) })
	})
}

// understand chooses a tool for each part of the goal.
func (w *work) understand(parts []string) []demand {
	var out []demand
	for _, text := range parts {
		d := demand{text: text, clause: extract.Scan(text)}
		d.choice = w.choose(d.clause, len(out) > 0)
		if d.choice.not != "" {
			w.not = append(w.not, d.choice.not)
		}
		out = append(out, d)
	}
	if len(out) == 0 {
		w.not = append(w.not, w.tc.GetGoal())
	}
	return out
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

// calls returns the calls of a demand: one, or one for each of the things that it is about.
func (w *work) calls(d *demand) []call {
	ch := d.choice
	out := []call{{tool: ch.tool, input: ch.filled.Input, text: d.text}}
	for _, raw := range ch.filled.Each {
		in := ch.filled.Input.Clone()
		in.Set(ch.filled.EachOf, raw)
		out = append(out, call{tool: ch.tool, input: in, text: d.text})
	}
	if ch.back != "" {
		return w.fromBefore(out[0], ch.tool.Prop(ch.back))
	}
	return out
}

// mostEach bounds the calls that are made for the things that an earlier step found.
const mostEach = 10

// refersBack reports whether a clause speaks of something before it.
func refersBack(c *extract.Clause) bool {
	return slices.ContainsFunc(c.Tokens, func(t extract.Token) bool {
		return slices.Contains([]string{"it", "them", "that", "those", "result", "results", "它", "它们", "结果"}, t.Text)
	})
}

// fromBefore fills a property with what the last step returned: a call for each path, or one with the text.
func (w *work) fromBefore(c call, p *catalog.Property) []call {
	res := w.lastResult()
	if res == nil {
		return nil
	}
	values := res.Paths()
	if len(values) == 0 && extract.TakesPath(p) {
		return nil // nothing was found
	} else if !extract.TakesPath(p) {
		values = []string{strings.Join(append(values, ""), "\n")}
		if values[0] = strings.TrimSpace(values[0]); values[0] == "" {
			values[0] = res.Message
		}
	}
	var out []call
	for _, v := range values[:min(len(values), mostEach)] {
		in := c.input.Clone()
		in.Set(p.Name, strictjson.Quote(v))
		out = append(out, call{tool: c.tool, input: in, text: c.text})
	}
	return out
}

// lastResult returns the result of the last step that succeeded.
func (w *work) lastResult() *result.Result {
	for _, d := range slices.Backward(w.demands) {
		for _, done := range slices.Backward(d.done) {
			if done.res.OK() {
				return done.res
			}
		}
	}
	return nil
}
