package runner

import (
	"context"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// nextWithLate asks for the next step once more where there was none while a slow server was missing: then its tools are waited for.
// A step that can be made is made without them, and a task that has come to something ends without them where the planner says so.
func (s *Session) nextWithLate(
	ctx context.Context, c *plannerv1.TaskContext, tools *toolset, before flow.Planned, begun *flow.Begun,
) (flow.Planned, *toolset) {
	done := before.Err == nil && before.CutShort == "" && len(c.GetHistory()) > 0
	if before.Step != nil || done || len(tools.late) == 0 {
		return before, tools
	}
	s.log.InfoContext(ctx, "the planner knows no step with the tools that are there; waiting for slow MCP servers", "missing", len(tools.late))
	all, err := s.whole(ctx, tools)
	switch {
	case err != nil:
		return before, tools
	case len(all.tools) == len(tools.tools):
		return before, all // no tools came, but why they do not
	}
	c.Tools = all.tools
	after := s.next(ctx, c, all, begun)
	after.Usage = sum(before.Usage, after.Usage)
	return after, all
}

func sum(a, b *storagev1.Usage) *storagev1.Usage {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return &storagev1.Usage{
		InputTokens: a.GetInputTokens() + b.GetInputTokens(), OutputTokens: a.GetOutputTokens() + b.GetOutputTokens(), ModelCalls: a.GetModelCalls() + b.GetModelCalls(),
	}
}
