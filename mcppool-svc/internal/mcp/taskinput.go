package mcp

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/services/strictjson"
)

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

// modernInput asks what was not asked yet, and takes back what the server no longer wants to know.
func (f *follower) modernInput(ctx context.Context) {
	requests, err := strictjson.MemberMap(f.task.fields["inputRequests"])
	if err != nil || len(requests) > maxInputs {
		requests = nil
	}
	for name, withdraw := range f.inputs {
		if requests[name] == nil {
			withdraw(errWithdrawn)
		}
	}
	for name, raw := range requests {
		if f.inputs[name] != nil || len(f.inputs) == maxRounds*maxInputs {
			continue
		}
		asking, withdraw := context.WithCancelCause(ctx)
		f.inputs[name] = withdraw
		f.work.Go(func() {
			defer withdraw(nil)
			f.answer(asking, name, raw)
		})
	}
}

// answer gets the answer to one thing, and gives it to the server until it has reached it. What cannot be asked is declined.
func (f *follower) answer(ctx context.Context, name string, raw json.RawMessage) {
	var response json.RawMessage
	in, err := f.c.readNamed(name, raw)
	if err == nil {
		if in.question != nil {
			in.question.ID = "t:" + name
		}
		response, err = f.c.resolve(ctx, f.r, in)
	}
	if errors.Is(err, errWithdrawn) {
		return
	}
	if err != nil {
		f.r.notify(warning(err))
		response = Answer{Action: Decline}.Result()
	}
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, replyLimit)
		_, _, err := f.c.taskRequest(limited, f.r, updateTask, f.id, map[string]any{"inputResponses": map[string]any{name: response}})
		cancel()
		if err == nil {
			select {
			case f.r.wake <- struct{}{}:
			default:
			}
			return
		}
		f.c.log.DebugContext(ctx, "an answer did not reach the MCP server", "error", err)
		pause(ctx, nil, idlePoll)
	}
}
