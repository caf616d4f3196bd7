package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
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
	page, exact, next, err := list(ctx, s, req, mcp.Resources, call.ReadResourceInfo, (*mcppoolv1.ResourceInfo).GetUri)
	return &mcppoolv1.ListResourcesResponse{Resources: page, EntriesJson: exact, NextPageToken: next}, err
}

// ListResourceTemplates implements McpPoolService.
func (s *Server) ListResourceTemplates(ctx context.Context, req *mcppoolv1.ListResourceTemplatesRequest) (*mcppoolv1.ListResourceTemplatesResponse, error) {
	page, exact, next, err := list(ctx, s, req, mcp.ResourceTemplates, call.ReadResourceTemplate, (*mcppoolv1.ResourceTemplate).GetUriTemplate)
	return &mcppoolv1.ListResourceTemplatesResponse{ResourceTemplates: page, EntriesJson: exact, NextPageToken: next}, err
}

// ListPrompts implements McpPoolService.
func (s *Server) ListPrompts(ctx context.Context, req *mcppoolv1.ListPromptsRequest) (*mcppoolv1.ListPromptsResponse, error) {
	page, exact, next, err := list(ctx, s, req, mcp.Prompts, call.ReadPrompt, (*mcppoolv1.Prompt).GetName)
	return &mcppoolv1.ListPromptsResponse{Prompts: page, EntriesJson: exact, NextPageToken: next}, err
}

// ReadResource implements McpPoolService.
func (s *Server) ReadResource(ctx context.Context, req *mcppoolv1.ReadResourceRequest) (*mcppoolv1.ReadResourceResponse, error) {
	use, err := s.use(ctx, req.GetMcpId())
	if err != nil {
		return nil, err
	}
	return s.Caller.Read(ctx, use, req.GetUri(), req.GetExact())
}

// GetPrompt implements McpPoolService.
func (s *Server) GetPrompt(ctx context.Context, req *mcppoolv1.GetPromptRequest) (*mcppoolv1.GetPromptResponse, error) {
	use, err := s.use(ctx, req.GetMcpId())
	if err != nil {
		return nil, err
	}
	return s.Caller.Prompt(ctx, use, req.GetName(), req.GetArguments(), req.GetExact())
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
	GetExact() bool
}

// list returns one page of a server's list, in the server's order, and the token of the next page: empty after the last one. If the client wants the
// exact entries, they are in exact, and out is empty.
func list[T proto.Message](ctx context.Context, s *Server, req listRequest, of mcp.List, read func(json.RawMessage) (T, error), id func(T) string) (out []T, exact []string, next string, err error) {
	use, err := s.use(ctx, req.GetMcpId())
	if err != nil {
		return nil, nil, "", err
	}
	entries, err := s.Caller.ListOffers(ctx, use, of)
	if err != nil {
		return nil, nil, "", err
	}
	scope := strings.Join([]string{of.String(), use.User, use.Server.UID}, "\x00")
	hasID := func(entry json.RawMessage, want string) bool {
		m, err := read(entry)
		return err == nil && id(m) == want
	}
	start, err := startOf(scope, req.GetPageToken(), entries, hasID)
	if err != nil {
		return nil, nil, "", err
	}
	bytes, last := 0, ""
	for i, entry := range entries[start:] {
		bytes += len(entry)
		if i == int(cmp.Or(req.GetPageSize(), defaultOffers)) || i > 0 && bytes > maxPageBytes {
			return out, exact, page.Encode(scope, fmt.Appendf(nil, "%d %s", start+i, last)), nil
		}
		m, err := read(entry)
		if err != nil {
			return nil, nil, "", errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MCP_PROTOCOL_ERROR,
				"entry %d of the server's list cannot be used: %w", start+i+1, err)
		}
		if last = id(m); req.GetExact() {
			exact = append(exact, strings.ToValidUTF8(string(entry), "\uFFFD"))
		} else {
			out = append(out, m)
		}
	}
	return out, exact, "", nil
}

// startOf returns the index at which the page of a token begins: after the last entry of the previous page, even if that entry has moved.
func startOf(scope, token string, entries []json.RawMessage, hasID func(json.RawMessage, string) bool) (int, error) {
	key, err := page.Decode(scope, token)
	if err != nil || key == nil {
		return 0, err
	}
	index, last, _ := strings.Cut(string(key), " ")
	at, err := strconv.Atoi(index)
	if err == nil && at > 0 && at <= len(entries) && hasID(entries[at-1], last) {
		return at, nil
	}
	i := slices.IndexFunc(entries, func(entry json.RawMessage) bool { return hasID(entry, last) })
	if i < 0 {
		return 0, invalid("page_token", "the server's list has changed, and the last entry of the previous page is gone; start again without page_token")
	}
	return i + 1, nil
}
