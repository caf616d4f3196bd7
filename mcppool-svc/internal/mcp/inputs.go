package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"

	"pawl.dev/services/strictjson"
)

// gather resolves the inputRequests of a result (multi round-trip request).
func (c *client) gather(r *running, last round, fields map[string]json.RawMessage) (round, error) {
	next := round{number: last.number + 1, again: true, acted: last.acted || len(last.responses) > 0, busy: last.busy}
	if next.number > maxRounds {
		return next, brokenInput("it asked %d times", maxRounds)
	}
	if err := next.keepState(fields); err != nil {
		return next, err
	}
	inputs, err := c.readInputs(fields["inputRequests"])
	if err != nil {
		return next, err
	}
	questions, others := make(map[string]input), make(map[string]input)
	for name, in := range inputs {
		if in.question != nil {
			questions[name] = in
		} else {
			others[name] = in
		}
	}
	// Ask models first: their answers are stored in the questions' state, so another replica that continues the call need not pay for
	// them again.
	keep := Continuation{Server: next.state, Round: next.number}
	if keep.Answers, err = c.resolveAll(r, others); err != nil {
		return next, err
	}
	next.responses = make(map[string]json.RawMessage, len(inputs))
	maps.Copy(next.responses, keep.Answers)
	if len(questions) == 0 {
		return next, nil
	}
	state, err := keep.Encode()
	if err != nil {
		return next, brokenInput("%w", err)
	}
	for name, in := range questions {
		in.question.ID, in.question.State = fmt.Sprintf("r%d:%s", next.number, name), state
	}
	answers, err := c.resolveAll(r, questions)
	maps.Copy(next.responses, answers)
	return next, err
}

// readInputs reads the inputRequests of a result, by name.
func (c *client) readInputs(raw json.RawMessage) (map[string]input, error) {
	requests, err := strictjson.MemberMap(raw)
	if err != nil || len(requests) > maxInputs {
		return nil, brokenInput("its inputRequests are no object of at most %d", maxInputs)
	}
	inputs := make(map[string]input, len(requests))
	for name, raw := range requests {
		if inputs[name], err = c.readNamed(name, raw); err != nil {
			return nil, err
		}
	}
	return inputs, nil
}

// readNamed reads one member of inputRequests.
func (c *client) readNamed(name string, raw json.RawMessage) (input, error) {
	request, err := strictjson.MemberMap(raw)
	if err != nil || name == "" || len(name) > maxInputName {
		return input{}, brokenInput("one of its inputRequests cannot be read, or has no name, or too long a one")
	}
	in, err := c.readInput(stringOf(request["method"]), request["params"])
	if err != nil {
		return in, brokenInput("its request %.100q: %w", name, err)
	}
	return in, nil
}

// resolveAll gets the answers to all inputs concurrently. The first failure ends the others, whose answers would not be used.
func (c *client) resolveAll(r *running, inputs map[string]input) (map[string]json.RawMessage, error) {
	if len(inputs) == 0 {
		return nil, nil
	}
	var mu sync.Mutex
	answers := make(map[string]json.RawMessage, len(inputs))
	all, ctx := errgroup.WithContext(r.context())
	for name, in := range inputs {
		all.Go(func() error {
			raw, err := c.resolve(ctx, r, in)
			switch {
			case err != nil && in.sample != nil:
				return &Error{Kind: NoModel, Sent: true, Ended: true, Err: err,
					Message: fmt.Sprintf("the server asks for a model's answer in the middle of the call (%.100q), and got none: %v", name, err)}
			case err != nil:
				return brokenInput("its question %.100q: %w", name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			answers[name] = raw
			return nil
		})
	}
	err := all.Wait()
	if r.context().Err() != nil {
		return nil, givenUp(r.context(), true)
	}
	return answers, err
}

// brokenInput returns the error for a server whose input request cannot be answered. Its request has ended.
func brokenInput(format string, args ...any) *Error {
	e := protocolError("the server asks for more input in the middle of the call, but "+format, args...)
	e.Ended = true
	return e
}

// openFirst handles URLElicitationRequired (-32042, MCP 2025-11-25): the server rejected the call, without running it, until the user has
// opened the listed pages. Once the user accepts all of them, or the server reports them complete, the call is sent again.
func (c *client) openFirst(r *running, last round, refusal *Error) (round, error) {
	next := round{number: last.number + 1, again: true, acted: last.acted, busy: last.busy}
	pages := readPages(next.number, refusal.Data)
	if len(pages) == 0 || next.number > maxRounds {
		return next, refusal
	}
	answers, err := c.resolveAll(r, pages)
	if err != nil {
		return next, err
	}
	for _, a := range answers {
		if memberOf(a, "action") != string(Accept) {
			e := *refusal
			e.Message = "the server wants a page opened first, which was not done: " + e.Message
			return next, &e
		}
	}
	return next, nil
}

// readPages reads the pages that an error says must be opened; nil if they cannot be read, or one is not a page that may be opened.
func readPages(number int, data json.RawMessage) map[string]input {
	fields, err := strictjson.MemberMap(data)
	var list []json.RawMessage
	if err != nil || json.Unmarshal(fields["elicitations"], &list) != nil || len(list) > maxInputs {
		return nil
	}
	pages := make(map[string]input)
	for i, item := range list {
		q, err := readQuestion(item)
		if err != nil || q.URL == "" {
			return nil
		}
		name := strconv.Itoa(i + 1)
		q.ID = "u" + strconv.Itoa(number) + ":" + name
		pages[name] = input{question: q, elicitation: memberOf(item, "elicitationId")}
	}
	return pages
}
