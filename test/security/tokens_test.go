package security

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"pawl.dev/services/identity/identitytest"
)

// issuerEntry gives the values of the claim roles the roles of their names.
const issuerEntry = "  roles_claim: roles\n  roles: {user: [user], operator: [operator], service: [service]}\n"

// tokensOfIssuer are signed tokens, in place of API keys.
type tokensOfIssuer struct {
	ofKeys map[string]string // by API key: a token of the same user with the same roles
	forged map[string]string // tokens that are refused, by what is wrong with them; without that, they could do everything
}

// makeTokens starts two providers of which the suite accepts one, and makes tokens of it.
func (w *world) makeTokens(t *testing.T, in *installation) {
	t.Helper()
	p, other := identitytest.NewProvider(t), identitytest.NewProvider(t)
	other.Publish(p.Key())
	in.issuersPath = identitytest.File(t, "issuers:\n"+p.Entry(issuerEntry))
	w.ofKeys = map[string]string{}
	for sub, roles := range rolesOf {
		w.ofKeys[w.tokens[sub]] = p.Token(map[string]any{"sub": sub, "roles": roles})
	}
	w.forged = p.Forged(other, map[string]any{"roles": everyRole})
}

// forgedCells returns callers with tokens that must be refused.
func (w *world) forgedCells() []cell {
	var cells []cell
	for name, token := range w.forged {
		cells = append(cells, cell{caller: caller{name: "a token: " + name, authorization: []string{"Bearer " + token}}, want: codes.Unauthenticated, hides: marker})
	}
	return cells
}

// byToken returns the cells with a token of the issuer in place of each caller's API key.
func (w *world) byToken(cells []cell) []cell {
	var changed []cell
	for _, c := range cells {
		c.name += ", by token"
		c.authorization = []string{"Bearer " + w.ofKeys[c.authorization[0][len("Bearer "):]]}
		changed = append(changed, c)
	}
	return changed
}

// signedParts returns the claims and signatures of all tokens, as they are in the tokens.
func (w *world) signedParts() []string {
	var parts []string
	for _, token := range slices.Concat(slices.Collect(maps.Values(w.ofKeys)), slices.Collect(maps.Values(w.forged))) {
		for _, part := range strings.Split(token, ".")[1:] {
			if len(part) > 20 {
				parts = append(parts, part)
			}
		}
	}
	return parts
}
