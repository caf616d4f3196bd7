package oauth

import (
	"net/http"
	"regexp"
	"strings"
)

const (
	// maxHeader bounds what is read of WWW-Authenticate headers.
	maxHeader = 16 << 10
	// maxScopes and maxScope bound what a server can ask for.
	maxScopes = 100
	maxScope  = 500
)

// challenge is what a server says when it refuses a request (RFC 6750, RFC 9728).
type challenge struct {
	metadata string   // where the metadata of the protected resource are; empty: not said
	scopes   []string // what the request needs
	err      string   // such as insufficient_scope
}

// scheme says which kinds of credentials a response asks for.
type scheme int

const (
	unsaid scheme = iota // none is named
	bearer
	foreign // others alone
)

// challengeOf reads the WWW-Authenticate headers of a response.
func challengeOf(h http.Header) (challenge, scheme) {
	kind, budget := unsaid, maxHeader
	for _, value := range h.Values("WWW-Authenticate") {
		if budget -= len(value); budget < 0 {
			break
		}
		for _, c := range parseChallenges(value) {
			if !strings.EqualFold(c.scheme, "Bearer") {
				kind = max(kind, foreign)
				continue
			}
			return challenge{
				metadata: c.params["resource_metadata"], err: c.params["error"], scopes: scopesOf(c.params["scope"]),
			}, bearer
		}
	}
	return challenge{}, kind
}

// scopesOf splits a list of scopes and drops what cannot be one (RFC 6749, 3.3).
func scopesOf(text string) []string {
	var scopes []string
	for scope := range strings.FieldsSeq(text) {
		if isScope(scope) && len(scopes) < maxScopes {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

func isScope(s string) bool {
	return s != "" && len(s) <= maxScope && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
}

// rawChallenge is one challenge of a header (RFC 9110, 11.6.1); names of parameters are in lower case, and of those that
// come twice the first counts.
type rawChallenge struct {
	scheme string
	params map[string]string
}

// A challenge begins with its scheme, perhaps followed by a text like a credential; parameters are tokens or quoted texts.
var (
	schemePattern = regexp.MustCompile(`^[ \t,]*(` + word + `)(?:[ \t]+(?:` + word + `|/)+=*[ \t]*(?:,|$))?[ \t]*`)
	paramPattern  = regexp.MustCompile(`(?s)^[ \t,]*(` + word + `)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|(` + word + `))`)
	escaped       = regexp.MustCompile(`(?s)\\(.)`)
)

const word = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"

// parseChallenges reads as far as it understands.
func parseChallenges(text string) []rawChallenge {
	var list []rawChallenge
	for {
		if m := paramPattern.FindStringSubmatch(text); m != nil && len(list) > 0 {
			name, value := strings.ToLower(m[1]), m[3]+escaped.ReplaceAllString(m[2], "$1")
			if params := list[len(list)-1].params; params[name] == "" {
				params[name] = value
			}
			text = text[len(m[0]):]
			continue
		}
		m := schemePattern.FindStringSubmatch(text)
		if m == nil {
			return list
		}
		if text = text[len(m[0]):]; strings.HasPrefix(text, "=") {
			return list // a parameter that cannot be read, or one of nothing
		}
		list = append(list, rawChallenge{scheme: m[1], params: map[string]string{}})
	}
}
