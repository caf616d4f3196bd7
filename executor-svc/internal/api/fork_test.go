package api_test

import (
	"testing"

	"google.golang.org/grpc/codes"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
)

// A fork with a budget of its own takes the lower limits of its agent, so an agent that cannot be read is an error. A deleted agent is not.
func TestForkOfAnAgentThatCannotBeRead(t *testing.T) {
	r := newRig(t)
	for agent, want := range map[string]codes.Code{"damaged": codes.DataLoss, "deleted": codes.OK, "": codes.OK} {
		n := waitingTask(executorv1.WaitKind_WAIT_KIND_APPROVAL)
		n.Head.AgentId = agent
		if _, err := r.engine.Create(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		_, err := r.tasks.ForkTask(t.Context(), &executorv1.ForkTaskRequest{Id: n.ID, Budget: &executorv1.Budget{MaxToolCalls: 5}})
		if got := errs.From(err); (err == nil) != (want == codes.OK) || err != nil && got.Code != want {
			t.Errorf("a task of the agent %q: %v", agent, err)
		}
	}
}
