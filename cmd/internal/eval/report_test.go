package eval

import (
	"testing"

	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// The sum is absent if the cost of any model call is unknown. Cases without model calls cost nothing.
func TestReportCost(t *testing.T) {
	free, unknown := &commonv1.Usage{}, &commonv1.Usage{ModelCalls: 1}
	known := &commonv1.Usage{ModelCalls: 2, CostNanoUsd: proto.Uint64(5)}
	for _, tc := range []struct {
		cases []*commonv1.Usage
		want  *uint64
	}{
		{[]*commonv1.Usage{free, free}, nil},
		{[]*commonv1.Usage{known, free, known}, proto.Uint64(10)},
		{[]*commonv1.Usage{free, known}, proto.Uint64(5)},
		{[]*commonv1.Usage{known, unknown, known}, nil},
		{[]*commonv1.Usage{unknown, known}, nil},
		{[]*commonv1.Usage{{ModelCalls: 1, CostNanoUsd: proto.Uint64(0)}}, proto.Uint64(0)},
	} {
		r, one := &Report{}, &caseRun{result: Result{Usage: &commonv1.Usage{}}}
		for _, u := range tc.cases {
			r.add(Result{Usage: u})
			one.spend(u)
		}
		for _, got := range []*uint64{r.CostNanoUSD, one.result.Usage.CostNanoUsd} {
			if (got == nil) != (tc.want == nil) || got != nil && *got != *tc.want {
				t.Errorf("%v: %v, want %v", tc.cases, got, tc.want)
			}
		}
	}
}

// A case that is wrong only because a person was asked, or was not, says so.
func TestProblemOfAsking(t *testing.T) {
	tools := []*commonv1.Tool{{Id: "s/add", Name: "add"}}
	for _, tc := range []struct {
		asks, asked bool
		want        string
	}{
		{false, false, ""}, {true, true, ""},
		{false, true, "a person is asked for a value that the goal contains"},
		{true, false, "a person is not asked for the missing value"},
	} {
		step := &plannerv1.PlannedStep{ToolId: "s/add", InputJson: "{}"}
		if tc.asked {
			step.Missing = []string{"a"}
		}
		r := &caseRun{c: &Case{Calls: []Call{{Tool: OneOf{"add"}}}, Asks: tc.asks}, tools: tools, calls: []*plannerv1.PlannedStep{step}}
		r.judge()
		if r.result.Problem != tc.want || r.result.RightInput != (tc.want == "") {
			t.Errorf("asks %v, asked %v: %+v", tc.asks, tc.asked, r.result)
		}
	}
}
