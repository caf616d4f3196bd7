package scale

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// guarded is an MCP server over HTTP that requires a login, and the authorization server that it names.
type guarded struct {
	URL string

	mu     sync.Mutex
	tokens map[string]bool // guarded by mu; access tokens that are good
}

func startGuarded(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{tokens: map[string]bool{}}
	mux := http.NewServeMux()
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	g.URL = web.URL + "/mcp"
	s := server.NewMCPServer("web", "1", server.WithToolCapabilities(true))
	s.AddTool(mcp.NewTool("hello"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("hello"), nil
	})
	mux.Handle("/mcp", g.guard(server.NewStreamableHTTPServer(s), web.URL))
	say := func(path string, status int, v func(*http.Request) any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(v(r)) // a client that does not read it fails
		})
	}
	say("/.well-known/oauth-protected-resource", http.StatusOK, func(*http.Request) any {
		return map[string]any{"resource": g.URL, "authorization_servers": []string{web.URL}}
	})
	say("/.well-known/oauth-authorization-server", http.StatusOK, func(*http.Request) any {
		return map[string]any{
			"issuer": web.URL, "authorization_endpoint": web.URL + "/authorize", "token_endpoint": web.URL + "/token",
			"registration_endpoint": web.URL + "/register", "response_types_supported": []string{"code"},
			"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none"},
		}
	})
	say("/register", http.StatusCreated, func(*http.Request) any {
		return map[string]any{"client_id": rand.Text(), "token_endpoint_auth_method": "none"}
	})
	say("/token", http.StatusOK, func(*http.Request) any {
		access := rand.Text()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.tokens[access] = true
		return map[string]any{"access_token": access, "token_type": "bearer", "expires_in": 3600, "refresh_token": rand.Text()}
	})
	return g
}

func (g *guarded) guard(next http.Handler, base string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		good := g.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
		g.mu.Unlock()
		if !good {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+base+`/.well-known/oauth-protected-resource"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
