package offline

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/model"
)

// caller runs a tool and returns the step's output.
type caller func(tool, input string) (output string, err error)

// ask puts one question to the model.
func ask(t testing.TB, purpose model.Purpose, f model.Facts) string {
	t.Helper()
	var b strings.Builder
	usage, err := New().Generate(context.Background(), &model.Request{Purpose: purpose, Facts: f}, func(piece string) error {
		b.WriteString(piece)
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", purpose, err)
	}
	if usage != (model.Usage{}) {
		t.Errorf("%s cost %+v; the offline model costs nothing", purpose, usage)
	}
	return b.String()
}

// planned is the step that PlanSteps answered.
type planned struct {
	ToolID      string          `json:"tool_id"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"input"`
}

func nextOf(t testing.TB, tc *plannerv1.TaskContext) planned {
	t.Helper()
	var out struct{ Steps []planned }
	text := ask(t, model.PlanSteps, model.Facts{Context: tc})
	if err := json.Unmarshal([]byte(text), &out); err != nil || len(out.Steps) != 1 {
		t.Fatalf("not one step: %s: %v", text, err)
	}
	if again := ask(t, model.PlanSteps, model.Facts{Context: tc}); again != text {
		t.Fatalf("the same context gave two plans:\n%s\n%s", text, again)
	}
	return out.Steps[0]
}

// run does what an executor does: it carries out planned steps until FINAL and returns the calls and the answer.
func run(t testing.TB, tc *plannerv1.TaskContext, call caller) (calls []string, answer string) {
	t.Helper()
	for range 25 {
		st := nextOf(t, tc)
		if st.ToolID == model.Final {
			return calls, ask(t, model.Answer, model.Facts{Context: tc})
		}
		calls = append(calls, st.ToolID+" "+string(st.Input))
		e := &plannerv1.HistoryEntry{StepId: fmt.Sprint(len(calls)), ToolId: st.ToolID, Description: st.Description, InputJson: string(st.Input),
			Result: plannerv1.StepResult_STEP_RESULT_SUCCESS, Outcome: commonv1.Outcome_OUTCOME_KNOWN}
		out, err := call(st.ToolID, string(st.Input))
		if e.OutputJson = out; err != nil {
			e.Result, e.Error = plannerv1.StepResult_STEP_RESULT_ERROR, err.Error()
		}
		tc.History = append(tc.History, e)
	}
	t.Fatalf("no end after 25 steps: %s", strings.Join(calls, "\n"))
	return nil, ""
}
