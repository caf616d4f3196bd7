package clitest

import (
	"context"
	"maps"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

// Pool is a fake MCP pool. It keeps servers in memory; its fields define their tools and calls.
type Pool struct {
	mcppoolv1.UnimplementedMcpPoolServiceServer

	Tools  map[string][]*commonv1.Tool // by server
	Broken map[string]string           // servers that cannot be connected to, and why
	OnCall func(*mcppoolv1.CallToolRequest, func(*mcppoolv1.CallToolResponse) error) error
	// OnGet may change the result of GetMcpServer; may be nil.
	OnGet func(*mcppoolv1.McpServer)
	// OnAnswer and OnCancel receive the requests of AnswerCall and CancelCall; they may be nil.
	OnAnswer func(*mcppoolv1.AnswerCallRequest) error
	OnCancel func(*mcppoolv1.CancelCallRequest)
	// Quarantined are tools that wait for an approval, by server.
	Quarantined map[string][]*mcppoolv1.QuarantinedTool
	// Reports and Logs are the results of TestMcpServer and GetMcpServerLog, by server.
	Reports map[string]*mcppoolv1.TestMcpServerResponse
	Logs    map[string]*mcppoolv1.GetMcpServerLogResponse
	// Offers are the servers' resources and prompts.
	Offers Offers
	// Deny refuses registrations, as for callers who are not operators.
	Deny bool

	mu      sync.Mutex // guards the fields below
	servers map[string]*mcppoolv1.McpServer
	Calls   []*mcppoolv1.CallToolRequest
	Updates []*mcppoolv1.UpdateMcpServerRequest
	// Approved are the hashes that were approved.
	Approved []string
	// LoggedIn records the login requests. LoginAddress replaces the example authorization URL.
	LoggedIn     []string
	LoginAddress string
	// WantLogin makes all servers require a login.
	WantLogin bool
}

// NewPool returns a Pool with these servers.
func NewPool(servers ...*mcppoolv1.McpServer) *Pool {
	p := &Pool{servers: map[string]*mcppoolv1.McpServer{}}
	for _, s := range servers {
		p.servers[s.GetId()] = s
	}
	return p
}

// Register implements Registrar.
func (p *Pool) Register(r grpc.ServiceRegistrar) { mcppoolv1.RegisterMcpPoolServiceServer(r, p) }

// Server returns the server with that id, or nil.
func (p *Pool) Server(id string) *mcppoolv1.McpServer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.servers[id]
}

// lookup returns a copy of a server.
func (p *Pool) lookup(id string) (*mcppoolv1.McpServer, error) {
	return p.change(id, func(*mcppoolv1.McpServer) {})
}

// change changes a server and returns a copy of it.
func (p *Pool) change(id string, change func(*mcppoolv1.McpServer)) (*mcppoolv1.McpServer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.servers[id]
	if s == nil {
		return nil, errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_FOUND, "there is no MCP server %q", id)
	}
	change(s)
	return proto.CloneOf(s), nil
}

// CreateMcpServer registers a server.
func (p *Pool) CreateMcpServer(_ context.Context, req *mcppoolv1.CreateMcpServerRequest) (*mcppoolv1.McpServer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Deny {
		return nil, errs.New(codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED, "only operators register such servers")
	}
	s := proto.CloneOf(req.GetMcpServer())
	if s.Id = req.GetMcpServerId(); p.servers[s.GetId()] != nil {
		return nil, errs.New(codes.AlreadyExists, commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS, "there is an MCP server %q already", s.GetId())
	}
	p.servers[s.GetId()] = s
	return proto.CloneOf(s), nil
}

// GetMcpServer returns a server.
func (p *Pool) GetMcpServer(_ context.Context, req *mcppoolv1.GetMcpServerRequest) (*mcppoolv1.McpServer, error) {
	s, err := p.lookup(req.GetId())
	if p.OnGet != nil && err == nil {
		p.OnGet(s)
	}
	return s, err
}

// ActivateMcpServer activates a server.
func (p *Pool) ActivateMcpServer(_ context.Context, req *mcppoolv1.ActivateMcpServerRequest) (*mcppoolv1.McpServer, error) {
	return p.change(req.GetId(), func(s *mcppoolv1.McpServer) { s.Active = true })
}

// DeactivateMcpServer deactivates a server.
func (p *Pool) DeactivateMcpServer(_ context.Context, req *mcppoolv1.DeactivateMcpServerRequest) (*mcppoolv1.McpServer, error) {
	return p.change(req.GetId(), func(s *mcppoolv1.McpServer) { s.Active = false })
}

// DeleteMcpServer removes a server.
func (p *Pool) DeleteMcpServer(_ context.Context, req *mcppoolv1.DeleteMcpServerRequest) (*mcppoolv1.DeleteMcpServerResponse, error) {
	_, err := p.change(req.GetId(), func(s *mcppoolv1.McpServer) { delete(p.servers, s.GetId()) })
	return &mcppoolv1.DeleteMcpServerResponse{}, err
}

// ListMcpServers lists servers by id.
func (p *Pool) ListMcpServers(_ context.Context, req *mcppoolv1.ListMcpServersRequest) (*mcppoolv1.ListMcpServersResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := &mcppoolv1.ListMcpServersResponse{}
	for _, id := range slices.Sorted(maps.Keys(p.servers)) {
		if s := p.servers[id]; s.GetActive() || !req.GetActiveOnly() {
			list.McpServers = append(list.McpServers, proto.CloneOf(s))
		}
	}
	return list, nil
}

// ListTools lists the tools of a server.
func (p *Pool) ListTools(_ context.Context, req *mcppoolv1.ListToolsRequest) (*mcppoolv1.ListToolsResponse, error) {
	if _, err := p.lookup(req.GetMcpId()); err != nil {
		return nil, err
	}
	if p.WantLogin {
		return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_LOGIN_REQUIRED, "MCP server %s wants a login", req.GetMcpId())
	}
	if why := p.Broken[req.GetMcpId()]; why != "" {
		return nil, errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_UNAVAILABLE, "%s", why)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	held := p.Quarantined[req.GetMcpId()]
	list := &mcppoolv1.ListToolsResponse{QuarantinedCount: uint32(len(held))}
	if req.GetQuarantined() {
		list.QuarantinedTools = held
	} else {
		list.Tools = p.Tools[req.GetMcpId()]
	}
	return list, nil
}

// TestMcpServer returns the test's report.
func (p *Pool) TestMcpServer(_ context.Context, req *mcppoolv1.TestMcpServerRequest) (*mcppoolv1.TestMcpServerResponse, error) {
	if _, err := p.lookup(req.GetId()); err != nil {
		return nil, err
	}
	return p.Reports[req.GetId()], nil
}

// GetMcpServerLog returns the test's log.
func (p *Pool) GetMcpServerLog(_ context.Context, req *mcppoolv1.GetMcpServerLogRequest) (*mcppoolv1.GetMcpServerLogResponse, error) {
	if _, err := p.lookup(req.GetId()); err != nil {
		return nil, err
	}
	return p.Logs[req.GetId()], nil
}

// ApproveTool approves a quarantined tool whose definition has the request's hash.
func (p *Pool) ApproveTool(_ context.Context, req *mcppoolv1.ApproveToolRequest) (*mcppoolv1.ApproveToolResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := p.Quarantined[req.GetMcpId()]
	for i, q := range held {
		tool := q.GetTool()
		if tool.GetName() != req.GetName() {
			continue
		}
		if tool.GetDefinitionHash() != req.GetDefinitionHash() {
			return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_DEFINITION_CHANGED,
				"the definition of the tool %s is another one by now; look at it again", tool.GetId())
		}
		p.Quarantined[req.GetMcpId()] = slices.Delete(slices.Clone(held), i, i+1)
		p.Tools[req.GetMcpId()] = append(p.Tools[req.GetMcpId()], tool)
		p.Approved = append(p.Approved, req.GetDefinitionHash())
		return &mcppoolv1.ApproveToolResponse{Tool: tool}, nil
	}
	return nil, errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_TOOL_NOT_FOUND, "%s has no tool %q", req.GetMcpId(), req.GetName())
}

// CallTool records the call and calls the test's OnCall.
func (p *Pool) CallTool(req *mcppoolv1.CallToolRequest, stream grpc.ServerStreamingServer[mcppoolv1.CallToolResponse]) error {
	p.mu.Lock()
	p.Calls = append(p.Calls, req)
	p.mu.Unlock()
	return p.OnCall(req, stream.Send)
}
