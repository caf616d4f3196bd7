package mcp

import (
	"context"
	"net/url"

	"pawl.dev/mcppool-svc/internal/outbound"
	"pawl.dev/mcppool-svc/internal/process"
	"pawl.dev/mcppool-svc/internal/registry"
)

// CheckSecrets checks that the references of a registration can be resolved.
func (c *Connector) CheckSecrets(s *registry.Server) error {
	var values map[string]string
	switch {
	case s.Stdio != nil:
		values = s.Stdio.Env
	case s.HTTP != nil:
		values = s.HTTP.Headers
		if s.HTTP.OAuth != nil {
			if _, err := c.expand(s, map[string]string{"oauth.client_secret": s.HTTP.OAuth.ClientSecret}); err != nil {
				return err
			}
		}
	}
	_, err := c.expand(s, values)
	return err
}

// CheckTarget looks for a server's program, or connects to its address without a request, and returns what it found.
func (c *Connector) CheckTarget(ctx context.Context, s *registry.Server) (found string, err error) {
	switch {
	case s.Stdio != nil:
		env, err := c.expand(s, s.Stdio.Env)
		if err != nil {
			return "", err
		}
		path, _ := process.Getenv(process.Environ(c.cfg.Environ, env), "PATH")
		if found, err = process.Find(s.Stdio.Command, path, s.Stdio.Dir); err != nil {
			return "", Errorf(Misconfigured, "%w", err)
		}
	case s.HTTP != nil:
		u, err := url.Parse(s.HTTP.URL)
		if err != nil {
			return "", Errorf(Misconfigured, "its url cannot be read: %w", err)
		}
		if found, err = outbound.Probe(ctx, u, c.cfg.AllowAddresses, s.HTTP.PublicOnly); err != nil {
			return "", As(err)
		}
	case s.Builtin != nil && c.cfg.Builtins[s.Builtin.Name] == nil && c.cfg.Functions[s.Builtin.Name] == nil:
		return "", Errorf(Misconfigured, "there is no built-in server %q", s.Builtin.Name)
	case s.Builtin != nil:
		found = "the built-in server " + s.Builtin.Name
	default:
		return "", Errorf(Misconfigured, "it has no transport")
	}
	return found, nil
}
