package api

import (
	"context"

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

// ListResources implements McpPoolService.
func (s *Server) ListResources(ctx context.Context, req *mcppoolv1.ListResourcesRequest) (*mcppoolv1.ListResourcesResponse, error) {
	page, next, err := list(ctx, s, req, mcp.Resources, call.ReadResourceInfo, (*mcppoolv1.ResourceInfo).GetUri)
	return &mcppoolv1.ListResourcesResponse{Resources: page, NextPageToken: next}, err
}

// ListResourceTemplates implements McpPoolService.
func (s *Server) ListResourceTemplates(ctx context.Context, req *mcppoolv1.ListResourceTemplatesRequest) (*mcppoolv1.ListResourceTemplatesResponse, error) {
	page, next, err := list(ctx, s, req, mcp.ResourceTemplates, call.ReadResourceTemplate, (*mcppoolv1.ResourceTemplate).GetUriTemplate)
	return &mcppoolv1.ListResourceTemplatesResponse{ResourceTemplates: page, NextPageToken: next}, err
}

// ListPrompts implements McpPoolService.
func (s *Server) ListPrompts(ctx context.Context, req *mcppoolv1.ListPromptsRequest) (*mcppoolv1.ListPromptsResponse, error) {
	page, next, err := list(ctx, s, req, mcp.Prompts, call.ReadPrompt, (*mcppoolv1.Prompt).GetName)
	return &mcppoolv1.ListPromptsResponse{Prompts: page, NextPageToken: next}, err
}

// ReadResource implements McpPoolService.
func (s *Server) ReadResource(ctx context.Context, req *mcppoolv1.ReadResourceRequest) (*mcppoolv1.ReadResourceResponse, error) {
	use, err := s.use(ctx, req.GetMcpId())
	if err != nil {
		return nil, err
	}
	return s.Caller.Read(ctx, use, req.GetUri())
}

// GetPrompt implements McpPoolService.
func (s *Server) GetPrompt(ctx context.Context, req *mcppoolv1.GetPromptRequest) (*mcppoolv1.GetPromptResponse, error) {
	use, err := s.use(ctx, req.GetMcpId())
	if err != nil {
		return nil, err
	}
	return s.Caller.Prompt(ctx, use, req.GetName(), req.GetArguments())
}

// Complete implements McpPoolService.
func (s *Server) Complete(ctx context.Context, req *mcppoolv1.CompleteRequest) (*mcppoolv1.CompleteResponse, error) {
	use, err := s.use(ctx, req.GetMcpId())
	if err != nil {
		return nil, err
	}
	return s.Caller.Complete(ctx, use, mcp.Completion{
		Prompt: req.GetPrompt(), URITemplate: req.GetUriTemplate(), Argument: req.GetArgument(), Value: req.GetValue(), Context: req.GetContext(),
	})
}
