package api

import (
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/registry"
)

// hidden replaces a secret in responses. Sent back, it means the old value.
const hidden = registry.Hidden

// hideSecrets masks the secrets of a server in a response. Operators may see what is in the environment of programs.
func hideSecrets(m *mcppoolv1.McpServer, operator bool) {
	if h := m.GetHttp(); h != nil {
		h.Url = registry.MaskURL(h.GetUrl())
		hide(h.GetHeaders())
		if o := h.GetOauth(); o.GetClientSecret() != "" {
			o.ClientSecret = hidden
		}
	}
	if !operator {
		hide(m.GetStdio().GetEnv())
	}
}

// hide replaces the values, not the names.
func hide(values map[string]string) {
	for name := range values {
		values[name] = hidden
	}
}

// keepSecrets restores the secrets that an update sends back masked, and refuses new ones in addresses: those get into logs of proxies and
// servers.
func keepSecrets(server, old *registry.Server) error {
	if server.Stdio != nil {
		var before map[string]string
		if old.Stdio != nil {
			before = old.Stdio.Env
		}
		return keep("mcp_server.stdio.env", server.Stdio.Env, before)
	}
	if server.HTTP == nil {
		return nil
	}
	before := old.HTTP
	if before == nil {
		before = &registry.HTTP{}
	}
	address, err := registry.UnmaskURL(server.HTTP.URL, before.URL)
	if err != nil {
		return invalidServer(err)
	}
	server.HTTP.URL = address
	if address != before.URL && registry.HasUser(address) {
		return invalid("mcp_server.http.url", "holds a user name or a password; send them as a header instead, such as `Authorization: Basic …`, "+
			"whose value an operator can leave in the pool's environment as ${env:NAME}")
	}
	if o := server.HTTP.OAuth; o != nil && o.ClientSecret == hidden {
		if before.OAuth == nil || before.OAuth.ClientSecret == "" {
			return invalid("mcp_server.http.oauth.client_secret", "has no value to keep; send one instead of "+hidden)
		}
		o.ClientSecret = before.OAuth.ClientSecret
	}
	return keep("mcp_server.http.headers", server.HTTP.Headers, before.Headers)
}

// keep restores the masked values of a field.
func keep(field string, now, before map[string]string) error {
	for name, value := range now {
		if value != hidden {
			continue
		}
		kept, ok := before[name]
		if !ok {
			return invalid(field, "`"+name+"` has no value to keep; send one instead of "+hidden)
		}
		now[name] = kept
	}
	return nil
}
