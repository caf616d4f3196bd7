package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"pawl.dev/mcppool-svc/internal/jsonrpc"
	"pawl.dev/services/strictjson"
)

// responseOf reads the response in a message.
func responseOf(m jsonrpc.Message) response {
	if len(m.Error) > 0 && !strictjson.Absent(m.Error) {
		var e struct {
			Code    int             `json:"code"`
			Message string          `json:"message"`
			Data    json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal(m.Error, &e); err != nil {
			return malformed("its error cannot be read: %w", err)
		}
		return response{err: &Error{Kind: Answered, Code: e.Code, Sent: true, Message: cut(e.Message), Data: e.Data}}
	}
	if len(m.Result) == 0 {
		return malformed("it has neither result nor error")
	}
	return response{result: m.Result}
}

// malformed is an answer that is not a JSON-RPC response to the request.
func malformed(format string, args ...any) response {
	return response{err: sentf(Protocol, "the server's answer is not MCP: "+format, args...)}
}

// refusal is the error of a request whose response cannot be used. The tool ran.
func refusal(why error, limit int) *Error {
	if errors.Is(why, jsonrpc.ErrTooLong) {
		e := tooLong(limit)
		e.Ended = true
		return e
	}
	return endedf(Protocol, "the server answered, but its message is refused: %w", why)
}

func tooLong(limit int) *Error {
	return sentf(TooLarge, "the server sent a message of more than %.4g MiB; ask the tool for less, or have an operator raise the pool's "+
		"--max-message-bytes", float64(limit)/(1<<20))
}

// endless is tooLong for a stream that cannot be read on.
func endless(limit int) *Error {
	e := tooLong(limit)
	e.Lost = true
	return e
}

// receive handles one message of the server. It runs in the goroutine that reads the stream. of is the request on whose own stream the message
// came, or nil. The memory of m and text may be used again. It reports whether a request was answered.
func (c *client) receive(m jsonrpc.Message, text []byte, of *pendingRequest) (answered bool) {
	if m.Method {
		if m.Err == nil {
			c.pass(text, m.ID == nil, of)
		}
		return false
	}
	x := of
	if of == nil {
		if x = c.take(m.ID); x != nil {
			m.Result = bytes.Clone(m.Result)
		}
	}
	switch {
	case x == nil, !m.Answer, of != nil && !of.isAnsweredBy(m):
		return false
	case m.Err != nil:
		x.deliver(response{err: refusal(m.Err, c.limit)})
	default:
		x.deliver(responseOf(m))
	}
	if of == nil {
		x.cancelPost()
	}
	return true
}

// postLimit bounds a POST whose response comes over the stream of all responses, after that is there or no longer waited for.
const postLimit = 30 * time.Second

// cancelPost ends such a POST. To cancel it at once could cancel the request that net/http gives its connection to next.
func (x *pendingRequest) cancelPost() {
	if x.cancel != nil {
		time.AfterFunc(postLimit, x.cancel)
	}
}

// isAnsweredBy reports whether a message on the request's own stream is its response. A server that could not read the request does not know
// its id.
func (x *pendingRequest) isAnsweredBy(m jsonrpc.Message) bool {
	id, ok := jsonrpc.ID(m.ID)
	return ok && id == x.id || strictjson.Absent(m.ID) && len(m.Error) > 0
}

// await registers a request whose response comes on a stream that carries those of all requests.
func (c *client) await(x *pendingRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting[x.id] = x
}

// take returns the request with an id, which is removed: a second response is dropped. It returns nil if there is none.
func (c *client) take(raw []byte) *pendingRequest {
	id, ok := jsonrpc.ID(raw)
	if !ok {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.waiting[id]
	delete(c.waiting, id)
	return x
}

// forget removes a request that waits no longer.
func (c *client) forget(x *pendingRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, x.id)
}
