package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/call"
	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/services/errs"
	"pawl.dev/services/page"
)

// use returns the conn.Use for a request other than a tool call.
func (s *Server) use(ctx context.Context, id string) (conn.Use, error) {
	p, server, err := s.findUsable(ctx, id)
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

// defaultOffers is the default page size of lists other than tools.
const defaultOffers = 100

// listRequest is a request for a page of a server's list.
type listRequest interface {
	GetMcpId() string
	GetPageToken() string
	GetPageSize() int32
}

// list returns one page of a server's list, in the server's order.
func list[T proto.Message](ctx context.Context, s *Server, req listRequest, of mcp.List, read func(json.RawMessage) (T, error), id func(T) string) ([]T, string, error) {
	use, err := s.use(ctx, req.GetMcpId())
	if err != nil {
		return nil, "", err
	}
	entries, err := s.Caller.ListOffers(ctx, use, of)
	if err != nil {
		return nil, "", err
	}
	l := pagedList[T]{strings.Join([]string{of.String(), use.User, use.Server.UID}, "\x00"), entries, read, id}
	return l.page(req.GetPageToken(), int(cmp.Or(req.GetPageSize(), defaultOffers)))
}

// pagedList is a server's list that clients read page by page.
type pagedList[T proto.Message] struct {
	scope   string
	entries []json.RawMessage
	read    func(json.RawMessage) (T, error)
	id      func(T) string
}

// page returns the entries of one page, and the token of the next page: empty after the last one.
func (l pagedList[T]) page(token string, size int) (out []T, next string, err error) {
	start, err := l.start(token)
	if err != nil {
		return nil, "", err
	}
	bytes := 0
	for i := start; i < len(l.entries); i++ {
		bytes += len(l.entries[i])
		if len(out) == size || len(out) > 0 && bytes > maxPageBytes {
			return out, page.Encode(l.scope, fmt.Appendf(nil, "%d %s", i, l.id(out[len(out)-1]))), nil
		}
		entry, err := l.read(l.entries[i])
		if err != nil {
			return nil, "", errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MCP_PROTOCOL_ERROR,
				"entry %d of the server's list cannot be used: %w", i+1, err)
		}
		out = append(out, entry)
	}
	return out, "", nil
}

// start returns the index at which the page of a token begins: after the last entry of the previous page, even if that entry has moved.
func (l pagedList[T]) start(token string) (int, error) {
	key, err := page.Decode(l.scope, token)
	if err != nil || key == nil {
		return 0, err
	}
	index, last, _ := strings.Cut(string(key), " ")
	at, err := strconv.Atoi(index)
	if err == nil && at > 0 && at <= len(l.entries) && l.hasID(l.entries[at-1], last) {
		return at, nil
	}
	for i, entry := range l.entries {
		if l.hasID(entry, last) {
			return i + 1, nil
		}
	}
	return 0, invalid("page_token", "the server's list has changed, and the last entry of the previous page is gone; start again without page_token")
}

func (l pagedList[T]) hasID(entry json.RawMessage, id string) bool {
	m, err := l.read(entry)
	return err == nil && l.id(m) == id
}
