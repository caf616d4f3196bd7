package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// discoverLimit is how long a server may take over HTTP to say whether it can do without a handshake. It is not to be short,
// since a slow server would be taken for an old one; hardly any leaves a request over HTTP without an answer.
const discoverLimit = 15 * time.Second

// errNoHandshake keeps mcp-go from shaking hands on a connection that was made to begin without.
var errNoHandshake = errors.New("the server does not answer server/discover as 2026-07-28 wants it")

// discoveryTap is the tap of an HTTP connection without a handshake: mcp-go's way back to initialize would be one without the
// stream that older revisions need.
type discoveryTap struct {
	httpTap
	why atomic.Pointer[error] // the last discovery failed, which mcp-go keeps to itself
}

// SendRequest implements transport.Interface.
func (t *discoveryTap) SendRequest(ctx context.Context, request transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	switch mcp.MCPMethod(request.Method) {
	case mcp.MethodInitialize:
		if why := t.why.Load(); why != nil {
			return nil, errors.Join(errNoHandshake, *why)
		}
		return nil, errNoHandshake
	case mcp.MethodServerDiscover:
		response, err := t.discover(ctx, request)
		if err != nil {
			t.why.Store(&err)
		}
		return response, err
	default:
		return t.httpTap.SendRequest(ctx, request)
	}
}

func (t *discoveryTap) discover(ctx context.Context, request transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	response, err := t.httpTap.SendRequest(ctx, request)
	if err == nil && takesBack(response.Error) {
		request.ID = mcp.NewRequestId(request.ID.String() + "-again")
		response, err = t.httpTap.SendRequest(ctx, request)
	}
	if err == nil && response.Error == nil && !names(response.Result, "supportedVersions") {
		return nil, errNoHandshake // it says yes to everything
	}
	return response, err
}

// takesBack says whether a server refuses a revision and names it among those that it takes: it is to be asked again.
func takesBack(e *mcp.JSONRPCErrorDetails) bool {
	if e == nil || e.Code != mcp.UNSUPPORTED_PROTOCOL_VERSION {
		return false
	}
	raw, err := json.Marshal(e.Data)
	return err == nil && names(raw, "supported")
}

// names says whether the list under a key has the revision.
func names(raw json.RawMessage, key string) bool {
	var fields map[string]json.RawMessage
	var revisions []string
	return json.Unmarshal(raw, &fields) == nil && json.Unmarshal(fields[key], &revisions) == nil && slices.Contains(revisions, string(modern))
}

// noDiscovery says what came of a connection that was to begin without a handshake. Where there was an answer that a server of
// older revisions may give, it wraps errOtherEra.
func (c *client) noDiscovery(ctx context.Context, x *exchange, err error) *Error {
	if ctx.Err() != nil {
		return c.silence(ctx)
	}
	_, failure := c.outcome(x, err)
	if failure == nil {
		failure = protocolError("the server's answer to server/discover cannot be used")
	}
	e := *As(failure)
	status := x.report().status
	switch e.Kind {
	case Answered, Protocol, Unavailable, Interrupted:
		if (e.Sent || status != 0) && !statusPasses(status) {
			e.Err = errors.Join(e.Err, errOtherEra)
		}
	}
	return &e
}
