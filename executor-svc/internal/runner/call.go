package runner

import (
	"context"
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
	id                    string
	ordinal, attempt, leg uint32
	at                    where // it runs
	// deaf: the call was told to stop. Nothing more is sent for it, and what it asks for does not matter, only its end.
	deaf atomic.Bool

	mu      sync.Mutex    // guards what follows
	givenUp bool          // the call is not waited for any longer
	drop    func()        // ends the waiting, while there is any
	ended   bool          // nobody waits for the call any more
	done    chan struct{} // closed then; nil until somebody asks

	heard listener // the follower's
}

// begin says how the waiting for the call is ended.
func (c *call) begin(drop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop = drop
	if c.givenUp {
		drop()
	}
}

// giveUp ends the waiting for the call, also before it has begun; after its end, nothing: what ends the waiting for one call ends it
// for those behind it too.
func (c *call) giveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.givenUp = true
	if c.drop != nil {
		c.drop()
	}
}

// end says that nobody waits for the call any more.
func (c *call) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended, c.drop = true, nil
	if c.done != nil {
		close(c.done)
	}
}

// over is closed when nobody waits for the call any more.
func (c *call) over() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.ended {
			close(c.done)
		}
	}
	return c.done
}

// request is a call and what is sent for it, in one piece of memory.
type request struct {
	call
	msg     mcppoolv1.CallToolsRequest
	req     mcppoolv1.CallToolRequest
	startBy timestamppb.Timestamp
}

// callTool calls a tool and brings back what is known of the outcome, which is never guessed. next gives what follows.
func (s *Session) callTool(t *flow.Task, st *storagev1.ActiveStep, attempt uint32, next func(output string) *flow.Planned) Run {
	r := &request{}
	s.running(&r.call, st, attempt)
	s.write(r, t, st)
	return s.follows(&r.call, st, false, next, func(ctx context.Context, l *listener) (*mcppoolv1.CallResult, error) {
		ended := s.r.endings.take(s.head.GetUserSub(), len(r.req.GetAckCallIds()))
		r.add(ended)
		res, err := s.reach(ctx, &r.msg, l)
		if err != nil {
			s.r.again(ctx, ended)
		}
		if lost(err) {
			s.log.WarnContext(ctx, "the connection to the MCP pool broke under a call; asking what became of it", "call_id", r.id, "error", err)
			return s.attach(ctx, r.at.mcp, s.attachRequest(st, attempt), l)
		}
		return res, err
	})
}

// write writes what is sent for a call.
func (s *Session) write(r *request, t *flow.Task, st *storagev1.ActiveStep) {
	by := t.Now.Add(s.r.cfg.PoolPatience + startSlack)
	r.startBy.Seconds, r.startBy.Nanos = by.Unix(), int32(by.Nanosecond())
	req := &r.req
	req.McpId, req.Name = flow.ToolName(st.GetToolId())
	req.InputJson, req.SessionId, req.CallId, req.PoolId = st.GetInputJson(), s.id, r.id, st.GetPoolId()
	req.IdempotencyKey = flow.IdempotencyKey(t.ID, st.GetOrdinal(), st.GetInputJson())
	req.ExpectedDefinitionHash, req.ExpectedConfigRevision = st.GetDefinitionHash(), st.GetConfigRevision()
	req.Epoch, req.StartBy, req.AckCallIds = s.epoch, &r.startBy, s.takeAcks(st.GetPoolId())
	if st.GetLeg() > 0 {
		req.RequestState, req.Answers = st.GetRequestState(), answersOf(st.GetAnswers())
	}
	r.msg.Call = req
}

// startSlack is how much later than the patience with the pool a call may still start; it covers clocks that differ.
const startSlack = 30 * time.Second

// attachCall finds out what became of a call that was made before, and gives it the answers that it waits for.
func (s *Session) attachCall(st *storagev1.ActiveStep, e flow.Attach) Run {
	req := s.attachRequest(st, e.Attempt)
	c := &call{}
	s.running(c, st, e.Attempt)
	return s.follows(c, st, e.Deaf, nil, func(ctx context.Context, l *listener) (*mcppoolv1.CallResult, error) {
		if !e.Deaf {
			if err := s.deliver(ctx, st, l, e.Fresh); err != nil {
				return nil, err
			}
		}
		return s.attach(ctx, c.at.mcp, req, l)
	})
}

func (s *Session) attachRequest(st *storagev1.ActiveStep, attempt uint32) *mcppoolv1.AttachCallRequest {
	mcpID, name := flow.ToolName(st.GetToolId())
	return &mcppoolv1.AttachCallRequest{
		CallId: flow.LegID(s.id, st.GetOrdinal(), attempt, st.GetLeg()), RequestHash: flow.RequestHash(mcpID, name, st.GetInputJson()),
		PoolId: st.GetPoolId(), SessionId: s.id, Epoch: s.epoch,
	}
}

// running makes c the session's call.
func (s *Session) running(c *call, st *storagev1.ActiveStep, attempt uint32) {
	mcpID, _ := flow.ToolName(st.GetToolId())
	c.id, c.at = flow.LegID(s.id, st.GetOrdinal(), attempt, st.GetLeg()), where{st.GetPoolId(), mcpID}
	c.ordinal, c.attempt, c.leg = st.GetOrdinal(), attempt, st.GetLeg()
	s.use(c.at)
}

// follows brings back how a call ended, however it is followed.
func (s *Session) follows(c *call, st *storagev1.ActiveStep, deaf bool, next func(output string) *flow.Planned, end func(context.Context, *listener) (*mcppoolv1.CallResult, error)) Run {
	c.deaf.Store(deaf)
	s.mu.Lock()
	s.call = c
	s.mu.Unlock()
	return func(ctx context.Context, emit func(flow.Input)) {
		defer c.end()
		ctx, drop := s.waiting(ctx)
		c.begin(drop)
		l := &c.heard
		*l = listener{call: c, emit: emit, log: s.log, taskID: st.GetMcpTaskId(), toolID: st.GetToolId(), asked: flow.Asked{Ordinal: c.ordinal, Attempt: c.attempt}}
		res, err := end(ctx, l)
		if err != nil {
			emit(s.unfinished(l, st, err))
			return
		}
		out := flow.Called{Ordinal: c.ordinal, Attempt: c.attempt, Leg: c.leg, Outcome: commonv1.Outcome_OUTCOME_KNOWN}
		if res.GetIsError() {
			out.Err = &storagev1.ErrorNote{
				ErrMsg: toolError(res), DataJson: st.GetInputJson(),
				Reason: commonv1.ErrorReason_ERROR_REASON_TOOL_EXECUTION_FAILED,
			}
			emit(out)
			return
		}
		out.Output = output(res)
		if next != nil {
			out.Next = next(out.Output)
		}
		emit(out)
	}
}

// waiting returns a context in which a session's calls are waited for, in the user's name, and what ends it. It is the same for one
// call after the other, until the effects' own ends.
func (s *Session) waiting(ctx context.Context) (context.Context, context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.under != ctx || s.wait.Err() != nil {
		s.under = ctx
		s.wait, s.drop = context.WithCancel(s.asUser(ctx))
	}
	return s.wait, s.drop
}

// attach asks the pool what became of a call, and follows it where it still runs. A pool that is out of reach for a while
// is waited for: it may have the answer.
func (s *Session) attach(ctx context.Context, mcpID string, req *mcppoolv1.AttachCallRequest, l *listener) (*mcppoolv1.CallResult, error) {
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
func (s *Session) reach(ctx context.Context, msg *mcppoolv1.CallToolsRequest, l *listener) (*mcppoolv1.CallResult, error) {
	deadline := time.Now().Add(s.r.cfg.PoolPatience)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		res, sent, err := s.callOn(ctx, msg, l)
		if err == nil {
			return res, nil
		}
		other := errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_OTHER_POOL
		if other || refused(err) && s.r.cfg.Replicas != nil {
			// Which pool makes a call is durable before it is made: only so can that one prove later that it did not.
			if m := s.otherPool(ctx, msg.GetCall()); m != nil {
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
		case <-c.over():
			again.Stop()
			return
		case <-ctx.Done():
			again.Stop()
			return
		}
	}
}
