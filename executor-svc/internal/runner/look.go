package runner

import (
	"context"
	"fmt"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// outdated says whether a call was refused because of what its tool is by now: the session's tools are not those of the pool. An
// input was checked against the schema that the session knows, so that one is another by now where the pool refuses the input.
func outdated(out flow.Called) bool {
	switch out.Err.GetReason() {
	case commonv1.ErrorReason_ERROR_REASON_DEFINITION_CHANGED, commonv1.ErrorReason_ERROR_REASON_TOOL_NOT_FOUND,
		commonv1.ErrorReason_ERROR_REASON_TOOL_QUARANTINED:
		return true
	case commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT:
		return out.Outcome == commonv1.Outcome_OUTCOME_NOT_EXECUTED
	}
	return false
}

// look lists the tools again, for a step whose tool is not as it was when it was decided on.
func (s *Session) look(st *storagev1.ActiveStep) Run {
	return func(ctx context.Context, emit func(flow.Input)) {
		out := flow.Looked{Ordinal: st.GetOrdinal()}
		tools, err := s.with(ctx, st.GetToolId())
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			out.Err = note(fmt.Errorf("listing the tools again: %w", err))
		case tools.byID[st.GetToolId()] == nil:
			out.Err = tools.missing(st.GetToolId())
		default:
			tool := tools.byID[st.GetToolId()]
			out.Tool, out.Problem = s.asListed(tool), problem(tool, st.GetInputJson())
		}
		emit(out)
	}
}

// missing says why a tool is not there.
func (t *toolset) missing(toolID string) *storagev1.ErrorNote {
	mcpID, _ := flow.ToolName(toolID)
	for _, skipped := range t.loaded.GetSkipped() {
		if skipped.GetMcpId() == mcpID {
			return &storagev1.ErrorNote{ErrMsg: "the tool " + toolID + " cannot be used: " + skipped.GetMessage(), Reason: skipped.GetReason()}
		}
	}
	return note(gone(toolID))
}

// asListed is what the pool said of a tool when it was listed last.
func (s *Session) asListed(tool *commonv1.Tool) *flow.Tool {
	now := &flow.Tool{
		Effect: tool.GetEffect(), Idempotent: tool.GetIdempotent(), RiskFloor: tool.GetRiskFloor(), DefinitionHash: tool.GetDefinitionHash(),
		ConfigRevision: tool.GetConfigRevision(),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tools != nil {
		now.PoolID = s.tools.poolIDs[tool.GetMcpId()]
	}
	return now
}
