package clitest

import (
	"context"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

// Offers are the resources and prompts that every server of a Pool has.
type Offers struct {
	Resources []*mcppoolv1.ResourceInfo // listed one per page
	Templates []*mcppoolv1.ResourceTemplate
	Contents  map[string]*mcppoolv1.ReadResourceResponse // by address
	Prompts   []*mcppoolv1.Prompt
	OnPrompt  func(*mcppoolv1.GetPromptRequest) (*mcppoolv1.GetPromptResponse, error)
}

// ListResources lists one resource per page.
func (p *Pool) ListResources(_ context.Context, req *mcppoolv1.ListResourcesRequest) (*mcppoolv1.ListResourcesResponse, error) {
	if _, err := p.lookup(req.GetMcpId()); err != nil {
		return nil, err
	}
	for i, r := range p.Offers.Resources {
		if req.GetPageToken() == "" || i > 0 && p.Offers.Resources[i-1].GetUri() == req.GetPageToken() {
			list := &mcppoolv1.ListResourcesResponse{Resources: []*mcppoolv1.ResourceInfo{r}}
			if i+1 < len(p.Offers.Resources) {
				list.NextPageToken = r.GetUri()
			}
			return list, nil
		}
	}
	return &mcppoolv1.ListResourcesResponse{}, nil
}

// ListResourceTemplates lists templates.
func (p *Pool) ListResourceTemplates(_ context.Context, req *mcppoolv1.ListResourceTemplatesRequest) (*mcppoolv1.ListResourceTemplatesResponse, error) {
	_, err := p.lookup(req.GetMcpId())
	return &mcppoolv1.ListResourceTemplatesResponse{ResourceTemplates: p.Offers.Templates}, err
}

// ReadResource reads a resource.
func (p *Pool) ReadResource(_ context.Context, req *mcppoolv1.ReadResourceRequest) (*mcppoolv1.ReadResourceResponse, error) {
	if r := p.Offers.Contents[req.GetUri()]; r != nil {
		return r, nil
	}
	return nil, errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_RESOURCE_NOT_FOUND, "MCP server %s has no resource %q", req.GetMcpId(), req.GetUri())
}

// ListPrompts lists prompts.
func (p *Pool) ListPrompts(_ context.Context, req *mcppoolv1.ListPromptsRequest) (*mcppoolv1.ListPromptsResponse, error) {
	_, err := p.lookup(req.GetMcpId())
	return &mcppoolv1.ListPromptsResponse{Prompts: p.Offers.Prompts}, err
}

// GetPrompt calls the test's OnPrompt.
func (p *Pool) GetPrompt(_ context.Context, req *mcppoolv1.GetPromptRequest) (*mcppoolv1.GetPromptResponse, error) {
	return p.Offers.OnPrompt(req)
}
