package mcpserver

import (
	"net/http"
	"strings"

	"pawl.dev/gateway/internal/problem"
)

// metadataPath is where the metadata of a protected resource are, followed by the path of the resource (RFC 9728).
const metadataPath = "/.well-known/oauth-protected-resource"

// IsMetadata reports whether a request is for the metadata of a resource that a Handler serves, or of all of them.
func IsMetadata(r *http.Request) bool {
	path, ok := strings.CutPrefix(r.URL.Path, metadataPath)
	return ok && (path == "" || path == Path || strings.HasPrefix(path, Path+"/"))
}

// ServeMetadata tells a client where it can get a token. It needs no credential, and tells nothing of servers.
func (h *Handler) ServeMetadata(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		problem.MethodNotAllowed(w, r, http.MethodGet, http.MethodHead)
		return
	}
	metadata := map[string]any{
		"resource": origin(r) + strings.TrimPrefix(r.URL.Path, metadataPath), "resource_name": "Pawl", "bearer_methods_supported": []string{"header"},
	}
	if h.cfg.Issuers != nil {
		if issuers := h.cfg.Issuers(); len(issuers) > 0 { // the RFC forbids an empty list
			metadata["authorization_servers"] = issuers
		}
	}
	(&output{w: w}).end(http.StatusOK, []byte(quote(metadata)))
}

// refuse answers with an error over HTTP. It tells a client without a valid credential where the metadata are.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := problem.From(err)
	if p.Status == http.StatusUnauthorized {
		challenge := `Bearer realm="pawl", resource_metadata="` + origin(r) + metadataPath + r.URL.EscapedPath() + `"`
		if r.Header.Get("Authorization") != "" {
			challenge += `, error="invalid_token"`
		}
		w.Header().Set("WWW-Authenticate", challenge)
	}
	p.Write(w)
}

// origin returns the scheme and host under which the client knows the gateway. A proxy that ends TLS says so in X-Forwarded-Proto.
func origin(r *http.Request) string {
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}
