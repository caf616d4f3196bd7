package offline

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
)

// coding are the tools of a workspace that may be changed.
func coding(t testing.TB) []*commonv1.Tool {
	all := tools(t, "workspace", "workspace", commonv1.Effect_EFFECT_READ)
	for _, tool := range []*commonv1.Tool{
		{Name: "write_file", Title: "Write a file", Description: "Writes a file of the workspace, after a backup of the file that it replaces.",
			InputSchemaJson: `{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"]}`},
		{Name: "run_tests", Title: "Run the tests", Description: "Runs the tests of the project with go, npm, pytest, cargo or make, and returns what passed and what failed.",
			InputSchemaJson: `{"type":"object","properties":{"path":{"type":"string"},"filter":{"type":"string"},"timeout_seconds":{"type":"integer"}}}`},
		{Name: "execute_command", Title: "Run a command", Description: "Runs a program in the workspace and returns its output and exit code.",
			InputSchemaJson: `{"type":"object","properties":{"argv":{"type":"array","items":{"type":"string"}}},"required":["argv"]}`},
	} {
		tool.Id, tool.McpId, tool.Effect = "workspace/"+tool.Name, "workspace", commonv1.Effect_EFFECT_WRITE
		all = append(all, tool)
	}
	return all
}

// code does what an executor does with a plan of one subtask: it thinks until the reflection says that nothing is left.
func code(t testing.TB, tc *plannerv1.TaskContext, call caller) (calls []string, last *plannerv1.Reflection) {
	t.Helper()
	p := New()
	planned, err := p.CreatePlan(t.Context(), &plannerv1.CreatePlanRequest{Context: tc})
	if err != nil || len(planned.GetSubtasks()) != 1 || planned.GetSubtasks()[0].GetDescription() != tc.GetGoal() || planned.GetRisk().GetReason() != "It only reads." {
		t.Fatalf("%q: %v %v", tc.GetGoal(), planned, err)
	}
	for range 10 {
		streamed := ""
		res, err := p.Think(t.Context(), &plannerv1.ThinkRequest{Context: tc, Current: planned.GetSubtasks()[0]}, func(text string) error { streamed += text; return nil })
		if err != nil || streamed != res.GetThought() || streamed == "" || !proto.Equal(res.GetUsage(), &commonv1.Usage{}) {
			t.Fatalf("%v %q %v", res, streamed, err)
		}
		reflected, err := p.Reflect(t.Context(), &plannerv1.ReflectRequest{Context: tc, Current: planned.GetSubtasks()[0]})
		if r := res.GetReflection(); err != nil || reflected.GetDone() != r.GetDone() || reflected.GetSummary() != r.GetSummary() || reflected.GetNext() != r.GetNext() {
			t.Errorf("%v, and by itself %v %v", res, reflected, err)
		}
		if len(res.GetSteps()) == 0 {
			return calls, res.GetReflection()
		}
		st := res.GetSteps()[0]
		if !slices.Contains(planned.GetSubtasks()[0].GetToolIds(), st.GetToolId()) || res.GetReflection().GetDone() || res.GetReflection().GetNext() == "" {
			t.Errorf("%v after %v", res, planned)
		}
		calls = append(calls, st.GetToolId()+" "+st.GetInputJson())
		e := &plannerv1.HistoryEntry{StepId: "s", ToolId: st.GetToolId(), Description: st.GetDescription(), InputJson: st.GetInputJson(), Result: plannerv1.StepResult_STEP_RESULT_SUCCESS}
		if e.OutputJson, err = call(st.GetToolId(), st.GetInputJson()); err != nil {
			e.Result, e.Error = plannerv1.StepResult_STEP_RESULT_ERROR, err.Error()
		}
		tc.History = append(tc.History, e)
	}
	t.Fatalf("no end: %v", calls)
	return nil, nil
}

// D1, D3: a goal that takes one tool after the other is a plan of one subtask, which ends once nothing is left or a step has failed.
func TestSubtasks(t *testing.T) {
	for goal, c := range map[string]struct {
		calls   string
		isDone  bool
		summary string
	}{
		"List the files in server":             {`workspace/list_directory {"path":"server"}`, true, "server.go"},
		"Read go.mod, then count the Go files": {`workspace/read_file {"path":"go.mod"}, workspace/search_files {"pattern":"**/*.go"}`, true, "There are 3 Go files."},
		"read nothing.xyz":                     {`workspace/read_file {"path":"nothing.xyz"}`, false, `failed: "nothing.xyz" does not exist`},
	} {
		calls, last := code(t, &plannerv1.TaskContext{Goal: goal, Tools: coding(t)}, sample().call)
		if strings.Join(calls, ", ") != c.calls || last.GetDone() != c.isDone || !strings.Contains(last.GetSummary(), c.summary) || (last.GetNext() == "") != c.isDone {
			t.Errorf("%q: %q %v", goal, calls, last)
		}
	}
}

// A goal that needs a language model is refused, and the message says what to do.
func TestGoalsThatNeedAModel(t *testing.T) {
	for goal, why := range map[string]string{
		"Make the tests pass":         "it does not understand: ",
		"Fix the bug in server.go":    "it does not understand: ",
		"让测试通过":                       "it does not understand: ",
		"":                            "it does not understand: ",
		"Write hello.txt":             "content",
		"Refactor the server package": "it does not understand: ",
	} {
		_, err := New().CreatePlan(t.Context(), &plannerv1.CreatePlanRequest{Context: &plannerv1.TaskContext{Goal: goal, Tools: coding(t)}})
		if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_PLANNING_FAILED || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "`--model NAME`") || !strings.Contains(err.Error(), "`pawl models`") {
			t.Errorf("%q: %v", goal, err)
		}
	}
	_, err := New().CreatePlan(t.Context(), &plannerv1.CreatePlanRequest{Context: &plannerv1.TaskContext{Goal: "List the files in server", Tools: coding(t)}, Problem: "no"})
	if err == nil || !strings.Contains(err.Error(), "no other plan") {
		t.Error(err)
	}
}
