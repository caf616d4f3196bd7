package wire

import (
	"net"
	"net/http"
	"strings"
	"time"

	"pawl.dev/planner-svc/internal/llm"
)

// Config is a model at a provider's address.
type Config struct {
	Info         llm.Info
	BaseURL      string // "" for the provider's own address
	Organization string // of OpenAI; may be empty
	// Credentials is called for each request, since keys change.
	Credentials func() (Credentials, error)
	Retries     int // of requests that failed temporarily
	HTTP        *http.Client
}

// Credentials are what a provider asks for besides the request.
type Credentials struct {
	Key     string            // "" if none is needed
	Headers map[string]string // sent with each request
}

// hide removes the credentials from a message: providers quote what they reject.
func (c Credentials) hide(message string) string {
	const shortest = 4 // shorter values would remove unrelated text
	for _, secret := range append([]string{c.Key}, values(c.Headers)...) {
		if len(secret) >= shortest {
			message = strings.ReplaceAll(message, secret, "***")
		}
	}
	return message
}

func values(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

// maxWait is how long a provider may take until it begins to answer.
const maxWait = 5 * time.Minute

// NewHTTPClient makes the client that all models of a planner share.
func NewHTTPClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout:   10 * time.Second,
			ResponseHeaderTimeout: maxWait,
			IdleConnTimeout:       time.Minute,
			MaxIdleConnsPerHost:   16,
			ForceAttemptHTTP2:     true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
	}
}
