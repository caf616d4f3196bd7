package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
)

type event = executorv1.ExecutorEvent

// run follows one task to its end, over all crashes, and answers its waits.
type run struct {
	flow      flow
	tool      string
	path      string // of the file that the tool writes
	tasks     *keeper
	requestID string

	id   atomic.Pointer[string] // once the task exists
	wait atomic.Pointer[string] // the newest one asked
	busy atomic.Int32           // requests of its own that are under way
	// trusted is a wait whose answer arrive has stored: the task must go on without another answer.
	trusted atomic.Pointer[string]

	// Its observations and answers.
	seen     []*event
	asked    bool            // the command of atInput was sent
	retries  map[string]int  // retries that a person asked for, by step
	supplied map[string]bool // steps whose output a person supplied
	unknowns int
	answered map[string]bool
}

func newRun(f flow, tool, path, requestID string, tasks *keeper) *run {
	return &run{
		flow: f, tool: tool, path: path, requestID: requestID, tasks: tasks,
		retries: map[string]int{}, supplied: map[string]bool{}, answered: map[string]bool{},
	}
}

type client struct {
	executorv1.ExecutorServiceClient
	agents executorv1.AgentServiceClient
}

// acrossRestarts makes a request, and makes it again each time the executor dies during it.
func (r *run) acrossRestarts(ctx context.Context, do func(client) error) error {
	for n := 0; ; {
		p, count, err := r.tasks.after(ctx, n)
		if err != nil {
			return err
		}
		n = count
		err = do(client{executorv1.NewExecutorServiceClient(p.conn), executorv1.NewAgentServiceClient(p.conn)})
		// Canceled: the keeper closed the connection to the dead process.
		if c := status.Code(err); c != codes.Unavailable && (c != codes.Canceled || ctx.Err() != nil) {
			return err
		}
	}
}

// request is acrossRestarts for requests of the person: busy counts them.
func (r *run) request(ctx context.Context, do func(client) error) error {
	r.busy.Add(1)
	defer r.busy.Add(-1)
	return r.acrossRestarts(ctx, do)
}

// follow creates the task and follows it to its end.
func (r *run) follow(ctx context.Context) error {
	if err := r.create(ctx); err != nil {
		return fmt.Errorf("creating the task: %w", err)
	}
	for !r.ended() {
		err := r.acrossRestarts(ctx, func(c client) error {
			stream, err := c.WatchTask(ctx, &executorv1.WatchTaskRequest{Id: *r.id.Load(), AfterSeq: uint64(len(r.seen))})
			for err == nil {
				var e *event
				if e, err = stream.Recv(); err == nil {
					r.seen = append(r.seen, e)
					err = r.react(ctx, e)
				}
			}
			return err
		})
		if !errors.Is(err, io.EOF) || !r.ended() {
			return fmt.Errorf("following task %s: %w; so far: %s", *r.id.Load(), err, story(r.seen))
		}
	}
	return nil
}

func (r *run) create(ctx context.Context) error {
	return r.request(ctx, func(c client) error {
		if !r.flow.asks {
			if err := unaskedAgent(ctx, c); err != nil {
				return err
			}
		}
		t, err := c.CreateTask(ctx, r.flow.request(r.tool, r.path, r.requestID))
		if err == nil {
			id := t.GetId()
			r.id.Store(&id)
		}
		return err
	})
}

func unaskedAgent(ctx context.Context, c client) error {
	_, err := c.agents.CreateAgent(ctx, &executorv1.CreateAgentRequest{
		AgentId: unasked, Agent: &executorv1.Agent{Confirm: executorv1.Confirm_CONFIRM_NEVER},
	})
	if status.Code(err) == codes.AlreadyExists {
		return nil
	}
	return err
}

func (r *run) ended() bool {
	if len(r.seen) == 0 {
		return false
	}
	switch r.seen[len(r.seen)-1].GetType() {
	case executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS, executorv1.EventType_EVENT_TYPE_FLOW_FAILED, executorv1.EventType_EVENT_TYPE_FLOW_CANCEL:
		return true
	}
	return false
}

// react acts on an event as a person would.
func (r *run) react(ctx context.Context, e *event) error {
	switch e.GetType() {
	case executorv1.EventType_EVENT_TYPE_FLOW_STOP:
		return r.answer(ctx)
	case executorv1.EventType_EVENT_TYPE_STEP_INPUT:
		if r.asked || r.flow.atInput == "" {
			return nil
		}
		r.asked = true
		return r.request(ctx, func(c client) error {
			var err error
			if r.flow.atInput == "cancel" {
				_, err = c.CancelTask(ctx, &executorv1.CancelTaskRequest{Id: *r.id.Load()})
			} else {
				_, err = c.PauseTask(ctx, &executorv1.PauseTaskRequest{Id: *r.id.Load()})
			}
			return tooLate(err)
		})
	}
	return nil
}

// answer answers the wait that is open now.
func (r *run) answer(ctx context.Context) error {
	return r.request(ctx, func(c client) error {
		t, err := c.GetTask(ctx, &executorv1.GetTaskRequest{Id: *r.id.Load()})
		if err != nil {
			return err
		}
		for _, w := range t.GetWaits() {
			id := w.GetId()
			r.wait.Store(&id)
			if t := r.trusted.Load(); t != nil && *t == id {
				continue
			}
			if _, err := c.ResumeTask(ctx, r.answerTo(t, w)); tooLate(err) != nil {
				return fmt.Errorf("answering %s: %w", w, err)
			}
			r.answered[id] = true
		}
		return nil
	})
}

// tooLate forgives the refusal of a command that was applied already or has become void.
func tooLate(err error) error {
	switch errs.Reason(err) {
	case commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN, commonv1.ErrorReason_ERROR_REASON_TASK_ENDED:
		return nil
	}
	return err
}

func (r *run) answerTo(t *executorv1.Task, w *executorv1.Wait) *executorv1.ResumeTaskRequest {
	req := &executorv1.ResumeTaskRequest{Id: t.GetId(), WaitId: w.GetId()}
	switch w.GetKind() {
	case executorv1.WaitKind_WAIT_KIND_PARAMS:
		req.Answer = &executorv1.ResumeTaskRequest_Params{Params: &executorv1.Params{ContentJson: fmt.Sprintf(`{"line":%q}`, supplied)}}
	case executorv1.WaitKind_WAIT_KIND_INPUT:
		req.Answer = yes()
	case executorv1.WaitKind_WAIT_KIND_PAUSE:
		req.Answer = &executorv1.ResumeTaskRequest_Unpause{Unpause: &executorv1.Unpause{}}
	case executorv1.WaitKind_WAIT_KIND_OUTCOME:
		req.Answer = &executorv1.ResumeTaskRequest_Outcome{Outcome: r.outcome(w)}
	default:
		if r.flow.rejects {
			req.Answer = &executorv1.ResumeTaskRequest_Reject{Reject: &executorv1.Reject{}}
		} else {
			req.Answer = &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{}}
		}
	}
	return req
}

// yes is a person's answer to a question of a tool.
func yes() *executorv1.ResumeTaskRequest_Input {
	return &executorv1.ResumeTaskRequest_Input{Input: &executorv1.InputAnswer{Action: executorv1.InputAnswer_ACTION_ACCEPT, ContentJson: `{"sure":true}`}}
}

// outcome says how a call ended; a retry is counted once per question, however often it is sent.
func (r *run) outcome(w *executorv1.Wait) *executorv1.OutcomeAnswer {
	first := !r.answered[w.GetId()]
	r.answered[w.GetId()] = true
	if first {
		r.unknowns++
	}
	switch r.flow.unknown {
	case "retry":
		if first {
			r.retries[w.GetStepId()]++
		}
		return &executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Retry{Retry: &executorv1.OutcomeRetry{}}}
	case "output":
		r.supplied[w.GetStepId()] = true
		return &executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Output{Output: &executorv1.OutcomeOutput{OutputJson: `{"message":"seen"}`}}}
	}
	return &executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Skip{Skip: &executorv1.OutcomeSkip{}}}
}

// result is a task that has ended.
type result struct {
	events []*event
	task   *executorv1.Task
	steps  []*executorv1.Step
}

// result reads everything again, from the beginning.
func (r *run) result(ctx context.Context) (res result, err error) {
	return res, r.acrossRestarts(ctx, func(c client) error {
		res = result{}
		var err error
		if res.task, err = c.GetTask(ctx, &executorv1.GetTaskRequest{Id: *r.id.Load()}); err != nil {
			return err
		}
		steps, err := c.ListSteps(ctx, &executorv1.ListStepsRequest{Id: *r.id.Load()})
		if err != nil {
			return err
		}
		res.steps = steps.GetSteps()
		stream, err := c.WatchTask(ctx, &executorv1.WatchTaskRequest{Id: *r.id.Load(), NoFollow: true})
		for err == nil {
			var e *event
			if e, err = stream.Recv(); err == nil {
				res.events = append(res.events, e)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	})
}
