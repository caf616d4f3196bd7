package mcp

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/services/strictjson"
)

// taskInput is something that a task asks for.
type taskInput struct {
	withdraw context.CancelCauseFunc
	response json.RawMessage // that did not reach the server yet; nil until there is one
}

// input gets what a task asks for.
func (f *follower) input(ctx context.Context) {
	if f.c.isModern() {
		f.modernInput(ctx)
		return
	}
	// The server asks while tasks/result waits, with requests of its own.
	if f.result != nil {
		return
	}
	result := make(chan taskResult, 1)
	f.result = result
	f.work.Go(func() {
		_, raw, err := f.c.taskRequest(ctx, f.r, string(mcp.MethodTasksResult), f.id, nil)
		result <- taskResult{raw, err}
	})
}

// modernInput asks what was not asked yet, takes back what the server wants to know no more, and sends again what did not
// reach it.
func (f *follower) modernInput(ctx context.Context) {
	requests, err := strictjson.MemberMap(f.task.fields["inputRequests"])
	if err != nil || len(requests) > maxInputs {
		requests = nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, input := range f.inputs {
		if requests[name] == nil {
			input.withdraw(errWithdrawn)
		}
	}
	lost := make(map[string]json.RawMessage)
	for name, raw := range requests {
		switch known := f.inputs[name]; {
		case known == nil && len(f.inputs) < maxRounds*maxInputs:
			f.open(ctx, name, raw)
		case known != nil && known.response != nil:
			lost[name], known.response = known.response, nil
		}
	}
	if len(lost) > 0 {
		f.work.Go(func() { f.update(ctx, lost) })
	}
}

// open asks one thing. Called with mu held.
func (f *follower) open(ctx context.Context, name string, raw json.RawMessage) {
	asking, withdraw := context.WithCancelCause(ctx)
	f.inputs[name] = &taskInput{withdraw: withdraw}
	f.work.Go(func() {
		defer withdraw(nil)
		response, err := f.answer(asking, name, raw)
		if err != nil {
			return // taken back, or the call ended
		}
		f.update(ctx, map[string]json.RawMessage{name: response})
	})
}

// answer is what the person, a model, or the pool, says to one thing. What cannot be asked is declined.
func (f *follower) answer(ctx context.Context, name string, raw json.RawMessage) (json.RawMessage, error) {
	var response json.RawMessage
	in, err := f.c.readNamed(name, raw)
	if err == nil {
		if in.question != nil {
			in.question.ID = "t:" + name
		}
		response, err = f.c.resolve(ctx, f.r, in)
	}
	if err != nil && !errors.Is(err, errWithdrawn) {
		f.r.notify(warning(err))
		return Answer{Action: Decline}.Result(), nil
	}
	return response, err
}

// update gives answers to the server; what fails is sent again when the task still asks for it.
func (f *follower) update(ctx context.Context, responses map[string]json.RawMessage) {
	ctx, cancel := context.WithTimeout(ctx, replyLimit)
	defer cancel()
	_, _, err := f.c.taskRequest(ctx, f.r, updateTask, f.id, map[string]any{"inputResponses": responses})
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, response := range responses {
		if f.inputs[name].response = nil; err != nil {
			f.inputs[name].response = response
		}
	}
	if err != nil {
		f.c.log.DebugContext(ctx, "an answer did not reach the MCP server", "error", err)
		return
	}
	select {
	case f.r.wake <- struct{}{}:
	default:
	}
}
