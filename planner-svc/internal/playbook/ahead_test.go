package playbook

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/jsonref"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/offline"
	"pawl.dev/planner-svc/internal/plan"
)

// What is certain is planned ahead, with what is not there yet as references to the task's steps.
func TestAhead(t *testing.T) {
	done := func(n int, e *plannerv1.HistoryEntry) *plannerv1.HistoryEntry {
		e.StepId = fmt.Sprintf("step-%d", n)
		return e
	}
	const chain = `
steps:
- {id: a, tool: ws/find, input: {pattern: "${goal}"}}
- {id: b, tool: ws/read, description: "Read ${a.message} for ${goal} $${x}", input: {path: "${a.structured.files.0}", price: "5$${a}"}}
- {id: c, tool: ws/format, description: "of $${x}", input: {all: ["${a}", {"n": 9007199254740993}], text: "${goal}: ${b.message}"}}
- {tool: ws/find}
`
	for name, tc := range map[string]struct {
		tc   *plannerv1.TaskContext
		want []string // unresolved ones begin with ~
	}{
		"from the start": {context_(chain), []string{
			`ws/find {"pattern":"the goal"} LOW a`,
			`~ws/read {"path":"${step-1.structured.files.0}","price":"5$${a}"} LOW Read ${step-1.message} for the goal $${x}`,
			`~ws/format {"all":["${step-1}",{"n":9007199254740993}],"text":"the goal: ${step-2.message}"} HIGH of $${x}`,
			`ws/find {} LOW Step 4 of 4`, `FINAL   The playbook is done.`}},
		"from the middle": {context_(chain, done(7, ok("ws/find", `{"message":"${m}","structured":{"files":["f"]}}`))), []string{
			`ws/read {"path":"f","price":"5${a}"} LOW Read ${m} for the goal ${x}`,
			`~ws/format {"all":[{"message":"$${m}","structured":{"files":["f"]}},{"n":9007199254740993}],"text":"the goal: ${step-8.message}"} HIGH of $${x}`,
			`ws/find {} LOW Step 4 of 4`, `FINAL   The playbook is done.`}},
		"steps without ids": {context_(chain, ok("ws/find", `{"message":"","structured":{"files":["f"]}}`)), []string{
			`ws/read {"path":"f","price":"5${a}"} LOW Read  for the goal ${x}`}},
		"the end":               {context_("steps: [{tool: ws/find}]", ok("ws/find", "{}")), []string{`FINAL   The playbook is done.`}},
		"after an expectation":  {context_("steps: [{tool: ws/find}, {tool: ws/read, expect: [{path: message, exists: true}]}, {tool: ws/read}]"), []string{`ws/find {} LOW Step 1 of 3`, `ws/read {} LOW Step 2 of 3`}},
		"the next one expects":  {context_(book), []string{`ws/find {"pattern":"the goal","n":9007199254740993} LOW Look for the goal`}},
		"a tool that is gone":   {context_("steps: [{tool: ws/find}, {tool: ws/read}, {tool: ws/none}]", done(1, ok("ws/find", "{}"))), []string{`ws/read {} LOW Step 2 of 3`}},
		"a value is missing":    {context_("steps: [{tool: ws/find}, {tool: ws/read}, {tool: ws/read, input: {x: \"${step1.no}\"}}]", done(1, ok("ws/find", "{}"))), []string{`ws/read {} LOW Step 2 of 3`}},
		"errors may be skipped": {context_("steps: [{tool: ws/find, on_error: continue}, {tool: ws/read}]"), []string{`ws/find {} LOW Step 1 of 2`, `ws/read {} LOW Step 2 of 2`, `FINAL   The playbook is done.`}},
		"a risk by its input": {context_("steps: [{tool: ws/find}, {tool: ws/delete, input: {path: a}}, {tool: ws/delete, input: {path: \"${step1.message}\"}}]"), []string{
			`ws/find {} LOW Step 1 of 3`, `ws/delete {"path":"a"} MEDIUM Step 2 of 3`}},
	} {
		steps, err := planAll(t, tc.tc)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, s := range steps {
			mark := ""
			if s.GetUnresolved() {
				mark = "~"
			}
			got = append(got, mark+tell(s))
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// What is planned ahead names what is missing, as for the next step.
func TestAheadNamesWhatIsMissing(t *testing.T) {
	steps, err := planAll(t, context_("steps: [{tool: ws/read}, {tool: ws/find, input: {path: \"${step1.message}\"}}]"))
	if err != nil || len(steps) != 3 || !cmp.Equal(steps[1].GetMissing(), []string{"pattern"}) {
		t.Errorf("%v %v", steps, err)
	}
}

func TestAheadIsBounded(t *testing.T) {
	many := "steps:\n" + strings.Repeat("- {tool: ws/read}\n", 100)
	if steps, err := planAll(t, context_(many)); err != nil || len(steps) != maxSteps {
		t.Errorf("%d steps, %v", len(steps), err)
	}
	long := context_("steps:\n" + strings.Repeat("- {tool: ws/read, input: {x: \"${goal}\"}}\n", 10))
	long.Goal = strings.Repeat("x", 100_000)
	if steps, err := planAll(t, long); err != nil || len(steps) != 2 {
		t.Errorf("%d steps, %v", len(steps), err)
	}
	long.Goal = strings.Repeat("x", maxBytes+1)
	if steps, err := planAll(t, long); err != nil || len(steps) != 1 {
		t.Errorf("%d steps, %v", len(steps), err)
	}
}

// outcomeOf a step, drawn before it runs.
type outcome struct {
	fails  bool
	output string
}

// Following what was planned ahead gives the same steps as asking before each one, whatever comes out, and however the branches of a block take turns.
func TestAheadIsWhatWouldBePlanned(t *testing.T) {
	followed, branched := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		text := playbooks.Draw(rt, "playbook")
		if _, err := Parse(text); err != nil {
			rt.Skip(err)
		}
		tc := context_(text)
		tc.Goal = snippets.Draw(rt, "goal") + "g"
		var outcomes []outcome
		for range 12 {
			outcomes = append(outcomes, outcome{fails: rapid.IntRange(0, 9).Draw(rt, "fails") == 0, output: outputs.Draw(rt, "output")})
		}
		one := &walk{tc: proto.CloneOf(tc), outcomes: outcomes, turn: func(int) int { return 0 }}
		ahead := &walk{tc: proto.CloneOf(tc), outcomes: outcomes, follow: true, turn: func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "turn") }}
		one.run(rt)
		ahead.run(rt)
		followed += ahead.followed
		branched += len(ahead.moves) - 1
		if d := cmp.Diff(one.moves, ahead.moves, protocmp.Transform()); d != "" {
			rt.Fatalf("-one at a time +ahead: %s", d)
		}
	})
	if followed == 0 || branched == 0 {
		t.Errorf("%d steps were planned ahead, %d branches ran", followed, branched)
	}
}

// move is a step as it would be executed, or why there is none.
type move struct {
	Step *plannerv1.PlannedStep
	Err  string
}

// walk does what an executor does.
type walk struct {
	tc       *plannerv1.TaskContext
	outcomes []outcome
	follow   bool            // what was planned ahead is taken
	turn     func(n int) int // the branch, of n, that goes on

	moves    map[string][]move // by branch
	known    map[string][]*plannerv1.PlannedStep
	followed int // the steps that were planned ahead
}

func (w *walk) run(t *rapid.T) {
	w.moves, w.known = map[string][]move{}, map[string][]*plannerv1.PlannedStep{}
	for branches, more := w.next(t, ""); more; branches, more = w.next(t, "") {
		for len(branches) > 0 {
			i := w.turn(len(branches))
			if _, more := w.next(t, branches[i]); !more {
				branches = slices.Delete(branches, i, i+1)
			}
		}
	}
}

// next takes the next step of a line. It returns the branches that are due instead, and whether the line goes on.
func (w *walk) next(t *rapid.T, branch string) (branches []string, more bool) {
	if len(w.moves[branch]) == len(w.outcomes) {
		return nil, false
	}
	o := w.outcomes[(len(w.moves[branch])+5*len(branch))%len(w.outcomes)]
	var step *plannerv1.PlannedStep
	if known := w.known[branch]; w.follow && len(known) > 0 {
		if step = resolved(known[0], w.tc, branch); step != nil {
			w.followed++
		}
		w.known[branch] = known[1:]
	}
	if step == nil {
		res, err := w.plan(t, branch)
		switch {
		case err != nil:
			w.moves[branch] = append(w.moves[branch], move{Err: err.Error()})
			return nil, false
		case len(res.GetBranches()) > 0:
			return res.GetBranches(), true
		}
		step, w.known[branch] = res.GetSteps()[0], res.GetSteps()[1:]
	}
	w.moves[branch] = append(w.moves[branch], move{Step: step})
	if step.GetToolId() == plan.Final {
		return nil, false
	}
	e := &plannerv1.HistoryEntry{StepId: fmt.Sprintf("step-%d", len(w.tc.GetHistory())+1), ToolId: step.GetToolId(), Branch: branch}
	if e.Result, e.Error = plannerv1.StepResult_STEP_RESULT_ERROR, "it broke"; !o.fails {
		e.Result, e.Error, e.OutputJson = plannerv1.StepResult_STEP_RESULT_SUCCESS, "", o.output
	} else {
		w.known[branch] = nil
	}
	w.tc.History = append(w.tc.History, e)
	return nil, true
}

// plan asks for the steps of a line. What other branches have done meanwhile makes no difference to a branch.
func (w *walk) plan(t *rapid.T, branch string) (*plannerv1.PlanStepsResponse, error) {
	w.tc.Branch = branch
	res, err := New(offline.New()).PlanSteps(context.Background(), &plannerv1.PlanStepsRequest{Context: w.tc}, nil)
	if branch == "" || err != nil {
		return res, err
	}
	alone := proto.CloneOf(w.tc)
	block, _, _ := strings.Cut(branch, ".")
	alone.History = slices.DeleteFunc(alone.GetHistory(), func(e *plannerv1.HistoryEntry) bool {
		return e.GetBranch() != branch && strings.HasPrefix(e.GetBranch(), block+".")
	})
	again, err := New(offline.New()).PlanSteps(context.Background(), &plannerv1.PlanStepsRequest{Context: alone}, nil)
	if d := cmp.Diff(res, again, protocmp.Transform()); d != "" || err != nil || len(res.GetSteps()) == 0 {
		t.Errorf("%s: -beside others +alone: %v %s", branch, err, d)
	}
	return res, nil
}

// resolved is a step that was planned ahead on a line, with the outputs that are there now; nil if they do not fit.
func resolved(s *plannerv1.PlannedStep, tc *plannerv1.TaskContext, branch string) *plannerv1.PlannedStep {
	if !s.GetUnresolved() {
		return s
	}
	lookup := func(name string) (string, bool) {
		n := 0
		for _, e := range tc.GetHistory() {
			id := e.GetStepId()
			if branch != "" {
				if e.GetBranch() != branch {
					continue
				}
				n++
				id = fmt.Sprintf("branch-step-%d", n)
			}
			if id == name && e.GetOutputJson() != "" {
				return e.GetOutputJson(), true
			}
			if id == name {
				return `{"message":""}`, true
			}
		}
		return "", false
	}
	input, err := jsonref.Resolve(s.GetInputJson(), lookup)
	description, err2 := jsonref.ResolveText(s.GetDescription(), lookup)
	if err != nil || err2 != nil {
		return nil
	}
	s = proto.CloneOf(s)
	s.InputJson, s.Description, s.Unresolved = input, description, false
	return s
}

var (
	// snippets are texts that a template could take for something else.
	snippets = rapid.StringOfN(rapid.RuneFrom([]rune("a $${}.\"\\é1")), 0, 6, -1)

	outputs = rapid.Custom(func(t *rapid.T) string {
		text := strictjson.Quote(snippets.Draw(t, "message"))
		value := rapid.SampledFrom([]string{`"$"`, `"${goal}"`, `"\u0024{x}"`, `{"${k}":"$${x}"}`, `[1.0,"{"]`, "9007199254740993", "null", text}).Draw(t, "value")
		return rapid.SampledFrom([]string{"", "{}", `{"message":` + text + `}`, `{"message":` + text + `,"structured":{"v":` + value + `}}`,
			`{ "message" : "/", "structured" : {"v": ` + value + `}}`}).Draw(t, "output")
	})

	playbooks = rapid.Custom(func(t *rapid.T) string {
		var ids []string // that the next step may refer to
		var list []any
		count := 0
		step := func(visible []string) (map[string]any, string) {
			count++
			return drawStep(t, count, visible)
		}
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			if rapid.IntRange(0, 3).Draw(t, "a block") > 0 {
				s, id := step(ids)
				list, ids = append(list, s), append(ids, id)
				continue
			}
			var branches []any
			all := ids
			for range rapid.IntRange(1, 3).Draw(t, "branches") {
				visible, steps := slices.Clip(ids), []any{}
				for range rapid.IntRange(1, 3).Draw(t, "steps of the branch") {
					s, id := step(visible)
					steps, visible, all = append(steps, s), append(visible, id), append(slices.Clip(all), id)
				}
				branches = append(branches, map[string]any{"steps": steps})
			}
			list, ids = append(list, map[string]any{"parallel": branches}), all
		}
		text, err := json.Marshal(map[string]any{"steps": list})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	})
)

// drawStep draws the n-th step of a playbook and returns it with its id.
func drawStep(t *rapid.T, n int, ids []string) (s map[string]any, id string) {
	id = fmt.Sprintf("step%d", n)
	s = map[string]any{"tool": rapid.SampledFrom([]string{"ws/find", "ws/read", "ws/drop", "ws/delete", "ws/format"}).Draw(t, "tool")}
	if rapid.Bool().Draw(t, "named") {
		id = fmt.Sprintf("s_%d", n)
		s["id"] = id
	}
	if rapid.Bool().Draw(t, "described") {
		s["description"] = template(t, ids)
	}
	if rapid.IntRange(0, 3).Draw(t, "with input") > 0 {
		s["input"] = map[string]any{"pattern": template(t, ids), "list": []any{template(t, ids), 1, true}, "in": map[string]any{"${k}": template(t, ids)}}
	}
	if rapid.IntRange(0, 5).Draw(t, "expecting") == 0 {
		s["expect"] = []any{map[string]any{"path": "message", "exists": true}}
	}
	if rapid.Bool().Draw(t, "going on") {
		s["on_error"] = "continue"
	}
	if rapid.IntRange(0, 3).Draw(t, "trying again") == 0 {
		s["retry"] = map[string]any{"attempts": 2}
	}
	of := func(what string) string {
		return "steps." + rapid.SampledFrom(ids).Draw(t, what)
	}
	if len(ids) > 0 && rapid.IntRange(0, 3).Draw(t, "with a condition") == 0 {
		s["if"] = rapid.SampledFrom([]string{"goal == 'g'", of("reads") + ".status == 'success'", of("has") + ".status != 'skipped' || goal != 'g'"}).Draw(t, "condition")
	}
	if len(ids) > 0 && rapid.IntRange(0, 3).Draw(t, "with a list") == 0 {
		s["foreach"] = rapid.SampledFrom([]any{"[1, 2, 3]", []any{template(t, ids), "b"}, of("lists") + ".status == 'success' ? ['x'] : []", "[]"}).Draw(t, "list")
		s["input"] = map[string]any{"pattern": "${item}" + template(t, ids), "n": "${index}"}
	}
	return s, id
}

// template draws a text with references to the goal and to steps.
func template(t *rapid.T, ids []string) string {
	pieces := []string{"${goal}", "$${", "x ", "{", "é\"", "$"}
	for _, id := range ids {
		pieces = append(pieces, "${"+id+".message}", "${"+id+".message}", "${"+id+"}", "${"+id+".structured.v}")
	}
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 4).Draw(t, "template"), "")
}
