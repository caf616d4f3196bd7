package eval

import (
	"testing"

	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
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
