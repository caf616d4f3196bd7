package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/services/strictjson"
)

const (
	// replyLimit bounds the sending of an answer.
	replyLimit = 30 * time.Second
	// maxServing is how many requests of one server are dealt with at once.
	maxServing = 200
)

// Why a question ends without an answer of the person.
var (
	errWithdrawn = errors.New("the server took the question back")
	errDone      = errors.New("the server says that it was done")
)

// capabilities are what servers are told that they may ask.
func (c *client) capabilities() mcp.ClientCapabilities {
	can := mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{Form: &struct{}{}, URL: &struct{}{}}}
	if c.sampling {
		can.Sampling = &mcp.SamplingCapability{} // without tools and context
	}
	if c.era == modern {
		can.Extensions = map[string]any{tasksExtension: struct{}{}}
	}
	return can
}

// serve answers requests of the server that are handled here; false leaves one to mcp-go. It may block for as long as a
// person takes: where the transport gives up before, the answer goes its own way.
func (c *client) serve(ctx context.Context, request transport.JSONRPCRequest) (*transport.JSONRPCResponse, bool) {
	var answer func(context.Context, transport.JSONRPCRequest) *transport.JSONRPCResponse
	switch request.Method {
	case string(mcp.MethodElicitationCreate):
		answer = c.elicited
	case string(mcp.MethodSamplingCreateMessage):
		answer = c.sampled
	default:
		return nil, false
	}
	defer c.serving.Add(-1)
	if c.serving.Add(1) > maxServing {
		return nil, true // a flood is not worth an answer each
	}
	response := answer(ctx, request)
	if c.reply == nil || response == nil {
		return response, true
	}
	// Not the request's context: this is no part of that exchange.
	own, cancel := context.WithTimeout(context.Background(), replyLimit)
	defer cancel()
	if err := c.reply(own, response); err != nil {
		c.log.DebugContext(ctx, "an answer did not reach the MCP server", "error", err)
	}
	return nil, true
}

// elicited makes the response to elicitation/create; nil where the server wants none any more.
func (c *client) elicited(ctx context.Context, request transport.JSONRPCRequest) *transport.JSONRPCResponse {
	raw, err := json.Marshal(request.Params)
	if err != nil {
		return transport.NewJSONRPCErrorResponse(request.ID, mcp.INVALID_PARAMS, "the parameters cannot be read", nil)
	}
	answer, err := c.elicit(ctx, request.ID.String(), raw)
	switch {
	case errors.Is(err, errWithdrawn):
		return nil
	case err != nil:
		return transport.NewJSONRPCErrorResponse(request.ID, mcp.INVALID_PARAMS, err.Error(), nil)
	}
	return transport.NewJSONRPCResultResponse(request.ID, answer.Result())
}

// elicit asks a question that a server sent, and waits. The error is for the server.
func (c *client) elicit(ctx context.Context, request string, raw json.RawMessage) (Answer, error) {
	params, err := strictjson.MemberMap(raw)
	if err != nil {
		return Answer{}, err
	}
	q, err := readQuestion(params)
	if err != nil {
		return Answer{}, err
	}
	r, err := c.whose(ctx, params, anInput)
	if err != nil {
		return Answer{}, err
	}
	q.ID = r.nextID()
	return c.inquire(r, q, request, stringOf(params["elicitationId"]))
}

// inquire gets an answer. Where the server ends the question, by the id of its request or of the elicitation, or the call ends,
// there is one too: the person's is not needed any more.
func (c *client) inquire(r *running, q Question, request, elicitation string) (Answer, error) {
	return c.inquireWithin(r.context(), r, q, request, elicitation)
}

// inquireWithin is inquire for a question that ends with ctx.
func (c *client) inquireWithin(ctx context.Context, r *running, q Question, request, elicitation string) (Answer, error) {
	if r.call.Ask == nil {
		return Answer{}, errors.New("nobody can be asked during this call")
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(c.life, func() { end(errClosed) })()
	defer c.keepOpen(requestKey(request), end)()
	defer c.keepOpen(elicitationKey(elicitation), end)()
	answer, err := r.call.Ask(ctx, q)
	switch cause := context.Cause(ctx); {
	case err == nil:
		return answer, nil
	case errors.Is(cause, errDone):
		return Answer{Action: Accept}, nil
	case errors.Is(cause, errWithdrawn), errors.Is(cause, errClosed):
		// What the server would make of an answer that nobody gave, over a connection that ends, would count as the call's result.
		return Answer{}, errWithdrawn
	case cause != nil:
		return Answer{Action: Cancel}, nil
	}
	return Answer{}, err
}

func requestKey(id string) string { return key("request", id) }

func elicitationKey(id string) string { return key("elicitation", id) }

func key(kind, id string) string {
	if id == "" {
		return ""
	}
	return kind + " " + id
}

// keepOpen lets shut end a question; call the function when it has ended.
func (c *client) keepOpen(key string, end context.CancelCauseFunc) func() {
	if key == "" {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[key] != nil {
		return func() {} // an id that is used twice ends the first alone
	}
	if why := c.early[key]; why != nil {
		delete(c.early, key)
		end(why)
	}
	c.open[key] = end
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, key)
	}
}

// maxEarly is how many ends of questions are kept that are not open yet: the server's word may overtake its question.
const maxEarly = 100

// shut ends a question that is open, or will be.
func (c *client) shut(key string, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if end := c.open[key]; end != nil {
		end(why)
		return
	}
	if len(c.early) >= maxEarly {
		clear(c.early)
	}
	c.early[key] = why
}

// inProcess asks for built-in servers, which ask by a call.
type inProcess struct{ conn *client }

// Elicit implements mcp-go's handler of a server.
func (p *inProcess) Elicit(ctx context.Context, request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	raw, err := json.Marshal(request.Params)
	if err != nil {
		return nil, err
	}
	answer, err := p.conn.elicit(ctx, "", raw)
	if err != nil {
		return nil, err
	}
	result := &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: mcp.ElicitationResponseAction(answer.Action)}}
	if len(answer.Content) > 0 {
		err = json.Unmarshal(answer.Content, &result.Content)
	}
	return result, err
}
