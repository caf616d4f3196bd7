package registry

import (
	"encoding/json"
	"fmt"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

// recordVersion is the version of everything stored. A reader refuses what is newer than itself.
const recordVersion = 1

// record is a server as stored.
type record struct {
	Version      int               `json:"v"`
	UID          string            `json:"uid"`
	ID           string            `json:"id"`
	Owner        string            `json:"owner,omitempty"`
	DisplayName  string            `json:"display_name,omitempty"`
	Description  string            `json:"description,omitempty"`
	Stdio        *Stdio            `json:"stdio,omitempty"`
	HTTP         *HTTP             `json:"http,omitempty"`
	Builtin      *Builtin          `json:"builtin,omitempty"`
	Disabled     bool              `json:"disabled,omitempty"`
	AutoActivate bool              `json:"auto_activate,omitempty"`
	OnlyNamed    bool              `json:"only_when_named,omitempty"`
	Trusted      bool              `json:"trusted,omitempty"`
	Policies     map[string]policy `json:"tool_policies,omitempty"`
	Pinning      string            `json:"pinning,omitempty"`
	Permissions  []rule            `json:"permissions,omitempty"`
	Roots        []string          `json:"roots,omitempty"`
	CallTimeout  time.Duration     `json:"call_timeout,omitempty"`  // ns
	StartTimeout time.Duration     `json:"start_timeout,omitempty"` // ns
	ByOperator   bool              `json:"by_operator,omitempty"`
	Isolation    string            `json:"isolation,omitempty"`
	Connections  int               `json:"max_connections,omitempty"`
	CacheTTL     time.Duration     `json:"cache_ttl,omitempty"` // ns
	Sampling     *Sampling         `json:"sampling,omitempty"`
	Generation   uint64            `json:"generation"`
	Change       string            `json:"change,omitempty"`
	Meant        string            `json:"meant,omitempty"`
	CreateTime   time.Time         `json:"create_time"`
	UpdateTime   time.Time         `json:"update_time"`
}

// policy is a tool policy as stored: by the enums' names, which outlive their numbers.
type policy struct {
	Effect     string `json:"effect"`
	Idempotent bool   `json:"idempotent,omitempty"`
	RiskFloor  string `json:"risk_floor,omitempty"`
}

// rule is a permission as stored.
type rule struct {
	Users    []string `json:"users,omitempty"`
	Tools    []string `json:"tools,omitempty"`
	Effects  []string `json:"effects,omitempty"`
	Decision string   `json:"decision"`
}

func toRule(r Rule) rule {
	out := rule{Users: r.Users, Tools: r.Tools, Decision: r.Decision.String()}
	for _, e := range r.Effects {
		out.Effects = append(out.Effects, e.String())
	}
	return out
}

// rule denies what cannot be read: a rule that is not understood must not let anything through.
func (r rule) rule() Rule {
	out := Rule{Users: r.Users, Tools: r.Tools, Decision: Deny}
	if d, ok := ParseDecision(r.Decision); ok {
		out.Decision = d
	}
	for _, e := range r.Effects {
		out.Effects = append(out.Effects, commonv1.Effect(commonv1.Effect_value[e]))
	}
	return out
}

// activation is a user's explicit word on a server.
type activation struct {
	Version int  `json:"v"`
	Active  bool `json:"active"`
}

// request is a create that was answered, so that its repetition gets the same answer.
type request struct {
	Version int       `json:"v"`
	Digest  string    `json:"digest"` // of what was asked
	Answer  record    `json:"answer"`
	Time    time.Time `json:"time"`
}

func toRecord(s *Server) record {
	r := record{
		Version: recordVersion, UID: s.UID, ID: s.ID, Owner: s.Owner, DisplayName: s.DisplayName, Description: s.Description,
		Stdio: s.Stdio, HTTP: s.HTTP, Builtin: s.Builtin, Disabled: s.Disabled, AutoActivate: s.AutoActivate, OnlyNamed: s.OnlyWhenNamed,
		Trusted: s.Trusted, Roots: s.Roots, CallTimeout: s.CallTimeout, StartTimeout: s.StartTimeout, ByOperator: s.ByOperator,
		Generation: s.Generation, Change: s.Change, Meant: s.Meant, CreateTime: s.CreateTime, UpdateTime: s.UpdateTime,
	}
	for _, p := range s.Permissions {
		r.Permissions = append(r.Permissions, toRule(p))
	}
	if s.Pinning != PinChanges {
		r.Pinning = s.Pinning.String()
	}
	r.Connections, r.CacheTTL, r.Sampling = s.MaxConnections, s.CacheTTL, s.Sampling
	if s.Isolation != PerUser {
		r.Isolation = s.Isolation.String()
	}
	for name, p := range s.Policies {
		if r.Policies == nil {
			r.Policies = make(map[string]policy, len(s.Policies))
		}
		r.Policies[name] = policy{Effect: p.Effect.String(), Idempotent: p.Idempotent, RiskFloor: p.RiskFloor.String()}
	}
	return r
}

func (r record) server() *Server {
	s := &Server{
		UID: r.UID, ID: r.ID, Owner: r.Owner, DisplayName: r.DisplayName, Description: r.Description,
		Stdio: r.Stdio, HTTP: r.HTTP, Builtin: r.Builtin, Disabled: r.Disabled, AutoActivate: r.AutoActivate, OnlyWhenNamed: r.OnlyNamed,
		Trusted: r.Trusted, Roots: r.Roots, CallTimeout: r.CallTimeout, StartTimeout: r.StartTimeout, ByOperator: r.ByOperator,
		Generation: r.Generation, Change: r.Change, Meant: r.Meant, CreateTime: r.CreateTime, UpdateTime: r.UpdateTime,
	}
	for _, p := range r.Permissions {
		s.Permissions = append(s.Permissions, p.rule())
	}
	s.Pinning, _ = ParsePinning(r.Pinning)       // of no name: the default, which is the strictest
	s.Isolation, _ = ParseIsolation(r.Isolation) // of no name: the default, which shares nothing between users
	s.MaxConnections, s.CacheTTL, s.Sampling = r.Connections, r.CacheTTL, r.Sampling
	for name, p := range r.Policies {
		if s.Policies == nil {
			s.Policies = make(map[string]Policy, len(r.Policies))
		}
		s.Policies[name] = Policy{
			Effect: commonv1.Effect(commonv1.Effect_value[p.Effect]), Idempotent: p.Idempotent,
			RiskFloor: commonv1.RiskLevel(commonv1.RiskLevel_value[p.RiskFloor]),
		}
	}
	return s.Clone() // a record handed out twice must not share its maps
}

// encode marshals a stored value; those are plain data, for which that cannot fail.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// decode reads a stored value after a look at its version.
func decode(raw []byte, to any) error {
	var head struct {
		Version int `json:"v"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return err
	}
	if head.Version < 1 || head.Version > recordVersion {
		return fmt.Errorf("it was written by a newer version of this program (format %d); use that one", head.Version)
	}
	return json.Unmarshal(raw, to)
}
