package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/services/strictjson"
)

// era is how a connection begins: with the initialize handshake, up to 2025-11-25, or without one, since 2026-07-28.
type era string

const (
	legacy era = mcp.LATEST_LEGACY_PROTOCOL_VERSION
	modern era = mcp.LATEST_PROTOCOL_VERSION
)

const (
	methodInitialize = string(mcp.MethodInitialize)
	methodDiscover   = string(mcp.MethodServerDiscover)
)

const (
	// discoverLimit bounds discovery over HTTP. It is long so that a slow server is not taken for a server of older revisions.
	discoverLimit = 15 * time.Second
	// discoverLimitStdio bounds discovery over stdio, where old servers ignore unknown requests.
	discoverLimitStdio = 5 * time.Second
	// logLevelLimit bounds the wait for a server's answer to logging/setLevel.
	logLevelLimit = 5 * time.Second
)

// errOtherRoute means that the server does not support the route: it needs an older revision, or the older HTTP transport.
var errOtherRoute = errors.New("the server needs an older revision or transport")

// handshake makes a connection ready for requests. The caller closes it on failure.
func (c *client) handshake(ctx context.Context) error {
	c.setMeta()
	begin := c.initialize
	if c.isModern() {
		begin = c.discover
	}
	if err := begin(ctx); err != nil {
		if ctx.Err() != nil && !c.isDone() {
			return c.noAnswer(ctx)
		}
		return err
	}
	can := c.serverCan
	c.info.Capabilities = capabilityNames(can)
	if c.isModern() {
		c.setMeta()
		filter := mcp.SubscriptionFilter{
			ToolsListChanged:     can.Tools != nil && can.Tools.ListChanged,
			ResourcesListChanged: can.Resources != nil && can.Resources.ListChanged,
			PromptsListChanged:   can.Prompts != nil && can.Prompts.ListChanged,
		}
		if !filter.IsEmpty() { // in other revisions servers send changes by themselves
			c.offers.openStream = func(ctx context.Context) error { return c.listen(ctx, filter, func(mcp.SubscriptionFilter) {}) }
			c.openChanges()
		}
		return nil
	}
	c.canTask = can.Tasks != nil && can.Tasks.Requests != nil && can.Tasks.Requests.Tools != nil && can.Tasks.Requests.Tools.Call != nil
	if can.Logging != nil { // some servers send no logs before a level is set
		c.background(func() {
			ctx, cancel := context.WithTimeout(c.life, logLevelLimit)
			defer cancel()
			_, _ = c.request(ctx, string(mcp.MethodSetLogLevel), "", map[string]any{"level": mcp.LoggingLevelInfo}) // best effort
		})
	}
	return nil
}

// capabilityNames returns a server's capabilities other than tools, by their names in the API.
func capabilityNames(can mcp.ServerCapabilities) []string {
	names := make([]string, 0, 6)
	for _, capability := range []struct {
		has  bool
		name string
	}{
		{can.Resources != nil, "resources"},
		{can.Resources != nil && can.Resources.Subscribe, "resource_subscriptions"},
		{can.Prompts != nil, "prompts"},
		{can.Completions != nil, "completions"},
		{can.Logging != nil, "logging"},
		{can.Tasks != nil, "tasks"},
	} {
		if capability.has {
			names = append(names, capability.name)
		}
	}
	return names
}

// initialize makes the handshake of revisions up to 2025-11-25.
func (c *client) initialize(ctx context.Context) error {
	raw, err := c.request(ctx, methodInitialize, "", map[string]any{
		"protocolVersion": string(legacy), "clientInfo": mcp.Implementation{Name: "pawl", Version: c.version}, "capabilities": c.capabilities(),
	})
	if err != nil {
		return explainInitialize(As(err))
	}
	var result mcp.InitializeResult
	if err := json.Unmarshal(raw, &result); err != nil {
		return Errorf(Protocol, "the server's answer to initialize cannot be used: %w", err)
	}
	if !mcp.IsValidProtocolVersion(result.ProtocolVersion) {
		return Errorf(Protocol, "the server speaks the MCP revision %q, which is not known here; use another version of the server", Cut(result.ProtocolVersion))
	}
	c.info = Info{Name: Cut(result.ServerInfo.Name), Version: Cut(result.ServerInfo.Version), Protocol: result.ProtocolVersion}
	c.serverCan = result.Capabilities
	if t, ok := c.wire.(*web); ok {
		t.version.Store(&result.ProtocolVersion)
	}
	if err := c.notify("notifications/initialized", nil); err != nil && !c.isDone() {
		return As(err)
	}
	return nil
}

// explainInitialize turns an HTTP 4xx response to initialize, other than 401, 403 and 429, into an error that tells what may be wrong with the
// address. It returns other errors unchanged.
func explainInitialize(e *Error) error {
	status, ok := errors.AsType[*statusError](e)
	if !ok || status.status/100 != 4 {
		return e
	}
	switch status.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return e
	}
	return &Error{Kind: Unavailable, Err: errors.Join(errOtherRoute, status),
		Message: "the server refuses streamable HTTP (" + statusText(status.status) + "), and does not speak the older HTTP+SSE transport " +
			"there either: the address may be wrong (many end in /mcp or /sse)"}
}

// discover sends server/discover, which replaces the handshake since 2026-07-28. The error wraps errOtherRoute if the server may need
// an older revision.
func (c *client) discover(ctx context.Context) error {
	limit := discoverLimit
	if _, ok := c.wire.(*stdio); ok {
		limit = discoverLimitStdio
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	raw, err := c.request(ctx, methodDiscover, "", nil)
	if err != nil && As(err).Code == mcp.UNSUPPORTED_PROTOCOL_VERSION && listsModern(As(err).Data, "supported") {
		raw, err = c.request(ctx, methodDiscover, "", nil) // the server refused the revision, but lists it as supported
	}
	var result mcp.DiscoverResult
	if err == nil && (!listsModern(raw, "supportedVersions") || json.Unmarshal(raw, &result) != nil) {
		err = sentf(Protocol, "the server's answer to server/discover does not follow MCP 2026-07-28")
	}
	if err != nil {
		e := *As(err)
		received := e.MayHaveRun // perhaps without an answer: old servers ignore unknown requests
		if status, ok := errors.AsType[*statusError](err); ok {
			received = !isTransient(status.status)
		}
		if received && slices.Contains([]Kind{Answered, Protocol, Unavailable, Interrupted}, e.Kind) {
			e.Err = errors.Join(e.Err, errOtherRoute)
		}
		return &e
	}
	c.info = Info{Protocol: string(modern)}
	if info := result.GetResultMeta().ServerInfo(); info != nil {
		c.info.Name, c.info.Version = Cut(info.Name), Cut(info.Version)
	}
	c.serverCan = result.Capabilities
	return nil
}

// listsModern reports whether the list of revisions under a key contains the modern one.
func listsModern(raw json.RawMessage, key string) bool {
	fields, err := strictjson.MemberMap(raw)
	var revisions []string
	return err == nil && json.Unmarshal(fields[key], &revisions) == nil && slices.Contains(revisions, string(modern))
}

// capabilities returns the capabilities that the pool announces to the server.
func (c *client) capabilities() mcp.ClientCapabilities {
	can := mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{Form: &struct{}{}, URL: &struct{}{}}}
	if c.sampling {
		can.Sampling = &mcp.SamplingCapability{} // without tools and context
	}
	if len(c.roots) > 0 {
		can.Roots = &struct { // roots do not change during a connection
			ListChanged bool `json:"listChanged,omitempty"`
		}{}
	}
	if c.isModern() {
		can.Extensions = map[string]any{tasksExtension: struct{}{}}
	}
	return can
}

// setMeta sets the _meta of requests since 2026-07-28.
func (c *client) setMeta() {
	if !c.isModern() {
		return
	}
	meta := map[string]any{
		mcp.MetaKeyProtocolVersion: string(modern), mcp.MetaKeyClientInfo: mcp.Implementation{Name: "pawl", Version: c.version}, mcp.MetaKeyClientCapabilities: c.capabilities(),
	}
	if c.serverCan.Logging != nil {
		meta[mcp.MetaKeyLogLevel] = mcp.LoggingLevelInfo
	}
	c.meta, _ = json.Marshal(meta) // such values always encode
}

// noAnswer returns the error of a connect whose ctx ended before the server answered.
func (c *client) noAnswer(ctx context.Context) *Error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &Error{Kind: Interrupted, Message: "connecting was given up", Err: ctx.Err()}
	}
	e := &Error{Kind: Unavailable, Err: ctx.Err(), Message: "the server did not answer in time"}
	t, ok := c.wire.(*stdio)
	if !ok {
		e.Message += "; check its address, or raise its start_timeout"
		return e
	}
	if t.in.Noise() != "" {
		e.Kind = Protocol
	}
	e.Message = fmt.Sprintf("%s%s; check that the command starts an MCP server on stdin and stdout, or raise its start_timeout", e.Message, t.lastOutput())
	return e
}
