package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/executor-svc/internal/fake"
	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/journal"
)

// branches returns a planner of a task with branches, such as "a:write,read b:read": each calls its tools in order. Then the main line
// calls the tools of last.
func branches(all, last string) *fake.Planner {
	lines, ids := map[string][]string{"": strings.Fields(last)}, []string{}
	for _, b := range strings.Fields(all) {
		id, tools, _ := strings.Cut(b, ":")
		lines[id], ids = strings.Split(tools, ","), append(ids, id)
	}
	return &fake.Planner{PlanFn: func(_ context.Context, c *plannerv1.TaskContext) (*plannerv1.PlanStepsResponse, error) {
		done := map[string]int{}
		for _, h := range c.GetHistory() {
			done[h.GetBranch()]++
		}
		var open []string
		for _, id := range ids {
			if done[id] < len(lines[id]) {
				open = append(open, id)
			}
		}
		n, line := done[c.GetBranch()], lines[c.GetBranch()]
		switch {
		case c.GetBranch() == "" && len(open) > 0:
			return &plannerv1.PlanStepsResponse{Branches: open}, nil
		case n >= len(line):
			return &plannerv1.PlanStepsResponse{Steps: []*plannerv1.PlannedStep{{ToolId: flow.Final}}}, nil
		}
		return &plannerv1.PlanStepsResponse{Steps: []*plannerv1.PlannedStep{{
			ToolId: "t/" + line[n], InputJson: fmt.Sprintf(`{"text":"%s %s %d"}`, c.GetBranch(), line[n], n+1),
			Risk: &commonv1.Risk{Level: commonv1.RiskLevel_RISK_LEVEL_LOW, Reason: "only a test"},
		}}}, nil
	}}
}

// holdBranches makes the calls of these branches wait until the channel is closed.
func (r *rig) holdBranches(names ...string) (open func()) {
	b := newBarrier(r.t)
	r.pool.Detached = true
	r.pool.CallFn = func(ctx context.Context, req *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		for _, name := range names {
			if strings.HasPrefix(req.GetInputJson(), `{"text":"`+name+" ") {
				select {
				case <-b.opened:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		return send(fake.TextResult("done", false))
	}
	return b.open
}

// An answer that is applied together with the resumption of a task, of which another branch runs, is applied once.
func TestAnswerTogetherWithResumption(t *testing.T) {
	r := newRig(t, branches("a:write b:idempotent", ""))
	r.keepPool = true
	open := r.holdBranches("b")
	r.start()
	n := newTask(always)
	n.Head.Confirm = byRisk
	id := r.createAs(n)
	r.await(id, waiting)
	b := r.waitOf(id, "b")
	wantAnswer(t, "the approval of b", r.send(id, approveCommand(b)), 0)
	a := r.waitOf(id, "a")
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	edit(t, r.path, func(j journal.Tasks) error {
		c := approveCommand(a)
		c.Id = "1"
		_, err := j.Send(t.Context(), id, c)
		return err
	})
	open()
	r.start()
	if s := r.finish(id); s != success {
		t.Errorf("%s: %v", s, r.types(id))
	}
	writes := 0
	for _, c := range r.pool.CalledFor(id) {
		if c.GetName() == "write" {
			writes++
		}
	}
	if writes != 1 {
		t.Errorf("%d calls of the approved tool, want 1: %v", writes, r.types(id))
	}
	if u := r.task(id).Checkpoint.GetUsage(); u.GetToolCalls() != 2 {
		t.Errorf("%v", u)
	}
}

// waitOf returns the id of a branch's open wait.
func (r *rig) waitOf(id, branch string) string {
	r.t.Helper()
	c := r.task(id).Checkpoint
	for _, w := range c.GetWaits() {
		if flow.LaneOf(c, w.GetLane()).GetSubtaskId() == branch && w.GetOrdinal() != 0 {
			return w.GetId()
		}
	}
	r.t.Fatalf("%s waits for nobody: %v", branch, c.GetWaits())
	return ""
}
