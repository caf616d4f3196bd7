package api

import (
	"errors"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/call"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/identity"
	"pawl.dev/services/outbound"
)

// Fields of a server in an update. Clients also send the ignored fields back: these identify the server or are output-only.
var (
	transportFields = []string{"stdio", "http", "builtin"}
	ignoredFields   = []string{
		"id", "etag", "owner_sub", "active", "state", "state_time", "last_error", "server_info", "create_time", "update_time", "from_config",
		"login", "capabilities",
	}
)

// onlyOperators is the error message for fields that only operators may set.
const onlyOperators = "only an operator may set the effects of an MCP server's tools, their callers, the sharing of connections and results, and " +
	"the use of models (trusted, tool_policies, permissions, isolation, max_connections, cache_ttl, sampling)"

// edit applies an update to a copy of a server, and refuses changes that the caller may not make.
func edit(p identity.Principal, server *registry.Server, req *mcppoolv1.UpdateMcpServerRequest) error {
	if o := req.GetMcpServer().GetOwnerSub(); o != "" && o != server.Owner {
		return invalid("mcp_server.owner_sub", "cannot be changed; register the server again")
	}
	edited, transport, err := patched(server, req)
	if err != nil {
		return err
	}
	if !p.IsOperator() && !edited.SameOperatorSettings(server) {
		return denied(onlyOperators)
	}
	if err := checkRoots(p, edited, server); err != nil {
		return err
	}
	if !transport {
		edited.Stdio, edited.HTTP, edited.Builtin = server.Stdio, server.HTTP, server.Builtin
	} else if !p.IsOperator() && server.ByOperator {
		return denied("an operator set the transport of MCP server %s; only an operator may change it", server.ID)
	} else if err := takeTransport(p, edited, server); err != nil {
		return err
	}
	*server = *edited
	return validate(server)
}

// patched returns a copy of a server with the fields of an update, and whether these include the transport.
func patched(server *registry.Server, req *mcppoolv1.UpdateMcpServerRequest) (edited *registry.Server, transport bool, err error) {
	edited = server.Clone()
	full := ToMessage(edited)
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
	setFields(edited, full)
	return edited, transport, nil
}

// pathsOf returns the fields that an update changes: the fields in the mask, or all for `*`, or the fields that are set if there is no mask.
// `*` includes the transport only if it is set.
func pathsOf(req *mcppoolv1.UpdateMcpServerRequest) []string {
	paths := req.GetUpdateMask().GetPaths()
	all := len(paths) == 1 && paths[0] == "*"
	if len(paths) > 0 && !all {
		return paths
	}
	paths = nil
	msg := req.GetMcpServer().ProtoReflect()
	for fields, i := msg.Descriptor().Fields(), 0; i < fields.Len(); i++ {
		if fd := fields.Get(i); msg.Has(fd) || all && fd.ContainingOneof() == nil {
			paths = append(paths, string(fd.Name()))
		}
	}
	return paths
}

// copyPath copies the field at a path from src to dst. If src does not have the field, dst's is cleared.
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

// takeTransport restores the masked secrets of a new transport, records whether an operator set it, and refuses transports that only
// operators may set.
func takeTransport(p identity.Principal, server, old *registry.Server) error {
	if err := restoreSecrets(server, old); err != nil {
		return err
	}
	server.ByOperator = p.IsOperator()
	if server.HTTP != nil {
		server.HTTP.PublicOnly = !p.IsOperator()
	}
	switch {
	case p.IsOperator():
		return nil
	case server.Stdio != nil || server.Builtin != nil:
		return denied("only an operator may register an MCP server that runs on this machine; you may register HTTP servers")
	case server.HTTP == nil:
		return nil
	case server.HTTP.OAuth != nil && registry.HasReference(server.HTTP.OAuth.ClientSecret):
		return denied("only an operator may refer to the pool's environment or files (${env:…}, ${file:…})")
	case slices.ContainsFunc(slices.Collect(maps.Values(server.HTTP.Headers)), registry.HasReference):
		return denied("only an operator may refer to secrets of the pool (${env:…}, ${file:…})")
	}
	return nil
}

// checkRoots normalizes the roots of a server. Only operators may set them, because the folders are on the pool's machine.
func checkRoots(p identity.Principal, server, old *registry.Server) (err error) {
	server.Roots, err = registry.ReadRoots(server.Roots)
	if err == nil && !p.IsOperator() && !slices.Equal(server.Roots, old.Roots) {
		return denied("only an operator may set the folders that an MCP server may ask for (roots)")
	}
	return invalidServer(err)
}

// validate refuses a registration that cannot work.
func validate(server *registry.Server) error {
	if err := server.Validate(); err != nil {
		return invalidServer(err)
	}
	if server.Builtin != nil {
		if info, err := os.Stat(server.Builtin.Root); err != nil || !info.IsDir() {
			return invalid("mcp_server.builtin.root", "is not a folder that the pool can see")
		}
	}
	return nil
}

// checkDataFolder refuses a workspace whose tools could change the pool's data: the registrations, and the keys of logins.
func (s *Server) checkDataFolder(server *registry.Server) error {
	if s.DataDir == "" || !server.Builtin.OffersChanges() {
		return nil
	}
	root, data := realPath(server.Builtin.Root), realPath(s.DataDir)
	for _, pair := range [][2]string{{root, data}, {data, root}} {
		if rel, err := filepath.Rel(pair[0], pair[1]); err == nil && filepath.IsLocal(rel) {
			return invalid("mcp_server.builtin.root", "holds Pawl's own data, or is in it, so its files may not be changed; choose another folder")
		}
	}
	return nil
}

// checkAddress refuses a new address that the pool may not dial for a plain user, as far as that is known without its name's address.
func (s *Server) checkAddress(server *registry.Server, before *registry.HTTP) error {
	if server.HTTP == nil || server.HTTP == before || !server.HTTP.PublicOnly {
		return nil
	}
	if err := outbound.CheckLiteral(server.HTTP.URL, outbound.Server{Allowed: s.AllowAddresses, Advice: mcp.AddressAdvice}); err != nil {
		return call.Explain(call.Preparing, err)
	}
	return nil
}

// realPath returns an absolute path with symbolic links resolved, as far as it exists.
func realPath(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}

// invalidServer converts a *registry.Invalid to the client's error.
func invalidServer(err error) error {
	if bad, ok := errors.AsType[*registry.Invalid](err); ok {
		return invalid("mcp_server."+bad.Field, bad.Problem)
	}
	return err
}

// hideSecrets masks the secrets of a server in a response.
func hideSecrets(m *mcppoolv1.McpServer) {
	if h := m.GetHttp(); h != nil {
		h.Url = registry.MaskURL(h.GetUrl())
		hide(h.GetHeaders())
		if o := h.GetOauth(); o.GetClientSecret() != "" {
			o.ClientSecret = registry.Hidden
		}
	}
	hide(m.GetStdio().GetEnv())
}

// hideDetails removes from a shared server what is for operators: arguments and paths, which often hold secrets, and folders of the pool's machine.
func hideDetails(m *mcppoolv1.McpServer) {
	m.Roots = nil
	if t := m.GetStdio(); t != nil {
		t.Command, t.Args, t.Cwd, t.User = filepath.Base(t.GetCommand()), nil, "", ""
	}
	if t := m.GetHttp(); t != nil {
		if u, err := url.Parse(t.GetUrl()); err == nil {
			t.Url = outbound.Place(u)
		}
	}
	if t := m.GetBuiltin(); t.GetRoot() != "" {
		m.Description = strings.ReplaceAll(m.GetDescription(), t.GetRoot(), filepath.Base(t.GetRoot()))
		t.Root = ""
	}
}

// hide masks the values and keeps the names.
func hide(values map[string]string) {
	for name := range values {
		values[name] = registry.Hidden
	}
}

// restoreSecrets restores the secrets that an update sends back masked. It refuses a new address with a user name or a password, because
// proxies and servers log addresses.
func restoreSecrets(server, old *registry.Server) error {
	if server.Stdio != nil {
		var before map[string]string
		if old.Stdio != nil {
			before = old.Stdio.Env
		}
		return restore("mcp_server.stdio.env", server.Stdio.Env, before)
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
		return invalid("mcp_server.http.url", "holds a user name or a password; send them in a header instead, such as `Authorization: Basic …`; "+
			"an operator can keep its value in the pool's environment and refer to it as ${env:NAME}")
	}
	if o := server.HTTP.OAuth; o != nil && o.ClientSecret == registry.Hidden {
		if before.OAuth == nil || before.OAuth.ClientSecret == "" {
			return invalid("mcp_server.http.oauth.client_secret", "has no value to keep; send one instead of "+registry.Hidden)
		}
		o.ClientSecret = before.OAuth.ClientSecret
	}
	return restore("mcp_server.http.headers", server.HTTP.Headers, before.Headers)
}

// restore restores the masked values of a field.
func restore(field string, values, before map[string]string) error {
	for name, value := range values {
		if value != registry.Hidden {
			continue
		}
		original, ok := before[name]
		if !ok {
			return invalid(field, "`"+name+"` has no value to keep; send one instead of "+registry.Hidden)
		}
		values[name] = original
	}
	return nil
}
