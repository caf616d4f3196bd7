package api_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// Issue 13: an agent that names another user as its owner is refused, as an MCP server is.
func TestAgentOfAnotherUser(t *testing.T) {
	agents := newRig(t).agents
	create := func(owner string) (*executorv1.Agent, error) {
		return agents.CreateAgent(t.Context(), &executorv1.CreateAgentRequest{Agent: &executorv1.Agent{DisplayName: "x", UserSub: owner}})
	}
	if _, err := create("ann"); status.Code(err) != codes.PermissionDenied {
		t.Errorf("an agent of another user: %v", err)
	}
	own, err := create("local")
	if err != nil {
		t.Fatal(err)
	}
	own.DisplayName = "y"
	if own, err = agents.UpdateAgent(t.Context(), &executorv1.UpdateAgentRequest{Agent: own}); err != nil {
		t.Fatalf("an agent that was read is not taken back: %v", err)
	}
	own.UserSub = "ann"
	if _, err := agents.UpdateAgent(t.Context(), &executorv1.UpdateAgentRequest{Agent: own}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("an update that names another user: %v", err)
	}
}
