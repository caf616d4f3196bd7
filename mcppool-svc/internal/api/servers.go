package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/identity"
	"pawl.dev/services/page"
)

// defaultServers is the default page size of ListMcpServers.
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
	if err := cmp.Or(s.checkDataFolder(server), s.checkAddress(server, nil)); err != nil {
		return nil, err
	}
	digest, err := digestOf(req)
	if err != nil {
		return nil, err
	}
	if err := s.checkWritable(); err != nil {
		return nil, err
	}
	created, err := s.Registry.Create(p.Sub, req.GetRequestId(), digest, server)
	if err != nil {
		return nil, err
	}
	return s.show(p, created), nil
}

// newServer returns the registration in a request if the caller may register it.
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
	if server.Owner == "" && server.Builtin.OffersChanges() {
		server.Owner = p.Sub // other users must not change the operator's files
	}
	return server, validate(server)
}

// digestOf returns a digest of a request, to detect a different request with the same request_id.
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
	p, server, err := s.findOf(ctx, req.GetId(), req.GetOwnerSub())
	if err != nil {
		return nil, err
	}
	if server.Owner == "" || server.Owner == p.Sub {
		s.Pool.Probe(ctx, p.Sub, server)
	}
	return s.show(p, server), nil
}

// ListMcpServers implements McpPoolService.
func (s *Server) ListMcpServers(ctx context.Context, req *mcppoolv1.ListMcpServersRequest) (*mcppoolv1.ListMcpServersResponse, error) {
	p, err := ownerNamer(ctx, req.GetOwnerSub())
	if err != nil {
		return nil, err
	}
	owner := req.GetOwnerSub()
	own := owner == "" || owner == p.Sub
	if !own {
		p.Sub = owner // the states are those of the owner
	}
	scope := fmt.Sprintf("ListMcpServers\x00%s\x00%t\x00%s", p.Sub, req.GetActiveOnly(), owner)
	after, err := page.Decode(scope, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	size := int(cmp.Or(req.GetPageSize(), defaultServers))
	resp := &mcppoolv1.ListMcpServersResponse{}
	var shown []*registry.Server
	for _, server := range s.Registry.Visible(p.Sub) {
		if server.ID <= string(after) || req.GetActiveOnly() && !s.active(p, server) || owner != "" && server.Owner != owner {
			continue
		}
		if len(shown) == size {
			resp.NextPageToken = page.Encode(scope, []byte(shown[size-1].ID))
			break
		}
		shown = append(shown, server)
	}
	if own && !req.GetActiveOnly() { // tasks send active_only and connect anyway
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
	owner := msg.GetOwnerSub()
	if p, err := identity.FromContext(ctx); err == nil && !p.IsOperator() {
		owner = "" // edit refuses another owner
	}
	p, current, err := s.findChangeable(ctx, msg.GetId(), owner)
	if err != nil {
		return nil, err
	}
	updated, err := s.Registry.Update(current.Owner, current.ID, msg.GetEtag(), func(server *registry.Server) error {
		before := server.HTTP
		return cmp.Or(edit(p, server, req), s.checkDataFolder(server), s.checkAddress(server, before))
	})
	if err != nil {
		return nil, err
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
	_, current, err := s.findChangeable(ctx, req.GetId(), req.GetOwnerSub())
	if err != nil {
		return nil, err
	}
	deleted, err := s.Registry.Delete(current.Owner, current.ID, req.GetEtag())
	if err != nil {
		return nil, err
	}
	s.Pool.Retire(deleted.UID, "")
	s.Forget(ctx, deleted)
	return &mcppoolv1.DeleteMcpServerResponse{}, nil
}

// Forget deletes the approvals and logins of a registration that was deleted or got another origin. A failure is only logged.
func (s *Server) Forget(ctx context.Context, server *registry.Server) {
	if err := s.Pins.Forget(server.Origin()); err != nil {
		s.Log.WarnContext(ctx, "the approved tools of a deleted or moved MCP server stay in the store", "mcp_id", server.ID, "error", err)
	}
	if err := s.Logins.ForgetServer(server); err != nil {
		s.Log.WarnContext(ctx, "the logins to a deleted or moved MCP server stay in the store", "mcp_id", server.ID, "error", err)
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
	if err := s.checkWritable(); err != nil {
		return nil, err
	}
	if err := s.Registry.SetActive(p.Sub, server, active); err != nil {
		return nil, err
	}
	if !active {
		s.Pool.RetireUser(server.UID, p.Sub)
	}
	return s.show(p, server), nil
}

// show returns a server as the caller may see it.
func (s *Server) show(p identity.Principal, server *registry.Server) *mcppoolv1.McpServer {
	m := ToMessage(server)
	hideSecrets(m)
	m.Login = loginStates[s.Logins.State(server, p.Sub)]
	if !p.IsOperator() {
		m.Permissions = nil
		if server.Owner != p.Sub {
			hideDetails(m)
		}
	}
	m.Etag = server.Etag()
	m.Active = s.active(p, server)
	m.FromConfig = server.FromConfig
	if !server.CreateTime.IsZero() {
		m.CreateTime, m.UpdateTime = timestamppb.New(server.CreateTime), timestamppb.New(server.UpdateTime)
	}
	status := s.Pool.Status(server, p.Sub)
	m.State, m.ServerInfo, m.Capabilities = states[status.State], status.Info, status.Capabilities
	m.StateTime = timeOf(status.Since)
	if status.Err != nil {
		m.LastError = p.Explain(status.Err)
	}
	return m
}

var states = map[conn.State]mcppoolv1.ConnectionState{
	conn.Idle:       mcppoolv1.ConnectionState_CONNECTION_STATE_IDLE,
	conn.Connecting: mcppoolv1.ConnectionState_CONNECTION_STATE_CONNECTING,
	conn.Ready:      mcppoolv1.ConnectionState_CONNECTION_STATE_READY,
	conn.Failed:     mcppoolv1.ConnectionState_CONNECTION_STATE_FAILED,
}

// ToMessage returns the registration, secrets included. It sets no output-only fields.
func ToMessage(s *registry.Server) *mcppoolv1.McpServer {
	m := &mcppoolv1.McpServer{
		Id: s.ID, DisplayName: s.DisplayName, Description: s.Description, OwnerSub: s.Owner, Disabled: s.Disabled,
		AutoActivate: s.AutoActivate, OnlyWhenNamed: s.OnlyWhenNamed, Trusted: s.Trusted,
		CallTimeout: duration(s.CallTimeout), StartTimeout: duration(s.StartTimeout), Roots: slices.Clone(s.Roots),
		Pinning: enumOf[mcppoolv1.Pinning](pinningPrefix, s.Pinning), Isolation: enumOf[mcppoolv1.Isolation](isolationPrefix, s.Isolation),
		MaxConnections: uint32(s.MaxConnections), CacheTtl: duration(s.CacheTTL),
	}
	if p := s.Sampling; p != nil {
		m.Sampling = &mcppoolv1.SamplingPolicy{Model: p.Model, MaxTokens: uint32(p.MaxTokens), MaxRequests: uint32(p.MaxRequests)}
	}
	switch {
	case s.Stdio != nil:
		m.Transport = &mcppoolv1.McpServer_Stdio{Stdio: &mcppoolv1.StdioTransport{
			Command: s.Stdio.Command, Args: s.Stdio.Args, Env: maps.Clone(s.Stdio.Env), Cwd: s.Stdio.Dir, User: s.Stdio.User,
		}}
	case s.HTTP != nil:
		t := &mcppoolv1.HttpTransport{Url: s.HTTP.URL, Headers: maps.Clone(s.HTTP.Headers), Sse: s.HTTP.SSE}
		if o := s.HTTP.OAuth; o != nil {
			t.Oauth = &mcppoolv1.OAuth{ClientId: o.ClientID, ClientSecret: o.ClientSecret, Scopes: o.Scopes, Grant: enumOf[mcppoolv1.OAuth_Grant](grantPrefix, o.Grant)}
		}
		m.Transport = &mcppoolv1.McpServer_Http{Http: t}
	case s.Builtin != nil:
		t := &mcppoolv1.BuiltinTransport{Name: s.Builtin.Name, Root: s.Builtin.Root}
		if w := s.Builtin.Workspace; w != nil {
			t.Workspace = &mcppoolv1.Workspace{
				Write: w.Write, Commands: w.Commands, Network: w.Network, CommandTimeout: duration(w.CommandTimeout),
				MaxMemoryBytes: w.MaxMemory, MaxProcesses: int32(w.MaxProcesses), MaxFileBytes: w.MaxFileSize,
			}
		}
		m.Transport = &mcppoolv1.McpServer_Builtin{Builtin: t}
	}
	for _, r := range s.Permissions {
		m.Permissions = append(m.Permissions, &mcppoolv1.PermissionRule{
			Users: r.Users, Tools: r.Tools, Effects: r.Effects, Decision: enumOf[mcppoolv1.PermissionDecision](decisionPrefix, r.Decision),
		})
	}
	m.ToolPolicies = make(map[string]*mcppoolv1.ToolPolicy, len(s.Policies))
	for name, p := range s.Policies {
		m.ToolPolicies[name] = &mcppoolv1.ToolPolicy{Effect: p.Effect, Idempotent: p.Idempotent, RiskFloor: p.RiskFloor}
	}
	return m
}

// setFields is the inverse of ToMessage, without the id and the owner.
func setFields(s *registry.Server, m *mcppoolv1.McpServer) {
	s.DisplayName, s.Description, s.Disabled, s.AutoActivate = m.GetDisplayName(), m.GetDescription(), m.GetDisabled(), m.GetAutoActivate()
	s.OnlyWhenNamed, s.Trusted, s.Roots = m.GetOnlyWhenNamed(), m.GetTrusted(), slices.Clone(m.GetRoots())
	s.CallTimeout, s.StartTimeout, s.CacheTTL = m.GetCallTimeout().AsDuration(), m.GetStartTimeout().AsDuration(), m.GetCacheTtl().AsDuration()
	s.Pinning, s.Isolation = nameOf[registry.Pinning](pinningPrefix, m.GetPinning()), nameOf[registry.Isolation](isolationPrefix, m.GetIsolation())
	s.MaxConnections = int(m.GetMaxConnections())
	s.Sampling, s.Stdio, s.HTTP, s.Builtin, s.Permissions, s.Policies = nil, nil, nil, nil, nil, nil
	if p := m.GetSampling(); p != nil {
		s.Sampling = &registry.Sampling{Model: p.GetModel(), MaxTokens: int(p.GetMaxTokens()), MaxRequests: int(p.GetMaxRequests())}
	}
	switch t := m.GetTransport().(type) {
	case *mcppoolv1.McpServer_Stdio:
		s.Stdio = &registry.Stdio{
			Command: t.Stdio.GetCommand(), Args: t.Stdio.GetArgs(), Env: maps.Clone(t.Stdio.GetEnv()), Dir: t.Stdio.GetCwd(), User: t.Stdio.GetUser(),
		}
	case *mcppoolv1.McpServer_Http:
		s.HTTP = &registry.HTTP{URL: t.Http.GetUrl(), Headers: maps.Clone(t.Http.GetHeaders()), SSE: t.Http.GetSse()}
		if o := t.Http.GetOauth(); o != nil {
			s.HTTP.OAuth = &registry.OAuth{
				ClientID: o.GetClientId(), ClientSecret: o.GetClientSecret(), Scopes: o.GetScopes(), Grant: nameOf[registry.Grant](grantPrefix, o.GetGrant()),
			}
		}
	case *mcppoolv1.McpServer_Builtin:
		s.Builtin = &registry.Builtin{Name: t.Builtin.GetName(), Root: t.Builtin.GetRoot()}
		if w := t.Builtin.GetWorkspace(); w != nil {
			s.Builtin.Workspace = &registry.Workspace{
				Write: w.GetWrite(), Commands: w.GetCommands(), Network: w.GetNetwork(), CommandTimeout: w.GetCommandTimeout().AsDuration(),
				MaxMemory: w.GetMaxMemoryBytes(), MaxProcesses: int(w.GetMaxProcesses()), MaxFileSize: w.GetMaxFileBytes(),
			}
		}
	}
	for _, r := range m.GetPermissions() {
		s.Permissions = append(s.Permissions, registry.Rule{
			Users: r.GetUsers(), Tools: r.GetTools(), Effects: r.GetEffects(), Decision: cmp.Or(nameOf[registry.Decision](decisionPrefix, r.GetDecision()), registry.Allow),
		})
	}
	for name, p := range m.GetToolPolicies() {
		if s.Policies == nil { // an empty map would be stored differently from nil
			s.Policies = make(map[string]registry.Policy, len(m.GetToolPolicies()))
		}
		s.Policies[name] = registry.Policy{Effect: p.GetEffect(), Idempotent: p.GetIdempotent(), RiskFloor: p.GetRiskFloor()}
	}
}

// Prefixes of enums whose values have the registry's names in upper case. Values 0 and 1 are the default; its name is empty.
const (
	pinningPrefix   = "PINNING_"
	isolationPrefix = "ISOLATION_"
	decisionPrefix  = "PERMISSION_DECISION_"
	grantPrefix     = "GRANT_"
)

// enumOf returns the enum value for the registry's name; the default for an unknown or empty name.
func enumOf[E protoreflect.Enum, N ~string](prefix string, name N) E {
	var e E
	number := protoreflect.EnumNumber(1)
	if v := e.Descriptor().Values().ByName(protoreflect.Name(prefix + strings.ToUpper(string(name)))); v != nil {
		number = v.Number()
	}
	return e.Type().New(number).(E)
}

// nameOf returns the registry's name for an enum value; empty for the default.
func nameOf[N ~string](prefix string, e protoreflect.Enum) N {
	v := e.Descriptor().Values().ByNumber(e.Number())
	if v == nil || v.Number() <= 1 {
		return ""
	}
	return N(strings.ToLower(strings.TrimPrefix(string(v.Name()), prefix)))
}

// duration converts a duration; 0, the default, becomes nil.
func duration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}
