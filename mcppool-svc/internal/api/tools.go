package api

import (
	"context"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/spec"
	"pawl.dev/services/page"
)

// defaultTools is the page size of ListTools where the caller names none.
const defaultTools = 200

// ListTools implements McpPoolService.
func (s *Server) ListTools(ctx context.Context, req *mcppoolv1.ListToolsRequest) (*mcppoolv1.ListToolsResponse, error) {
	p, server, err := s.usable(ctx, req.GetMcpId())
	if err != nil {
		return nil, err
	}
	scope := strings.Join([]string{"ListTools", p.Sub, server.UID, req.GetQuery()}, "\x00")
	after, err := page.Decode(scope, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	all, err := s.caller.List(ctx, conn.Use{Server: server, User: p.Sub, Session: req.GetSessionId()})
	if err != nil {
		return nil, err
	}
	size := int(req.GetPageSize())
	if size == 0 {
		size = defaultTools
	}
	words := strings.Fields(strings.ToLower(req.GetQuery()))
	resp := &mcppoolv1.ListToolsResponse{PoolId: s.id}
	for _, tool := range all.After(string(after)) {
		if !tool.Matches(words) {
			continue
		}
		if len(resp.Tools) == size {
			resp.NextPageToken = page.Encode(scope, []byte(resp.Tools[size-1].GetName()))
			break
		}
		resp.Tools = append(resp.Tools, toolMessage(server, tool))
	}
	return resp, nil
}

func toolMessage(server *spec.Server, t *catalog.Tool) *commonv1.Tool {
	policy := server.Judge(t.Name, t.Hints)
	return &commonv1.Tool{
		Id: server.ID + "/" + t.Name, McpId: server.ID, Name: t.Name, Title: t.Title, Description: t.Description,
		InputSchemaJson: t.Input, OutputSchemaJson: t.Output, Effect: policy.Effect, Idempotent: policy.Idempotent,
		RiskFloor: policy.RiskFloor, DefinitionHash: t.Hash, ConfigRevision: server.ConfigRevision(),
	}
}
