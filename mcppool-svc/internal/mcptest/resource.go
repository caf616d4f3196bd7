package mcptest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Guard configures how an MCP server requires tokens. The zero value follows the specification.
type Guard struct {
	MetadataAt   string   // path of the metadata; RFC 9728's if empty, none if "-"
	Hidden       bool     // the challenge does not name that path
	Resource     string   // in the metadata, instead of its own address
	Servers      []string // instead of the authority's issuer
	Scopes       []string // in the metadata
	Ask          string   // scope in the challenge
	Challenge    string   // the whole challenge
	NoChallenge  bool
	OpenMethods  []string            // need no token
	MethodScopes map[string][]string // what a token needs for a method; 403 without
	Always403    []string            // scopes; if there are any, requests with a valid token get a 403 that asks for one
	SameHost     bool                // the authorization server answers here too, as in 2025-03-26
	Sessions     bool                // the server has a revision with sessions, and refuses later revisions
}

// Resource is a running MCP server that requires tokens.
type Resource struct {
	URL string

	base      string
	authority *Authority
	next      http.Handler

	mu      sync.Mutex
	guard   Guard
	Headers []http.Header // of the requests to the MCP endpoint
	Methods []string      // HTTP methods of the requests to the MCP endpoint
	Paths   []string      // of all requests
}

// Protect serves next at /mcp behind the guard until the test ends.
func Protect(t testing.TB, a *Authority, next http.Handler, g Guard) *Resource {
	t.Helper()
	r := &Resource{authority: a, next: next, guard: g}
	srv := httptest.NewServer(r)
	t.Cleanup(srv.Close)
	r.base, r.URL = srv.URL, srv.URL+"/mcp"
	return r
}

// Set changes the guard.
func (s *Resource) Set(change func(*Guard)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.guard)
}

// Look calls look with the recorded requests.
func (s *Resource) Look(look func(*Resource)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	look(s)
}

// ServeHTTP implements http.Handler.
func (s *Resource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	g := s.guard
	s.Paths = append(s.Paths, r.URL.Path)
	if r.URL.Path == "/mcp" {
		s.Headers, s.Methods = append(s.Headers, r.Header.Clone()), append(s.Methods, r.Method)
	}
	s.mu.Unlock()
	switch r.URL.Path {
	case s.metadataAt(g):
		s.metadata(w, g)
	case "/mcp":
		if !s.admit(w, r, g) {
			return
		}
		if g.Sessions && r.Header.Get("Mcp-Method") == "server/discover" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		s.next.ServeHTTP(w, r)
	default:
		if g.SameHost {
			s.authority.ServeHTTP(w, r)
			return
		}
		http.NotFound(w, r)
	}
}

// Base returns the address without the path.
func (s *Resource) Base() string { return s.base }

func (s *Resource) metadataAt(g Guard) string {
	if g.MetadataAt == "" {
		return "/.well-known/oauth-protected-resource/mcp"
	}
	return g.MetadataAt
}

func (s *Resource) metadata(w http.ResponseWriter, g Guard) {
	m := map[string]any{"resource": s.URL, "authorization_servers": []string{s.authority.URL}}
	if g.Resource != "" {
		m["resource"] = g.Resource
	}
	if g.Servers != nil {
		m["authorization_servers"] = g.Servers
	}
	if g.Scopes != nil {
		m["scopes_supported"] = g.Scopes
	}
	answer(w, http.StatusOK, m)
}

// admit reports whether a request has the token that it needs, and refuses it if not.
func (s *Resource) admit(w http.ResponseWriter, r *http.Request, g Guard) bool {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var rpc struct{ Method string }
	_ = json.Unmarshal(body, &rpc)
	for _, open := range g.OpenMethods {
		if rpc.Method == open || strings.HasPrefix(rpc.Method, "notifications/") || r.Method != http.MethodPost {
			return true
		}
	}
	text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	token := s.authority.Check(text)
	if !ok || token == nil || token.Resource != s.URL && token.Resource != s.base {
		s.refuse(w, g, http.StatusUnauthorized, "", g.Ask)
		return false
	}
	for _, scope := range append(g.MethodScopes[rpc.Method], g.Always403...) {
		if !strings.Contains(" "+strings.Join(token.Scopes, " ")+" ", " "+scope+" ") || len(g.Always403) > 0 {
			s.refuse(w, g, http.StatusForbidden, "insufficient_scope", scope)
			return false
		}
	}
	return true
}

func (s *Resource) refuse(w http.ResponseWriter, g Guard, status int, code, scope string) {
	challenge := "Bearer"
	add := func(name, value string) {
		if value != "" {
			challenge += fmt.Sprintf(`, %s="%s"`, name, value)
		}
	}
	if !g.Hidden {
		add("resource_metadata", s.base+s.metadataAt(g))
	}
	add("scope", scope)
	add("error", code)
	challenge = strings.Replace(challenge, "Bearer,", "Bearer", 1)
	if g.Challenge != "" {
		challenge = g.Challenge
	}
	if !g.NoChallenge {
		w.Header().Set("WWW-Authenticate", challenge)
	}
	w.WriteHeader(status)
}
