package registry

import (
	"slices"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

// PermitOffers reports whether a user may use what a server offers beside tools: resources, prompts and completions. They are
// read and have no tool's name, so only rules about any tool (or `*`) and any effect (or READ) fit. Ask lets them be read:
// only the user asks for them.
func (s *Server) PermitOffers(user string) Decision {
	for _, r := range s.Permissions {
		any := len(r.Tools) == 0 || slices.Contains(r.Tools, AnyTool)
		if any && (Rule{Users: r.Users, Effects: r.Effects}).fits(user, "", commonv1.Effect_EFFECT_READ) {
			return r.Decision
		}
	}
	return Allow
}
