package pipeline

import (
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// C10, C11: the model is asked again whatever the results are, at the limit without tools; without results the answer is complete.
func TestRecursion(t *testing.T) {
	failed := []*pipelinev1.CompletedToolCall{{Error: &commonv1.ErrorMessage{ErrMsg: "gone"}}}
	for name, c := range map[string]struct {
		change      func(*Exchange)
		again, last bool
	}{
		"answer": {func(*Exchange) {}, false, false},
		"failed": {func(x *Exchange) { x.Results, x.Round = failed, 1 }, true, false},
		"rounds": {func(x *Exchange) { x.Results, x.Round = failed, 5 }, true, true},
		"fewer": {func(x *Exchange) {
			x.Results, x.Round, x.Request.Limits = failed, 2, &pipelinev1.CompletionLimits{MaxRounds: 2}
		}, true, true},
		"calls":   {func(x *Exchange) { x.Results, x.Round, x.ToolCalls = failed, 1, 50 }, true, true},
		"clients": {func(x *Exchange) { x.Calls = []*plannerv1.ModelToolCall{modelCall("1", "weather", "{}")} }, false, false},
	} {
		x := exchange()
		c.change(x)
		if err := (Recursion{}).Process(t.Context(), x); err != nil || x.Again != c.again || x.LastReply != c.last {
			t.Errorf("%s: again %v, last %v, %v", name, x.Again, x.LastReply, err)
		}
		if _, events := drained(x.Out); len(events) != len(x.Calls) {
			t.Errorf("%s: %v", name, events)
		}
	}
}
