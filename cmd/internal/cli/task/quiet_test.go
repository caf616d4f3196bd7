package task_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"pawl.dev/cmd/internal/cli/task"
	"pawl.dev/cmd/internal/clitest"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// If nothing happens for a while, a terminal shows what the task waits for; other outputs do not.
func TestQuiet(t *testing.T) {
	started := clitest.FlowStart("Look", commonv1.RiskLevel_RISK_LEVEL_LOW)
	for name, c := range map[string]struct {
		events []*executorv1.ExecutorEvent
		want   string
	}{
		"tools":   {[]*executorv1.ExecutorEvent{clitest.Status("")}, "waiting for the tools of the MCP servers and the first step · 2"},
		"planner": {[]*executorv1.ExecutorEvent{started}, "waiting for the planner · 2"},
		"next":    {[]*executorv1.ExecutorEvent{started, clitest.StepInit("s1", search), clitest.StepInput("s1", search, "{}", 1), clitest.StepOutput("s1", search)}, "waiting for the planner · 2"},
		"people":  {[]*executorv1.ExecutorEvent{started, clitest.Stop("s1")}, ""},
		"the end": {[]*executorv1.ExecutorEvent{started, clitest.Success("yes")}, ""},
		"nothing": {nil, ""},
	} {
		for _, live := range []bool{true, false} {
			var out bytes.Buffer
			view := task.NewEvents(task.EventsConfig{Log: &out, Out: &out, Live: live, Columns: func() int { return 80 }})
			show(view, c.events)
			now := clitest.Epoch.Add(time.Hour)
			out.Reset()
			view.Tick(now)
			view.Tick(now.Add(1900 * time.Millisecond))
			if out.Len() > 0 {
				t.Errorf("%s: %q after a moment", name, out.String())
			}
			view.Tick(now.Add(2500 * time.Millisecond))
			want := c.want
			if !live {
				want = ""
			}
			if got := out.String(); (got != "") != (want != "") || !strings.Contains(got, want) {
				t.Errorf("%s, live %v: %q, want %q", name, live, got, want)
			}
			if want == "" {
				continue
			}
			out.Reset()
			show(view, []*executorv1.ExecutorEvent{clitest.Status("")})
			if !strings.HasPrefix(out.String(), "\r\x1b[K") {
				t.Errorf("%s: the line stays: %q", name, out.String())
			}
		}
	}
}
