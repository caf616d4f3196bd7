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
	"pawl.dev/services/outbound"
)

// Source returns the tokens for the requests of one connection.
type Source struct {
	logins *Logins
	server *registry.Server
	user   string
	ref    ref

	mu   sync.Mutex
	used []string // guarded by mu; the last tokens that were sent
}

// maxUsed is how many of the last tokens Hide hides.
const maxUsed = 4

// For returns the source of tokens for a user's connection to a server; nil if the server can have none. If user is empty, the
// source has only tokens of the pool itself.
func (l *Logins) For(server *registry.Server, user string) outbound.Credentials {
	if !canHaveLogin(server) {
		return nil
	}
	return &Source{logins: l, server: server, user: user, ref: refFor(server, user)}
}

// canHaveToken reports whether this connection can have a token. A connection that users share has only tokens of the pool itself.
func (s *Source) canHaveToken() bool { return s.user != "" || isPoolLogin(s.server) }

// Token returns the token for a request, renewed if needed; "" if there is none. The error is an *mcp.Error.
func (s *Source) Token(ctx context.Context) (string, error) {
	if !s.canHaveToken() {
		return "", nil
	}
	l, id := s.logins, s.server.ID
	t, sealed := l.vault.token(s.ref)
	if sealed && !isPoolLogin(s.server) {
		return "", loginRequired("the stored login to MCP server %s cannot be read with the pool's key (--token-key): restore the key, or run `pawl mcp login %[1]s`", id)
	}
	if t == nil || !t.needsRenewal(l.now()) {
		return s.markUsed(t), nil
	}
	var err error
	next := t
	switch {
	case isPoolLogin(s.server):
		next, err = l.obtainForPool(ctx, s.server, s.ref, t, challenge{})
	case t.Refresh != "":
		next, err = l.renew(ctx, s.server, s.ref, t)
	case t.expired(l.now()):
		err = loginRequired("the login to MCP server %s has expired: run `pawl mcp login %[1]s`", id)
	}
	if err != nil && !t.expired(l.now()) && mcp.As(err).Kind != mcp.LoginRequired {
		return s.markUsed(t), nil // a later renewal may succeed, and this token is still valid
	}
	if err != nil {
		return "", err
	}
	return s.markUsed(next), nil
}

// Refused implements outbound.Credentials.
func (s *Source) Refused(ctx context.Context, used string, again bool, resp *http.Response) (next string, err error) {
	c, kind := challengeOf(resp.Header)
	switch {
	case resp.StatusCode == http.StatusForbidden && c.err == "insufficient_scope":
		return "", s.insufficient(c)
	case resp.StatusCode != http.StatusUnauthorized || kind == otherScheme:
		return "", nil
	case !s.canHaveToken():
		return "", mcp.Errorf(mcp.Unauthorized, "MCP server %s requires a login, but its users share a connection: "+
			"set its oauth.grant to client_credentials, or its isolation to user", s.server.ID)
	}
	l := s.logins
	t, _ := l.vault.token(s.ref)
	switch {
	case t != nil && t.Access != used && !again:
		return s.markUsed(t), nil // renewed by another request
	case isPoolLogin(s.server):
		return s.renewPoolToken(ctx, t, again, c)
	case t != nil && t.Refresh != "" && !again:
		t, err := l.renew(ctx, s.server, s.ref, t)
		if err != nil {
			return "", err
		}
		return s.markUsed(t), nil
	}
	return "", s.loginNeeded(t, c, kind)
}

// loginNeeded records that the user has to log in, and returns the error that says so.
func (s *Source) loginNeeded(t *token, c challenge, kind scheme) error {
	s.logins.recordNeed(s.ref, c, false)
	switch {
	case t != nil:
		return loginRequired("MCP server %s no longer accepts the login: run `pawl mcp login %[1]s`", s.server.ID)
	case kind == noScheme:
		return loginRequired("MCP server %s requires a login: run `pawl mcp login %[1]s`; if it requires a key instead, put the key into its `headers`", s.server.ID)
	default:
		return loginRequired("MCP server %s requires a login: run `pawl mcp login %[1]s`", s.server.ID)
	}
}

// renewPoolToken logs the pool itself in and returns the new token. If again is set, the refused token was new already: it returns an error.
func (s *Source) renewPoolToken(ctx context.Context, t *token, again bool, c challenge) (string, error) {
	if again {
		return "", mcp.Errorf(mcp.Unauthorized,
			"MCP server %s refuses the token that its authorization server just gave to the pool; check the server's oauth settings", s.server.ID)
	}
	t, err := s.logins.obtainForPool(ctx, s.server, s.ref, t, c)
	if err != nil {
		return "", err
	}
	return s.markUsed(t), nil
}

// insufficient returns the error of a request that needs more rights than the login has. It asks the user to log in again if that can help.
func (s *Source) insufficient(c challenge) error {
	t, _ := s.logins.vault.token(s.ref)
	switch {
	case isPoolLogin(s.server) || !s.canHaveToken():
		return mcp.Errorf(mcp.Unauthorized, "MCP server %s requires more rights than the pool has there (%s); an operator can set its oauth.scopes",
			s.server.ID, scopeList(c.scopes))
	case t != nil && (includes(t.Scopes, c.scopes) || t.StepUps > 0 && includes(t.Wanted, c.scopes)):
		return mcp.Errorf(mcp.Unauthorized, "MCP server %s requires rights that logging in again does not give (%s); ask its operator",
			s.server.ID, scopeList(c.scopes))
	}
	s.logins.recordNeed(s.ref, c, true)
	return loginRequired("MCP server %s requires more rights than your login has (%s): run `pawl mcp login %[1]s`", s.server.ID, scopeList(c.scopes))
}

func includes(all, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// markUsed returns the text of a token to send, or "" for nil, and stores it for Hide.
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

// Hide replaces the tokens of the connection in a text.
func (s *Source) Hide(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.used {
		text = strings.ReplaceAll(text, t, "***")
	}
	return text
}

const (
	// maxHeader bounds how much of the WWW-Authenticate headers is read, in bytes.
	maxHeader = 16 << 10
	// maxScopes is how many scopes a server can ask for, and maxScope the length of each.
	maxScopes = 100
	maxScope  = 500
)

// challenge is the Bearer challenge in a server's refusal of a request (RFC 6750, RFC 9728).
type challenge struct {
	metadata string   // the address of the resource's metadata; may be empty
	scopes   []string // that the request needs
	err      string   // such as insufficient_scope
}

// scheme is the kind of credentials that a response asks for.
type scheme int

const (
	noScheme scheme = iota
	bearer
	otherScheme // not bearer
)

// challengeOf returns the first Bearer challenge in the WWW-Authenticate headers of a response, and the scheme that the headers ask for.
func challengeOf(h http.Header) (challenge, scheme) {
	kind, budget := noScheme, maxHeader
	for _, value := range h.Values("WWW-Authenticate") {
		if budget -= len(value); budget < 0 {
			break
		}
		for _, c := range parseChallenges(value) {
			if !strings.EqualFold(c.scheme, "Bearer") {
				kind = max(kind, otherScheme)
				continue
			}
			return challenge{
				metadata: c.params["resource_metadata"], err: c.params["error"], scopes: scopesOf(c.params["scope"]),
			}, bearer
		}
	}
	return challenge{}, kind
}

// scopesOf splits a list of scopes, and drops those that are not valid (RFC 6749, 3.3).
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

// rawChallenge is one challenge of a header (RFC 9110, 11.6.1). Names of parameters are in lower case; if one occurs twice, its first value
// counts.
type rawChallenge struct {
	scheme string
	params map[string]string
}

// A challenge begins with its scheme, which a token68 may follow. Values of parameters are tokens or quoted strings.
var (
	schemePattern = regexp.MustCompile(`^[ \t,]*(` + word + `)(?:[ \t]+(?:` + word + `|/)+=*[ \t]*(?:,|$))?[ \t]*`)
	paramPattern  = regexp.MustCompile(`(?s)^[ \t,]*(` + word + `)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|(` + word + `))`)
	escaped       = regexp.MustCompile(`(?s)\\(.)`)
)

const word = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"

// parseChallenges returns the challenges up to the first part of the text that it cannot parse.
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
			return list // a parameter that cannot be read, or one before any scheme
		}
		list = append(list, rawChallenge{scheme: m[1], params: map[string]string{}})
	}
}
