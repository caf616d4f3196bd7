package mcp

import (
	"net/http"
	"net/url"

	"pawl.dev/mcppool-svc/internal/registry"
)

// web is what both HTTP transports of one connection use.
type web struct {
	client *http.Client
	origin *url.URL
	hide   func(string) string // takes secrets out of a message
}

// newWeb makes the HTTP client of a user's connection.
func (c *Connector) newWeb(s *registry.Server, user string) (*web, error) {
	headers, err := c.expand(s, s.HTTP.Headers)
	if err != nil {
		return nil, err
	}
	origin, err := url.Parse(s.HTTP.URL)
	if err != nil {
		return nil, Errorf(Misconfigured, "MCP server %s: its url cannot be read: %w", s.ID, err)
	}
	w := &web{
		client: newHTTPClient(origin, headers, newReach(c.cfg.AllowAddresses), s.HTTP.PublicOnly),
		origin: origin, hide: literal(s.HTTP.Secrets(headers)).Replace,
	}
	if login := c.credentials(s, user); login != nil {
		w.client.Transport = &loginTripper{next: w.client.Transport, origin: origin, login: login}
		hide := w.hide
		w.hide = func(text string) string { return login.Hide(hide(text)) }
	}
	return w, nil
}
