package runner

import (
	"context"
	"fmt"
	"slices"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/toolcall"
)

// assemble makes a toolset of the lists that are done. It skips servers that cannot be used, or not yet; the event log names them.
func assemble(lists []*toolcall.List) *toolset {
	set := &toolset{loaded: &storagev1.ToolsLoaded{}, lists: lists}
	for _, l := range lists {
		switch {
		case !l.Done():
			set.late = append(set.late, l)
			set.loaded.Skipped = append(set.loaded.Skipped, &storagev1.Skipped{
				McpId: l.ID, Reason: commonv1.ErrorReason_ERROR_REASON_TIMEOUT,
				Message: fmt.Sprintf("it has not listed its tools within %s, now or the last time; the task continues without them, and adds them when they arrive", toolcall.SlowAfter),
			})
			continue
		case l.Err != nil:
			e := errs.From(l.Err).Public()
			set.loaded.Skipped = append(set.loaded.Skipped, &storagev1.Skipped{McpId: l.ID, Reason: e.Reason, Message: validUTF8(e.Message)})
			continue
		}
		set.loaded.McpIds = append(set.loaded.McpIds, l.ID)
		set.usable = append(set.usable, l)
		set.loaded.ToolCount += uint32(len(l.Catalog.GetTools()))
	}
	return set
}

// list returns the list of a server that can be used, or nil.
func (t *toolset) list(mcpID string) *toolcall.List {
	if i := slices.IndexFunc(t.usable, func(l *toolcall.List) bool { return l.ID == mcpID }); i >= 0 {
		return t.usable[i]
	}
	return nil
}

// find returns the tool with an id, or nil.
func (t *toolset) find(id string) *commonv1.Tool {
	mcpID, _ := flow.ToolName(id)
	if l := t.list(mcpID); l != nil {
		return l.Catalog.Find(id)
	}
	return nil
}

// giveTo puts the tools of some servers into the planner's context of the task; those of all servers if none is named.
func (t *toolset) giveTo(c *plannerv1.TaskContext, mcpIDs ...string) {
	c.Tools, c.Catalogs = nil, nil
	for _, l := range t.usable {
		switch {
		case len(l.Catalog.GetTools()) == 0, len(mcpIDs) > 0 && !slices.Contains(mcpIDs, l.ID):
		case l.Catalog.GetHash() == "":
			c.Tools = append(c.Tools, l.Catalog.GetTools()...)
		default:
			c.Catalogs = append(c.Catalogs, l.Catalog.Catalog)
		}
	}
}

// outdated reports whether a late list became done after the toolset was made.
func (t *toolset) outdated() bool { return slices.ContainsFunc(t.late, (*toolcall.List).Done) }

// cutOff reports whether a late list has failed because its context ended.
func (t *toolset) cutOff() bool {
	return slices.ContainsFunc(t.late, func(l *toolcall.List) bool { return l.Done() && l.CutOff })
}

// lateFor returns the late list that may hold a tool, or nil.
func (t *toolset) lateFor(toolID string) *toolcall.List {
	mcpID, _ := flow.ToolName(toolID)
	if i := slices.IndexFunc(t.late, func(l *toolcall.List) bool { return l.ID == mcpID }); i >= 0 {
		return t.late[i]
	}
	return nil
}

// toolsetWith returns the toolset after waiting for a tool's server, even if the server is slow. The tool may still be missing.
func (s *Session) toolsetWith(ctx context.Context, toolID string) (*toolset, error) {
	t, err := s.toolset(ctx)
	if err != nil {
		return nil, err
	}
	if l := t.lateFor(toolID); l != nil {
		toolcall.AwaitAny(ctx, []*toolcall.List{l})
		return s.toolset(ctx)
	}
	return t, nil
}
