package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"golang.org/x/sync/errgroup"

	"pawl.dev/services/strictjson"
)

const (
	// maxRounds is how often the server may answer requests of one call with questions; maxInputs is how many it may ask at once.
	maxRounds = 50
	maxInputs = 10
	// maxInputName is the longest name of an input: with the number of the round it fits the API's limit of 400 for an input id.
	maxInputName = 300
	// firstWait is how long to wait after the server first deferred the call; the wait doubles each time. maxBusy is how often the server may
	// defer a call.
	firstWait = 250 * time.Millisecond
	maxBusy   = 5
)

// round is one request of a call, with its repeats after failures.
type round struct {
	number    int                        // how many requests have ended without a result
	responses map[string]json.RawMessage // to the questions of the round before
	state     *string                    // the server's requestState, which is sent back
	answered  bool                       // the server has answered an earlier request of this CallTool
	acted     bool                       // an earlier request may have had an effect: it carried answers, or the server deferred the call
	busy      int                        // how often the server has deferred the call
	failures  int                        // of this round
	unknown   bool                       // a failed request of this round may have reached the server
}

// CallTool implements Client. It makes requests until one ends with a result: the server may first ask for input, defer the
// call, or run it as a task.
func (c *client) CallTool(ctx context.Context, call Call) (raw json.RawMessage, err error) {
	r := c.addCall(ctx, call)
	defer func() { c.removeCall(r, err) }()
	if call.Follow != "" {
		return c.followTask(ctx, r, mcpTask{Task: Task{ID: call.Follow}})
	}
	next, err := c.firstRound(call)
	for err == nil {
		var x *pendingRequest
		if x, err = c.toolRequest(r, next); err != nil {
			break
		}
		raw, err = c.roundTrip(ctx, x, call.Gate)
		if call.Gate = nil; err != nil { // the gate is for the first request only
			next, err = c.roundFailed(ctx, r, next, err)
			continue
		}
		fields := unfinished(raw)
		if task, is := taskOf(fields, call.Task && c.canTask); is {
			return c.followTask(ctx, r, task)
		}
		if stringOf(fields["resultType"]) != "input_required" {
			return raw, nil
		}
		if strictjson.Absent(fields["inputRequests"]) {
			next, err = c.waitWhileBusy(ctx, next, fields)
			continue
		}
		next, err = c.gather(r, next, fields)
	}
	return nil, err
}

// firstRound returns the first round of a call. If the call continues an earlier one, the round carries the answers.
func (c *client) firstRound(call Call) (round, error) {
	from := call.Resume
	if from == nil {
		return round{}, nil
	}
	if !c.isModern() {
		return round{}, Errorf(Misconfigured,
			"the MCP server now uses an older revision of MCP than when it asked, and cannot continue the call; call the tool again")
	}
	next := round{number: from.Round, state: from.Server, responses: make(map[string]json.RawMessage)}
	for name, raw := range from.Answers {
		answer, err := c.keptAnswer(raw)
		if err != nil {
			return next, err
		}
		next.responses[name] = answer
	}
	for id, answer := range call.Answers {
		if _, name, ok := strings.Cut(id, ":"); ok {
			next.responses[name] = answer.Result()
		}
	}
	return next, nil
}

// keptAnswer returns an answer of a Continuation, which comes back from the client. The client must not answer for the pool: folders are those of the
// registration, and a model's answer counts only if the server may ask models.
func (c *client) keptAnswer(raw json.RawMessage) (json.RawMessage, error) {
	fields, err := strictjson.MemberMap(raw)
	_, roots := fields["roots"]
	_, model := fields["role"]
	switch {
	case err == nil && roots && len(c.roots) > 0:
		return c.rootsResult(), nil
	case err == nil && !roots && model && c.sampling:
		return raw, nil
	}
	return nil, Errorf(Misconfigured, "the request_state holds an answer that the MCP server does not get from the pool now; call the tool again")
}

// unfinished returns the members of a result that may not be final, else nil. It does not parse final results, because some are long.
func unfinished(raw json.RawMessage) map[string]json.RawMessage {
	if !bytes.Contains(raw, []byte(`"input_required"`)) && !bytes.Contains(raw, []byte(`"task"`)) {
		return nil
	}
	fields, err := strictjson.MemberMap(raw)
	if err != nil {
		return nil // the caller reads the result and reports it
	}
	return fields
}

// roundFailed returns the round that follows a failed one, or the error that ends the call. A request that is not the first of its call is
// repeated if Call.Again allows it; after a failure of the first request, the caller of CallTool may repeat the whole call. MayHaveRun of the
// error covers all requests of the call.
func (c *client) roundFailed(ctx context.Context, r *running, last round, err error) (round, error) {
	e := *As(err)
	if last.answered {
		last.failures++
		final := e.Kind == Answered || e.Ended || c.isDone()
		if !final && r.call.Again != nil && r.call.Again(ctx, last.failures, &e) {
			last.unknown = last.unknown || e.MayHaveRun
			return last, nil
		}
		e.Begun, e.MayHaveRun = true, e.MayHaveRun || last.unknown || last.acted
		err = &e
	}
	if e.Kind == Answered && e.Code == mcp.URL_ELICITATION_REQUIRED {
		return c.openFirst(r, last, &e)
	}
	return last, err
}

// waitWhileBusy waits after the server deferred the call, and returns the next round.
func (c *client) waitWhileBusy(ctx context.Context, last round, fields map[string]json.RawMessage) (round, error) {
	next := round{number: last.number + 1, answered: true, acted: true, busy: last.busy + 1}
	if next.busy > maxBusy {
		return next, endedf(Unavailable, "the server deferred the call %d times, and the pool gave up; call the tool again later", next.busy)
	}
	if !pause(ctx, nil, firstWait<<last.busy) {
		return next, GivenUp(ctx, true)
	}
	return next, next.keepState(fields)
}

// keepState keeps the server's requestState for the next request.
func (n *round) keepState(fields map[string]json.RawMessage) error {
	if raw := fields["requestState"]; len(raw) > 0 && json.Unmarshal(raw, &n.state) != nil {
		return brokenInput("its requestState is not a string")
	}
	return nil
}

// gather gets the answers to the inputRequests of a result (multi round-trip request), and returns the round that sends them.
func (c *client) gather(r *running, last round, fields map[string]json.RawMessage) (round, error) {
	next := round{number: last.number + 1, answered: true, acted: last.acted || len(last.responses) > 0, busy: last.busy}
	if next.number > maxRounds {
		return next, brokenInput("it has already asked %d times, which is the limit", maxRounds)
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
	// Ask models first. The questions' state holds the answers of models, so a pool that continues the call need not pay for them again.
	keep := Continuation{Server: next.state, Round: next.number}
	if keep.Answers, err = c.resolveAll(r, others); err != nil {
		return next, err
	}
	next.responses = make(map[string]json.RawMessage, len(inputs))
	maps.Copy(next.responses, keep.Answers)
	if len(questions) == 0 {
		return next, nil
	}
	state, err := json.Marshal(keep)
	if err != nil || len(state) > maxState {
		return next, brokenInput("its request state cannot be kept, or has more than %d KiB", maxState>>10)
	}
	for name, in := range questions {
		in.question.ID, in.question.State = fmt.Sprintf("r%d:%s", next.number, name), string(state)
	}
	answers, err := c.resolveAll(r, questions)
	maps.Copy(next.responses, answers)
	return next, err
}

// readInputs reads the inputRequests of a result, by name.
func (c *client) readInputs(raw json.RawMessage) (map[string]input, error) {
	requests, err := strictjson.MemberMap(raw)
	if err != nil || len(requests) > maxInputs {
		return nil, brokenInput("its inputRequests are not an object with at most %d members", maxInputs)
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
		return input{}, brokenInput("one of its inputRequests cannot be read, or its name is empty or longer than %d bytes", maxInputName)
	}
	in, err := c.readInput(stringOf(request["method"]), request["params"])
	if err != nil {
		return in, brokenInput("its request %.100q is refused: %w", name, err)
	}
	return in, nil
}

// resolveAll gets the answers to all inputs concurrently. The first failure cancels the others.
func (c *client) resolveAll(r *running, inputs map[string]input) (map[string]json.RawMessage, error) {
	if len(inputs) == 0 {
		return nil, nil
	}
	var mu sync.Mutex
	answers := make(map[string]json.RawMessage, len(inputs))
	all, ctx := errgroup.WithContext(r.ctx)
	for name, in := range inputs {
		all.Go(func() error {
			raw, err := c.resolve(ctx, r, in)
			switch {
			case err != nil && in.sample != nil:
				return endedf(NoModel, "the server asked for a model's answer in the middle of the call (%.100q), and got none: %w", name, err)
			case err != nil:
				return brokenInput("its question %.100q cannot be answered: %w", name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			answers[name] = raw
			return nil
		})
	}
	err := all.Wait()
	if r.ctx.Err() != nil {
		return nil, GivenUp(r.ctx, true)
	}
	return answers, err
}

// brokenInput returns the error for a request for input that cannot be answered. The server has ended the call's request by asking.
func brokenInput(format string, args ...any) *Error {
	return endedf(Protocol, "the server asks for more input in the middle of the call, but "+format, args...)
}

// openFirst handles URLElicitationRequired (-32042, MCP 2025-11-25): the server rejects the call, without running it, until the user has
// opened the listed pages. If the user accepts all of them, or the server reports them complete, openFirst returns the round that sends the
// call again.
func (c *client) openFirst(r *running, last round, refusal *Error) (round, error) {
	next := round{number: last.number + 1, answered: true, acted: last.acted, busy: last.busy}
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
			e.Message = "the server requires that a page is opened first, and it was not opened: " + e.Message
			return next, &e
		}
	}
	return next, nil
}

// readPages returns the pages that the data of an error lists, or nil if they cannot be read or one of them may not be opened.
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
