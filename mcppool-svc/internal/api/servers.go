package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"google.golang.org/protobuf/proto"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/identity"
	"pawl.dev/services/page"
)

// defaultServers is the page size of ListMcpServers where the caller names none.
const defaultServers = 50

// CreateMcpServer implements McpPoolService.
func (s *Server) CreateMcpServer(ctx context.Context, req *mcppoolv1.CreateMcpServerRequest) (*mcppoolv1.McpServer, error) {
	p, err := identity.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	server, err := newServer(p, req)
	if err != nil {
		return nil, err
	}
	digest, err := digestOf(req)
	if err != nil {
		return nil, err
	}
	if err := s.writable(); err != nil {
		return nil, err
	}
	created, err := s.Registry.Create(p.Sub, req.GetRequestId(), digest, server)
	if err != nil {
		return nil, registryError(err, server.ID)
	}
	return s.show(p, created), nil
}

// newServer returns the registration that a request asks for, if the caller may register it.
func newServer(p identity.Principal, req *mcppoolv1.CreateMcpServerRequest) (*registry.Server, error) {
	msg := req.GetMcpServer()
	server := &registry.Server{ID: msg.GetId(), Owner: msg.GetOwnerSub()}
	setFields(server, msg)
	switch id := req.GetMcpServerId(); {
	case server.ID == "":
		server.ID = id
	case id != "" && id != server.ID:
		return nil, invalid("mcp_server_id", "is not the id in mcp_server")
	}
	if server.ID == "" {
		return nil, invalid("mcp_server_id", "is missing; choose an id such as `files`")
	}
	if !p.IsOperator() {
		if server.Owner != "" && server.Owner != p.Sub {
			return nil, denied("only an operator may register an MCP server for another user")
		}
		if !server.SameOperatorSettings(&registry.Server{}) {
			return nil, denied(onlyOperators)
		}
		server.Owner, server.AutoActivate = p.Sub, true
	}
	if err := takeTransport(p, server, &registry.Server{}); err != nil {
		return nil, err
	}
	if err := checkRoots(p, server, &registry.Server{}); err != nil {
		return nil, err
	}
	return server, validate(server)
}

// digestOf identifies a request, to detect another one with the same request_id.
func digestOf(req *mcppoolv1.CreateMcpServerRequest) (string, error) {
	req = proto.CloneOf(req)
	req.RequestId = ""
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(req)
	if err != nil {
		return "", fmt.Errorf("reading the request: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// GetMcpServer implements McpPoolService.
func (s *Server) GetMcpServer(ctx context.Context, req *mcppoolv1.GetMcpServerRequest) (*mcppoolv1.McpServer, error) {
	p, server, err := s.find(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	s.Pool.Probe(ctx, p.Sub, server)
	return s.show(p, server), nil
}

// ListMcpServers implements McpPoolService.
func (s *Server) ListMcpServers(ctx context.Context, req *mcppoolv1.ListMcpServersRequest) (*mcppoolv1.ListMcpServersResponse, error) {
	p, err := identity.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	scope := fmt.Sprintf("ListMcpServers\x00%s\x00%t", p.Sub, req.GetActiveOnly())
	after, err := page.Decode(scope, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	size := int(cmp.Or(req.GetPageSize(), defaultServers))
	resp := &mcppoolv1.ListMcpServersResponse{}
	var shown []*registry.Server
	for _, server := range s.Registry.Visible(p.Sub) {
		if server.ID <= string(after) || req.GetActiveOnly() && !s.active(p, server) {
			continue
		}
		if len(shown) == size {
			resp.NextPageToken = page.Encode(scope, []byte(shown[size-1].ID))
			break
		}
		shown = append(shown, server)
	}
	if !req.GetActiveOnly() { // tasks send active_only, and using the servers tests their connections anyway
		s.Pool.Probe(ctx, p.Sub, shown...)
	}
	for _, server := range shown {
		resp.McpServers = append(resp.McpServers, s.show(p, server))
	}
	return resp, nil
}

// active reports whether the caller's tasks can use a server now.
func (s *Server) active(p identity.Principal, server *registry.Server) bool {
	return !server.Disabled && s.Registry.Active(p.Sub, server)
}

// UpdateMcpServer implements McpPoolService.
func (s *Server) UpdateMcpServer(ctx context.Context, req *mcppoolv1.UpdateMcpServerRequest) (*mcppoolv1.McpServer, error) {
	msg := req.GetMcpServer()
	if msg.GetId() == "" {
		return nil, invalid("mcp_server.id", "is missing")
	}
	p, current, err := s.changeable(ctx, msg.GetId(), msg.GetOwnerSub())
	if err != nil {
		return nil, err
	}
	updated, err := s.Registry.Update(current.Owner, current.ID, msg.GetEtag(), func(server *registry.Server) error {
		return edit(p, server, req)
	})
	if err != nil {
		return nil, registryError(err, current.ID)
	}
	keep := updated.Revision()
	if updated.Disabled {
		keep = ""
	}
	s.Pool.Retire(updated.UID, keep)
	if current.Origin() != updated.Origin() {
		s.Forget(ctx, current)
	}
	return s.show(p, updated), nil
}

// DeleteMcpServer implements McpPoolService.
func (s *Server) DeleteMcpServer(ctx context.Context, req *mcppoolv1.DeleteMcpServerRequest) (*mcppoolv1.DeleteMcpServerResponse, error) {
	_, current, err := s.changeable(ctx, req.GetId(), "")
	if err != nil {
		return nil, err
	}
	gone, err := s.Registry.Delete(current.Owner, current.ID, req.GetEtag())
	if err != nil {
		return nil, registryError(err, current.ID)
	}
	s.Pool.Retire(gone.UID, "")
	s.Forget(ctx, gone)
	return &mcppoolv1.DeleteMcpServerResponse{}, nil
}

// Forget takes back the approvals of a server that is gone, and the logins to it. They have no further use, so it is
// enough to log a failure.
func (s *Server) Forget(ctx context.Context, server *registry.Server) {
	if err := s.Pins.Forget(server.Origin()); err != nil {
		s.Log.WarnContext(ctx, "the approved tools of an MCP server that is gone stay in the store", "mcp_id", server.ID, "error", err)
	}
	if err := s.Logins.ForgetServer(server); err != nil {
		s.Log.WarnContext(ctx, "the logins to an MCP server that is gone stay in the store", "mcp_id", server.ID, "error", err)
	}
}

// ActivateMcpServer implements McpPoolService.
func (s *Server) ActivateMcpServer(ctx context.Context, req *mcppoolv1.ActivateMcpServerRequest) (*mcppoolv1.McpServer, error) {
	return s.setActive(ctx, req.GetId(), true)
}

// DeactivateMcpServer implements McpPoolService.
func (s *Server) DeactivateMcpServer(ctx context.Context, req *mcppoolv1.DeactivateMcpServerRequest) (*mcppoolv1.McpServer, error) {
	return s.setActive(ctx, req.GetId(), false)
}

func (s *Server) setActive(ctx context.Context, id string, active bool) (*mcppoolv1.McpServer, error) {
	p, server, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := s.writable(); err != nil {
		return nil, err
	}
	if err := s.Registry.SetActive(p.Sub, server, active); err != nil {
		return nil, registryError(err, id)
	}
	if !active {
		s.Pool.RetireUser(server.UID, p.Sub)
	}
	return s.show(p, server), nil
}
