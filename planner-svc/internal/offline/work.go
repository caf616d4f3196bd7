package offline

import (
	"cmp"
	"context"
	"slices"
	"strings"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/input"
	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/prompt"
	"pawl.dev/planner-svc/internal/rank"
	"pawl.dev/planner-svc/internal/result"
	"pawl.dev/planner-svc/internal/risk"
)

// work is a goal and the progress towards it.
type work struct {
	l             lang.Lang
	tc            *plannerv1.TaskContext
	tools         catalog.Set
	demands       []demand
	notUnderstood []string               // the parts of the goal that were not understood; if there are any, no tool is called
	next          *plannerv1.PlannedStep // nil: nothing is left to do
	last          *result.Result         // of the last step that succeeded; nil if none did
	failed        bool                   // a step failed; no further step is called
	extras        []*result.Result       // of steps that belong to no demand
}

// demand is a part of the goal, with the results of its calls.
type demand struct {
	text   string
	choice choice
	done   []*result.Result
}

// newWork chooses a tool for each demand of the goal and assigns the results of the history to the demands by their tools. Inputs are not compared,
// because a person may have edited them.
func newWork(ctx context.Context, tc *plannerv1.TaskContext) *work {
	w := &work{l: prompt.LangOf(tc), tc: tc, tools: catalog.FromContext(ctx, tc.GetTools())}
	goal := goalOf(tc)
	if len(goal) > input.MostText {
		w.notUnderstood = append(w.notUnderstood, w.l.Say("more than %d bytes", "超过 %d 字节的内容", input.MostText))
		return w
	}
	for _, text := range split(goal) {
		ch := w.choose(input.Scan(text), len(w.demands) > 0)
		if ch.notUnderstood != "" {
			w.notUnderstood = append(w.notUnderstood, ch.notUnderstood)
		}
		w.demands = append(w.demands, demand{text: text, choice: ch})
	}
	if len(w.demands) == 0 {
		w.notUnderstood = append(w.notUnderstood, goal)
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

// replay takes the results of a demand's calls from the history. The first call without a result becomes the next step, unless a step failed.
func (w *work) replay(d *demand) {
	for _, in := range w.inputs(&d.choice) {
		i := slices.IndexFunc(w.extras, func(r *result.Result) bool { return r.GetToolId() == d.choice.GetId() })
		if i < 0 {
			if !w.failed {
				t := d.choice.Tool
				w.next = &plannerv1.PlannedStep{ToolId: t.GetId(), Description: lang.Clip(d.text, 200), InputJson: in.String(),
					Risk: risk.Assess(w.l, t, in), Missing: t.Missing(in)}
			}
			return
		}
		res := w.extras[i]
		w.extras = slices.Delete(w.extras, i, i+1)
		d.done = append(d.done, res)
		if res.OK() {
			w.last = res
		} else if res.GetResult() != plannerv1.StepResult_STEP_RESULT_SKIPPED {
			w.failed = true
		}
	}
}

// maxEach bounds the calls that a demand makes for the paths in an earlier result.
const maxEach = 10

// inputs returns the inputs of a choice's calls. A choice that refers to an earlier result has an input for each path in the last result, or one
// for the result's text if the property takes no path. Any other choice has one input.
func (w *work) inputs(ch *choice) (out []*strictjson.Object) {
	if ch.resultProp == "" {
		return append(out, ch.filled.Input)
	}
	if w.last == nil {
		return nil
	}
	values := w.last.Paths()
	if !ch.TakesPath(ch.resultProp) {
		values = []string{cmp.Or(strings.Join(values, "\n"), w.last.Message)}
	}
	for _, value := range values[:min(len(values), maxEach)] {
		in := ch.filled.Input.Clone()
		in.Set(ch.resultProp, strictjson.Quote(value))
		out = append(out, in)
	}
	return out
}

// split divides a goal into demands, in order: at the end of a line or sentence, at "then", and at a comma or "and" before a verb or question.
func split(goal string) (demands []string) {
	c, from := input.Scan(goal), 0
	cut := func(to, next int) {
		if d := strings.Trim(c.Text[from:to], " \t\r\n.,，;"); d != "" {
			demands = append(demands, d)
		}
		from = next
	}
	for i, t := range c.Tokens {
		rest := c.Text[t.End:]
		ends := rank.In("ends", t.Text) && (!strings.Contains(".!?", t.Text) || rest == "" || strings.TrimLeft(rest, " \r\n\t") != rest)
		joins := rank.In("joins", t.Term) && i+1 < len(c.Tokens) && (rank.In("starts", c.Tokens[i+1].Text) || rank.In("ends", c.Tokens[i+1].Text))
		if t.Value == nil && (ends || joins) {
			cut(t.Start, t.End)
		} else if i > 0 && strings.Contains(c.Text[c.Tokens[i-1].End:t.Start], "\n") {
			cut(t.Start, t.Start)
		}
	}
	cut(len(c.Text), len(c.Text))
	return demands
}
