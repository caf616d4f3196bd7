package call

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
)

const (
	// approvalID is the input_id of the question for an approval.
	approvalID = "pawl.dev/approval"
	// approvalForm is its form: the action is the answer.
	approvalForm = `{"type":"object","properties":{}}`
	// maxShownInput bounds the input in the text of the question, in bytes.
	maxShownInput = 4096
)

// approvalNeeded is the error of an attempt that may only continue with an approval of the tool as it is defined now.
type approvalNeeded struct {
	tool   *catalog.Tool
	policy registry.Policy
}

func (n *approvalNeeded) Error() string { return "the call needs an approval" }

// approve asks for the approval of the call. It holds for this call, with this input, for this definition of
// the tool and this configuration of its server.
func (a *attempt) approve(ctx context.Context, n *approvalNeeded) error {
	a.timer.start(a.cancel, a.limit)
	defer a.timer.stop()
	answer, err := a.ask(ctx, mcp.Question{ID: approvalID, Schema: approvalForm, Message: fmt.Sprintf(
		"Allow the call of %s/%s (effect %s, risk %s) with this input?\n%s", a.Server.ID, n.tool.Name,
		lowerName(n.policy.Effect.String(), "EFFECT_"), lowerName(n.policy.RiskFloor.String(), "RISK_LEVEL_"), shownInput(a.Input.String()),
	)})
	switch {
	case err != nil:
		a.decision = refused
		return Explain(Preparing, err)
	case answer.Action != mcp.Accept:
		a.decision = refused
		return refuse(codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_REJECTED,
			"the call of %s/%s needs an approval and did not get it: the answer was %s; it was not made", a.Server.ID, n.tool.Name, answer.Action)
	case !a.isUnchanged():
		a.decision = refused
		return refuse(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_DEFINITION_CHANGED,
			"the configuration of MCP server %[1]s has changed since the call of %[1]s/%[2]s began; it was not made", a.Server.ID, n.tool.Name)
	}
	a.approved, a.began = n.tool.Hash, time.Now() // the time of the call begins with the approval
	return nil
}

func lowerName(name, prefix string) string { return strings.ToLower(strings.TrimPrefix(name, prefix)) }

// shownInput returns the input of a call for a person, cut if it is long.
func shownInput(input string) string {
	if len(input) <= maxShownInput {
		return input
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(input[:maxShownInput], ""), len(input))
}
