package mcp

import (
	"encoding/json"
	"errors"
	"net/url"
	"path"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/mcppool-svc/internal/jsonrpc"
)

const (
	// replyLimit bounds the sending of an answer to a request of the server.
	replyLimit = 30 * time.Second
	// maxServing is how many requests of one server are handled at once; more are dropped.
	maxServing = 200
)

// pass handles a request or notification of the server, no faster than t allows.
func (c *client) pass(text []byte, isNotification bool, of *pendingRequest, t *jsonrpc.Throttle) {
	if isNotification {
		t.Wait(len(text))
		var n mcp.JSONRPCNotification
		if json.Unmarshal(text, &n) == nil {
			c.notified(n)
		}
		return
	}
	t.Ask(len(text))
	var r serverRequest
	if json.Unmarshal(text, &r) != nil || c.serving.Load() >= maxServing {
		return
	}
	var call *running
	if of != nil {
		call = of.asker
	}
	c.serving.Add(1)
	c.background(func() { // it may take as long as a person does
		defer c.serving.Add(-1)
		if response := c.respond(r, call); response != nil {
			if err := c.post(c.life, replyLimit, response); err != nil {
				c.log.DebugContext(c.life, "an answer did not reach the MCP server", "mcp_id", c.server.ID, "error", err)
			}
		}
	})
}

// serverRequest is a request of the server.
type serverRequest struct {
	ID     mcp.RequestId   `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// respond returns the response to a request of the server, or nil if the server no longer wants one.
func (c *client) respond(r serverRequest, own *running) mcp.JSONRPCMessage {
	if r.Method == string(mcp.MethodPing) {
		return mcp.NewJSONRPCResultResponse(r.ID, struct{}{})
	}
	raw, err := c.answer(r, own)
	var refusal *Refusal
	switch {
	case err == nil:
		return mcp.NewJSONRPCResultResponse(r.ID, raw)
	case errors.Is(err, errWithdrawn):
		return nil
	case !errors.As(err, &refusal):
		refusal = Refusef(mcp.INVALID_PARAMS, "%v", err)
	}
	return mcp.NewJSONRPCError(r.ID, refusal.Code, refusal.Message, nil)
}

// rootsResult is the answer to a request for roots.
func (c *client) rootsResult() json.RawMessage {
	result := mcp.ListRootsResult{Roots: []mcp.Root{}}
	for _, uri := range c.roots {
		root := mcp.Root{URI: uri}
		if u, err := url.Parse(uri); err == nil {
			root.Name = path.Base(u.Path)
		}
		result.Roots = append(result.Roots, root)
	}
	raw, _ := json.Marshal(result) // text always marshals
	return raw
}
