package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"pawl.dev/services/strictjson"
)

const (
	// maxRounds is how often one call may end by asking, and maxInputs for how much at once.
	maxRounds = 50
	maxInputs = 10
	// maxInputName is the longest name of one input: with the round it is an id within the contract's 400.
	maxInputName = 300
	// firstWait and lastWait bound the time between a server's saying that it is busy and the next attempt.
	firstWait = 250 * time.Millisecond
	lastWait  = 10 * time.Second
	maxBusy   = 5
)

// urlRequired is the JSON-RPC code of a call that first wants something opened in a browser.
const urlRequired = -32042

// round is one of the requests that a call takes.
type round struct {
	number    int // how many requests have ended without a result
	responses map[string]json.RawMessage
	state     *string
	again     bool // it is not the first of this call: the server knows of it
	acted     bool // an earlier request may have done something: it brought answers, or the server began and put the rest off
	busy      int  // how often the server has put the call off
	failures  int  // of this round
	unknown   bool // a failed request of this round may have reached the server
}

// CallTool implements Client. It makes requests until one ends with a result: a server may ask for input first, put the call
// off, or do it as a task.
func (c *client) CallTool(ctx context.Context, call Call) (raw json.RawMessage, err error) {
	r := c.enroll(ctx, call)
	defer func() { c.leave(r, err) }()
	if call.Follow != "" {
		return c.followTask(ctx, r, mcpTask{Task: Task{ID: call.Follow, Status: "working"}})
	}
	next, err := c.resumed(call)
	for err == nil {
		gate := call.Gate
		if next.again {
			gate = nil
		}
		var x *pendingRequest
		if x, err = c.toolRequest(r, next); err != nil {
			break
		}
		if raw, err = c.roundTrip(ctx, x, gate); err != nil {
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

// resumed is the first round of a call. The one of a call that continues an earlier one brings the answers.
func (c *client) resumed(call Call) (round, error) {
	from := call.Resume
	if from == nil {
		return round{}, nil
	}
	if !c.isModern() {
		return round{}, Errorf(Misconfigured,
			"the MCP server speaks an older revision by now than when it asked, and cannot go on with the call; call it again from the start")
	}
	next := round{number: from.Round, state: from.Server, responses: make(map[string]json.RawMessage)}
	maps.Copy(next.responses, from.Answers)
	for id, answer := range call.Answers {
		if _, name, ok := strings.Cut(id, ":"); ok {
			next.responses[name] = answer.Result()
		}
	}
	return next, nil
}

// unfinished returns the members of a result that may not be the end, or nil. Most results are long and are the end: those are not
// split.
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

// roundFailed returns the round that follows a failed one. A request that is not the first of its call is repeated if the
// caller says so (the first one's caller repeats the whole call). The error of the last one is about all of them.
func (c *client) roundFailed(ctx context.Context, r *running, last round, err error) (round, error) {
	e := *As(err)
	if last.again {
		last.failures++
		final := e.Kind == Answered || e.Ended || c.isDone()
		if !final && r.call.Again != nil && r.call.Again(ctx, last.failures, &e) {
			last.unknown = last.unknown || e.Sent
			return last, nil
		}
		e.Begun, e.Sent = true, e.Sent || last.unknown || last.acted
		err = &e
	}
	if e.Kind == Answered && e.Code == urlRequired {
		return c.openFirst(r, last, &e)
	}
	return last, err
}

// waitWhileBusy waits before the next attempt at a call that the server put off.
func (c *client) waitWhileBusy(ctx context.Context, last round, fields map[string]json.RawMessage) (round, error) {
	next := round{number: last.number + 1, again: true, acted: true, busy: last.busy + 1}
	if next.busy > maxBusy {
		return next, &Error{Kind: Unavailable, Sent: true, Ended: true, Message: fmt.Sprintf("the server put the call off %d times", next.busy)}
	}
	if !pause(ctx, nil, min(firstWait<<last.busy, lastWait)) {
		return next, givenUp(ctx, true)
	}
	return next, next.keepState(fields)
}

// keepState keeps what the server wants back with the next request.
func (n *round) keepState(fields map[string]json.RawMessage) error {
	if strictjson.Absent(fields["requestState"]) {
		return nil
	}
	var state string
	if err := json.Unmarshal(fields["requestState"], &state); err != nil {
		return brokenInput("its requestState is not a string")
	}
	n.state = &state
	return nil
}
