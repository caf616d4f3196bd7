package mcp

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/services/strictjson"
)

// Why a question ends without an answer of the person.
var (
	errWithdrawn = errors.New("the server took the question back")
	errDone      = errors.New("the server says that it was done")
)

// elicited asks the question of elicitation/create. It returns neither a result nor an error if the server took the question
// back.
func (c *client) elicited(r serverRequest, call *running) (json.RawMessage, *rpcError) {
	answer, err := c.elicit(call, r.ID.String(), r.Params)
	switch {
	case errors.Is(err, errWithdrawn):
		return nil, nil
	case err != nil:
		return nil, &rpcError{Code: mcp.INVALID_PARAMS, Message: err.Error()}
	}
	return answer.Result(), nil
}

// elicit asks a question of the server and waits for the answer. The error is for the server.
func (c *client) elicit(call *running, request string, raw json.RawMessage) (Answer, error) {
	params, err := strictjson.MemberMap(raw)
	if err != nil {
		return Answer{}, err
	}
	q, err := readQuestion(params)
	if err != nil {
		return Answer{}, err
	}
	r, err := c.callOf(call, params, anInput)
	if err != nil {
		return Answer{}, err
	}
	q.ID = r.nextID()
	return c.inquire(r, q, request, stringOf(params["elicitationId"]))
}

// inquire gets an answer. Where the server ends the question, by the id of its request or of the elicitation, or the call ends,
// there is an answer too: the person's is no longer needed.
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
		// No answer is sent: what the server makes of one that the person did not give would count as the call's result.
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
