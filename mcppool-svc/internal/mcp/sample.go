package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mark3labs/mcp-go/client/transport"

	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/strictjson"
)

// of notes which server the connection leads to, and what that may ask for.
func (c *client) of(s *registry.Server) {
	c.server = s
	c.sampling = s.Sampling != nil && s.Builtin == nil
}

// samplingRefused is why a server may not have a model asked, and who can change that.
func (c *client) samplingRefused() error {
	id := ""
	if c.server != nil {
		id = c.server.ID
	}
	return SampleErrorf(SampleRefused,
		"MCP server %s may not have a model asked (sampling), so none was; an operator allows it with `sampling` in the server's configuration (pawl mcp add --sampling)", id)
}

// sampled makes the response to sampling/createMessage; nil where the server wants none any more.
func (c *client) sampled(ctx context.Context, request transport.JSONRPCRequest) *transport.JSONRPCResponse {
	got, err := c.sampleFor(ctx, request)
	var result json.RawMessage
	if err == nil {
		result, err = got.Result()
	}
	var refused *SampleError
	switch {
	case errors.Is(err, errWithdrawn):
		return nil
	case errors.As(err, &refused):
		return transport.NewJSONRPCErrorResponse(request.ID, refused.Code, refused.Message, nil)
	case err != nil:
		return transport.NewJSONRPCErrorResponse(request.ID, SampleInvalid, err.Error(), nil)
	}
	return transport.NewJSONRPCResultResponse(request.ID, result)
}

// sampleFor has a model asked for what a server sent as a request of its own. The error is for the server.
func (c *client) sampleFor(ctx context.Context, request transport.JSONRPCRequest) (Sampled, error) {
	raw, err := json.Marshal(request.Params)
	if err != nil {
		return Sampled{}, errors.New("the parameters cannot be read")
	}
	params, err := strictjson.MemberMap(raw)
	if err != nil {
		return Sampled{}, err
	}
	if !c.sampling {
		if r := exchangeOf(ctx).run; r != nil {
			r.warn(c.samplingRefused())
		}
		return Sampled{}, c.samplingRefused()
	}
	r, err := c.whose(ctx, params, aModel)
	if err != nil {
		return Sampled{}, err
	}
	s, err := readSample(params)
	if err != nil {
		r.warn(err)
		return Sampled{}, err
	}
	got, err := c.sample(r.context(), r, s, request.ID.String())
	if err != nil && !errors.Is(err, errWithdrawn) {
		r.warn(err)
	}
	return got, err
}

// sample has a model asked for a call. It ends with ctx, with the connection, and where the server takes the request back.
func (c *client) sample(ctx context.Context, r *running, s Sample, request string) (Sampled, error) {
	if !c.sampling || r.call.Sample == nil {
		return Sampled{}, c.samplingRefused()
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(c.life, func() { end(errClosed) })()
	defer c.keepOpen(requestKey(request), end)()
	got, err := r.call.Sample(ctx, s)
	switch cause := context.Cause(ctx); {
	case err == nil:
		return got, nil
	case errors.Is(cause, errWithdrawn):
		return got, errWithdrawn
	case cause != nil:
		return got, SampleErrorf(SampleRefused, "the call that the model was asked for has ended")
	}
	return got, err
}

// warn tells those who follow the call why no model was asked, once.
func (r *running) warn(err error) {
	r.mu.Lock()
	told := r.warned
	r.warned = true
	r.mu.Unlock()
	if !told {
		r.notify(Notification{Log: &Log{Level: "warning", Logger: "pawl", Data: quoted(err.Error())}})
	}
}

// readSampling reads a request for a model that came in a result.
func (c *client) readSampling(name string, raw json.RawMessage) (in input, err error) {
	if !c.sampling {
		return in, refusedInput(name, fmt.Sprintf("a request for a model (sampling): %v", c.samplingRefused()))
	}
	params, err := strictjson.MemberMap(raw)
	if err == nil {
		var s Sample
		s, err = readSample(params)
		in.sample = &s
	}
	if err != nil {
		return in, brokenInput(fmt.Sprintf("its request for a model %.100q: %v", name, err))
	}
	return in, nil
}

// sampleAll has models asked for what the result of a call asks for, all at once.
func (c *client) sampleAll(r *running, samples map[string]Sample) (map[string]json.RawMessage, error) {
	type answer struct {
		name string
		raw  json.RawMessage
		err  error
	}
	answers := make(chan answer, len(samples))
	ctx, stop := context.WithCancel(r.context())
	defer stop()
	for name, s := range samples {
		go func() {
			got, err := c.sample(ctx, r, s, "")
			var raw json.RawMessage
			if err == nil {
				raw, err = got.Result()
			}
			answers <- answer{name, raw, err}
		}()
	}
	all, failed := make(map[string]json.RawMessage, len(samples)), error(nil)
	for range samples {
		a := <-answers
		all[a.name] = a.raw
		if a.err != nil && failed == nil {
			failed = modelFailed(a.name, a.err)
			stop() // what the others say is of no use
		}
	}
	if r.context().Err() != nil {
		return nil, ended(r.context())
	}
	return all, failed
}

// modelFailed is a call whose server asked for a model that did not answer. It goes no further.
func modelFailed(name string, err error) *Error {
	return &Error{Kind: NoModel, Sent: true, Ended: true, Err: err,
		Message: fmt.Sprintf("the server asks for a model's answer in the middle of the call (%.100q), and got none: %v", name, err)}
}
