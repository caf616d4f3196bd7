package runner

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// stopEvery is how often the pool is asked to stop a call that it does not know yet, or while it is out of reach.
const stopEvery = 250 * time.Millisecond

// call is a call that is about to run or running. It exists before the call starts, so that stopping it is never lost.
type call struct {
	id   string
	at   where // it runs
	done chan struct{}
	// deaf: the call was told to stop. Nothing more is sent for it, and what it asks for does not matter, only its end.
	deaf atomic.Bool

	mu      sync.Mutex
	givenUp bool   // guarded by mu; the call is not waited for any longer
	drop    func() // guarded by mu; ends the waiting, once there is any
}

func newCall(id string, at where) *call { return &call{id: id, at: at, done: make(chan struct{})} }

// begin says how the waiting for the call is ended.
func (c *call) begin(drop func()) {
	c.mu.Lock()
	c.drop = drop
	given := c.givenUp
	c.mu.Unlock()
	if given {
		drop()
	}
}

// giveUp ends the waiting for the call, also before it has begun.
func (c *call) giveUp() {
	c.mu.Lock()
	c.givenUp = true
	drop := c.drop
	c.mu.Unlock()
	if drop != nil {
		drop()
	}
}

// callTool calls a tool and brings back what is known of the outcome, which is never guessed. next gives what follows.
func (s *Session) callTool(t *flow.Task, st *storagev1.ActiveStep, attempt uint32, next func(output string) *flow.Planned) Run {
	mcpID, name := flow.ToolName(st.GetToolId())
	req := &mcppoolv1.CallToolRequest{
		McpId: mcpID, Name: name, InputJson: st.GetInputJson(), SessionId: s.id,
		CallId:                 flow.LegID(t.ID, st.GetOrdinal(), attempt, st.GetLeg()),
		IdempotencyKey:         flow.IdempotencyKey(t.ID, st.GetOrdinal(), st.GetInputJson()),
		ExpectedDefinitionHash: st.GetDefinitionHash(),
		ExpectedConfigRevision: st.GetConfigRevision(),
		Epoch:                  s.epoch,
		StartBy:                timestamppb.New(t.Now.Add(s.r.cfg.PoolPatience + startSlack)),
		AckCallIds:             s.takeAcks(st.GetPoolId()),
		PoolId:                 st.GetPoolId(),
	}
	if st.GetLeg() > 0 {
		req.RequestState, req.Answers = st.GetRequestState(), answersOf(st.GetAnswers())
	}
	return s.follows(st, attempt, false, next, func(ctx context.Context, l *listener) (*mcppoolv1.CallResult, error) {
		res, err := s.reach(ctx, req, l)
		if lost(err) {
			s.log.WarnContext(ctx, "the connection to the MCP pool broke under a call; asking what became of it", "call_id", req.GetCallId(), "error", err)
			return s.attach(ctx, mcpID, s.attachRequest(st, attempt), l)
		}
		return res, err
	})
}

// startSlack is how much later than the patience with the pool a call may still start; it covers clocks that differ.
const startSlack = 30 * time.Second

// attachCall finds out what became of a call that was made before, and gives it the answers that it waits for.
func (s *Session) attachCall(st *storagev1.ActiveStep, e flow.Attach) Run {
	req := s.attachRequest(st, e.Attempt)
	mcpID, _ := flow.ToolName(st.GetToolId())
	return s.follows(st, e.Attempt, e.Deaf, nil, func(ctx context.Context, l *listener) (*mcppoolv1.CallResult, error) {
		if !e.Deaf {
			if err := s.deliver(ctx, st, l, e.Fresh); err != nil {
				return nil, err
			}
		}
		return s.attach(ctx, mcpID, req, l)
	})
}

func (s *Session) attachRequest(st *storagev1.ActiveStep, attempt uint32) *mcppoolv1.AttachCallRequest {
	mcpID, name := flow.ToolName(st.GetToolId())
	return &mcppoolv1.AttachCallRequest{
		CallId: flow.LegID(s.id, st.GetOrdinal(), attempt, st.GetLeg()), RequestHash: flow.RequestHash(mcpID, name, st.GetInputJson()),
		PoolId: st.GetPoolId(), SessionId: s.id, Epoch: s.epoch,
	}
}

// follows brings back how a call ended, however it is followed.
func (s *Session) follows(st *storagev1.ActiveStep, attempt uint32, deaf bool, next func(output string) *flow.Planned, end func(context.Context, *listener) (*mcppoolv1.CallResult, error)) Run {
	mcpID, _ := flow.ToolName(st.GetToolId())
	c := newCall(flow.LegID(s.id, st.GetOrdinal(), attempt, st.GetLeg()), where{st.GetPoolId(), mcpID})
	s.use(c.at)
	c.deaf.Store(deaf)
	s.mu.Lock()
	s.call = c
	s.mu.Unlock()
	return func(ctx context.Context, emit func(flow.Input)) {
		defer close(c.done)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		c.begin(cancel)
		out := flow.Called{Ordinal: st.GetOrdinal(), Attempt: attempt, Leg: st.GetLeg()}
		l := s.listen(c, st, attempt, emit)
		res, err := end(ctx, l)
		var m *moved
		switch {
		case errors.As(err, &m):
			emit(callMoved(st, attempt, m))
			return
		case errors.Is(err, errAsked):
			emit(l.asked)
			return
		case errors.Is(err, errUndelivered):
			out.Err, _ = failure(err, st.GetInputJson())
			emit(flow.Undelivered{Ordinal: out.Ordinal, Attempt: attempt, Err: out.Err})
			return
		case err != nil:
			out.Err, out.Outcome = failure(err, st.GetInputJson())
			out.Lost = lost(err) || errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND
			if outdated(out) {
				s.forget()
			}
		case res.GetIsError():
			out.Outcome = commonv1.Outcome_OUTCOME_KNOWN
			out.Err = &storagev1.ErrorNote{
				ErrMsg: toolError(res), DataJson: st.GetInputJson(),
				Reason: commonv1.ErrorReason_ERROR_REASON_TOOL_EXECUTION_FAILED,
			}
		default:
			out.Outcome, out.Output = commonv1.Outcome_OUTCOME_KNOWN, output(res)
			if next != nil {
				out.Next = next(out.Output)
			}
		}
		emit(out)
	}
}

// lost says whether an error tells of Pawl's own connections and processes alone, and nothing of the tool.
func lost(err error) bool {
	if err == nil {
		return false
	}
	e := errs.From(err)
	switch e.Reason {
	case commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN:
		return e.Metadata[errs.OutcomeKey] != notExecuted
	case commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR:
		return e.Metadata[errs.OutcomeKey] == ""
	}
	return false
}

// notExecuted is how an error says that its call did not run.
var notExecuted = strings.TrimPrefix(commonv1.Outcome_OUTCOME_NOT_EXECUTED.String(), "OUTCOME_")

// attach asks the pool what became of a call, and follows it where it still runs. A pool that is out of reach for a while
// is waited for: it may have the answer.
func (s *Session) attach(ctx context.Context, mcpID string, req *mcppoolv1.AttachCallRequest, l *listener) (*mcppoolv1.CallResult, error) {
	ctx = s.asUser(ctx)
	deadline := time.Now().Add(s.r.cfg.PoolPatience)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		res, err := s.attachAnywhere(ctx, mcpID, req, l)
		again := errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR ||
			l.taskID != "" && errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN // the next pool can ask for the task
		if err == nil || !again || time.Now().Add(pause).After(deadline) {
			return res, err
		}
		if !sleep(ctx, pause) {
			return nil, err
		}
	}
}

// reach makes the call, and waits for a pool that is out of reach for a while: a call that was proven not sent can be
// made again without any doubt.
func (s *Session) reach(ctx context.Context, req *mcppoolv1.CallToolRequest, l *listener) (*mcppoolv1.CallResult, error) {
	deadline := time.Now().Add(s.r.cfg.PoolPatience)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		res, sent, err := s.callOn(ctx, req, l)
		if err == nil {
			return res, nil
		}
		other := errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_OTHER_POOL
		if other || refused(err) && s.r.cfg.Replicas != nil {
			// Which pool makes a call is durable before it is made: only so can that one prove later that it did not.
			if m := s.otherPool(ctx, req); m != nil {
				return nil, m
			}
		}
		if !other && !refused(err) && (status.Code(err) != codes.Unavailable || sent) {
			return res, err
		}
		notSent := errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR,
			"the MCP pool cannot be reached: %w", err).With(errs.OutcomeKey, errs.OutcomeNotExecuted)
		if time.Now().Add(pause).After(deadline) {
			return nil, notSent
		}
		s.log.WarnContext(ctx, "the MCP pool cannot be reached; trying again", "pause", pause, "error", err)
		if !sleep(ctx, pause) || l.call.deaf.Load() { // told to stop meanwhile: it never begins
			return nil, notSent
		}
	}
}

// refused says whether a pool that is stopping proved that it did not begin the call: the next one may.
func refused(err error) bool {
	e := errs.From(err)
	return e.Reason == commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN && e.Metadata[errs.OutcomeKey] == notExecuted
}

// StopCall asks the running call to stop and gives it a while to say what came of it.
func (s *Session) StopCall(ctx context.Context, reason string) {
	s.mu.Lock()
	c := s.call
	s.mu.Unlock()
	if c == nil {
		return
	}
	c.deaf.Store(true)
	time.AfterFunc(s.r.cfg.StopGrace, c.giveUp)
	ctx, cancel := context.WithTimeout(s.asUser(ctx), s.r.cfg.StopGrace)
	defer cancel()
	for {
		err := s.cancelAnywhere(ctx, c.at, &mcppoolv1.CancelCallRequest{CallId: c.id, Reason: reason})
		if err == nil {
			return
		}
		if code := errs.From(err).Code; code != codes.NotFound && code != codes.Unavailable {
			s.log.WarnContext(ctx, "asking the pool to stop a call", "call_id", c.id, "error", err)
			return
		}
		// The pool may not have got the call yet, or is through with it, or is out of reach for a while.
		again := time.NewTimer(stopEvery)
		select {
		case <-again.C:
		case <-c.done:
			again.Stop()
			return
		case <-ctx.Done():
			again.Stop()
			return
		}
	}
}

// failure reads what a failed call says of its outcome. What says nothing is unknown, unless the request was refused
// before it could reach a tool.
func failure(err error, input string) (*storagev1.ErrorNote, commonv1.Outcome) {
	e := errs.From(err)
	if e.Reason == commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND {
		return notFound(e, input)
	}
	n := &storagev1.ErrorNote{ErrMsg: valid(e.Message), DataJson: input, Reason: e.Reason}
	if o, ok := commonv1.Outcome_value["OUTCOME_"+e.Metadata[errs.OutcomeKey]]; ok && o != 0 {
		return n, commonv1.Outcome(o)
	}
	switch e.Code {
	case codes.InvalidArgument, codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented, codes.FailedPrecondition:
		return n, commonv1.Outcome_OUTCOME_NOT_EXECUTED
	}
	return n, commonv1.Outcome_OUTCOME_UNKNOWN
}

// notFound says what it means for the task that the pool does not know a call.
func notFound(e *errs.Error, input string) (*storagev1.ErrorNote, commonv1.Outcome) {
	if e.Metadata[errs.OutcomeKey] == notExecuted {
		return &storagev1.ErrorNote{ErrMsg: "the call was lost on its way to the tool", DataJson: input, Reason: e.Reason}, commonv1.Outcome_OUTCOME_NOT_EXECUTED
	}
	return &storagev1.ErrorNote{
		ErrMsg:   "the process that made the call ended before it could say what came of it",
		DataJson: input, Reason: commonv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN,
	}, commonv1.Outcome_OUTCOME_UNKNOWN
}

func gone(toolID string) error {
	return errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_TOOL_NOT_FOUND,
		"the tool %s is not there any more; look at the server's tools with `pawl mcp tools`", toolID)
}
