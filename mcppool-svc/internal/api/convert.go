package api

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/identity"
)

// show returns a server as the caller may see it.
func (s *Server) show(p identity.Principal, server *registry.Server) *mcppoolv1.McpServer {
	m := ToMessage(server)
	hideSecrets(m, p.IsOperator())
	m.Login = loginStates[s.Logins.State(server, p.Sub)]
	if !p.IsOperator() {
		m.Permissions = nil
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
		m.LastError = status.Err.Error()
	}
	return m
}

var states = map[conn.State]mcppoolv1.ConnectionState{
	conn.Idle:       mcppoolv1.ConnectionState_CONNECTION_STATE_IDLE,
	conn.Connecting: mcppoolv1.ConnectionState_CONNECTION_STATE_CONNECTING,
	conn.Ready:      mcppoolv1.ConnectionState_CONNECTION_STATE_READY,
	conn.Failed:     mcppoolv1.ConnectionState_CONNECTION_STATE_FAILED,
}

// ToMessage returns what was registered, with secrets. Of the output-only fields it sets only the owner.
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
			Command: s.Stdio.Command, Args: s.Stdio.Args, Env: maps.Clone(s.Stdio.Env), Cwd: s.Stdio.Dir,
		}}
	case s.HTTP != nil:
		m.Transport = &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{
			Url: s.HTTP.URL, Headers: maps.Clone(s.HTTP.Headers), Sse: s.HTTP.SSE, Oauth: oauthMessage(s.HTTP.OAuth),
		}}
	case s.Builtin != nil:
		m.Transport = &mcppoolv1.McpServer_Builtin{Builtin: &mcppoolv1.BuiltinTransport{Name: s.Builtin.Name, Root: s.Builtin.Root}}
	}
	for _, r := range s.Permissions {
		m.Permissions = append(m.Permissions, &mcppoolv1.PermissionRule{
			Users: r.Users, Tools: r.Tools, Effects: r.Effects, Decision: enumOf[mcppoolv1.PermissionDecision](decisionPrefix, r.Decision),
		})
	}
	for name, p := range s.Policies {
		if m.ToolPolicies == nil {
			m.ToolPolicies = make(map[string]*mcppoolv1.ToolPolicy, len(s.Policies))
		}
		m.ToolPolicies[name] = &mcppoolv1.ToolPolicy{Effect: p.Effect, Idempotent: p.Idempotent, RiskFloor: p.RiskFloor}
	}
	return m
}

// setFields sets what ToMessage shows, except for the id and the owner.
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
			Command: t.Stdio.GetCommand(), Args: t.Stdio.GetArgs(), Env: maps.Clone(t.Stdio.GetEnv()), Dir: t.Stdio.GetCwd(),
		}
	case *mcppoolv1.McpServer_Http:
		s.HTTP = &registry.HTTP{URL: t.Http.GetUrl(), Headers: maps.Clone(t.Http.GetHeaders()), SSE: t.Http.GetSse(), OAuth: oauthOf(t.Http.GetOauth())}
	case *mcppoolv1.McpServer_Builtin:
		s.Builtin = &registry.Builtin{Name: t.Builtin.GetName(), Root: t.Builtin.GetRoot()}
	}
	for _, r := range m.GetPermissions() {
		s.Permissions = append(s.Permissions, registry.Rule{
			Users: r.GetUsers(), Tools: r.GetTools(), Effects: r.GetEffects(), Decision: cmp.Or(nameOf[registry.Decision](decisionPrefix, r.GetDecision()), registry.Allow),
		})
	}
	for name, p := range m.GetToolPolicies() {
		if s.Policies == nil {
			s.Policies = make(map[string]registry.Policy, len(m.GetToolPolicies()))
		}
		s.Policies[name] = registry.Policy{Effect: p.GetEffect(), Idempotent: p.GetIdempotent(), RiskFloor: p.GetRiskFloor()}
	}
}

// Prefixes of enums whose values have the registry's names in upper case. The first value is the default: the empty name.
const (
	pinningPrefix   = "PINNING_"
	isolationPrefix = "ISOLATION_"
	decisionPrefix  = "PERMISSION_DECISION_"
	grantPrefix     = "GRANT_"
)

// enumOf returns the value of a name.
func enumOf[E protoreflect.Enum, N ~string](prefix string, name N) E {
	var e E
	number := protoreflect.EnumNumber(1)
	if v := e.Descriptor().Values().ByName(protoreflect.Name(prefix + strings.ToUpper(string(name)))); v != nil {
		number = v.Number()
	}
	return e.Type().New(number).(E)
}

// nameOf returns the name of a value.
func nameOf[N ~string](prefix string, e protoreflect.Enum) N {
	v := e.Descriptor().Values().ByNumber(e.Number())
	if v == nil || v.Number() <= 1 {
		return ""
	}
	return N(strings.ToLower(strings.TrimPrefix(string(v.Name()), prefix)))
}

// duration is absent where it is the default.
func duration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

func oauthMessage(o *registry.OAuth) *mcppoolv1.OAuth {
	if o == nil {
		return nil
	}
	return &mcppoolv1.OAuth{
		ClientId: o.ClientID, ClientSecret: o.ClientSecret, Scopes: o.Scopes, Grant: enumOf[mcppoolv1.OAuth_Grant](grantPrefix, o.Grant),
	}
}

func oauthOf(m *mcppoolv1.OAuth) *registry.OAuth {
	if m == nil {
		return nil
	}
	return &registry.OAuth{
		ClientID: m.GetClientId(), ClientSecret: m.GetClientSecret(), Scopes: m.GetScopes(), Grant: nameOf[registry.Grant](grantPrefix, m.GetGrant()),
	}
}
