package runner

import (
	"context"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// nextWithLate asks for the next step once more where there was none while slow servers were missing: whenever tools of one have come,
// until there is a step, or no server is missing. One that hangs keeps no task that another one's tools are enough for. A step that
// can be made is made without them, and a task that has come to something ends without them where the planner says so.
func (s *Session) nextWithLate(
	ctx context.Context, c *plannerv1.TaskContext, tools *toolset, out flow.Planned, begun *flow.Begun,
) (flow.Planned, *toolset) {
	for !settled(c, out) && len(tools.late) > 0 {
		s.log.InfoContext(ctx, "the planner knows no step with the tools that are there; waiting for slow MCP servers", "missing", len(tools.late))
		awaitAny(ctx, tools.late)
		more, err := s.toolset(ctx)
		if err != nil || ctx.Err() != nil {
			break
		}
		came := len(more.tools) != len(tools.tools)
		if tools = more; !came {
			continue // no tools came, but why they do not
		}
		c.Tools = tools.tools
		before := out.Usage
		out = s.next(ctx, c, tools, begun)
		out.Usage = sum(before, out.Usage)
	}
	return out, tools
}

// settled says whether more tools are not waited for.
func settled(c *plannerv1.TaskContext, out flow.Planned) bool {
	done := out.Err == nil && out.CutShort == "" && len(c.GetHistory()) > 0
	return out.Step != nil || done
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
