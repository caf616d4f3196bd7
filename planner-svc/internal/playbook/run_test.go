package playbook

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/planner-svc/internal/offline"
	"pawl.dev/planner-svc/internal/risk"
)

var tools = []*commonv1.Tool{
	{Id: "ws/find", McpId: "ws", Name: "find", Effect: commonv1.Effect_EFFECT_READ, InputSchemaJson: `{"type":"object","properties":{"pattern":{"type":"string"}},"required":["pattern"]}`},
	{Id: "ws/read", McpId: "ws", Name: "read", Effect: commonv1.Effect_EFFECT_READ, InputSchemaJson: `{"type":"object"}`},
	{Id: "ws/format", McpId: "ws", Name: "format", Effect: commonv1.Effect_EFFECT_DESTRUCTIVE, InputSchemaJson: `{"type":"object"}`},
	{Id: "ws/delete", McpId: "ws", Name: "delete", Effect: commonv1.Effect_EFFECT_WRITE, InputSchemaJson: `{"type":"object"}`},
	{Id: "ws/drop", McpId: "ws", Name: "drop", Effect: commonv1.Effect_EFFECT_DESTRUCTIVE, InputSchemaJson: `{"type":"object"}`},
}

func context_(book string, history ...*plannerv1.HistoryEntry) *plannerv1.TaskContext {
	return &plannerv1.TaskContext{Goal: "the goal", Playbook: book, Tools: tools, History: history}
}

func ok(tool, output string) *plannerv1.HistoryEntry {
	return &plannerv1.HistoryEntry{ToolId: tool, Result: plannerv1.StepResult_STEP_RESULT_SUCCESS, OutputJson: output}
}

func bad(tool, why string) *plannerv1.HistoryEntry {
	return &plannerv1.HistoryEntry{ToolId: tool, Result: plannerv1.StepResult_STEP_RESULT_ERROR, Error: why}
}

func answerOf(t testing.TB, tc *plannerv1.TaskContext, cutShort string) (string, error) {
	t.Helper()
	var b strings.Builder
	res, err := New(offline.New()).GenerateAnswer(context.Background(), &plannerv1.GenerateAnswerRequest{Context: tc, CutShort: cutShort}, func(p string) error {
		b.WriteString(p)
		return nil
	})
	if err == nil && !proto.Equal(res.GetUsage(), &commonv1.Usage{}) {
		t.Errorf("it cost %v", res.GetUsage())
	}
	if early := res.GetGoalResult() == plannerv1.GoalResult_GOAL_RESULT_NOT_FULFILLED; early != (cutShort != "") {
		t.Errorf("not fulfilled: %v, although it was cut short by %q", early, cutShort)
	}
	return b.String(), err
}

func inputOf(t testing.TB, tool, failed, problem string, tc *plannerv1.TaskContext) (string, error) {
	t.Helper()
	res, err := New(offline.New()).GetFirstInputParams(t.Context(), &plannerv1.GetFirstInputParamsRequest{Context: tc, ToolId: tool, FailedInputJson: failed, Error: problem})
	return res.GetInputJson(), err
}

func planOf(t testing.TB, tc *plannerv1.TaskContext) (string, error) {
	t.Helper()
	steps, err := planAll(t, tc)
	if err != nil {
		return "", err
	}
	return tell(steps[0]), nil
}

func planAll(t testing.TB, tc *plannerv1.TaskContext) ([]*plannerv1.PlannedStep, error) {
	t.Helper()
	m := New(offline.New())
	res, err := m.PlanSteps(t.Context(), &plannerv1.PlanStepsRequest{Context: tc}, nil)
	again, _ := m.PlanSteps(t.Context(), &plannerv1.PlanStepsRequest{Context: tc}, nil)
	steps := res.GetSteps()
	if d := cmp.Diff(res, again, protocmp.Transform()); d != "" {
		t.Errorf("the same context gave two plans: %s", d)
	}
	if err == nil && (len(steps) == 0 || steps[0].GetUnresolved()) {
		t.Fatalf("not a step: %v", steps)
	}
	return steps, err
}

func tell(s *plannerv1.PlannedStep) string {
	level := ""
	if s.GetRisk() != nil {
		level = risk.Name(s.GetRisk().GetLevel())
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", s.GetToolId(), s.GetInputJson(), level, s.GetDescription()))
}

const book = `
name: Look and read
steps:
  - id: find
    tool: ws/find
    description: Look for ${goal}
    input: { pattern: "${goal}", n: 9007199254740993 }
    expect: [{ path: structured.count, gte: 1 }]
  - id: read
    tool: ws/read
    input: { path: "${find.structured.files.0}", all: "${find.structured}", text: "x ${find.structured.count} y" }
    on_error: continue
  - tool: ws/drop
    input: { why: "${find.message}" }
    risk: low
answer: "${find.structured.count} found, reading said ${read.message}"
`

const found = `{"message":"m","structured":{"count":2,"files":["a.go","b.go"]}}`

// PlanSteps gives one step after the other, with references resolved.
func TestPlan(t *testing.T) {
	for _, tc := range []struct {
		history []*plannerv1.HistoryEntry
		want    string
	}{
		{nil, `ws/find {"pattern":"the goal","n":9007199254740993} LOW Look for the goal`},
		{[]*plannerv1.HistoryEntry{ok("ws/find", found)}, `ws/read {"path":"a.go","all":{"count":2,"files":["a.go","b.go"]},"text":"x 2 y"} LOW read`},
		{[]*plannerv1.HistoryEntry{ok("ws/find", found), bad("ws/read", "gone")}, `ws/drop {"why":"m"} HIGH Step 3 of 3`},
		{[]*plannerv1.HistoryEntry{ok("ws/find", found), ok("ws/read", `{"message":"r"}`), ok("ws/drop", "")}, `FINAL   The playbook is done.`},
	} {
		got, err := planOf(t, context_(book, tc.history...))
		if d := cmp.Diff(tc.want, got); d != "" || err != nil {
			t.Errorf("after %d steps: %v %s", len(tc.history), err, d)
		}
	}
}

// What did not come out as the playbook has it stops the task with a message that says what.
func TestPlanStops(t *testing.T) {
	one := func(expect string) string {
		return "steps:\n- id: s\n  tool: ws/find\n  input: {pattern: x}\n  expect:\n  - {path: structured.v, " + expect + "}\n"
	}
	value := func(v string) *plannerv1.HistoryEntry { return ok("ws/find", `{"structured":{"v":`+v+`}}`) }
	planning, unusable := commonv1.ErrorReason_ERROR_REASON_PLANNING_FAILED, commonv1.ErrorReason_ERROR_REASON_INVALID_PLAYBOOK
	for name, tc := range map[string]struct {
		tc     *plannerv1.TaskContext
		reason commonv1.ErrorReason
		says   string
	}{
		"a failed step":        {context_(book, bad("ws/find", "no disk")), planning, "step 1 (find) (ws/find) of the playbook failed: no disk"},
		"a cancelled step":     {context_(book, &plannerv1.HistoryEntry{ToolId: "ws/find", Result: plannerv1.StepResult_STEP_RESULT_CANCELLED}), planning, "it was cancelled"},
		"a missing member":     {context_(book, ok("ws/find", `{"structured":{"count":1,"files":[]}}`)), unusable, "its input or description cannot be made: ${find.structured.files.0}: find.structured.files is an empty array"},
		"output without it":    {context_(book, ok("ws/find", `{"structured":{"count":1}}`)), unusable, `has no member "files"`},
		"an expectation":       {context_(book, ok("ws/find", `{"structured":{"count":0}}`)), planning, "did not come out as expected (line 8): expected structured.count to be at least 1, got 0"},
		"nothing to expect of": {context_(book, ok("ws/find", `{"message":""}`)), planning, "expected structured.count to be at least 1, but it does not exist"},
		"another history":      {context_(book, ok("ws/read", "{}")), planning, "step 1 (find) of the playbook calls ws/find, but the task called ws/read there"},
		"a longer history":     {context_("steps: [{tool: ws/read}]", ok("ws/read", "{}"), ok("ws/read", "{}")), planning, "the task has done 2 steps, but the playbook has 1"},
		"a tool that is gone":  {context_("steps:\n- {tool: ws/none}\n"), unusable, "step 1: ws/none is not one of the task's tools"},
		"no playbook":          {context_("steps: []"), unusable, "line 1"},
		"equals":               {context_(one("equals: 2.0"), value("3")), planning, "expected structured.v to be 2.0, got 3"},
		"not_equals":           {context_(one("not_equals: a"), value(`"a"`)), planning, `not to be "a"`},
		"contains a text":      {context_(one("contains: b"), value(`"acd"`)), planning, `to contain "b", got "acd"`},
		"contains an element":  {context_(one("contains: {a: 1}"), value(`[{"a":2}]`)), planning, `to contain {"a":1}`},
		"contains a member":    {context_(one("contains: b"), value(`{"a":1}`)), planning, "to contain"},
		"contains in a number": {context_(one("contains: 1"), value("1")), planning, "to contain"},
		"matches":              {context_(one("matches: ^a+$"), value(`"ab"`)), planning, "to match"},
		"gte of a text":        {context_(one("gte: 1"), value(`"5"`)), planning, "to be at least 1"},
		"lte":                  {context_(one("lte: 1"), value("1.5")), planning, "to be at most 1, got 1.5"},
		"exists":               {context_(one("exists: true"), ok("ws/find", `{"structured":{}}`)), planning, "expected that structured.v exists, but it does not"},
		"exists not":           {context_(one("exists: false"), value("null")), planning, "does not exist, but it does"},
		"several":              {context_(one("gte: 1, lte: 3"), value("4")), planning, "at most 3"},
	} {
		_, err := planOf(t, tc.tc)
		e := errs.From(err)
		if e == nil || e.Code != codes.FailedPrecondition || e.Reason != tc.reason || !strings.Contains(e.Message, tc.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestExpectationsThatHold(t *testing.T) {
	for expect, value := range map[string]string{
		"equals: 2.0": "2", "equals: {a: [1, x]}": `{"a":[1.0,"x"]}`, "equals: null": "null", "equals: \"${goal}\"": `"the goal"`, "not_equals: 1": `"1"`,
		"contains: b": `"abc"`, "contains: 2": "[1,2.0]", "matches: ^\\d+$": "42", "gte: 1e2": "100", "lte: -1": "-1.0", "exists: true": "null",
	} {
		book := "steps:\n- id: s\n  tool: ws/find\n  expect:\n  - {path: structured.v, " + expect + "}\n"
		if _, err := planOf(t, context_(book, ok("ws/find", `{"structured":{"v":`+value+`}}`))); err != nil {
			t.Errorf("%s of %s: %v", expect, value, err)
		}
	}
	whole := "steps:\n- {tool: ws/find, expect: [{contains: message}, {path: no, exists: false}]}\n"
	if _, err := planOf(t, context_(whole, ok("ws/find", `{"message":"x"}`))); err != nil {
		t.Error(err)
	}
}

// References to a step that failed and was gone over see its error alone.
func TestErrorsCanBeReferredTo(t *testing.T) {
	book := "steps:\n- {id: a, tool: ws/read, on_error: continue}\n- {tool: ws/find, input: {pattern: \"${a.error}\"}}\n"
	got, err := planOf(t, context_(book, bad("ws/read", "gone")))
	if err != nil || !strings.HasPrefix(got, `ws/find {"pattern":"gone"}`) {
		t.Errorf("%s %v", got, err)
	}
	if _, err := planOf(t, context_(strings.Replace(book, "a.error", "a.message", 1), bad("ws/read", "gone"))); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_INVALID_PLAYBOOK {
		t.Errorf("the output of a failed step: %v", err)
	}
}

func TestGoalOfThePlaybook(t *testing.T) {
	book := "name: N\ngoal: G\nsteps:\n- {tool: ws/find, input: {pattern: \"${goal}\"}}\n"
	for goal, want := range map[string]string{"": "G", "mine": "mine"} {
		tc := context_(book)
		tc.Goal = goal
		if got, err := planOf(t, tc); err != nil || !strings.Contains(got, `{"pattern":"`+want+`"}`) {
			t.Errorf("%q: %s %v", goal, got, err)
		}
	}
}

func TestQuestionsAboutCalls(t *testing.T) {
	m := New(offline.New())
	for failed, want := range map[string]string{
		"": `{"pattern":"the goal","n":9007199254740993}`,
		// A11: what a person wrote, or changed when approving it, is not changed behind their back.
		`{"x":1}`: `{"x":1}`,
	} {
		if got, err := inputOf(t, "ws/find", failed, "unknown property x", context_(book)); got != want || err != nil {
			t.Errorf("after %q failed: %s %v, want %s", failed, got, err, want)
		}
	}
	if _, err := inputOf(t, "ws/drop", "", "", context_(book)); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_PLANNING_FAILED {
		t.Errorf("a tool that is not due: %v", err)
	}
	// the rest is answered as offline does
	fill, err := m.FillParams(t.Context(), &plannerv1.FillParamsRequest{Context: context_(book), ToolId: "ws/find", InputJson: `{}`, ContentJson: `{"pattern":"*"}`})
	if err != nil || fill.GetInputJson() != `{"pattern":"*"}` {
		t.Errorf("%v %v", fill, err)
	}
	drop, err := m.AssessToolRisk(t.Context(), &plannerv1.AssessToolRiskRequest{Context: context_(book), ToolId: "ws/drop", InputJson: `{"x":1}`})
	if err != nil || drop.GetRisk().GetReason() != "drop may destroy something that does not come back." {
		t.Errorf("%v %v", drop, err)
	}
}

// A11: the input of a failed step is its own, also if the next step calls the same tool: else that one's effect would be
// had twice.
func TestInputOfAFailedStepBeforeOneOfTheSameTool(t *testing.T) {
	const twice = `
steps:
  - {tool: ws/find, on_error: continue, input: {pattern: first}}
  - {tool: ws/find, input: {pattern: second}}
`
	if got, err := inputOf(t, "ws/find", `{"pattern":"first"}`, "no", context_(twice, bad("ws/find", "no"))); err != nil || got != `{"pattern":"first"}` {
		t.Errorf("after the failure: %s %v", got, err)
	}
	if got, err := inputOf(t, "ws/find", "", "", context_(twice, bad("ws/find", "no"))); err != nil || got != `{"pattern":"second"}` {
		t.Errorf("of the next step: %s %v", got, err)
	}
}

// A3
func TestFlow(t *testing.T) {
	m := New(offline.New())
	for _, tc := range []struct{ book, name, risk, reason string }{
		{book, "Look and read", "HIGH", "drop may destroy something that does not come back."},
		{"steps: [{tool: ws/read, risk: medium}]", "The goal", "MEDIUM", "The playbook declares this risk."},
	} {
		res, err := m.PlanSteps(t.Context(), &plannerv1.PlanStepsRequest{Context: context_(tc.book), Begin: true}, nil)
		if x := res.GetFlowRisk(); err != nil || res.GetFlowName() != tc.name || risk.Name(x.GetLevel()) != tc.risk || x.GetReason() != tc.reason {
			t.Errorf("%v %v, want %q and %s", res, err, tc.name, tc.risk)
		}
	}
	if _, err := planOf(t, context_("steps: []")); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_INVALID_PLAYBOOK {
		t.Error(err)
	}
}

// A22
func TestAnswer(t *testing.T) {
	done := []*plannerv1.HistoryEntry{ok("ws/find", found), ok("ws/read", `{"message":"r"}`), ok("ws/drop", `{"message":"d"}`)}
	done[0].Description = "Look"
	failed := []*plannerv1.HistoryEntry{ok("ws/find", found), bad("ws/read", "gone"), ok("ws/drop", `{"message":"d"}`)}
	plain := strings.Split(book, "answer:")[0]
	for name, tc := range map[string]struct {
		book, cutShort string
		history        []*plannerv1.HistoryEntry
		want           string
	}{
		"its own":     {book, "", done, "2 found, reading said r"},
		"a summary":   {plain, "", done, "Look and read\n\n1. Look (ws/find) — done: m\n2. read (ws/read) — done: r\n3. Step 3 of 3 (ws/drop) — done: d"},
		"ended early": {book, "a limit", failed[:2], "The playbook ended early: a limit\n\nLook and read\n\n1. find (ws/find) — done: m\n2. read (ws/read) — failed: gone\n3. ws/drop — not reached"},
	} {
		if got, err := answerOf(t, context_(tc.book, tc.history...), tc.cutShort); err != nil || got != tc.want {
			t.Errorf("%s: %v\n%s", name, err, cmp.Diff(tc.want, got))
		}
	}
	line := strconv.Itoa(1 + strings.Count(plain, "\n"))
	_, err := answerOf(t, context_(book, failed...), "")
	if e := errs.From(err); e == nil || e.Reason != commonv1.ErrorReason_ERROR_REASON_INVALID_PLAYBOOK || e.Metadata["line"] != line {
		t.Errorf("an answer that refers to a missing output, at line %s: %+v", line, e)
	}
	zh := context_("name: 统计\nsteps: [{tool: ws/read}]\n", ok("ws/read", ""))
	zh.Language = commonv1.Language_LANGUAGE_ZH
	if got, err := answerOf(t, zh, ""); err != nil || !strings.Contains(got, "— 完成") {
		t.Errorf("%s %v", got, err)
	}
}

// The model keeps a bounded number of parsed playbooks.
func TestCacheIsBounded(t *testing.T) {
	m := New(offline.New())
	for i := range 3 * maxParsed {
		if _, err := m.Parse(fmt.Sprintf("name: n%d\nsteps: [{tool: ws/read}]\n", i)); err != nil {
			t.Fatal(err)
		}
	}
	m.parsed.CleanUp()
	if n := m.parsed.EstimatedSize(); n == 0 || n > maxParsed {
		t.Errorf("%d playbooks are cached", n)
	}
}
