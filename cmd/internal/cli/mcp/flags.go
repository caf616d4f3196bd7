package mcp

import (
	"cmp"
	"maps"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// ServerFlags describe a server's configuration. A flag that is not set leaves the registration's value unchanged.
type ServerFlags struct {
	URL    string            `name:"url" placeholder:"URL" help:"Address of a streamable HTTP server."`
	Header map[string]string `mapsep:"none" placeholder:"K=V" help:"Header of each HTTP request (repeatable)."`
	Env    map[string]string `mapsep:"none" placeholder:"K=V" help:"Environment of the program (repeatable)."`
	Cwd    string            `type:"existingdir" placeholder:"DIR" help:"Folder in which the program runs."`
	User   *string           `placeholder:"USER" help:"User of the operating system that the program runs as; empty: the pool's own."`
	Effect map[string]string `mapsep:"none" placeholder:"TOOL=EFFECT" help:"What a tool does: read, write or destructive; * stands for all tools not named (repeatable)."`

	TrustFlags
	LoginFlags
	NoCheck bool `name:"no-check" help:"Do not connect to check whether the server works."`
}

// apply writes the flags that are set into a registration. local reports that the program runs on this machine: without --cwd, it then runs
// in the current folder, and its relative path is resolved against it.
func (f *ServerFlags) apply(s *mcppoolv1.McpServer, command []string, local bool) error {
	if err := f.setTransport(s, command, local); err != nil {
		return err
	}
	return cmp.Or(f.setOAuth(s), f.setEffects(s), f.setTrust(s))
}

// setTransport sets the server's transport. A server may change from a program to an address, or back.
func (f *ServerFlags) setTransport(s *mcppoolv1.McpServer, command []string, local bool) error {
	switch {
	case f.URL != "" && len(command) > 0:
		return ui.Usagef("a server has a command or --url, not both").Then("pawl mcp add --help")
	case len(command) > 0:
		f.setProgram(s, command, local)
	case f.URL != "" && s.GetHttp() != nil:
		s.GetHttp().Url = f.URL
	case f.URL != "":
		s.Transport = &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: f.URL}}
	}
	switch {
	case s.GetStdio() == nil && (len(f.Env) > 0 || f.Cwd != "" || f.User != nil):
		return ui.Usagef("--env, --cwd and --user are for servers with a command").Then("pawl mcp add --help")
	case s.GetHttp() == nil && len(f.Header) > 0:
		return ui.Usagef("--header is for servers with --url").Then("pawl mcp add --help")
	}
	if t := s.GetStdio(); t != nil {
		if len(f.Env) > 0 {
			t.Env = merged(t.GetEnv(), f.Env)
		}
		t.Cwd = cmp.Or(f.Cwd, t.GetCwd())
		ui.Set(&t.User, f.User)
	}
	if len(f.Header) > 0 {
		s.GetHttp().Headers = merged(s.GetHttp().GetHeaders(), f.Header)
	}
	return nil
}

// setProgram sets the command line of the server's program. If local is set and --cwd is not, the program runs in the current folder.
func (f *ServerFlags) setProgram(s *mcppoolv1.McpServer, command []string, local bool) {
	if s.GetStdio() == nil {
		s.Transport = &mcppoolv1.McpServer_Stdio{Stdio: &mcppoolv1.StdioTransport{}}
	}
	t := s.GetStdio()
	t.Command, t.Args = command[0], command[1:]
	if local && f.Cwd == "" {
		t.Cwd = ""
		localise(s)
	}
}

// setEffects sets the effects of the named tools. A tool keeps its configured risk, unless it becomes destructive, which is the highest
// risk; it no longer counts as idempotent, because that was said of its old effect.
func (f *ServerFlags) setEffects(s *mcppoolv1.McpServer) error {
	for tool, word := range f.Effect {
		effect := ui.EnumValue[commonv1.Effect](word)
		if effect == 0 {
			return ui.Usagef("--effect %s=%s: there is no such effect", tool, word).Then("use read, write or destructive")
		}
		if s.ToolPolicies == nil {
			s.ToolPolicies = map[string]*mcppoolv1.ToolPolicy{}
		}
		policy := &mcppoolv1.ToolPolicy{Effect: effect}
		if effect != commonv1.Effect_EFFECT_DESTRUCTIVE {
			policy.RiskFloor = s.ToolPolicies[tool].GetRiskFloor()
		}
		s.ToolPolicies[tool] = policy
	}
	return nil
}

// merged returns old with the changes added or replaced. Old values are masked as ***, which the pool replaces by the stored values.
func merged(old, changes map[string]string) map[string]string {
	m := map[string]string{}
	maps.Copy(m, old)
	maps.Copy(m, changes)
	return m
}

// LoginFlags configure how the pool logs in to a server.
type LoginFlags struct {
	ClientID          *string  `placeholder:"ID" help:"OAuth client id for logins to the server (default: Pawl registers itself)."`
	ClientSecret      *string  `placeholder:"SECRET" help:"Secret or private key of that client, or better a reference: $${env:NAME}, $${file:PATH}."`
	ClientCredentials bool     `help:"The pool logs in as that client, for all users."`
	Scope             []string `sep:"none" placeholder:"SCOPE" help:"OAuth scope that logins request (repeatable; default: the scopes that the server names)."`
}

// setOAuth writes the OAuth settings into a registration.
func (f *LoginFlags) setOAuth(s *mcppoolv1.McpServer) error {
	if f.ClientID == nil && f.ClientSecret == nil && !f.ClientCredentials && len(f.Scope) == 0 {
		return nil
	}
	http := s.GetHttp()
	if http == nil {
		return ui.Usagef("--client-id, --client-secret, --client-credentials and --scope are for servers with --url").Then("pawl mcp add --help")
	}
	if http.GetOauth() == nil {
		http.Oauth = &mcppoolv1.OAuth{}
	}
	o := http.GetOauth()
	ui.Set(&o.ClientId, f.ClientID)
	ui.Set(&o.ClientSecret, f.ClientSecret)
	if len(f.Scope) > 0 {
		o.Scopes = f.Scope
	}
	if f.ClientCredentials {
		o.Grant = mcppoolv1.OAuth_GRANT_CLIENT_CREDENTIALS
	}
	return nil
}

// TrustFlags limit a server: the rules and approvals of its tools, its connections and timeouts, and what it may request.
type TrustFlags struct {
	Deny  []string `sep:"none" placeholder:"TOOL" help:"Tools that no user may call; * stands for any text (repeatable)."`
	Ask   []string `sep:"none" placeholder:"TOOL" help:"Tools whose calls need an approval, unless the agent never asks or a grant covers the call (repeatable)."`
	Allow []string `sep:"none" placeholder:"TOOL" help:"Tools that may be called; all others, except those of --ask, are then denied (repeatable)."`

	Pinning   *string `enum:"approve-changes,allow-new,trust-all" placeholder:"WHAT" help:"Tools whose definitions need an approval: new and changed ones (approve-changes), only changed ones (allow-new), or none (trust-all)."`
	Isolation *string `enum:"user,task,shared" placeholder:"WHOSE" help:"Who shares a connection: the tasks of a user (user), the calls of a task (task), or all users (shared)."`

	CallTimeout    *time.Duration `placeholder:"DURATION" help:"How long a call may take (default: 60s)."`
	StartTimeout   *time.Duration `placeholder:"DURATION" help:"How long connecting may take (default: 30s)."`
	MaxConnections *uint32        `placeholder:"N" help:"Connections to the server at once."`
	CacheTTL       *time.Duration `name:"cache-ttl" placeholder:"DURATION" help:"How long results of reading tools may be reused."`
	Sampling       string         `placeholder:"MODEL" help:"Named model that the server may request during a call (pawl models); any: the model that it hints at, else the default."`
	SampleTokens   uint32         `placeholder:"N" help:"The longest answer of a model, in tokens (default: 1024)."`
	SampleRequests uint32         `placeholder:"N" help:"Requests to models that the server may make during one call (default: 10)."`
	Root           []string       `sep:"none" type:"existingdir" placeholder:"DIR" help:"Folder that the server learns of, as an MCP root (repeatable)."`
}

// setTrust writes the flags that are set into a registration. New rules go before the existing rules, and new roots after the existing roots.
func (f *TrustFlags) setTrust(s *mcppoolv1.McpServer) error {
	s.Permissions = append(f.rules(), s.GetPermissions()...) // the first rule that matches decides
	if f.Pinning != nil {
		s.Pinning = ui.EnumValue[mcppoolv1.Pinning](*f.Pinning)
	}
	if f.Isolation != nil {
		s.Isolation = ui.EnumValue[mcppoolv1.Isolation](*f.Isolation)
	}
	ui.Set(&s.MaxConnections, f.MaxConnections)
	for _, root := range f.Root {
		abs, err := filepath.Abs(root)
		if err != nil {
			return ui.Errorf("--root %s: %v", root, err)
		}
		s.Roots = append(s.Roots, abs)
	}
	return cmp.Or(f.setDurations(s), f.setSampling(s))
}

// setDurations sets the timeouts and the cache's lifetime. A flag of 0 clears the field, which restores the default.
func (f *TrustFlags) setDurations(s *mcppoolv1.McpServer) error {
	for _, limit := range []struct {
		flag string
		from *time.Duration
		to   **durationpb.Duration
	}{{"--call-timeout", f.CallTimeout, &s.CallTimeout}, {"--start-timeout", f.StartTimeout, &s.StartTimeout}, {"--cache-ttl", f.CacheTTL, &s.CacheTtl}} {
		switch d := limit.from; {
		case d == nil:
		case *d < 0:
			return ui.Usagef("%s %s: a time cannot be negative", limit.flag, *d).Then("%s 90s, or 0s for the default", limit.flag)
		case *d == 0:
			*limit.to = nil
		default:
			*limit.to = durationpb.New(*d)
		}
	}
	return nil
}

// anyModel is the value of --sampling that lets the server's hints choose the model.
const anyModel = "any"

// setSampling sets the server's sampling policy.
func (f *TrustFlags) setSampling(s *mcppoolv1.McpServer) error {
	if f.Sampling != "" {
		if s.Sampling == nil {
			s.Sampling = &mcppoolv1.SamplingPolicy{}
		}
		if s.Sampling.Model = f.Sampling; f.Sampling == anyModel {
			s.Sampling.Model = ""
		}
	}
	if f.SampleTokens == 0 && f.SampleRequests == 0 {
		return nil
	}
	if s.GetSampling() == nil {
		return ui.Usagef("--sample-tokens and --sample-requests go with --sampling").Then("name a model (pawl models), or --sampling any")
	}
	s.Sampling.MaxTokens = cmp.Or(f.SampleTokens, s.GetSampling().GetMaxTokens())
	s.Sampling.MaxRequests = cmp.Or(f.SampleRequests, s.GetSampling().GetMaxRequests())
	return nil
}

// rules returns the permission rules of the flags. Denials come first, because the first rule that matches decides.
func (f *TrustFlags) rules() []*mcppoolv1.PermissionRule {
	var rules []*mcppoolv1.PermissionRule
	add := func(tools []string, decision mcppoolv1.PermissionDecision) {
		if len(tools) > 0 {
			rules = append(rules, &mcppoolv1.PermissionRule{Tools: tools, Decision: decision})
		}
	}
	add(f.Deny, mcppoolv1.PermissionDecision_PERMISSION_DECISION_DENY)
	add(f.Ask, mcppoolv1.PermissionDecision_PERMISSION_DECISION_ASK)
	add(f.Allow, mcppoolv1.PermissionDecision_PERMISSION_DECISION_ALLOW)
	if len(f.Allow) > 0 {
		rules = append(rules, &mcppoolv1.PermissionRule{Decision: mcppoolv1.PermissionDecision_PERMISSION_DECISION_DENY})
	}
	return rules
}
