package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/mcppool-svc/internal/jsonrpc"
	"pawl.dev/services/strictjson"
)

// request makes a request and returns the raw result. name is the prompt, address or task that the request is about, or "".
func (c *client) request(ctx context.Context, method, name string, params map[string]any) (json.RawMessage, error) {
	x, err := c.newRequest(method, name, params)
	if err != nil {
		return nil, err
	}
	return c.roundTrip(ctx, x, nil)
}

// newRequest encodes a request.
func (c *client) newRequest(method, name string, params map[string]any) (*pendingRequest, error) {
	all := make(map[string]any, len(params)+1)
	maps.Copy(all, params)
	if len(c.meta) > 0 {
		all["_meta"] = c.meta
	}
	return c.encode(method, name, all)
}

// encode makes a request in one line.
func (c *client) encode(method, name string, params any) (*pendingRequest, error) {
	x := &pendingRequest{id: c.ids.Add(1), method: method, name: name, answered: make(chan response, 1)}
	if c.noText {
		return x, nil
	}
	text, err := json.Marshal(struct {
		JSONRPC string `json:"jsonrpc"`
		ID      int64  `json:"id"`
		Method  string `json:"method"`
		Params  any    `json:"params"`
	}{mcp.JSONRPC_VERSION, x.id, method, params})
	if err != nil {
		return nil, Errorf(Protocol, "the call cannot be written: %w", err)
	}
	x.text = append(text, '\n')
	return x, nil
}

// toolParams are the parameters of tools/call.
type toolParams struct {
	Name      string                     `json:"name"`
	Arguments json.RawMessage            `json:"arguments"`
	Meta      json.RawMessage            `json:"_meta"`
	Task      map[string]int64           `json:"task,omitempty"`
	Responses map[string]json.RawMessage `json:"inputResponses,omitempty"`
	State     *string                    `json:"requestState,omitempty"`
}

// toolRequest encodes one request of a call.
func (c *client) toolRequest(r *running, next round) (*pendingRequest, error) {
	call := r.call
	if c.noText {
		x, err := c.encode(string(mcp.MethodToolsCall), call.Name, nil)
		if err == nil {
			x.call, x.asker = r, r
		}
		return x, err
	}
	params := &toolParams{
		Name: call.Name, Arguments: json.RawMessage(cmp.Or(call.Arguments.String(), "{}")), Responses: next.responses, State: next.state,
		Meta: c.metaOf(r),
	}
	if call.Task && c.canTask {
		params.Task = map[string]int64{"ttl": call.TaskTTL.Milliseconds()}
	}
	x, err := c.encode(string(mcp.MethodToolsCall), call.Name, params)
	if err != nil {
		return nil, err
	}
	x.call, x.asker = r, r
	if mirrors := c.mirrors.Load(); mirrors != nil {
		if tool, ok := (*mirrors)[call.Name]; ok {
			headers := mcp.GenerateParamHeaders(&tool, json.RawMessage(`{"arguments":`+string(params.Arguments)+`}`))
			x.header = make(http.Header, len(headers)+6)
			for name, value := range headers {
				x.header.Set(name, value)
			}
		}
	}
	return x, nil
}

// metaOf returns the _meta of a request of a call.
func (c *client) metaOf(r *running) json.RawMessage {
	meta := append(make([]byte, 0, len(c.meta)+512), '{')
	if len(c.meta) > 0 {
		meta = append(append(meta, c.meta[1:len(c.meta)-1]...), ',')
	}
	add := func(key, value string) {
		meta, _ = jsontext.AppendQuote(meta, key) // the errors report invalid UTF-8, which is replaced
		meta, _ = jsontext.AppendQuote(append(meta, ':'), value)
	}
	for key, value := range r.call.Meta {
		add(key, value)
		meta = append(meta, ',')
	}
	add("progressToken", r.token)
	return append(meta, '}')
}

const (
	// cancelGrace is how long a server has to answer a call that was cancelled. A result within that time counts.
	cancelGrace = 2 * time.Second
	// stopWait is how long a transport usually may take to notice that a request was cancelled.
	stopWait = time.Second
)

// transport carries messages to one server. It delivers responses to their requests, and passes the server's own requests and notifications
// to the client. Its methods are safe for concurrent use.
type transport interface {
	// start sends a request without waiting, and later delivers its response or an *Error. After x.cancel it delivers something soon, unless a
	// tool in this process ignores its context, or the responses to all requests come on one stream.
	start(x *pendingRequest)
	// post sends a message that has no response.
	post(ctx context.Context, message []byte) error
	// close ends the connection and all of the transport's goroutines.
	close()
}

// pendingRequest is one request and its response.
type pendingRequest struct {
	id     int64
	method string
	name   string      // of the tool, task, prompt or resource that the request is about
	header http.Header // more HTTP headers; may be nil
	text   []byte      // the whole message, with the end of its line
	call   *running    // the tool call, if this is a tools/call request; else nil
	asker  *running    // the tool call that the server's questions on the request's stream are for; may be nil

	answered chan response      // buffered
	cancel   context.CancelFunc // ends the transport's work for the request; may be nil
	sent     atomic.Bool        // the request may have reached the server
}

// response is the result or the error of a request.
type response struct {
	result json.RawMessage
	err    *Error // nil if there is a result
}

// deliver hands over a response. Only the first one counts.
func (x *pendingRequest) deliver(r response) {
	select {
	case x.answered <- r:
	default:
	}
}

// delivered returns the response if there is one already.
func (x *pendingRequest) delivered() (response, bool) {
	select {
	case r := <-x.answered:
		return r, true
	default:
		return response{}, false
	}
}

// roundTrip sends a request and waits for its response. If ctx ends first, it cancels the request, whose result may still count (see
// interrupt). If gate is not nil and returns an error, the request is not sent.
func (c *client) roundTrip(ctx context.Context, x *pendingRequest, gate func() error) (json.RawMessage, error) {
	switch {
	case ctx.Err() != nil:
		return nil, GivenUp(ctx, false)
	case c.isDone():
		return nil, c.lost(false)
	}
	if gate != nil {
		if err := gate(); err != nil {
			return nil, err
		}
	}
	c.wire.start(x)
	select {
	case r := <-x.answered:
		return c.unwrap(r)
	case <-c.life.Done():
		if r, ok := x.delivered(); ok {
			return c.unwrap(r) // the response came before the connection ended
		}
		return nil, c.lost(c.wasSent(x))
	case <-ctx.Done():
		return c.interrupt(ctx, x)
	}
}

// unwrap returns the result of a response, or its error without secrets.
func (c *client) unwrap(r response) (json.RawMessage, error) {
	if r.err == nil {
		return r.result, nil
	}
	if c.isDone() && (r.err.Kind == Interrupted || r.err.Lost && r.err.Kind == Unavailable) { // the end of the connection interrupted it
		return nil, c.lost(r.err.MayHaveRun)
	}
	e := *r.err
	e.Message = c.hide(e.Message)
	return nil, &e
}

// interrupt cancels a request whose ctx ended. A result of a tool call within cancelGrace still counts, except after a deadline, so that the
// call takes hardly longer than the caller allowed.
func (c *client) interrupt(ctx context.Context, x *pendingRequest) (json.RawMessage, error) {
	cause := context.Cause(ctx)
	switch {
	case c.cancelsAtServer:
		x.cancel()
	case x.method != methodInitialize && x.method != methodDiscover:
		c.background(func() { // best effort: the request ends in any case
			_ = c.notify(string(mcp.MethodNotificationCancelled), map[string]any{"requestId": x.id, "reason": cause.Error()})
		})
	}
	if x.call != nil && !c.cancelIsFinal && !errors.Is(cause, context.DeadlineExceeded) {
		if r, ok := c.within(x, cancelGrace); ok {
			return c.unwrap(r)
		}
		if c.isDone() {
			return nil, c.lost(c.wasSent(x))
		}
	}
	c.take(x.id)
	wait := c.stopWait
	if c.oneStream {
		wait = 0
		x.cancelPost()
	} else {
		x.cancel()
	}
	if r, ok := c.within(x, wait); ok && r.err == nil {
		return r.result, nil // the response came at the last moment
	}
	return nil, GivenUp(ctx, x.sent.Load())
}

// within waits for a response until d has passed or the connection has ended.
func (c *client) within(x *pendingRequest, d time.Duration) (response, bool) {
	select {
	case r := <-x.answered:
		return r, true
	case <-c.life.Done():
	case <-time.After(d):
	}
	return x.delivered()
}

// wasSent reports whether a request that lost its connection may have reached the server.
func (c *client) wasSent(x *pendingRequest) bool {
	if t, ok := c.wire.(*stdio); ok && t.out.Undelivered(x.id) {
		return false
	}
	return x.sent.Load()
}

// lost returns the error of a request whose connection ended. sent reports whether the server may have received the request.
func (c *client) lost(sent bool) *Error {
	e := *errClosed
	if err := c.Err(); err != nil {
		e = *As(err)
		// A server that never completed the handshake would fail in the same way again.
		e.Transient = c.info.Protocol != "" && e.Kind == Unavailable
	}
	e.MayHaveRun, e.Lost = sent, true
	return &e
}

// GivenUp returns the error of a request whose ctx ended. sent reports whether the server may have received the request.
func GivenUp(ctx context.Context, sent bool) *Error {
	cause := context.Cause(ctx)
	return &Error{Kind: Interrupted, Message: cause.Error(), MayHaveRun: sent, Err: errors.Join(ctx.Err(), cause)}
}

// responseOf returns the response in a message.
func responseOf(m jsonrpc.Message) response {
	if len(m.Error) > 0 && !strictjson.Absent(m.Error) {
		var e struct {
			Code    int             `json:"code"`
			Message string          `json:"message"`
			Data    json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal(m.Error, &e); err != nil {
			return malformedResponse("its error cannot be read: %w", err)
		}
		return response{err: &Error{Kind: Answered, Code: e.Code, MayHaveRun: true, Message: Cut(e.Message), Data: e.Data}}
	}
	if len(m.Result) == 0 {
		return malformedResponse("it has neither result nor error")
	}
	return response{result: m.Result}
}

// malformedResponse returns the response for an answer of the server that is not a JSON-RPC response to the request.
func malformedResponse(format string, args ...any) response {
	return response{err: sentf(Protocol, "the server's answer is not MCP: "+format, args...)}
}

// unusableError returns the error of a request whose response cannot be used.
func unusableError(why error, limit int) *Error {
	if errors.Is(why, jsonrpc.ErrTooLong) {
		e := tooLongError(limit)
		e.Ended = true
		return e
	}
	return endedf(Protocol, "the server answered, but its message is refused: %w", why)
}

func tooLongError(limit int) *Error {
	return sentf(TooLarge, "the server sent a message of more than %.4g MiB; ask the tool for less, or have an operator raise the pool's "+
		"--max-message-bytes", float64(limit)/(1<<20))
}

// endlessError is tooLongError for a stream that cannot be read any further.
func endlessError(limit int) *Error {
	e := tooLongError(limit)
	e.Lost = true
	return e
}

// receive handles one message of the server, and reports whether it answered a request. It runs in the goroutine that reads the stream. streamOf
// is the request on whose own stream the message came, or nil. The memory of m and text may be reused after receive returns, unless m.Own is set.
func (c *client) receive(m jsonrpc.Message, text []byte, streamOf *pendingRequest) (answered bool) {
	held := m.Held
	defer func() { held.Release() }() // unless the call takes it over
	if m.Method {
		if m.Err == nil {
			c.dispatch(text, m.ID == nil, streamOf)
		}
		return false
	}
	x := streamOf
	if id, ok := jsonrpc.ID(m.ID); streamOf == nil && ok {
		if x = c.take(id); x != nil && !m.Own {
			m.Result = bytes.Clone(m.Result)
		}
	}
	switch {
	case x == nil, !m.Answer, streamOf != nil && !streamOf.isAnsweredBy(m):
		return false
	case m.Err != nil:
		x.deliver(response{err: unusableError(m.Err, c.limit)})
	default:
		x.asker.hold(held)
		held = nil
		x.deliver(responseOf(m))
	}
	if streamOf == nil {
		x.cancelPost()
	}
	return true
}

// postLimit is how long a POST may still run once its response has come over the stream of all responses, or is no longer needed.
const postLimit = 30 * time.Second

// cancelPost cancels the request's POST after postLimit. Cancelling it at once could cancel the next request that net/http sends over the same
// TCP connection.
func (x *pendingRequest) cancelPost() {
	if x.cancel != nil {
		time.AfterFunc(postLimit, x.cancel)
	}
}

// isAnsweredBy reports whether a message on the request's own stream is its response: its id is the request's, or it is an error without id,
// because the server could not read the request.
func (x *pendingRequest) isAnsweredBy(m jsonrpc.Message) bool {
	id, ok := jsonrpc.ID(m.ID)
	return ok && id == x.id || strictjson.Absent(m.ID) && len(m.Error) > 0
}

// await registers a request whose response comes on the stream of all responses.
func (c *client) await(x *pendingRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting[x.id] = x
}

// take removes a request that await registered and returns it, so that a second response is dropped. It returns nil if there is none.
func (c *client) take(id int64) *pendingRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.waiting[id]
	delete(c.waiting, id)
	return x
}
