package registry

import (
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"*", "", true}, {"*", "a/b:c", true}, {"delete_*", "delete_file", true},
		{"delete_*", "delete", false}, {"*_file", "delete_file", true}, {"*_file", "delete_files", false}, {"a*c", "abc", true},
		{"a*c", "ac", true}, {"a*c", "acb", false}, {"a*b*c", "axbxc", true}, {"a*b*c", "acb", false}, {"a*a", "a", false},
		{"**", "x", true}, {"a**c", "ac", true}, {"*a*a*a", "aa", false}, {"a.c", "abc", false},
	} {
		if got := match(tt.pattern, tt.name); got != tt.want {
			t.Errorf("match(%q, %q) = %v", tt.pattern, tt.name, got)
		}
	}
}

// D9: permission is by user, tool and effect; the first rule that fits decides.
func TestPermit(t *testing.T) {
	const read, write, destructive = commonv1.Effect_EFFECT_READ, commonv1.Effect_EFFECT_WRITE, commonv1.Effect_EFFECT_DESTRUCTIVE
	s := &Server{Permissions: []Rule{
		{Users: []string{"op"}, Decision: Allow},
		{Tools: []string{"secret_*", "*_key"}, Decision: Deny},
		{Users: []string{"bob"}, Effects: []commonv1.Effect{write, destructive}, Decision: Deny},
		{Effects: []commonv1.Effect{destructive}, Decision: Ask},
	}}
	for _, tt := range []struct {
		user, tool string
		effect     commonv1.Effect
		want       Decision
	}{
		{"op", "secret_x", destructive, Allow},
		{"ann", "secret_x", read, Deny},
		{"ann", "api_key", read, Deny},
		{"bob", "file", read, Allow},
		{"bob", "file", write, Deny},
		{"ann", "file", write, Allow},
		{"ann", "file", destructive, Ask},
	} {
		if got := s.Permit(tt.user, tt.tool, tt.effect); got != tt.want {
			t.Errorf("%s, %s, %v: %v, want %v", tt.user, tt.tool, tt.effect, got, tt.want)
		}
	}
}

// A29: a rule that asks raises the risk, and never lowers it.
func TestAskRaisesTheRisk(t *testing.T) {
	const low, medium, high = commonv1.RiskLevel_RISK_LEVEL_LOW, commonv1.RiskLevel_RISK_LEVEL_MEDIUM, commonv1.RiskLevel_RISK_LEVEL_HIGH
	s := &Server{
		Policies:    map[string]Policy{"r": {Effect: commonv1.Effect_EFFECT_READ}, "d": {Effect: commonv1.Effect_EFFECT_DESTRUCTIVE}},
		Permissions: []Rule{{Users: []string{"bob"}, Decision: Ask}},
	}
	for _, tt := range []struct {
		user, tool string
		want       commonv1.RiskLevel
	}{{"ann", "r", low}, {"bob", "r", medium}, {"bob", "d", high}} {
		if p, _ := s.PolicyFor(tt.user, tt.tool, Hints{}); p.RiskFloor != tt.want {
			t.Errorf("%s, %s: %v, want %v", tt.user, tt.tool, p.RiskFloor, tt.want)
		}
	}
}

func TestPoliciesByPattern(t *testing.T) {
	const read, write, destructive = commonv1.Effect_EFFECT_READ, commonv1.Effect_EFFECT_WRITE, commonv1.Effect_EFFECT_DESTRUCTIVE
	s := &Server{Policies: map[string]Policy{
		"get_*": {Effect: read}, "get_and_*": {Effect: destructive}, "get_and_look": {Effect: read}, "*": {Effect: write}, "a*": {Effect: read}, "*b": {Effect: destructive},
	}}
	for tool, want := range map[string]commonv1.Effect{
		"get_x": read, "get_and_drop": destructive, "get_and_look": read, "put": write,
		"ab": destructive, // of two patterns of equal length, always the same one
	} {
		if got := s.Policy(tool, Hints{}).Effect; got != want {
			t.Errorf("%s: %v, want %v", tool, got, want)
		}
	}
}
