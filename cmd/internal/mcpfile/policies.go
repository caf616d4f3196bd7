package mcpfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// word is the value of an enum that a file writes as a lower-case word; 0 where there is none.
func word(values map[string]int32, prefix, text string) int32 {
	if text != strings.ToLower(text) {
		return 0
	}
	return values[prefix+strings.ToUpper(text)]
}

// policies reads `tools`: what tools do.
func (f *fields) policies(s *mcppoolv1.McpServer) error {
	var tools map[string]struct {
		Effect     string `json:"effect"`
		Idempotent bool   `json:"idempotent"`
		Risk       string `json:"risk"`
	}
	const what = `an object such as {"name": {"effect": "read", "idempotent": true, "risk": "low"}}`
	if err := f.take(member{"tools", what, &tools}); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		t := tools[name]
		effect := word(commonv1.Effect_value, "EFFECT_", t.Effect)
		if effect == 0 {
			return fmt.Errorf(`"tools": the "effect" of %q must be read, write or destructive`, name)
		}
		risk := word(commonv1.RiskLevel_value, "RISK_LEVEL_", t.Risk)
		if t.Risk != "" && risk == 0 {
			return fmt.Errorf(`"tools": the "risk" of %q must be low, medium or high`, name)
		}
		if s.ToolPolicies == nil {
			s.ToolPolicies = make(map[string]*mcppoolv1.ToolPolicy, len(tools))
		}
		s.ToolPolicies[name] = &mcppoolv1.ToolPolicy{
			Effect: commonv1.Effect(effect), Idempotent: t.Idempotent, RiskFloor: commonv1.RiskLevel(risk),
		}
	}
	return nil
}

// rule is one of `permissions`.
type rule struct {
	Users    []string `json:"users"`
	Tools    []string `json:"tools"`
	Effects  []string `json:"effects"`
	Decision string   `json:"decision"`
}

// permissions reads who may call what.
func (f *fields) permissions(s *mcppoolv1.McpServer) error {
	var rules []rule
	const what = `a list such as [{"users": ["ann"], "tools": ["delete_*"], "effects": ["destructive"], "decision": "deny"}]`
	if err := f.take(member{"permissions", what, &rules}); err != nil {
		return err
	}
	for i, r := range rules {
		m, err := r.message(i + 1)
		if err != nil {
			return err
		}
		s.Permissions = append(s.Permissions, m)
	}
	return nil
}

func (r rule) message(number int) (*mcppoolv1.PermissionRule, error) {
	decision := word(mcppoolv1.PermissionDecision_value, "PERMISSION_DECISION_", r.Decision)
	if decision == 0 {
		return nil, fmt.Errorf(`"permissions": the "decision" of rule %d must be allow, ask or deny`, number)
	}
	if slices.Contains(r.Users, "") || slices.Contains(r.Tools, "") {
		return nil, fmt.Errorf(`"permissions": rule %d names a user or a tool that is empty`, number)
	}
	m := &mcppoolv1.PermissionRule{Users: r.Users, Tools: r.Tools, Decision: mcppoolv1.PermissionDecision(decision)}
	for _, name := range r.Effects {
		effect := word(commonv1.Effect_value, "EFFECT_", name)
		if effect == 0 {
			return nil, fmt.Errorf(`"permissions": the "effects" of rule %d must be read, write or destructive`, number)
		}
		m.Effects = append(m.Effects, commonv1.Effect(effect))
	}
	return m, nil
}

// sharing reads which tools need an approval, and who shares connections.
func (f *fields) sharing(s *mcppoolv1.McpServer) error {
	var pinning, isolation string
	err := f.take(
		member{"pinning", aText, &pinning},
		member{"isolation", aText, &isolation},
		member{"maxConnections", "a whole number that is not negative", &s.MaxConnections},
	)
	if err != nil {
		return err
	}
	s.Pinning = mcppoolv1.Pinning(word(mcppoolv1.Pinning_value, "PINNING_", pinning))
	if pinning != "" && s.GetPinning() == 0 {
		return fmt.Errorf(`"pinning" must be one of approve_changes, allow_new, trust_all`)
	}
	s.Isolation = mcppoolv1.Isolation(word(mcppoolv1.Isolation_value, "ISOLATION_", isolation))
	if isolation != "" && s.GetIsolation() == 0 {
		return fmt.Errorf(`"isolation" must be one of user, task, shared`)
	}
	return nil
}
