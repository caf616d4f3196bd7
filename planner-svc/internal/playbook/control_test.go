package playbook

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/strictjson"
)

// follow plans a playbook to its end, one step at a time as after a crash before each, and returns the calls with their descriptions
// and the answer, or the error. Results are taken in order; a missing one is `{"message":"m"}`.
func follow(t *testing.T, tc *plannerv1.TaskContext, results ...*plannerv1.HistoryEntry) (calls []string) {
	t.Helper()
	for range 50 {
		steps, err := planAll(t, tc)
		if err != nil {
			return append(calls, "error: "+err.Error())
		}
		if steps[0].GetToolId() == "FINAL" {
			answer, err := answerOf(t, tc, "")
			if err != nil {
				answer = "error: " + err.Error()
			}
			return append(calls, answer)
		}
		if n := len(tc.GetHistory()); steps[0].GetRetry() != (n > 0 && tc.GetHistory()[n-1].GetResult() == plannerv1.StepResult_STEP_RESULT_ERROR && calls[n-1] == tell(steps[0])) {
			t.Errorf("step %d: retry is %v", n+1, steps[0].GetRetry())
		}
		calls = append(calls, tell(steps[0]))
		e := &plannerv1.HistoryEntry{Result: plannerv1.StepResult_STEP_RESULT_SUCCESS, OutputJson: `{"message":"m"}`}
		if n := len(tc.GetHistory()); n < len(results) {
			e = results[n]
		}
		e.StepId, e.ToolId, e.Description = fmt.Sprintf("step-%d", len(tc.GetHistory())+1), steps[0].GetToolId(), steps[0].GetDescription()
		tc.History = append(tc.History, e)
	}
	t.Fatal("it does not end")
	return nil
}

func res_(output string) *plannerv1.HistoryEntry { return ok("", output) }

func outcome_(e *plannerv1.HistoryEntry, o commonv1.Outcome) *plannerv1.HistoryEntry {
	e.Outcome = o
	return e
}

func TestConditions(t *testing.T) {
	const book = `
steps:
- {id: find, tool: ws/find, input: {pattern: x}, on_error: continue}
- {id: read-it, tool: ws/read, if: "steps.find.status == 'success' && has(steps.find.output.structured) && steps.find.output.structured.count > 1", input: {path: "${find.structured.files.0}"}}
- {tool: ws/drop, if: "steps['read-it'].status == 'skipped' && goal == 'the goal'"}
`
	for name, c := range map[string]struct {
		found *plannerv1.HistoryEntry
		want  []string
	}{
		"true": {res_(`{"message":"","structured":{"count":2,"files":["a"]}}`), []string{`ws/find {"pattern":"x"} LOW find`, `ws/read {"path":"a"} LOW read-it`,
			"The goal\n\n1. find (ws/find) — done: {\"count\":2,\"files\":[\"a\"]}\n2. read-it (ws/read) — done: m\n3. ws/drop — skipped: its condition is false"}},
		"false": {res_(`{"message":"few","structured":{"count":1}}`), []string{`ws/find {"pattern":"x"} LOW find`, `ws/drop {} HIGH Step 3 of 3`,
			"The goal\n\n1. find (ws/find) — done: few\n2. ws/read — skipped: its condition is false\n3. Step 3 of 3 (ws/drop) — done: m"}},
		"after a failure": {bad("", "gone"), []string{`ws/find {"pattern":"x"} LOW find`, `ws/drop {} HIGH Step 3 of 3`,
			"The goal\n\n1. find (ws/find) — failed: gone\n2. ws/read — skipped: its condition is false\n3. Step 3 of 3 (ws/drop) — done: m"}},
	} {
		if d := cmp.Diff(c.want, follow(t, context_(book), c.found)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// The steps behind a condition are not known before what it reads is.
func TestAheadStopsBeforeAnOpenCondition(t *testing.T) {
	const book = `
steps:
- {id: a, tool: ws/find, input: {pattern: x}}
- {id: b, tool: ws/read, if: "goal == 'another'"}
- {id: c, tool: ws/read, if: "steps.b.status == 'skipped'", input: {x: "${a.message}"}}
- {id: d, tool: ws/read, if: "steps.a.output.message == 'm'"}
- {id: e, tool: ws/read}
`
	tc := context_(book)
	steps, err := planAll(t, tc)
	if err != nil || len(steps) != 2 || tell(steps[1]) != `ws/read {"x":"${step-1.message}"} LOW c` {
		t.Fatalf("%v %v", steps, err)
	}
	tc.History = append(tc.History, ok("ws/find", `{"message":"n"}`))
	steps, err = planAll(t, tc)
	if err != nil || len(steps) != 3 || tell(steps[0]) != `ws/read {"x":"n"} LOW c` || tell(steps[1]) != `ws/read {} LOW e` || steps[2].GetToolId() != "FINAL" {
		t.Fatalf("%v %v", steps, err)
	}
}

func TestForeach(t *testing.T) {
	const book = `
steps:
- {id: find, tool: ws/find, input: {pattern: x}}
- {id: read, tool: ws/read, foreach: "steps.find.output.structured.files.filter(f, f.endsWith('.go'))", input: {path: "${item}", n: "${index}", of: "${find.structured.files}"}, on_error: continue}
- {tool: ws/drop, if: "steps.read.status == 'success'", input: {first: "${read.0.message}", n: "${read}"}}
answer: "${read}"
`
	files := res_(`{"message":"","structured":{"files":["a.go","b.md","c.go"]}}`)
	want := []string{
		`ws/find {"pattern":"x"} LOW find`,
		`ws/read {"path":"a.go","n":0,"of":["a.go","b.md","c.go"]} LOW read (item 1 of 2)`,
		`ws/read {"path":"c.go","n":1,"of":["a.go","b.md","c.go"]} LOW read (item 2 of 2)`,
		`ws/drop {"first":"x","n":[{"message":"x"},{"message":"m"}]} HIGH Step 3 of 3`,
		`[{"message":"x"},{"message":"m"}]`,
	}
	if d := cmp.Diff(want, follow(t, context_(book), files, res_(`{"message":"x"}`))); d != "" {
		t.Error(d)
	}
	want = append(want[:3], `[{"error":"gone"},{"message":"m"}]`)
	if d := cmp.Diff(want, follow(t, context_(book), files, bad("", "gone"))); d != "" {
		t.Errorf("an item that failed: %s", d)
	}
	none := []string{`ws/find {"pattern":"x"} LOW find`, `error: step 3 (ws/drop): its input cannot be made: ${read.0.message}: read is an empty array and has no item "0"`}
	got := follow(t, context_(book), res_(`{"message":"","structured":{"files":[]}}`))
	if len(got) != 2 || got[0] != none[0] || !strings.Contains(got[1], "read is an empty array") {
		t.Errorf("no items: %q", got)
	}
}

// Lists are written out, referred to exactly, or computed; objects are iterated in the order of their keys each time.
func TestLists(t *testing.T) {
	for list, want := range map[string]string{
		`[1, "${goal}", {a: "${goal}"}]`:                     `[1,"the goal",{"a":"the goal"}]`,
		`"${find.structured.exact}"`:                         `[9007199254740993,1.50]`,
		`"steps.find.output.structured.exact"`:               `[9007199254740993,1.5]`,
		`"steps.find.output.structured.map(k, k)"`:           `["b","c","exact","z"]`,
		`"[1, 2.5, true, null, 'é', [steps.find.status]]"`:   `[1,2.5,true,null,"é",["success"]]`,
		`"steps.find.output.structured.c.map(x, double(x))"`: `[1]`,
	} {
		for range 5 {
			tc := context_("steps:\n- {id: find, tool: ws/read}\n- {id: all, tool: ws/read, foreach: "+list+", input: {x: \"${item}\"}}\n",
				ok("ws/read", `{"structured":{"z":1,"c":[1],"exact":[9007199254740993,1.50],"b":{}}}`))
			var items []string
			for _, call := range follow(t, tc) {
				if item, found := strings.CutPrefix(call, `ws/read {"x":`); found {
					items = append(items, item[:strings.LastIndex(item, "} LOW")])
				}
			}
			if got := "[" + strings.Join(items, ",") + "]"; got != want {
				t.Fatalf("%s: %s, want %s", list, got, want)
			}
		}
	}
}

// A step with `retry` is tried again after an error that is known, also for each item, and never after an outcome that is not known,
// unless the call is repeatable.
func TestRetry(t *testing.T) {
	known, unknown := commonv1.Outcome_OUTCOME_KNOWN, commonv1.Outcome_OUTCOME_UNKNOWN
	const book = "steps:\n- {id: a, tool: ws/delete, retry: {attempts: 3}, foreach: [x, y], input: {i: \"${item}\"}}\nanswer: ${a}\n"
	x, y := `ws/delete {"i":"x"} MEDIUM a (item 1 of 2)`, `ws/delete {"i":"y"} MEDIUM a (item 2 of 2)`
	for name, c := range map[string]struct {
		book    string
		results []*plannerv1.HistoryEntry
		want    []string
	}{
		"it works in the end": {book, []*plannerv1.HistoryEntry{outcome_(bad("", "1"), known), outcome_(bad("", "2"), known), res_(`{"message":"x"}`), outcome_(bad("", "3"), known)},
			[]string{x, x, x, y, y, `[{"message":"x"},{"message":"m"}]`}},
		"it never works": {book, []*plannerv1.HistoryEntry{outcome_(bad("", "1"), known), outcome_(bad("", "2"), known), outcome_(bad("", "3"), known)},
			[]string{x, x, x, "error: [PLANNING_FAILED] step 1 (a) (ws/delete) of the playbook failed: 3"}},
		"it may have run": {book, []*plannerv1.HistoryEntry{outcome_(bad("", "lost"), unknown)},
			[]string{x, "error: [PLANNING_FAILED] step 1 (a) (ws/delete) of the playbook failed: lost"}},
		"it may be repeated": {strings.ReplaceAll(book, "ws/delete", "ws/read"), []*plannerv1.HistoryEntry{outcome_(bad("", "lost"), unknown)},
			[]string{`ws/read {"i":"x"} LOW a (item 1 of 2)`, `ws/read {"i":"x"} LOW a (item 1 of 2)`, `ws/read {"i":"y"} LOW a (item 2 of 2)`, `[{"message":"m"},{"message":"m"}]`}},
		"a person skipped it": {book, []*plannerv1.HistoryEntry{{Result: plannerv1.StepResult_STEP_RESULT_SKIPPED, Error: "no"}},
			[]string{x, y, `[{"error":"no"},{"message":"m"}]`}},
		"a status": {"steps:\n- {id: a, tool: ws/read, retry: {attempts: 2}, on_error: continue}\n- {tool: ws/drop, if: steps.a.status == 'success'}\n- {tool: ws/read, if: steps.a.error == '2'}\n",
			[]*plannerv1.HistoryEntry{outcome_(bad("", "1"), known), outcome_(bad("", "2"), known)},
			[]string{`ws/read {} LOW a`, `ws/read {} LOW a`, `ws/read {} LOW Step 3 of 3`, "The goal\n\n1. a (ws/read) — failed: 2\n2. ws/drop — skipped: its condition is false\n3. Step 3 of 3 (ws/read) — done: m"}},
	} {
		if d := cmp.Diff(c.want, follow(t, context_(c.book), c.results...)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// Expressions that cannot be evaluated, or work too hard, end the task with the reason.
func TestExpressionsThatFail(t *testing.T) {
	long := `{"structured":{"l":[` + strings.Repeat("1,", 2000) + `1]}}`
	for expression, want := range map[string]string{
		"if: steps.a.output.none == 1":                   "its `if` cannot be evaluated: no such key: none",
		"if: steps.b.output.message == ''":               "no such key: output; b has no output: it was skipped: its \"if\" is false",
		"if: steps.a.output.structured.l":                "its `if` must be true or false, but is [1,1",
		"if: steps.a.output.structured.l[0] + '' == 'x'": "no such overload",
		"foreach: steps.a.status":                        "its `foreach` must be a list, but is \"success\"",
		"foreach: steps.a.output.structured.l":           "its `foreach` has 2001 items; it takes at most 1000",
		"foreach: \"${a.structured.l}\"":                 "its `foreach` has 2001 items",
		"foreach: \"${a.structured.none}\"":              `has no member "none"`,
		"foreach: \"${b.message}\"":                      "b has no output: it was skipped",
		"foreach: \"${c.0}\"":                            "c has no output: it was skipped",
		"if: steps.a.output.structured.l.all(x, steps.a.output.structured.l.all(y, x == y))": "it takes too much work",
	} {
		_, err := planOf(t, context_("steps:\n- {id: a, tool: ws/read}\n- {id: b, tool: ws/read, if: 1 > 2}\n- {id: c, tool: ws/read, if: 1 > 2, foreach: [1]}\n- tool: ws/read\n  "+expression+"\n", ok("ws/read", long)))
		if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_INVALID_PLAYBOOK || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "step 4 (ws/read): ") {
			t.Errorf("%s: %v", expression, err)
		}
	}
}

// An output that the planner was not sent is no reason to decide otherwise than before.
func TestOutputsThatWereLeftOut(t *testing.T) {
	for _, rest := range []string{"if: has(steps.a.output.structured)", "foreach: \"${a.structured}\"", "input: {x: \"${a.message}\"}"} {
		omitted := ok("ws/read", `{"message":"(9 bytes, left out)"}`)
		omitted.OutputOmitted = true
		_, err := planOf(t, context_("steps:\n- {id: a, tool: ws/read}\n- tool: ws/read\n  "+rest+"\n", omitted))
		if err == nil || !strings.Contains(err.Error(), "left out") && !strings.Contains(err.Error(), `it has "error"`) {
			t.Errorf("%s: %v", rest, err)
		}
	}
}

// What is wrong with conditions, lists and retries is listed with the playbook.
func TestControlIsChecked(t *testing.T) {
	const bad = `steps:
- {id: item, tool: a/b, if: "steps.later.status == 'x'"}
- {tool: a/b, if: 5, foreach: "goal"}
- {tool: a/b, if: "1 +", retry: {attempts: 1}}
- {tool: a/b, if: "nope > 1", foreach: ["${item}"]}
- {tool: a/b, if: "steps.size() > 1 || 'x'.matches('(')", retry: {times: 2}}
- {id: later, tool: a/b, input: {x: "${index}"}, retry: {}}
- {tool: a/b, if: "inputs.x"}
`
	_, err := Parse(bad)
	var e *errs.Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	var got []string
	for _, v := range e.Violations {
		got = append(got, v.Description)
	}
	want := []string{
		"line 2: step 1 (item) refers to steps.later, but no step before it is called later; it can refer to goal",
		"line 3: step 2: if: must be a boolean or a string, is a number",
		"line 3: `foreach`: it must be a list, but is a string",
		"line 4: step 3: retry.attempts: must be at least 2, is 1; it counts the first attempt too",
		"line 4: `if`: Syntax error: mismatched input '<EOF>' (at character 4)",
		"line 5: `if`: undeclared reference to 'nope' (at character 1)",
		`line 6: step 5: retry: has unknown property "times"`,
		`line 6: step 5: retry: required property "attempts" is missing`,
		"line 6: `if`: invalid matches argument (at character 33)",
		`line 7: step 6: retry: required property "attempts" is missing`,
		"and 2 more",
	}
	if d := cmp.Diff(want, got); d != "" || !strings.Contains(e.Message, "and ") {
		t.Errorf("%s\n%s", e.Message, d)
	}
	for text, want := range map[string]string{
		"{tool: a/b, if: \"steps.size() > 1\"}":          "`steps` and `inputs` must be followed by a name",
		"{tool: a/b, if: \"[1].all(steps, steps > 0)\"}": "must be followed by a name",
		"{tool: a/b, foreach: \"{'a': 1}.map(k, k)\"}":   "maps cannot be written in an expression",
		"{tool: a/b, input: {x: \"${index}\"}}":          "but no step before it is called index",
		"{tool: a/b, foreach: [\"${item}\"]}":            "but no step before it is called item",
		"{tool: a/b, if: inputs.x}":                      "step 1 reads the input x, which `inputs` does not declare",
		"{tool: a/b, retry: {}}":                         `retry: required property "attempts" is missing`,
		"{tool: a/b, retry: 3}":                          "retry: must be an object, is a number",
		"{tool: a/b, foreach: {a: 1}}":                   "foreach: must be a string or an array, is an object",
		"{tool: a/b, if: \"" + strings.Repeat("(", 300) + "true" + strings.Repeat(")", 300) + "\"}": "recursion",
		"{tool: a/b, if: \"" + strings.Repeat("true && ", 20000) + "true\"}":                        "size",
	} {
		if _, err := Parse("steps:\n- " + text + "\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v", text, err)
		}
	}
}

// Whatever an expression says, it is refused, fails with a reason, or gives the same plan each time, soon.
func FuzzExpression(f *testing.F) {
	for _, seed := range []string{
		"steps.a.output.structured.count > 1", "steps['a'].status == 'success' && !has(steps.a.error)", "steps.a.output.structured.files.filter(x, x.endsWith('.go'))",
		"steps.a.output.structured.map(k, k)", "[1, 2.5, b'x', duration('1s'), timestamp(0), type(1), null, 1u]", "'a'.matches('(a+)+$')", "[[1], [null]].map(x, x)", "goal + goal",
		"inputs.x.map(y, inputs.x.map(z, z))", "dyn(1) in [1.0]", "1 / 0 == 1", "{}", "steps.a == steps.a ? [steps] : []",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, key := range []string{"if: ", "foreach: "} {
			tc := context_("inputs: {x: {default: [1, 2]}}\nsteps:\n- {id: a, tool: ws/read}\n- {tool: ws/read, "+key+strictjson.Quote(text)+", input: {x: \"${inputs.x}\"}}\n",
				ok("ws/read", `{"message":"m","structured":{"count":2,"files":["a.go","b.md"],"none":null,"big":1e400,"long":9007199254740993}}`))
			before := time.Now()
			if _, err := planAll(t, tc); err != nil && errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_INVALID_PLAYBOOK {
				t.Errorf("%s%s: %v", key, text, err)
			}
			if took := time.Since(before); took > 10*time.Second {
				t.Errorf("%s%s: it took %v", key, text, took)
			}
		}
	})
}

// A list that is longer than the steps that the task may still take is refused before its first item, not in the middle.
func TestForeachWithinTheLimitOfSteps(t *testing.T) {
	const book = "steps:\n- {tool: ws/read}\n- {tool: ws/find, foreach: ['a', 'b', 'c'], input: {pattern: \"${item}\"}}\n"
	read, find := ok("ws/read", `{}`), ok("ws/find", `{}`)
	for done, history := range [][]*plannerv1.HistoryEntry{1: {read}, 2: {read, find}} {
		for _, most := range []uint32{0, 3, 4} {
			tc := context_(book, history...)
			tc.MaxSteps = most
			steps, err := planAll(t, tc)
			refused := err != nil && strings.Contains(err.Error(), "its `foreach` has 3 items, and the task may take 3 steps, of which 1 come before")
			if refused != (most == 3 && done > 0) || err == nil && most == 3 && len(steps) != 1 {
				t.Errorf("%d of at most %d steps are done: %v, %v", done, most, steps, err)
			}
		}
	}
}
