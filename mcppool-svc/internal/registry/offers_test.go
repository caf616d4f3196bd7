package registry

import (
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

// TestPermitOffers: which rules apply to resources and prompts, which have no tool name and are only read.
func TestPermitOffers(t *testing.T) {
	deny := func(r Rule) *Server {
		r.Decision = Deny
		return &Server{Permissions: []Rule{r}}
	}
	for name, tt := range map[string]struct {
		server *Server
		want   Decision
	}{
		"no rules":                {&Server{}, Allow},
		"all users, all tools":    {deny(Rule{}), Deny},
		"the user":                {deny(Rule{Users: []string{"ann"}}), Deny},
		"another user":            {deny(Rule{Users: []string{"bob"}}), Allow},
		"any tool":                {deny(Rule{Tools: []string{"*"}}), Deny},
		"some tools":              {deny(Rule{Tools: []string{"get_*"}}), Allow},
		"what reads":              {deny(Rule{Effects: []commonv1.Effect{commonv1.Effect_EFFECT_READ}}), Deny},
		"what writes":             {deny(Rule{Effects: []commonv1.Effect{commonv1.Effect_EFFECT_WRITE}}), Allow},
		"the first one that fits": {&Server{Permissions: []Rule{{Users: []string{"ann"}, Decision: Ask}, {Decision: Deny}}}, Ask},
	} {
		if got := tt.server.PermitOffers("ann"); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
