package registry

import (
	"fmt"
	"slices"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

// permissions reads who may call what.
func (f *fields) permissions(s *Server) (bool, error) {
	var rules []struct {
		Users    []string `json:"users"`
		Tools    []string `json:"tools"`
		Effects  []string `json:"effects"`
		Decision string   `json:"decision"`
	}
	const what = `a list such as [{"users": ["ann"], "tools": ["delete_*"], "effects": ["destructive"], "decision": "deny"}]`
	ok, err := take(f, "permissions", what, &rules)
	if !ok || err != nil {
		return false, err
	}
	for i, r := range rules {
		decision, known := ParseDecision(r.Decision)
		if !known {
			return false, fmt.Errorf(`"permissions": the "decision" of rule %d must be allow, ask or deny`, i+1)
		}
		if slices.Contains(r.Users, "") || slices.Contains(r.Tools, "") {
			return false, fmt.Errorf(`"permissions": rule %d names a user or a tool that is empty`, i+1)
		}
		rule := Rule{Users: r.Users, Tools: r.Tools, Decision: decision}
		for _, name := range r.Effects {
			effect := commonv1.Effect_value["EFFECT_"+strings.ToUpper(name)]
			if effect == 0 {
				return false, fmt.Errorf(`"permissions": the "effects" of rule %d must be read, write or destructive`, i+1)
			}
			rule.Effects = append(rule.Effects, commonv1.Effect(effect))
		}
		s.Permissions = append(s.Permissions, rule)
	}
	return true, nil
}
