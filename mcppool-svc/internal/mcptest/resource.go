package mcptest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Guard configures how an MCP server requires tokens. The zero value follows the specification.
type Guard struct {
	MetadataAt   string              // path of the metadata; RFC 9728's if empty, none if "-"
	Metadata     Fields              // changes to the protected resource metadata
	Ask          string              // scope in the challenge
	Challenge    string              // the whole challenge; none if "-"
	OpenMethod   string              // this method, notifications and requests other than POST need no token; empty: all do
	MethodScopes map[string][]string // the scopes that a method requires; 403 without them
	Always403    string              // a scope; requests with a valid token get a 403 that asks for it
	SameHost     bool                // the authorization server answers here too, as in 2025-03-26
	Sessions     bool                // the server has a revision with sessions, and refuses later revisions
}

// Resource is a running MCP server that requires tokens.
type Resource struct {
	URL, Base string // with and without the path

	authority *Authority
	next      http.Handler

	mu      sync.Mutex // guards the fields below
	Guard   Guard
	Headers []http.Header // of the requests to the MCP endpoint
	Methods []string      // HTTP methods of the requests to the MCP endpoint
}

// Protect serves next at /mcp behind the guard until the test ends.
func Protect(t testing.TB, a *Authority, next http.Handler, g Guard) *Resource {
	t.Helper()
	r := &Resource{authority: a, next: next, Guard: g}
	srv := httptest.NewServer(r)
	t.Cleanup(srv.Close)
	r.Base, r.URL = srv.URL, srv.URL+"/mcp"
	return r
}

// With calls do, which may change the guard and read the recorded requests.
func (s *Resource) With(do func(*Resource)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do(s)
}

// ServeHTTP implements http.Handler.
func (s *Resource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	g := s.Guard
	if r.URL.Path == "/mcp" {
		s.Headers, s.Methods = append(s.Headers, r.Header.Clone()), append(s.Methods, r.Method)
	}
	s.mu.Unlock()
	switch {
	case r.URL.Path == g.metadataAt():
		answer(w, http.StatusOK, g.Metadata.apply(map[string]any{"resource": s.URL, "authorization_servers": []string{s.authority.URL}}, s.Base))
	case r.URL.Path != "/mcp" && g.SameHost:
		s.authority.ServeHTTP(w, r)
	case r.URL.Path != "/mcp":
		http.NotFound(w, r)
	case !s.admit(w, r, g):
	case g.Sessions && r.Header.Get("Mcp-Method") == "server/discover":
		w.WriteHeader(http.StatusBadRequest)
	default:
		s.next.ServeHTTP(w, r)
	}
}

func (g Guard) metadataAt() string {
	if g.MetadataAt == "" {
		return "/.well-known/oauth-protected-resource/mcp"
	}
	return g.MetadataAt
}

// admit reports whether a request has the token that it needs, and refuses it if not.
func (s *Resource) admit(w http.ResponseWriter, r *http.Request, g Guard) bool {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var rpc struct{ Method string }
	_ = json.Unmarshal(body, &rpc)
	if g.OpenMethod != "" && (rpc.Method == g.OpenMethod || strings.HasPrefix(rpc.Method, "notifications/") || r.Method != http.MethodPost) {
		return true
	}
	text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	token := s.authority.Check(text)
	if !ok || token == nil || token.Resource != s.URL && token.Resource != s.Base {
		s.refuse(w, g, http.StatusUnauthorized, "", g.Ask)
		return false
	}
	for _, scope := range g.MethodScopes[rpc.Method] {
		if !slices.Contains(token.Scopes, scope) {
			s.refuse(w, g, http.StatusForbidden, "insufficient_scope", scope)
			return false
		}
	}
	if g.Always403 != "" {
		s.refuse(w, g, http.StatusForbidden, "insufficient_scope", g.Always403)
		return false
	}
	return true
}

func (s *Resource) refuse(w http.ResponseWriter, g Guard, status int, code, scope string) {
	challenge := fmt.Sprintf(`Bearer resource_metadata="%s"`, s.Base+g.metadataAt())
	if scope != "" {
		challenge += fmt.Sprintf(`, scope="%s"`, scope)
	}
	if code != "" {
		challenge += fmt.Sprintf(`, error="%s"`, code)
	}
	if g.Challenge != "" {
		challenge = strings.ReplaceAll(g.Challenge, "SELF", s.Base)
	}
	if challenge != "-" {
		w.Header().Set("WWW-Authenticate", challenge)
	}
	w.WriteHeader(status)
}
