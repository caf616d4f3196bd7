package runner

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/toolcall"
)

// toolset holds the tools of a task.
type toolset struct {
	loaded *storagev1.ToolsLoaded
	// lists holds the servers' lists, in order; usable holds those with tools to use, and late those that were not done when the toolset was made.
	lists, usable, late []*toolcall.List
}

// toolset returns the session's tools, which it loads once. It skips servers that cannot be used; the event log names them.
func (s *Session) toolset(ctx context.Context) (*toolset, error) {
	select {
	case s.loading <- struct{}{}:
		defer func() { <-s.loading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	loaded := s.tools
	s.mu.Unlock()
	switch {
	case loaded != nil && !loaded.outdated():
		return loaded, nil
	case loaded != nil && !loaded.cutOff():
		return s.setTools(assemble(loaded.lists)), nil
	}
	ids, err := s.servers(ctx)
	if err != nil {
		return nil, err
	}
	found := assemble(s.r.lister.ListAll(ctx, s.head.GetUserSub(), ids, s.listTools))
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.setTools(found), nil
}

// setTools replaces the session's tools. It forgets the planner's context, which has the old tools.
func (s *Session) setTools(t *toolset) *toolset {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools, s.base = t, ""
	return t
}

// dropTools makes the next use load the tools again, because a definition or a server's replica has changed.
func (s *Session) dropTools() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools, s.base = nil, ""
	clear(s.ahead)
}

// servers returns the ids of the task's servers. By default these are all active servers except those with only_when_named.
func (s *Session) servers(ctx context.Context) ([]string, error) {
	if ids := s.head.GetMcpIds(); len(ids) > 0 {
		return ids, nil
	}
	var ids []string
	req := &mcppoolv1.ListMcpServersRequest{PageSize: 1000, ActiveOnly: true}
	for {
		page, err := askPool(ctx, s, s.r.cfg.PoolPatience, func(ctx context.Context, o ...grpc.CallOption) (*mcppoolv1.ListMcpServersResponse, error) {
			return s.r.pool.ListMcpServers(ctx, req, o...)
		})
		if err != nil {
			return nil, err
		}
		for _, server := range page.GetMcpServers() {
			if !server.GetOnlyWhenNamed() {
				ids = append(ids, server.GetId())
			}
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return ids, nil
		}
	}
}

// serverPatience is how much longer than PoolPatience a listing may take, because the pool explains better why a server does not start.
const serverPatience = 30 * time.Second

// listTools reads the tools of one server.
func (s *Session) listTools(ctx context.Context, l *toolcall.List) error {
	return s.r.lister.Read(ctx, l, s.id, func(ctx context.Context, req *mcppoolv1.ListToolsRequest) (*mcppoolv1.ListToolsResponse, error) {
		var at peer.Peer
		page, err := askPool(ctx, s, s.r.cfg.PoolPatience+serverPatience, func(ctx context.Context, o ...grpc.CallOption) (*mcppoolv1.ListToolsResponse, error) {
			return s.r.pool.ListTools(s.toServer(ctx, l.ID), req, append(o, grpc.Peer(&at))...)
		})
		if err != nil {
			return nil, err
		}
		if at.Addr != nil && page.GetPoolId() != "" {
			s.r.poolAddrs.Set(page.GetPoolId(), at.Addr.String())
		}
		s.noteLocation(location{page.GetPoolId(), l.ID})
		return page, nil
	})
}

// askPool makes a call that only reads. While the MCP pool cannot be reached, it waits within limit and calls again.
func askPool[T any](ctx context.Context, s *Session, limit time.Duration, call func(context.Context, ...grpc.CallOption) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		res, err := callWhenReachable(ctx, s, "MCP pool", call)
		// NETWORK_ERROR means that the connection broke; the pool itself never returns it.
		if err == nil || errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR || !sleep(ctx, 100*time.Millisecond) {
			return res, err
		}
	}
}

// refreshTool returns the Run that lists the tools again, which the refused call has dropped, and finds the current description of the step's
// tool.
func (s *Session) refreshTool(st *storagev1.ActiveStep) Run {
	return func(ctx context.Context, emit func(flow.Input)) {
		out := flow.ToolRefreshed{Ordinal: st.GetOrdinal()}
		tools, err := s.toolsetWith(ctx, st.GetToolId())
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			out.Err = errorNote(fmt.Errorf("listing the tools again: %w", err))
		case tools.find(st.GetToolId()) == nil:
			out.Err = s.whyMissing(ctx, tools, st.GetToolId())
		default:
			tool := tools.find(st.GetToolId())
			current := tools.describe(tool)
			out.Tool = &current
			_, out.Problem = toolcall.CheckInput(tool, st.GetInputJson())
		}
		emit(out)
	}
}

// whyMissing returns why a tool is not in the toolset.
func (s *Session) whyMissing(ctx context.Context, t *toolset, toolID string) *storagev1.ErrorNote {
	mcpID, name := flow.ToolName(toolID)
	for _, skipped := range t.loaded.GetSkipped() {
		if skipped.GetMcpId() == mcpID {
			return &storagev1.ErrorNote{ErrMsg: "the tool " + toolID + " cannot be used: " + skipped.GetMessage(), Reason: skipped.GetReason()}
		}
	}
	page, err := askPool(ctx, s, s.r.cfg.PoolPatience+serverPatience, func(ctx context.Context, o ...grpc.CallOption) (*mcppoolv1.ListToolsResponse, error) {
		return s.r.pool.ListTools(s.toServer(ctx, mcpID), &mcppoolv1.ListToolsRequest{McpId: mcpID, Query: name, PageSize: 1000, Quarantined: true}, o...)
	})
	isTool := func(q *mcppoolv1.QuarantinedTool) bool { return q.GetTool().GetName() == name }
	if err == nil && slices.ContainsFunc(page.GetQuarantinedTools(), isTool) {
		return errorNote(errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_TOOL_QUARANTINED,
			"the tool %[1]s/%[2]s is quarantined, because its definition is not the one that was approved; `pawl mcp tools %[1]s --quarantined` "+
				"shows what changed, and `pawl mcp approve %[1]s %[2]s` approves it", mcpID, name))
	}
	return errorNote(toolGone(toolID))
}

// describe converts a tool of the toolset for the flow.
func (t *toolset) describe(tool *commonv1.Tool) flow.Tool {
	poolID := "" // of the replica that keeps the calls of the server
	if l := t.list(tool.GetMcpId()); l != nil {
		poolID = l.PoolID
	}
	return flow.Tool{
		Effect: tool.GetEffect(), Idempotent: tool.GetIdempotent(), RiskFloor: tool.GetRiskFloor(), DefinitionHash: tool.GetDefinitionHash(),
		ConfigRevision: tool.GetConfigRevision(), PoolID: poolID,
	}
}
