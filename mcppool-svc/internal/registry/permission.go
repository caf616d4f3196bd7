package registry

import (
	"slices"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

// Decision is what decides about a call. Stored by name: see String and ParseDecision.
type Decision int

// The decisions; the zero value lets a call be made.
const (
	Allow Decision = iota
	Ask            // it is made, at a risk that makes tasks ask
	Deny
)

var decisions = []string{"allow", "ask", "deny"}

func (d Decision) String() string { return decisions[d] }

// ParseDecision reads a name; false if it is none.
func ParseDecision(name string) (Decision, bool) {
	i := slices.Index(decisions, name)
	return Decision(max(i, 0)), i >= 0
}

// Rule decides about the calls that fit each of its lists; an empty list fits any.
type Rule struct {
	Users    []string // subs
	Tools    []string // names; `*` stands for any text
	Effects  []commonv1.Effect
	Decision Decision
}

// Permit returns the decision of the first rule that matches a user's call.
func (s *Server) Permit(user, tool string, effect commonv1.Effect) Decision {
	for _, r := range s.Permissions {
		if r.fits(user, tool, effect) {
			return r.Decision
		}
	}
	return Allow
}

func (r Rule) fits(user, tool string, effect commonv1.Effect) bool {
	return (len(r.Users) == 0 || slices.Contains(r.Users, user)) &&
		(len(r.Effects) == 0 || slices.Contains(r.Effects, effect)) &&
		(len(r.Tools) == 0 || slices.ContainsFunc(r.Tools, func(p string) bool { return match(p, tool) }))
}

func (r Rule) equal(o Rule) bool {
	return r.Decision == o.Decision && slices.Equal(r.Users, o.Users) && slices.Equal(r.Tools, o.Tools) && slices.Equal(r.Effects, o.Effects)
}

// SamePermissions reports whether two servers have the same rules.
func (s *Server) SamePermissions(o *Server) bool {
	return slices.EqualFunc(s.Permissions, o.Permissions, Rule.equal)
}

// match reports whether a name fits a pattern in which `*` stands for any text.
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

// policy finds the operator's word on a tool: under its own name, else under the longest pattern that it fits.
func (s *Server) policy(tool string) (Policy, bool) {
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
