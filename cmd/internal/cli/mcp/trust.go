package mcp

import (
	"cmp"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"pawl.dev/cmd/internal/ui"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// TrustFlags say how far a server is trusted, who may call what of it, and what it may take.
type TrustFlags struct {
	Deny  []string `sep:"none" placeholder:"TOOL" help:"Nobody may call such tools; * stands for any text (repeatable)."`
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

// apply writes what is given into a registration, and returns the names of the fields. Rules go before those that are there, and
// folders behind.
func (f *TrustFlags) apply(s *mcppoolv1.McpServer) ([]string, error) {
	var fields []string
	if f.namesRules() {
		s.Permissions = append(f.rules(), s.GetPermissions()...) // what the command line says counts before a file's rules
		fields = append(fields, "permissions")
	}
	if f.Pinning != nil {
		s.Pinning = ui.EnumValue[mcppoolv1.Pinning](*f.Pinning)
		fields = append(fields, "pinning")
	}
	if f.Isolation != nil {
		s.Isolation = ui.EnumValue[mcppoolv1.Isolation](*f.Isolation)
		fields = append(fields, "isolation")
	}
	if f.MaxConnections != nil {
		s.MaxConnections = *f.MaxConnections
		fields = append(fields, "max_connections")
	}
	limits, err := f.limits(s)
	if err != nil {
		return nil, err
	}
	if err := f.sampling(s); err != nil {
		return nil, err
	}
	if f.namesSampling() {
		fields = append(fields, "sampling")
	}
	for _, root := range f.Root {
		abs, err := filepath.Abs(root)
		if err != nil {
			return nil, ui.Errorf("--root %s: %v", root, err)
		}
		s.Roots = append(s.Roots, abs)
	}
	if len(f.Root) > 0 {
		fields = append(fields, "roots")
	}
	return append(fields, limits...), nil
}

// limits writes the times; 0 is the default, which is said by saying nothing.
func (f *TrustFlags) limits(s *mcppoolv1.McpServer) ([]string, error) {
	var fields []string
	for _, limit := range []struct {
		field string
		from  *time.Duration
		to    **durationpb.Duration
	}{{"call_timeout", f.CallTimeout, &s.CallTimeout}, {"start_timeout", f.StartTimeout, &s.StartTimeout}, {"cache_ttl", f.CacheTTL, &s.CacheTtl}} {
		if limit.from == nil {
			continue
		}
		if *limit.from < 0 {
			flag := "--" + strings.ReplaceAll(limit.field, "_", "-")
			return nil, ui.Usagef("%s %s: a time cannot be negative", flag, *limit.from).Then("%s 90s, or 0s for the default", flag)
		}
		if *limit.to = nil; *limit.from > 0 {
			*limit.to = durationpb.New(*limit.from)
		}
		fields = append(fields, limit.field)
	}
	return fields, nil
}

// namesRules says whether the command line has rules.
func (f *TrustFlags) namesRules() bool { return len(f.Deny)+len(f.Ask)+len(f.Allow) > 0 }

// anyModel as a model: the server's hints choose.
const anyModel = "any"

// namesSampling says whether the command line says anything of models.
func (f *TrustFlags) namesSampling() bool {
	return f.Sampling != "" || f.SampleTokens > 0 || f.SampleRequests > 0
}

// sampling lets a server have models asked.
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

// rules puts what is refused before what is allowed: the first that fits decides.
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
