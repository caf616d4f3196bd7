package api

import (
	"cmp"
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/pin"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
	"pawl.dev/services/inproc"
	"pawl.dev/services/page"
)

const (
	// defaultTools is the default page size of ListTools.
	defaultTools = 200
	// maxPageBytes bounds the definitions on a page that has more than one. gRPC clients accept 4 MiB by default.
	maxPageBytes = 2 << 20
)

// ListTools implements McpPoolService.
func (s *Server) ListTools(ctx context.Context, req *mcppoolv1.ListToolsRequest) (*mcppoolv1.ListToolsResponse, error) {
	p, server, err := s.findUsable(ctx, req.GetMcpId())
	if err != nil {
		return nil, err
	}
	scope := strings.Join([]string{"ListTools", p.Sub, server.UID, req.GetQuery()}, "\x00")
	if req.GetQuarantined() {
		scope = "Quarantined" + scope
	}
	after, err := page.Decode(scope, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	all, review, err := s.Caller.List(ctx, conn.Use{Server: server, User: p.Sub, Session: req.GetSessionId()}, req.GetQuarantined())
	if err != nil {
		return nil, err
	}
	inproc.Share(ctx) // the response is not changed after the return
	resp := &mcppoolv1.ListToolsResponse{
		PoolId: s.ID, QuarantinedCount: uint32(review.Held()),
		LateRelease: req.GetSessionId() != "" && s.Pool.MayReleaseLate(server, p.Sub),
	}
	list, err := listingOf(all, listingKey{server, review, req.GetQuarantined(), server.RulesFor(p.Sub)}, p.Sub)
	if err != nil {
		return nil, err
	}
	if !req.GetQuarantined() {
		resp.CatalogHash = list.hash
	}
	if req.GetNoTools() {
		return resp, nil
	}
	last, more, err := s.addPage(resp, req, server, list, string(after))
	if more {
		resp.NextPageToken = page.Encode(scope, []byte(last))
	}
	return resp, err
}

// addPage adds a page of the tools that come after a name. It returns the name of the last one, and whether there may be more.
func (s *Server) addPage(
	resp *mcppoolv1.ListToolsResponse, req *mcppoolv1.ListToolsRequest, server *registry.Server, list *listing, after string,
) (last string, more bool, err error) {
	size := int(cmp.Or(req.GetPageSize(), defaultTools))
	words := strings.Fields(strings.ToLower(req.GetQuery()))
	n, bytes := 0, 0
	for i := list.after(after); i < len(list.tools); i++ {
		tool := list.tools[i]
		if !tool.Matches(words) {
			continue
		}
		bytes += len(tool.Raw)
		if n == size || n > 0 && bytes > maxPageBytes {
			return last, true, nil
		}
		switch {
		case req.GetQuarantined():
			if err := s.addQuarantined(resp, server, tool, list.messages[i]); err != nil {
				return "", false, err
			}
		case req.GetExact():
			resp.DefinitionsJson = append(resp.DefinitionsJson, tool.Raw)
		default:
			resp.Tools = append(resp.Tools, list.messages[i])
		}
		n, last = n+1, tool.Name
	}
	return last, false, nil
}

// addQuarantined adds a tool to a page of quarantined tools.
func (s *Server) addQuarantined(resp *mcppoolv1.ListToolsResponse, server *registry.Server, tool *catalog.Tool, message *commonv1.Tool) error {
	q := &mcppoolv1.QuarantinedTool{Tool: message, DefinitionJson: tool.Raw}
	approved, known, err := s.Pins.Approved(server, tool.Name)
	if err != nil {
		return errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_STORAGE_ERROR, "%w", err)
	}
	if known {
		q.ApprovedDefinitionJson, q.ApprovedDefinitionHash = approved.Definition, approved.Hash
		q.ApproveTime, q.ApprovedBy = timestamppb.New(approved.Time), approved.By
		q.Changes = pin.Diff(approved.Definition, tool.Raw)
	}
	resp.QuarantinedTools = append(resp.QuarantinedTools, q)
	return nil
}

// ApproveTool implements McpPoolService.
func (s *Server) ApproveTool(ctx context.Context, req *mcppoolv1.ApproveToolRequest) (*mcppoolv1.ApproveToolResponse, error) {
	p, server, err := s.find(ctx, req.GetMcpId())
	if err != nil {
		return nil, err
	}
	switch {
	case server.Owner != p.Sub && !p.IsOperator():
		return nil, denied("MCP server %s is shared by all users: only an operator may approve its tools", server.ID)
	case server.Disabled:
		return nil, disabled(server)
	}
	if err := s.checkWritable(); err != nil {
		return nil, err
	}
	tool, err := s.Caller.Approve(ctx, conn.Use{Server: server, User: p.Sub}, req.GetName(), req.GetDefinitionHash())
	if err != nil {
		return nil, err
	}
	policy, _ := server.PolicyFor(p.Sub, tool.Name, tool.Hints)
	return &mcppoolv1.ApproveToolResponse{Tool: toolMessage(server, tool, policy)}, nil
}

func toolMessage(server *registry.Server, t *catalog.Tool, policy registry.Policy) *commonv1.Tool {
	return &commonv1.Tool{
		Id: server.ID + "/" + t.Name, McpId: server.ID, Name: t.Name, Title: t.Title, Description: t.Description,
		InputSchemaJson: t.Input, OutputSchemaJson: t.Output, Effect: policy.Effect, Idempotent: policy.Idempotent,
		RiskFloor: policy.RiskFloor, DefinitionHash: t.Hash, ConfigRevision: server.ConfigRevision(),
	}
}
