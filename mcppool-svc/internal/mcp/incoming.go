package mcp

import (
	"encoding/json"
	"errors"
	"net/url"
	"path"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// replyLimit bounds the sending of an answer to a request of the server.
	replyLimit = 30 * time.Second
	// maxServing is how many requests of one server are handled at once; more are dropped.
	maxServing = 200

	// How much a server may say without being asked, per connection: what is above that is read later, so that a server that floods waits for
	// its own turn, and takes a small part of one processor at most.
	noteRate  = 5_000  // notifications per second
	noteBurst = 20_000 // at once
	// noteSize is what counts as one more notification, in bytes.
	noteSize = 16 << 10
	// requestCost is how many notifications a request of the server counts as: each is answered by a goroutine of its own.
	requestCost = 80
)

// pass handles a request or notification of the server, no faster than the connection's limit allows.
func (c *client) pass(text []byte, isNotification bool, of *pendingRequest) {
	cost := 1
	if !isNotification {
		cost = requestCost
	}
	cost += len(text) / noteSize
	_ = c.throttle.WaitN(c.life, min(cost, noteBurst)) // fails at the connection's end
	if isNotification {
		var n mcp.JSONRPCNotification
		if json.Unmarshal(text, &n) == nil {
			c.notified(n)
		}
		return
	}
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
