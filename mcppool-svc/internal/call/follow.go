package call

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/call/inflight"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
	"pawl.dev/services/humantime"
	"pawl.dev/services/strictjson"
)

// Send passes an event of a call to its client; it may block.
type Send func(*mcppoolv1.CallToolResponse) error

// Task names the MCP task of a call that another pool process began.
type Task struct {
	ID      string // empty: none
	Tool    string
	MCPID   string
	Server  *registry.Server
	Refused error // why the user cannot use the server; Server is nil then
}

// Attach follows an earlier call from now on. A call that is unknown here but runs as an MCP task is followed at the server. Errors are
// those of Call.
func (c *Caller) Attach(ctx context.Context, q inflight.Query, t Task, send Send) error {
	if t.ID == "" {
		call, err := c.calls.Attach(q)
		if err != nil {
			return err
		}
		return c.follow(ctx, call, send)
	}
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	call, first, err := c.calls.Adopt(q, cancel)
	if err != nil || !first {
		cancel(nil)
		if err != nil {
			return err
		}
		return c.follow(ctx, call, send)
	}
	x := &execution{Caller: c, call: call, cancel: cancel, Request: Request{
		User: q.User, Server: t.Server, Refused: t.refusal(), MCPID: t.MCPID, Tool: t.Tool, Input: strictjson.Checked("{}"),
		CallID: q.ID, Session: q.Session, Epoch: q.Epoch, Task: t.ID, Continues: true,
	}}
	return c.lead(ctx, call, send, func() { x.run(running) })
}

// refusal returns why the pool cannot ask the server for the task, or nil if it can. After a refusal the call's outcome is unknown.
func (t Task) refusal() error {
	switch {
	case t.Refused != nil:
		return t.Refused
	case t.Server.HTTP == nil:
		return errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND,
			"the task %.100q of MCP server %s ended with the connection that began it; its outcome cannot be found out", t.ID, t.MCPID)
	}
	return nil
}

// lead makes a call with run, on the goroutine that received it, because a hand-off costs about as much as the call. The first event starts
// the goroutine that sends the events. lead waits for run even if the client goes away.
func (c *Caller) lead(ctx context.Context, call *inflight.Call, send Send, run func()) error {
	var events sync.WaitGroup
	f := call.FollowLazily(func(f *inflight.Follower) { events.Go(func() { sendEvents(ctx, call, f, send) }) })
	run()
	call.Leave(f)
	events.Wait()
	return c.sendEnd(ctx, call, send)
}

// follow sends the events of a call from now on, then its result. It stops early when ctx ends.
func (c *Caller) follow(ctx context.Context, call *inflight.Call, send Send) error {
	f, err := call.Follow()
	if err != nil {
		return err
	}
	defer call.Leave(f)
	sendEvents(ctx, call, f, send)
	return c.sendEnd(ctx, call, send)
}

// eventInterval is the shortest time between two batches of events that a client gets, so that a server that floods the pool does not flood its
// clients.
const eventInterval = 25 * time.Millisecond

// sendEvents sends the events of a call until the call or ctx ends. What is pending when the call ends is sent at once.
func sendEvents(ctx context.Context, call *inflight.Call, f *inflight.Follower, send Send) {
	for ended := false; !ended; {
		select {
		case <-f.Ready():
		case <-call.Done():
			ended = true
		case <-ctx.Done():
			return
		}
		for _, n := range f.Take() {
			if send(toResponse(n)) != nil {
				break // the client is gone, and ctx ends
			}
		}
		if !ended {
			pause := time.NewTimer(eventInterval)
			select {
			case <-pause.C:
			case <-call.Done():
			case <-ctx.Done():
			}
			pause.Stop()
		}
	}
}

// sendEnd sends the result of a call, or returns its error. If ctx has ended, the call may still run.
func (c *Caller) sendEnd(ctx context.Context, call *inflight.Call, send Send) error {
	if ctx.Err() != nil {
		return errs.New(codes.Canceled, commonv1.ErrorReason_ERROR_REASON_CANCELLED,
			"the caller went away; a call with a call_id goes on: AttachCall follows it and CancelCall ends it").With(errs.OutcomeKey, errs.OutcomeUnknown)
	}
	end := call.End()
	if end.Err == nil {
		if err := send(&mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Result{Result: end.Result}}); err != nil {
			return err
		}
	}
	if ctx.Err() == nil {
		c.calls.Fetched(call)
	}
	if end.Err != nil {
		return end.Err
	}
	return nil
}

func toResponse(n mcp.Notification) *mcppoolv1.CallToolResponse {
	switch {
	case n.Question != nil:
		return &mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_InputRequired{InputRequired: toInputRequired(n.Question)}}
	case n.Task != nil:
		return &mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Task{Task: toTask(n.Task)}}
	case n.Progress != nil:
		return &mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Progress{
			Progress: &mcppoolv1.CallProgress{Progress: n.Progress.Done, Total: n.Progress.Total, Message: clean(n.Progress.Message)},
		}}
	}
	return &mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Log{
		Log: &mcppoolv1.CallLog{Level: clean(n.Log.Level), Logger: clean(n.Log.Logger), DataJson: clean(n.Log.Data)},
	}}
}

func toInputRequired(q *mcp.Question) *mcppoolv1.CallInputRequired {
	return &mcppoolv1.CallInputRequired{
		InputId: q.ID, Message: q.Message, SchemaJson: q.Schema, Url: q.URL, RequestState: clean(q.State),
		ExpireTime: timestamppb.New(q.Expire),
	}
}

func toTask(t *mcp.Task) *mcppoolv1.CallTask {
	out := &mcppoolv1.CallTask{TaskId: t.ID, Status: clean(t.Status), StatusMessage: clean(t.Message), Portable: t.Portable}
	if t.TTL > 0 {
		out.Ttl = durationpb.New(t.TTL)
	}
	return out
}

// timer ends a call that takes too long. It is paused while a person or a model is asked, and while a large message waits to be read.
type timer struct {
	cancel context.CancelCauseFunc // of the call
	limit  time.Duration
	timer  *time.Timer

	mu        sync.Mutex
	remaining time.Duration // guarded by mu; of limit, at since
	since     time.Time     // guarded by mu; when the timer was last started or resumed
	paused    int           // guarded by mu; number of questions, model requests and large messages that it waits for
	stopped   bool          // guarded by mu
}

// start makes the timer end the call after limit of running time. Call stop when the attempt has ended.
func (t *timer) start(cancel context.CancelCauseFunc, limit time.Duration) {
	t.cancel, t.limit, t.remaining, t.since = cancel, limit, limit, time.Now()
	t.mu.Lock() // it may expire at once
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(limit, t.expire)
}

func (t *timer) expire() {
	t.mu.Lock()
	stopped := t.stopped
	t.mu.Unlock()
	if !stopped {
		t.cancel(timeoutError("the tool did not answer within " + humantime.Text(t.limit) + "; it may still have run. Raise the server's call_timeout for slow tools"))
	}
}

func (t *timer) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.timer.Stop()
}

func (t *timer) pause() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.paused++; t.paused == 1 && t.timer.Stop() {
		t.remaining = max(0, t.remaining-time.Since(t.since))
	}
}

// pauseUntil pauses the timer until the function that it returns is called.
func (t *timer) pauseUntil() (resume func()) {
	t.pause()
	return t.resume
}

func (t *timer) resume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.paused--; t.paused == 0 && !t.stopped {
		t.since = time.Now()
		t.timer.Reset(t.remaining)
	}
}

// timeoutError is the cancellation cause of a request that exceeded its time limit.
type timeoutError string

func (t timeoutError) Error() string { return string(t) }

// Unwrap makes errors.Is report context.DeadlineExceeded.
func (timeoutError) Unwrap() error { return context.DeadlineExceeded }
