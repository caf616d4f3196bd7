package api

import (
	"errors"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/registry"
)

// hideAddress masks secrets in an address.
func hideAddress(m *mcppoolv1.HttpTransport) {
	if m != nil {
		m.Url = registry.MaskURL(m.GetUrl())
	}
}

// keepAddress restores secrets that an update sends back masked, and refuses new ones: addresses get into logs of proxies and servers.
func keepAddress(server, old *registry.Server) error {
	if server.HTTP == nil {
		return nil
	}
	before := ""
	if old.HTTP != nil {
		before = old.HTTP.URL
	}
	address, err := registry.UnmaskURL(server.HTTP.URL, before)
	var bad *registry.Invalid
	if errors.As(err, &bad) {
		return invalid("mcp_server."+bad.Field, bad.Problem)
	}
	server.HTTP.URL = address
	if address != before && registry.HasUser(address) {
		return invalid("mcp_server.http.url", "holds a user name or a password; send them as a header instead, such as `Authorization: Basic …`, "+
			"whose value an operator can leave in the pool's environment as ${env:NAME}")
	}
	return nil
}
