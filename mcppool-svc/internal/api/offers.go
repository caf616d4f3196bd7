package api

import (
	"context"
	"encoding/json"
	"strings"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/call"
	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/mcp"
)

// use returns the caller's connection to a server for requests beside tool calls.
func (s *Server) use(ctx context.Context, id string) (conn.Use, error) {
	p, server, err := s.usable(ctx, id)
	return conn.Use{Server: server, User: p.Sub}, err
}

// list returns the raw entries of a list, and the scope of its page tokens.
func (s *Server) list(ctx context.Context, id string, list mcp.List) (entries []json.RawMessage, scope string, err error) {
	use, err := s.use(ctx, id)
	if err != nil {
		return nil, "", err
	}
	entries, err = s.caller.ListOffers(ctx, use, list)
	return entries, strings.Join([]string{list.String(), use.User, use.Server.UID}, "\x00"), err
}

// ListResources implements McpPoolService.
func (s *Server) ListResources(ctx context.Context, req *mcppoolv1.ListResourcesRequest) (*mcppoolv1.ListResourcesResponse, error) {
	entries, scope, err := s.list(ctx, req.GetMcpId(), mcp.Resources)
	if err != nil {
		return nil, err
	}
	l := listed[*mcppoolv1.ResourceInfo]{scope, entries, call.ReadResourceInfo, (*mcppoolv1.ResourceInfo).GetUri}
	resp := &mcppoolv1.ListResourcesResponse{}
	resp.Resources, resp.NextPageToken, err = l.page(req.GetPageToken(), req.GetPageSize())
	return resp, err
}

// ListResourceTemplates implements McpPoolService.
func (s *Server) ListResourceTemplates(ctx context.Context, req *mcppoolv1.ListResourceTemplatesRequest) (*mcppoolv1.ListResourceTemplatesResponse, error) {
	entries, scope, err := s.list(ctx, req.GetMcpId(), mcp.ResourceTemplates)
	if err != nil {
		return nil, err
	}
	l := listed[*mcppoolv1.ResourceTemplate]{scope, entries, call.ReadResourceTemplate, (*mcppoolv1.ResourceTemplate).GetUriTemplate}
	resp := &mcppoolv1.ListResourceTemplatesResponse{}
	resp.ResourceTemplates, resp.NextPageToken, err = l.page(req.GetPageToken(), req.GetPageSize())
	return resp, err
}

// ListPrompts implements McpPoolService.
func (s *Server) ListPrompts(ctx context.Context, req *mcppoolv1.ListPromptsRequest) (*mcppoolv1.ListPromptsResponse, error) {
	entries, scope, err := s.list(ctx, req.GetMcpId(), mcp.Prompts)
	if err != nil {
		return nil, err
	}
	l := listed[*mcppoolv1.Prompt]{scope, entries, call.ReadPrompt, (*mcppoolv1.Prompt).GetName}
	resp := &mcppoolv1.ListPromptsResponse{}
	resp.Prompts, resp.NextPageToken, err = l.page(req.GetPageToken(), req.GetPageSize())
	return resp, err
}

// ReadResource implements McpPoolService.
func (s *Server) ReadResource(ctx context.Context, req *mcppoolv1.ReadResourceRequest) (*mcppoolv1.ReadResourceResponse, error) {
	use, err := s.use(ctx, req.GetMcpId())
	if err != nil {
		return nil, err
	}
	return s.caller.Read(ctx, use, req.GetUri())
}

// GetPrompt implements McpPoolService.
func (s *Server) GetPrompt(ctx context.Context, req *mcppoolv1.GetPromptRequest) (*mcppoolv1.GetPromptResponse, error) {
	use, err := s.use(ctx, req.GetMcpId())
	if err != nil {
		return nil, err
	}
	return s.caller.Prompt(ctx, use, req.GetName(), req.GetArguments())
}

// Complete implements McpPoolService.
func (s *Server) Complete(ctx context.Context, req *mcppoolv1.CompleteRequest) (*mcppoolv1.CompleteResponse, error) {
	use, err := s.use(ctx, req.GetMcpId())
	if err != nil {
		return nil, err
	}
	return s.caller.Complete(ctx, use, mcp.Completion{
		Prompt: req.GetPrompt(), URITemplate: req.GetUriTemplate(), Argument: req.GetArgument(), Value: req.GetValue(), Context: req.GetContext(),
	})
}
