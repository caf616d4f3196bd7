package offline

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/plan"
)

// caller runs a tool and returns the step's output.
type caller func(tool, input string) (output string, err error)

// answer returns the answer to a task.
func answer(t testing.TB, tc *plannerv1.TaskContext, cutShort string) string {
	t.Helper()
	var b strings.Builder
	res, err := New().GenerateAnswer(context.Background(), &plannerv1.GenerateAnswerRequest{Context: tc, CutShort: cutShort}, func(piece string) error {
		b.WriteString(piece)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(res.GetUsage(), &commonv1.Usage{}) {
		t.Errorf("it cost %v; the offline planner costs nothing", res.GetUsage())
	}
	return b.String()
}

func nextOf(t testing.TB, tc *plannerv1.TaskContext) *plannerv1.PlannedStep {
	t.Helper()
	res, err := New().PlanSteps(context.Background(), &plannerv1.PlanStepsRequest{Context: tc}, nil)
	if err != nil || len(res.GetSteps()) != 1 {
		t.Fatalf("not one step: %v: %v", res, err)
	}
	if again, err := New().PlanSteps(context.Background(), &plannerv1.PlanStepsRequest{Context: tc}, nil); err != nil || !proto.Equal(again, res) {
		t.Fatalf("the same context gave two plans:\n%s\n%s", res, again)
	}
	return res.GetSteps()[0]
}

// run does what an executor does: it carries out planned steps until FINAL and returns the calls and the answer.
func run(t testing.TB, tc *plannerv1.TaskContext, call caller) (calls []string, text string) {
	t.Helper()
	for range 25 {
		st := nextOf(t, tc)
		if st.GetToolId() == plan.Final {
			return calls, answer(t, tc, "")
		}
		calls = append(calls, st.GetToolId()+" "+st.GetInputJson())
		e := &plannerv1.HistoryEntry{StepId: fmt.Sprint(len(calls)), ToolId: st.GetToolId(), Description: st.Description, InputJson: st.GetInputJson(),
			Result: plannerv1.StepResult_STEP_RESULT_SUCCESS, Outcome: commonv1.Outcome_OUTCOME_KNOWN}
		out, err := call(st.GetToolId(), st.GetInputJson())
		if e.OutputJson = out; err != nil {
			e.Result, e.Error = plannerv1.StepResult_STEP_RESULT_ERROR, err.Error()
		}
		tc.History = append(tc.History, e)
	}
	t.Fatalf("no end after 25 steps: %s", strings.Join(calls, "\n"))
	return nil, ""
}
