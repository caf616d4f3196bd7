package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/services/strictjson"
)

// gather gets what a result asks for.
func (c *client) gather(r *running, last round, fields map[string]json.RawMessage) (round, error) {
	next := round{number: last.number + 1, again: true, acted: last.acted || len(last.responses) > 0, busy: last.busy}
	if next.number > maxRounds {
		return next, brokenInput(fmt.Sprintf("it asked %d times", maxRounds))
	}
	if err := next.keepState(fields); err != nil {
		return next, err
	}
	questions, samples, err := c.readInputs(fields["inputRequests"], &next)
	if err != nil {
		return next, err
	}
	keep := Continuation{Server: next.state, Round: next.number, Roots: slices.Sorted(maps.Keys(next.responses))}
	// Models first: what they say goes with the questions, and is not paid for again where another pool goes on.
	if keep.Models, err = c.sampleAll(r, samples); err != nil {
		return next, err
	}
	maps.Copy(next.responses, keep.Models)
	if len(questions) == 0 {
		return next, nil
	}
	state, err := keep.Encode()
	if err != nil {
		return next, brokenInput(err.Error())
	}
	for name, q := range questions {
		q.ID, q.State = fmt.Sprintf("r%d:%s", next.number, name), state
		questions[name] = q
	}
	answers, err := c.askAll(r, questions, nil)
	for name, a := range answers {
		next.responses[name] = a.Result()
	}
	return next, err
}

// input is something that is asked for: of the person, of a model, or answered here.
type input struct {
	question Question
	sample   *Sample
	answer   json.RawMessage
}

// readInputs splits what is asked for into questions for the person, those for models, and what is answered here.
func (c *client) readInputs(raw json.RawMessage, next *round) (map[string]Question, map[string]Sample, error) {
	requests, err := strictjson.MemberMap(raw)
	if err != nil || len(requests) > maxInputs {
		return nil, nil, brokenInput(fmt.Sprintf("its inputRequests are no object of at most %d", maxInputs))
	}
	questions, samples := make(map[string]Question, len(requests)), make(map[string]Sample)
	next.responses = make(map[string]json.RawMessage, len(requests))
	for name, raw := range requests {
		in, err := c.readInput(name, raw)
		switch {
		case err != nil:
			return nil, nil, err
		case in.answer != nil:
			next.responses[name] = in.answer
		case in.sample != nil:
			samples[name] = *in.sample
		default:
			questions[name] = in.question
		}
	}
	return questions, samples, nil
}

func (c *client) readInput(name string, raw json.RawMessage) (in input, err error) {
	request, err := strictjson.MemberMap(raw)
	if err != nil || name == "" || len(name) > maxInputName {
		return in, brokenInput("one of its inputRequests cannot be read, or has no name, or too long a one")
	}
	switch method := stringOf(request["method"]); method {
	case string(mcp.MethodElicitationCreate):
		params, err := strictjson.MemberMap(request["params"])
		if err == nil {
			in.question, err = readQuestion(params)
		}
		if err != nil {
			return in, brokenInput(fmt.Sprintf("its question %.100q: %v", name, err))
		}
		return in, nil
	case string(mcp.MethodListRoots):
		if len(c.roots) == 0 {
			return in, refusedInput(name, "roots, and none are configured")
		}
		return input{answer: c.rootsResult()}, nil
	case string(mcp.MethodSamplingCreateMessage):
		return c.readSampling(name, request["params"])
	default:
		return in, refusedInput(name, fmt.Sprintf("%.100q, which is not known", method))
	}
}

// askAll asks all at once, and returns when all have an answer. elicitations are the server's names for what is to be opened.
func (c *client) askAll(r *running, questions map[string]Question, elicitations map[string]string) (map[string]Answer, error) {
	var (
		mu      sync.Mutex
		wait    sync.WaitGroup
		failed  error
		answers = make(map[string]Answer, len(questions))
	)
	for _, name := range slices.Sorted(maps.Keys(questions)) {
		wait.Go(func() {
			answer, err := c.inquire(r, questions[name], "", elicitations[name])
			mu.Lock()
			defer mu.Unlock()
			answers[name] = answer
			if err != nil && failed == nil {
				failed = brokenInput(fmt.Sprintf("its question %.100q: %v", name, err))
			}
		})
	}
	wait.Wait()
	if r.context().Err() != nil {
		return nil, givenUp(r.context(), true)
	}
	return answers, failed
}

// brokenInput is a server that asks in a way that cannot be answered. Its request is over.
func brokenInput(what string) *Error {
	e := protocolError("the server asks for more input in the middle of the call, but %s", what)
	e.Ended = true
	return e
}

func refusedInput(name, what string) *Error {
	return brokenInput(fmt.Sprintf("%.100q is %s", name, what))
}
