package registry

import (
	"encoding/json"
	"slices"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

// AnyTool stands for any text in the name of a tool. Alone it is the key of the policy for tools without a policy of their own.
const AnyTool = "*"

// Policy holds the effect and the risk of a tool.
type Policy struct {
	Effect     commonv1.Effect
	Idempotent bool
	RiskFloor  commonv1.RiskLevel
}

// Rule decides about the calls that match all of its lists; an empty list matches any call.
type Rule struct {
	Users    []string `json:"users,omitempty"` // subs
	Tools    []string `json:"tools,omitempty"` // names; `*` stands for any text
	Effects  Effects  `json:"effects,omitempty"`
	Decision Decision `json:"decision"`
}

// Effects are stored by their names.
type Effects []commonv1.Effect

// Hints are a tool's annotations as the server sent them; nil if it sent none.
type Hints struct {
	ReadOnly, Destructive, Idempotent *bool
}

// PolicyFor is Policy for a user. It also returns the decision of the permission rules. If the decision is Ask, the risk floor is at least MEDIUM.
func (s *Server) PolicyFor(user, tool string, hints Hints) (Policy, Decision) {
	policy := s.Policy(tool, hints)
	decision := s.Permit(user, tool, policy.Effect)
	if decision == Ask {
		policy.RiskFloor = max(policy.RiskFloor, commonv1.RiskLevel_RISK_LEVEL_MEDIUM)
	}
	return policy, decision
}

// Policy returns the policy of a tool: the operator's, else that of a trusted server's annotations, else WRITE.
func (s *Server) Policy(tool string, hints Hints) Policy {
	policy, ok := s.operatorPolicy(tool)
	switch {
	case ok:
	case s.Trusted || s.Builtin != nil:
		policy = hints.policy()
	}
	if policy.Effect == commonv1.Effect_EFFECT_UNSPECIFIED {
		policy.Effect = commonv1.Effect_EFFECT_WRITE
	}
	if policy.RiskFloor == commonv1.RiskLevel_RISK_LEVEL_UNSPECIFIED {
		policy.RiskFloor = floor(policy.Effect)
	}
	return policy
}

// operatorPolicy returns the operator's policy for a tool: the one under its name, else the one under the longest matching pattern.
func (s *Server) operatorPolicy(tool string) (Policy, bool) {
	if p, ok := s.Policies[tool]; ok {
		return p, true
	}
	best, found := "", false
	for pattern := range s.Policies {
		if !strings.Contains(pattern, AnyTool) || !match(pattern, tool) {
			continue
		}
		if !found || len(pattern) > len(best) || len(pattern) == len(best) && pattern < best {
			best, found = pattern, true
		}
	}
	return s.Policies[best], found
}

// policy converts the annotations, with MCP's defaults: not read-only, destructive, not idempotent. Without annotations the policy is empty.
func (h Hints) policy() Policy {
	switch {
	case h == (Hints{}):
		return Policy{}
	case h.ReadOnly != nil && *h.ReadOnly:
		return Policy{Effect: commonv1.Effect_EFFECT_READ, Idempotent: true}
	}
	p := Policy{Effect: commonv1.Effect_EFFECT_DESTRUCTIVE, Idempotent: h.Idempotent != nil && *h.Idempotent}
	if h.Destructive != nil && !*h.Destructive {
		p.Effect = commonv1.Effect_EFFECT_WRITE
	}
	return p
}

// floor returns the lowest risk of a tool with an effect.
func floor(e commonv1.Effect) commonv1.RiskLevel {
	switch e {
	case commonv1.Effect_EFFECT_READ:
		return commonv1.RiskLevel_RISK_LEVEL_LOW
	case commonv1.Effect_EFFECT_DESTRUCTIVE:
		return commonv1.RiskLevel_RISK_LEVEL_HIGH
	default:
		return commonv1.RiskLevel_RISK_LEVEL_MEDIUM
	}
}

// Permit returns the decision of the first rule that matches a user's call.
func (s *Server) Permit(user, tool string, effect commonv1.Effect) Decision {
	return s.decide(func(r Rule) bool {
		return r.matches(user, effect) && (len(r.Tools) == 0 || slices.ContainsFunc(r.Tools, func(p string) bool { return match(p, tool) }))
	})
}

// PermitOffers returns the decision about a server's resources, prompts and completions for a user. Only rules for all tools (or `*`) and for
// all effects (or READ) match. The caller treats Ask like Allow, because users request these, not models.
func (s *Server) PermitOffers(user string) Decision {
	return s.decide(func(r Rule) bool {
		return r.matches(user, commonv1.Effect_EFFECT_READ) && (len(r.Tools) == 0 || slices.Contains(r.Tools, AnyTool))
	})
}

// RulesFor returns which permission rules are about a user, one character for each. PolicyFor is the same for users with the same rules.
func (s *Server) RulesFor(user string) string {
	about := make([]byte, len(s.Permissions))
	for i, r := range s.Permissions {
		if about[i] = '0'; len(r.Users) == 0 || slices.Contains(r.Users, user) {
			about[i] = '1'
		}
	}
	return string(about)
}

func (s *Server) decide(matches func(Rule) bool) Decision {
	i := slices.IndexFunc(s.Permissions, matches)
	switch {
	case i < 0:
		return Allow
	case s.Permissions[i].Decision == Allow, s.Permissions[i].Decision == Ask:
		return s.Permissions[i].Decision
	}
	return Deny // also for an unknown decision
}

func (r Rule) matches(user string, effect commonv1.Effect) bool {
	return (len(r.Users) == 0 || slices.Contains(r.Users, user)) && (len(r.Effects) == 0 || slices.Contains(r.Effects, effect))
}

// match reports whether a name matches a pattern in which `*` stands for any text.
func match(pattern, name string) bool {
	head, rest, star := strings.Cut(pattern, AnyTool)
	if !star {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, head)
	if !ok {
		return false
	}
	parts := strings.Split(rest, AnyTool)
	last := parts[len(parts)-1]
	for _, part := range parts[:len(parts)-1] {
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name = name[i+len(part):]
	}
	return strings.HasSuffix(name, last)
}

// storedPolicy is a policy as stored: by the enums' names.
type storedPolicy struct {
	Effect     string `json:"effect"`
	Idempotent bool   `json:"idempotent,omitempty"`
	RiskFloor  string `json:"risk_floor,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (p Policy) MarshalJSON() ([]byte, error) {
	return json.Marshal(storedPolicy{p.Effect.String(), p.Idempotent, p.RiskFloor.String()})
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Policy) UnmarshalJSON(raw []byte) error {
	var s storedPolicy
	err := json.Unmarshal(raw, &s)
	*p = Policy{commonv1.Effect(commonv1.Effect_value[s.Effect]), s.Idempotent, commonv1.RiskLevel(commonv1.RiskLevel_value[s.RiskFloor])}
	return err
}

// MarshalJSON implements json.Marshaler.
func (e Effects) MarshalJSON() ([]byte, error) {
	var all []string
	for _, effect := range e {
		all = append(all, effect.String())
	}
	return json.Marshal(all)
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *Effects) UnmarshalJSON(raw []byte) error {
	var all []string
	err := json.Unmarshal(raw, &all)
	for _, name := range all {
		*e = append(*e, effect(name))
	}
	return err
}

// effect returns the effect with a name, as stored or as in files; 0 if there is none.
func effect(name string) commonv1.Effect {
	return commonv1.Effect(commonv1.Effect_value["EFFECT_"+strings.TrimPrefix(strings.ToUpper(name), "EFFECT_")])
}
