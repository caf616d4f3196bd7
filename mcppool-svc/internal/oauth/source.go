package oauth

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
)

// Source returns the tokens for the requests of one connection.
type Source struct {
	logins *Logins
	server *registry.Server
	user   string
	ref    ref

	mu   sync.Mutex
	used []string // guarded by mu; tokens that went out, the last few
}

// maxUsed is how many tokens of a connection are kept out of messages.
const maxUsed = 4

// For returns the source of tokens of a user's connection to a server; nil if the server can have none. Without a user it
// has only those of the pool itself.
func (l *Logins) For(server *registry.Server, user string) *Source {
	if !possible(server) {
		return nil
	}
	return &Source{logins: l, server: server, user: user, ref: refFor(server, user)}
}

// own reports whether this connection can have a token: one that users share has only those of the pool itself.
func (s *Source) own() bool { return s.user != "" || byPool(s.server) }

// Token returns the token for a request, renewed if needed; "" if there is none. The error is *mcp.Error; nothing was sent
// then.
func (s *Source) Token(ctx context.Context) (string, error) {
	if !s.own() {
		return "", nil
	}
	l, id := s.logins, s.server.ID
	t, sealed := l.vault.token(s.ref)
	if sealed && !byPool(s.server) {
		return "", loginRequired("the stored login to MCP server %s cannot be read with the pool's key (--token-key): restore the key, or run `pawl mcp login %[1]s`", id)
	}
	if t == nil || !t.stale(l.now()) {
		return s.markUsed(t), nil
	}
	var err error
	next := t
	switch {
	case byPool(s.server):
		next, err = l.obtain(ctx, s.server, s.ref, t, challenge{})
	case t.Refresh != "":
		next, err = l.renew(ctx, s.server, s.ref, t)
	case t.expired(l.now()):
		err = loginRequired("the login to MCP server %s has expired: run `pawl mcp login %[1]s`", id)
	}
	if err != nil && !t.expired(l.now()) && mcp.As(err).Kind != mcp.LoginRequired {
		return s.markUsed(t), nil // it may work later, and until then this one does
	}
	if err != nil {
		return "", err
	}
	return s.markUsed(next), nil
}

// Refused handles a 401 or 403 for a request with the token used. It returns another token to send the request with once
// more, or an error if there is none, or neither if the refusal is about something else. again reports that the request was
// repeated already.
func (s *Source) Refused(ctx context.Context, used string, again bool, resp *http.Response) (next string, err error) {
	c, kind := challengeOf(resp.Header)
	switch {
	case resp.StatusCode == http.StatusForbidden && c.err == "insufficient_scope":
		return "", s.insufficient(c)
	case resp.StatusCode != http.StatusUnauthorized || kind == foreign:
		return "", nil
	case !s.own():
		return "", mcp.Errorf(mcp.Unauthorized, "MCP server %s wants a login, but its users share a connection: "+
			"set its oauth.grant to client_credentials, or its isolation to user", s.server.ID)
	}
	l := s.logins
	t, _ := l.vault.token(s.ref)
	switch {
	case t != nil && t.Access != used && !again:
		return s.markUsed(t), nil // renewed by another request
	case byPool(s.server):
		return s.poolAgain(ctx, t, again, c)
	case t != nil && t.Refresh != "" && !again:
		t, err := l.renew(ctx, s.server, s.ref, t)
		if err != nil {
			return "", err
		}
		return s.markUsed(t), nil
	}
	return "", s.required(t, c, kind)
}

// required is the error of a request for which the user has to log in.
func (s *Source) required(t *token, c challenge, kind scheme) error {
	s.logins.recordNeed(s.ref, c, false)
	switch {
	case t != nil:
		return loginRequired("MCP server %s no longer accepts the login: run `pawl mcp login %[1]s`", s.server.ID)
	case kind == unsaid:
		return loginRequired("MCP server %s wants a login: run `pawl mcp login %[1]s`; if it wants a key instead, put that into its `headers`", s.server.ID)
	default:
		return loginRequired("MCP server %s wants a login: run `pawl mcp login %[1]s`", s.server.ID)
	}
}

// poolAgain logs the pool itself in.
func (s *Source) poolAgain(ctx context.Context, t *token, again bool, c challenge) (string, error) {
	if again {
		return "", mcp.Errorf(mcp.Unauthorized,
			"MCP server %s refuses the token that its authorization server just gave the pool; check its oauth settings", s.server.ID)
	}
	t, err := s.logins.obtain(ctx, s.server, s.ref, t, c)
	if err != nil {
		return "", err
	}
	return s.markUsed(t), nil
}

// insufficient is the error of a request that needs more rights than the login has. Logging in for more rights helps, unless
// it was tried.
func (s *Source) insufficient(c challenge) error {
	t, _ := s.logins.vault.token(s.ref)
	switch {
	case byPool(s.server) || !s.own():
		return mcp.Errorf(mcp.Unauthorized, "MCP server %s wants more rights than the pool has there (%s); an operator can set its oauth.scopes",
			s.server.ID, list(c.scopes))
	case t != nil && (includes(t.Scopes, c.scopes) || t.StepUps > 0 && includes(t.Wanted, c.scopes)):
		return mcp.Errorf(mcp.Unauthorized, "MCP server %s wants rights that logging in again does not give (%s); ask its operator",
			s.server.ID, list(c.scopes))
	}
	s.logins.recordNeed(s.ref, c, true)
	return loginRequired("MCP server %s wants more rights than your login has (%s): run `pawl mcp login %[1]s`", s.server.ID, list(c.scopes))
}

func includes(all, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// markUsed remembers a token that is sent.
func (s *Source) markUsed(t *token) string {
	if t == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.used, t.Access) {
		s.used = append(s.used, t.Access)
		s.used = s.used[max(0, len(s.used)-maxUsed):]
	}
	return t.Access
}

// Hide takes the tokens of the connection out of a text.
func (s *Source) Hide(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.used {
		text = strings.ReplaceAll(text, t, "***")
	}
	return text
}

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
