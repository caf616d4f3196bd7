package registry

import commonv1 "pawl.dev/proto/gen/pawl/common/v1"

// AnyTool stands for any text in the name of a tool; alone it is the key of the policy for tools that have none of their
// own.
const AnyTool = "*"

// Hints are a tool's annotations, as its server gave them; nil if it gave none.
type Hints struct {
	ReadOnly, Destructive, Idempotent *bool
}

// JudgeFor is Judge for a user: if a rule says ask, the risk is at least MEDIUM.
func (s *Server) JudgeFor(user, tool string, hints Hints) (Policy, Decision) {
	policy := s.Judge(tool, hints)
	decision := s.Permit(user, tool, policy.Effect)
	if decision == Ask {
		policy.RiskFloor = max(policy.RiskFloor, commonv1.RiskLevel_RISK_LEVEL_MEDIUM)
	}
	return policy, decision
}

// Judge returns the policy of a tool: the operator's, else a trusted server's annotations, else WRITE.
func (s *Server) Judge(tool string, hints Hints) Policy {
	policy, ok := s.policy(tool)
	switch {
	case ok:
	case s.Trusted || s.Builtin != nil:
		policy = hints.policy()
	default:
		policy = Policy{Effect: commonv1.Effect_EFFECT_WRITE}
	}
	if policy.Effect == commonv1.Effect_EFFECT_UNSPECIFIED {
		policy.Effect = commonv1.Effect_EFFECT_WRITE
	}
	if policy.RiskFloor == commonv1.RiskLevel_RISK_LEVEL_UNSPECIFIED {
		policy.RiskFloor = floor(policy.Effect)
	}
	return policy
}

// policy reads the annotations with the defaults that MCP gives them: not read-only, destructive, not idempotent. Where
// the server said nothing at all there is nothing to believe.
func (h Hints) policy() Policy {
	if h == (Hints{}) {
		return Policy{Effect: commonv1.Effect_EFFECT_WRITE}
	}
	if h.ReadOnly != nil && *h.ReadOnly {
		return Policy{Effect: commonv1.Effect_EFFECT_READ, Idempotent: true}
	}
	p := Policy{Effect: commonv1.Effect_EFFECT_DESTRUCTIVE}
	if h.Destructive != nil && !*h.Destructive {
		p.Effect = commonv1.Effect_EFFECT_WRITE
	}
	p.Idempotent = h.Idempotent != nil && *h.Idempotent
	return p
}

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
