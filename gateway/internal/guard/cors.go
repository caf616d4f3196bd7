package guard

import "net/http"

// setCORS lets the page of an allowed origin read the response. Credentials are not allowed: the page sets the
// key's header itself, and there are no cookies.
func setCORS(h http.Header, origin string) {
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, Pawl-Task-Id, Retry-After, WWW-Authenticate, X-Should-Retry")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
}

func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// openAIHeaders are what the OpenAI SDK for JavaScript sets (openai-node, src/internal/detect-platform.ts and src/client.ts).
const openAIHeaders = "OpenAI-Organization, OpenAI-Project, X-Stainless-Arch, X-Stainless-Helper-Method, X-Stainless-Lang, X-Stainless-Os, " +
	"X-Stainless-Package-Version, X-Stainless-Retry-Count, X-Stainless-Runtime, X-Stainless-Runtime-Version, X-Stainless-Timeout"

func answerPreflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", "GET, POST, PATCH, DELETE")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Last-Event-ID, Mcp-Method, Mcp-Name, Mcp-Protocol-Version, Mcp-Session-Id, "+
		"Pawl-Mcp-Ids, Traceparent, Tracestate, "+openAIHeaders)
	h.Set("Access-Control-Max-Age", "600")
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		h.Set("Access-Control-Allow-Private-Network", "true")
	}
	w.WriteHeader(http.StatusNoContent)
}
