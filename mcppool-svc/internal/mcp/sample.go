package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"pawl.dev/services/strictjson"
)

// samplingRefused is the refusal of a server that may not ask models; it names the remedy.
func (c *client) samplingRefused() error {
	return SampleErrorf(SampleRefused,
		"MCP server %s may not have a model asked (sampling), so none was; an operator allows it with `sampling` in the server's configuration (pawl mcp add --sampling)", c.server.ID)
}

// sampled has a model asked for sampling/createMessage. It returns neither a result nor an error if the server took the request
// back.
func (c *client) sampled(r serverRequest, call *running) (json.RawMessage, *rpcError) {
	got, err := c.sampleFor(r, call)
	var result json.RawMessage
	if err == nil {
		result, err = got.Result()
	}
	var refused *SampleError
	switch {
	case errors.Is(err, errWithdrawn):
		return nil, nil
	case errors.As(err, &refused):
		return nil, &rpcError{Code: refused.Code, Message: refused.Message}
	case err != nil:
		return nil, &rpcError{Code: SampleInvalid, Message: err.Error()}
	}
	return result, nil
}

// sampleFor has a model asked for a request of the server. The error is for the server.
func (c *client) sampleFor(request serverRequest, call *running) (Sampled, error) {
	params, err := strictjson.MemberMap(request.Params)
	if err != nil {
		return Sampled{}, err
	}
	if !c.sampling {
		if call != nil {
			call.warn(c.samplingRefused())
		}
		return Sampled{}, c.samplingRefused()
	}
	r, err := c.callOf(call, params, aModel)
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

// warn tells the caller once why no model was asked.
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
		return nil, givenUp(r.context(), true)
	}
	return all, failed
}

// modelFailed is a call whose server asked for a model that did not answer. It goes no further.
func modelFailed(name string, err error) *Error {
	return &Error{Kind: NoModel, Sent: true, Ended: true, Err: err,
		Message: fmt.Sprintf("the server asks for a model's answer in the middle of the call (%.100q), and got none: %v", name, err)}
}
