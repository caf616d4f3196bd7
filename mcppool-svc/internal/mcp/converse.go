package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"

	"pawl.dev/services/strictjson"
)

const (
	// maxRounds is how often one call may end by asking, and maxInputs for how much at once.
	maxRounds = 50
	maxInputs = 10
	// maxInputName is the longest name of one thing asked for: with the round it is an id within the contract's 400.
	maxInputName = 300
	// firstWait and lastWait lie between a server's saying that it is busy and the next try.
	firstWait = 250 * time.Millisecond
	lastWait  = 10 * time.Second
	maxBusy   = 5
)

// urlRequired is the JSON-RPC code of a call that first wants something opened in a browser.
const urlRequired = -32042

// round is what goes with one more request of the same call.
type round struct {
	number    int // how many requests have ended without a result
	responses map[string]json.RawMessage
	state     *string
	again     bool // it is not the first of this call: the server knows of it
	acted     bool // a request before it may have done something: it brought answers, or the server began and put the rest off
}

// CallTool implements Client.
func (c *client) CallTool(ctx context.Context, call Call) (raw json.RawMessage, err error) {
	r := c.enroll(ctx, call)
	defer func() { c.leave(r, err) }()
	return c.converse(ctx, r, call)
}

func (c *client) converse(ctx context.Context, r *running, call Call) (json.RawMessage, error) {
	if call.Follow != "" {
		return c.followTask(ctx, r, mcpTask{id: call.Follow, status: "working"})
	}
	next, err := c.resumed(call)
	for busy := 0; err == nil; {
		var raw json.RawMessage
		var data any
		if raw, data, err = c.insist(ctx, r, next); err != nil {
			if e := As(err); e.Kind == Answered && e.Code == urlRequired {
				next, err = c.openFirst(r, next, data, err)
				continue
			}
			return nil, err
		}
		fields := asks(raw)
		if task, is := taskOf(fields, c.asTask(call)); is {
			return c.followTask(ctx, r, task)
		}
		if stringOf(fields["resultType"]) != "input_required" {
			return raw, nil
		}
		if strictjson.Absent(fields["inputRequests"]) {
			busy++
			next, err = c.busy(ctx, next, fields, busy)
			continue
		}
		next, err = c.gather(r, next, fields)
	}
	return nil, err
}

// resumed is the first round of a call: one that goes on where an earlier one asked brings the answers.
func (c *client) resumed(call Call) (round, error) {
	from := call.Resume
	if from == nil {
		return round{}, nil
	}
	if c.era != modern {
		return round{}, Errorf(Misconfigured,
			"the MCP server speaks an older revision by now than when it asked, and cannot go on with the call; call it anew")
	}
	next := round{number: from.Round, state: from.Server, responses: make(map[string]json.RawMessage)}
	maps.Copy(next.responses, from.Models)
	for id, answer := range call.Answers {
		if _, name, ok := strings.Cut(id, ":"); ok {
			next.responses[name] = answer.Result()
		}
	}
	for _, name := range from.Roots {
		if len(c.roots) == 0 {
			return round{}, refusedInput(name, "roots, and none are configured")
		}
		next.responses[name] = c.rootsResult()
	}
	return next, nil
}

// asks returns the members of a result that is not the end; nil is what most are.
func asks(raw json.RawMessage) map[string]json.RawMessage {
	if !bytes.Contains(raw, []byte(`"input_required"`)) && !bytes.Contains(raw, []byte(`"task"`)) {
		return nil // without another look at it: results are long
	}
	fields, err := strictjson.MemberMap(raw)
	if err != nil {
		return nil // whoever reads the result says so
	}
	return fields
}

// once makes one request of a call; data is what came with an error.
func (c *client) once(ctx context.Context, r *running, next round) (json.RawMessage, any, error) {
	x := &exchange{ownCancel: true, run: r}
	if !next.again {
		x.gate = r.call.Gate
	}
	request, err := c.toolRequest(r, next)
	if err != nil {
		return nil, nil, err
	}
	raw, err := c.request(ctx, x, request)
	if err == nil {
		return raw, nil, nil
	}
	var data any
	if report := x.report(); report.rpcErr != nil {
		data = report.rpcErr.Data
	}
	return nil, data, err
}

// asTask says whether a call asks to be done as a task.
func (c *client) asTask(call Call) bool { return call.Task == TaskAsked && c.canTask }

// addParams puts more into a request that mcp-go wrote, which leaves no other way.
func addParams(request *transport.JSONRPCRequest, more map[string]any) error {
	raw, err := json.Marshal(request.Params)
	if err != nil {
		return err
	}
	params, err := strictjson.MemberMap(raw)
	if err != nil {
		return err
	}
	all := make(map[string]any, len(params)+len(more))
	for k, v := range params {
		all[k] = v
	}
	maps.Copy(all, more)
	request.Params = all
	return nil
}

// insist makes a request of a call, and one that is not the first again where the caller says so: the first one's caller makes the
// whole call again. What it came to in the end is about all of them.
func (c *client) insist(ctx context.Context, r *running, next round) (json.RawMessage, any, error) {
	unknown := next.acted
	for try := 1; ; try++ {
		raw, data, err := c.once(ctx, r, next)
		if err == nil || !next.again {
			return raw, data, err
		}
		e := *As(err)
		if e.Kind == Answered || e.Ended || c.isDone() || r.call.Again == nil || !r.call.Again(ctx, try, &e) {
			e.Begun, e.Sent = true, e.Sent || unknown
			return nil, data, &e
		}
		unknown = unknown || e.Sent
	}
}

// busy waits before the next try of a call that the server did not get to.
func (c *client) busy(ctx context.Context, last round, fields map[string]json.RawMessage, times int) (round, error) {
	if times > maxBusy {
		return round{}, &Error{Kind: Unavailable, Sent: true, Ended: true, Message: fmt.Sprintf("the server put the call off %d times", times)}
	}
	timer := time.NewTimer(min(firstWait<<(times-1), lastWait))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return round{}, ended(ctx)
	}
	next := round{number: last.number + 1, again: true, acted: true}
	return next, next.keep(fields)
}

// keep takes what the server wants back.
func (n *round) keep(fields map[string]json.RawMessage) error {
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

// ended is a call that ended between two requests.
func ended(ctx context.Context) *Error {
	cause := context.Cause(ctx)
	return &Error{Kind: Interrupted, Sent: true, Message: cause.Error(), Err: errors.Join(ctx.Err(), cause)}
}
