package api

import (
	"errors"
	"os"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/identity"
)

// Fields of a server in an update.
var (
	transportFields = []string{"stdio", "http", "builtin"}
	otherFields     = []string{
		"display_name", "description", "disabled", "auto_activate", "only_when_named", "call_timeout", "start_timeout", "trusted", "tool_policies",
		"pinning", "permissions", "roots", "isolation", "max_connections", "cache_ttl", "sampling",
	}
	// Clients send back what they read; these fields identify the server or are output-only.
	ignoredFields = []string{
		"id", "etag", "owner_sub", "active", "state", "last_error", "server_info", "create_time", "update_time", "from_config",
		"login", "capabilities",
	}
)

// onlyOperators is the refusal of fields that only operators may set.
const onlyOperators = "only an operator may say what an MCP server's tools do, who may call them, who shares connections and results, and " +
	"whether it may ask models (trusted, tool_policies, permissions, isolation, max_connections, cache_ttl, sampling)"

// edit applies an update to a copy of a server, within what the caller may change.
func edit(p identity.Principal, server *registry.Server, req *mcppoolv1.UpdateMcpServerRequest) error {
	if o := req.GetMcpServer().GetOwnerSub(); o != "" && o != server.Owner {
		return invalid("mcp_server.owner_sub", "cannot be changed; register the server again")
	}
	edited, transport, err := patched(server, req)
	if err != nil {
		return err
	}
	if !p.IsOperator() && !edited.SameForUsers(server) {
		return denied(onlyOperators)
	}
	if err := editRoots(p, server, edited.Roots); err != nil {
		return err
	}
	if transport {
		if !p.IsOperator() && server.ByOperator {
			return denied("an operator wrote how MCP server %s is reached; only an operator may change that", server.ID)
		}
		if err := keepSecrets(edited, server); err != nil {
			return err
		}
		if err := authorTransport(p, edited); err != nil {
			return err
		}
		server.Stdio, server.HTTP, server.Builtin, server.ByOperator = edited.Stdio, edited.HTTP, edited.Builtin, edited.ByOperator
	}
	server.DisplayName, server.Description, server.Disabled = edited.DisplayName, edited.Description, edited.Disabled
	server.AutoActivate, server.Trusted, server.Policies = edited.AutoActivate, edited.Trusted, edited.Policies
	server.OnlyWhenNamed, server.Pinning, server.Permissions = edited.OnlyWhenNamed, edited.Pinning, edited.Permissions
	server.CallTimeout, server.StartTimeout = edited.CallTimeout, edited.StartTimeout
	server.Isolation, server.MaxConnections, server.CacheTTL = edited.Isolation, edited.MaxConnections, edited.CacheTTL
	server.Sampling = edited.Sampling
	return check(server)
}

// patched returns a server with the fields of an update, and whether the update changes its transport.
func patched(server *registry.Server, req *mcppoolv1.UpdateMcpServerRequest) (edited *registry.Server, transport bool, err error) {
	full := ToMessage(server.Clone())
	for _, path := range pathsOf(req) {
		field, _, _ := strings.Cut(path, ".")
		if slices.Contains(ignoredFields, field) {
			continue
		}
		transport = transport || slices.Contains(transportFields, field)
		if err := copyPath(full.ProtoReflect(), req.GetMcpServer().ProtoReflect(), strings.Split(path, ".")); err != nil {
			return nil, false, invalid("update_mask", path+": "+err.Error())
		}
	}
	return fromMessage(full), transport, nil
}

// pathsOf lists the fields that an update changes: those in the mask, all for `*`, and without a mask those that are set.
func pathsOf(req *mcppoolv1.UpdateMcpServerRequest) []string {
	paths := req.GetUpdateMask().GetPaths()
	switch {
	case len(paths) == 1 && paths[0] == "*":
		return slices.Concat(otherFields, whichTransport(req.GetMcpServer()))
	case len(paths) > 0:
		return paths
	}
	req.GetMcpServer().ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		paths = append(paths, string(fd.Name()))
		return true
	})
	return paths
}

// whichTransport names the transport that is set: naming another one would clear it.
func whichTransport(m *mcppoolv1.McpServer) []string {
	msg := m.ProtoReflect()
	if fd := msg.WhichOneof(msg.Descriptor().Oneofs().ByName("transport")); fd != nil {
		return []string{string(fd.Name())}
	}
	return nil
}

// copyPath copies one field of src, named by a path, to dst; a field that src has not is cleared.
func copyPath(dst, src protoreflect.Message, path []string) error {
	fd := dst.Descriptor().Fields().ByName(protoreflect.Name(path[0]))
	switch {
	case fd == nil:
		return errors.New("there is no such field")
	case len(path) > 1 && (fd.Message() == nil || fd.IsMap() || fd.IsList()):
		return errors.New("name the whole field")
	case len(path) > 1:
		return copyPath(dst.Mutable(fd).Message(), src.Get(fd).Message(), path[1:])
	case src.Has(fd):
		dst.Set(fd, src.Get(fd))
	default:
		dst.Clear(fd)
	}
	return nil
}

// authorTransport records who wrote a server's transport, and refuses what only operators may write.
func authorTransport(p identity.Principal, server *registry.Server) error {
	server.ByOperator = p.IsOperator()
	if server.HTTP != nil {
		server.HTTP.PublicOnly = !p.IsOperator()
	}
	if p.IsOperator() {
		return nil
	}
	if server.Stdio != nil || server.Builtin != nil {
		return denied("only an operator may register an MCP server that runs on this machine; you may register HTTP servers")
	}
	if server.HTTP != nil {
		for _, value := range server.HTTP.Headers {
			if mcp.HasReference(value) {
				return denied("only an operator may refer to secrets of the pool (${env:…}, ${file:…})")
			}
		}
		return authorOAuth(server.HTTP.OAuth)
	}
	return nil
}

// check refuses a registration that cannot work.
func check(server *registry.Server) error {
	if err := server.Validate(); err != nil {
		var bad *registry.Invalid
		if errors.As(err, &bad) {
			return invalid("mcp_server."+bad.Field, bad.Problem)
		}
		return err
	}
	if server.Builtin != nil {
		if info, err := os.Stat(server.Builtin.Root); err != nil || !info.IsDir() {
			return invalid("mcp_server.builtin.root", "is not a folder that the pool can see")
		}
	}
	return nil
}

// hidden replaces a secret in responses. Sent back, it means the old value.
const hidden = registry.Hidden

// keepSecrets restores values that an update sends back masked.
func keepSecrets(server, old *registry.Server) error {
	var now, before map[string]string
	field := "mcp_server.http.headers"
	switch {
	case server.HTTP != nil:
		now = server.HTTP.Headers
		if old.HTTP != nil {
			before = old.HTTP.Headers
		}
	case server.Stdio != nil:
		now, field = server.Stdio.Env, "mcp_server.stdio.env"
		if old.Stdio != nil {
			before = old.Stdio.Env
		}
	}
	if err := keepAddress(server, old); err != nil {
		return err
	}
	if err := keepClientSecret(server, old); err != nil {
		return err
	}
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
