package mcppool

import (
	"context"
	"net/netip"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/oauth"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/mcppool-svc/internal/replica"
)

// openLogins opens the stored logins.
func (s *Service) openLogins(st *replica.Store, allowed []netip.Prefix, deps Deps) (*oauth.Logins, error) {
	cfg := s.cfg
	var catchUp func(context.Context)
	if s.peers != nil {
		catchUp = s.peers.CatchUp
	}
	key, err := oauth.OpenKey(cfg.TokenKey, cfg.DataDir, cfg.Environ)
	if err != nil {
		return nil, err
	}
	return oauth.New(oauth.Config{RedirectURI: cfg.LoginRedirectURI, ClientMetadata: cfg.LoginClientMetadata, Key: key}, oauth.Deps{
		Store: st, Client: mcp.Web(allowed), Secret: mcp.Secrets(cfg.Environ), Now: deps.Now, Log: deps.Log, CatchUp: catchUp,
	})
}

// credentials returns the credentials of a user's connection to a server, or nil.
func (s *Service) credentials(server *registry.Server, user string) mcp.Credentials {
	if source := s.logins.For(server, user); source != nil {
		return source
	}
	return nil
}
