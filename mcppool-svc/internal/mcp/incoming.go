package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
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

// maxNote bounds what one progress or log message may carry; the rest is cut off.
const maxNote = 64 << 10

// notified handles a notification. It runs in the goroutine that reads the connection and must not block.
func (c *client) notified(n mcp.JSONRPCNotification) {
	fields := n.Params.AdditionalFields
	switch n.Method {
	case string(mcp.MethodNotificationToolsListChanged):
		c.tools.Add(1)
		c.offers.tell()
	case "notifications/progress":
		c.mu.Lock()
		r := c.calls[fmt.Sprint(fields["progressToken"])]
		c.mu.Unlock()
		if r != nil {
			done, _ := fields["progress"].(float64)
			total, _ := fields["total"].(float64)
			message, _ := fields["message"].(string)
			r.notify(Notification{Progress: &Progress{Done: done, Total: total, Message: cut(message)}})
		}
	case "notifications/message":
		c.broadcast(Notification{Log: logOf(fields)})
	case string(mcp.MethodNotificationCancelled):
		c.shut(questionKey{request: mcp.NewRequestId(fields["requestId"]).String()}, errWithdrawn)
	case string(mcp.MethodNotificationElicitationComplete):
		if id, ok := fields["elicitationId"].(string); ok {
			c.shut(questionKey{elicitation: id}, errDone)
		}
	case mcp.MethodNotificationTasksStatus:
		if id, ok := fields["taskId"].(string); ok {
			c.wake(id)
		}
	case mcp.MethodNotificationResourcesListChanged:
		c.offers.outdate(Resources, ResourceTemplates)
		c.offers.tell()
	case mcp.MethodNotificationPromptsListChanged:
		c.offers.outdate(Prompts)
		c.offers.tell()
	case mcp.MethodNotificationResourceUpdated:
		if uri, ok := fields["uri"].(string); ok {
			c.offers.updated(cut(uri))
		}
	case mcp.MethodNotificationSubscriptionsAcknowledged:
		c.offers.acknowledged(n.Params)
	}
}

// wake tells the call that a task does that the task changed.
func (c *client) wake(task string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.ofTask(task); r != nil {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// broadcast tells every running call: a log message does not say which call it is about.
func (c *client) broadcast(n Notification) {
	if c.shared {
		return // nor whose it is
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.calls {
		r.notify(n)
	}
}

func logOf(fields map[string]any) *Log {
	level, _ := fields["level"].(string)
	logger, _ := fields["logger"].(string)
	data, err := json.Marshal(fields["data"])
	if err != nil {
		data = []byte("null")
	}
	if len(data) > maxNote {
		data, _ = json.Marshal(cut(string(data))) // a string always marshals
	}
	return &Log{Level: cut(level), Logger: cut(logger), Data: string(data)}
}

// cut shortens a text to the bound, with a clear mark.
func cut(s string) string {
	if len(s) <= maxNote {
		return s
	}
	return s[:maxNote] + "… (cut off)"
}
