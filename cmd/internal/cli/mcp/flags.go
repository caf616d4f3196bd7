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
	Cwd    string            `type:"existingdir" placeholder:"DIR" help:"Folder in which the program is started."`
	Effect map[string]string `mapsep:"none" placeholder:"TOOL=EFFECT" help:"What a tool does: read, write or destructive; * for those not named (repeatable)."`

	TrustFlags
	LoginFlags
	NoCheck bool `name:"no-check" help:"Do not connect to see whether it works."`
}

// apply writes the flags that are set into a registration. If local is set, the program runs on this machine and its relative path is
// resolved against the current folder.
func (f *ServerFlags) apply(s *mcppoolv1.McpServer, command []string, local bool) error {
	if err := f.reach(s, command, local); err != nil {
		return err
	}
	return cmp.Or(f.logins(s), f.effects(s), f.trust(s))
}

// reach sets the server's transport. A server may change from a program to an address, or back.
func (f *ServerFlags) reach(s *mcppoolv1.McpServer, command []string, local bool) error {
	switch {
	case f.URL != "" && len(command) > 0:
		return ui.Usagef("a server has a command or --url, not both").Then("pawl mcp add --help")
	case len(command) > 0:
		f.program(s, command, local)
	case f.URL != "" && s.GetHttp() != nil:
		s.GetHttp().Url = f.URL
	case f.URL != "":
		s.Transport = &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: f.URL}}
	}
	switch {
	case s.GetStdio() == nil && (len(f.Env) > 0 || f.Cwd != ""):
		return ui.Usagef("--env and --cwd are for servers with a command").Then("pawl mcp add --help")
	case s.GetHttp() == nil && len(f.Header) > 0:
		return ui.Usagef("--header is for servers with --url").Then("pawl mcp add --help")
	}
	if len(f.Env) > 0 {
		s.GetStdio().Env = merged(s.GetStdio().GetEnv(), f.Env)
	}
	if len(f.Header) > 0 {
		s.GetHttp().Headers = merged(s.GetHttp().GetHeaders(), f.Header)
	}
	if f.Cwd != "" {
		s.GetStdio().Cwd = f.Cwd
	}
	return nil
}

// program sets the command line of the server's program.
func (f *ServerFlags) program(s *mcppoolv1.McpServer, command []string, local bool) {
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

// effects sets the effects of the named tools; those of other tools stay.
func (f *ServerFlags) effects(s *mcppoolv1.McpServer) error {
	for tool, word := range f.Effect {
		effect := ui.EnumValue[commonv1.Effect](word)
		if effect == 0 {
			return ui.Usagef("%s=%s: there is no such effect", tool, word).Then("use read, write or destructive")
		}
		if s.ToolPolicies == nil {
			s.ToolPolicies = map[string]*mcppoolv1.ToolPolicy{}
		}
		s.ToolPolicies[tool] = &mcppoolv1.ToolPolicy{Effect: effect}
	}
	return nil
}

// merged returns old with the values of now added or replaced. The pool keeps the stored value of an entry that is masked as ***.
func merged(old, now map[string]string) map[string]string {
	m := map[string]string{}
	maps.Copy(m, old)
	maps.Copy(m, now)
	return m
}

// LoginFlags say how the pool logs in to a server.
type LoginFlags struct {
	ClientID          *string  `placeholder:"ID" help:"The client that logins to the server are made as (default: Pawl registers itself)."`
	ClientSecret      *string  `placeholder:"SECRET" help:"Its secret, a private key, or better a reference: $${env:NAME}, $${file:PATH}."`
	ClientCredentials bool     `help:"The pool logs in as that client, for everybody."`
	Scope             []string `sep:"none" placeholder:"SCOPE" help:"What logins ask for (repeatable; default: what the server names)."`
}

// logins writes the OAuth settings into a registration.
func (f *LoginFlags) logins(s *mcppoolv1.McpServer) error {
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

// TrustFlags say how far a server is trusted, who may call what of it, and what it may take.
type TrustFlags struct {
	Deny  []string `sep:"none" placeholder:"TOOL" help:"No user may call such tools; * stands for any text (repeatable)."`
	Ask   []string `sep:"none" placeholder:"TOOL" help:"A person is asked before each call of such tools (repeatable)."`
	Allow []string `sep:"none" placeholder:"TOOL" help:"Such tools may be called; with it, no other ones but those of --ask (repeatable)."`

	Pinning   *string `enum:"approve-changes,allow-new,trust-all" placeholder:"WHAT" help:"Tools that need an approval: those that are new or changed (approve-changes), changed ones alone (allow-new), none (trust-all)."`
	Isolation *string `enum:"user,task,shared" placeholder:"WHOSE" help:"A connection is each user's (user), each task's (task), or all users' (shared)."`

	CallTimeout    *time.Duration `placeholder:"DURATION" help:"The longest that a call may take (default: 60s)."`
	StartTimeout   *time.Duration `placeholder:"DURATION" help:"The longest that connecting may take (default: 30s)."`
	MaxConnections *uint32        `placeholder:"N" help:"Connections to it at once."`
	CacheTTL       *time.Duration `name:"cache-ttl" placeholder:"DURATION" help:"Results of reading tools may be given again for so long."`
	Sampling       string         `placeholder:"MODEL" help:"It may have this named model asked in the middle of a call (pawl models); any: what it hints at, else the default."`
	SampleTokens   uint32         `placeholder:"N" help:"The longest answer of a model, in tokens (default: 1024)."`
	SampleRequests uint32         `placeholder:"N" help:"How often it may have models asked during one call (default: 10)."`
	Root           []string       `sep:"none" type:"existingdir" placeholder:"DIR" help:"Folder that the server is told of (repeatable)."`
}

// trust writes the flags that are set into a registration. New rules go before the existing ones, and new roots after them.
func (f *TrustFlags) trust(s *mcppoolv1.McpServer) error {
	s.Permissions = append(f.rules(), s.GetPermissions()...) // what the command line says counts before a file's rules
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
	return cmp.Or(f.limits(s), f.sampling(s))
}

// limits sets the timeouts. A flag of 0 clears the field, which means the default.
func (f *TrustFlags) limits(s *mcppoolv1.McpServer) error {
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

// sampling sets the server's sampling policy.
func (f *TrustFlags) sampling(s *mcppoolv1.McpServer) error {
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
