package runner

import (
	"context"
	"log/slog"
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
	"pawl.dev/executor-svc/internal/toolcall"
)

// startSlack is how much longer than PoolPatience a call may take to start; it covers clock differences.
const startSlack = 30 * time.Second

// call is a tool call. It exists before the request is sent, so that an early StopCall finds it. StopCall uses only the fields up to end; the
// others belong to the goroutine that runs the call.
type call struct {
	id                      string
	lane                    uint32
	ordinal, attempt, round uint32
	location                location
	// stopping reports that the call is to stop: it is no longer sent, gets no answers, and its questions are dropped.
	stopping atomic.Bool
	// ctx is done once the call has ended or the session no longer waits for it.
	ctx context.Context
	end context.CancelFunc

	emit func(flow.Input)
	log  *slog.Logger
	// progressed is the time of the last progress event.
	progressed time.Time
	// mcpTaskID names the MCP task of toolID that runs the call; empty if none does.
	mcpTaskID, toolID string
	// elicited collects the call's questions.
	elicited flow.Elicited
	// answer delivers an answer that is already known, and reports whether it did. May be nil.
	answer func(ctx context.Context, inputID string) bool
}

// beginCall returns a call of the step's attempt, and makes it the lane's call.
func (s *Session) beginCall(ctx context.Context, lane uint32, st *storagev1.ActiveStep, attempt uint32) *call {
	mcpID, _ := flow.ToolName(st.GetToolId())
	c := &call{
		id: flow.CallID(s.id, st.GetOrdinal(), attempt, st.GetRound()), location: location{st.GetPoolId(), mcpID},
		lane: lane, ordinal: st.GetOrdinal(), attempt: attempt, round: st.GetRound(),
		log: s.log, mcpTaskID: st.GetMcpTaskId(), toolID: st.GetToolId(), elicited: flow.Elicited{Ordinal: st.GetOrdinal(), Attempt: attempt},
	}
	c.ctx, c.end = context.WithCancel(ctx)
	s.noteLocation(c.location)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[lane] = c
	return c
}

// callTool returns the Run that calls a tool and emits the outcome. next, if not nil, makes the next step from the output.
func (s *Session) callTool(ctx context.Context, t *flow.Task, lane uint32, st *storagev1.ActiveStep, attempt uint32, next func(output string) *flow.Planned) Run {
	c := s.beginCall(ctx, lane, st, attempt)
	msg := &mcppoolv1.CallToolsRequest{Call: s.callRequest(t, lane, st, c)}
	return s.runCall(c, st, next, func(ctx context.Context) (*mcppoolv1.CallResult, error) {
		released := s.r.releases.take(s.head.GetUserSub(), len(msg.GetCall().GetAckCallIds()))
		for _, e := range released {
			msg.EndedSessionIds = append(msg.EndedSessionIds, e.session)
			msg.Call.AckCallIds = append(msg.Call.AckCallIds, e.acks...)
		}
		res, err := s.send(ctx, msg, c)
		if err != nil {
			s.r.releaseLater(context.WithoutCancel(ctx), released) // the pool may not have received them with the call
		}
		if toolcall.IsLost(err) {
			s.log.WarnContext(ctx, "the connection to the MCP pool broke during a call; asking the pool for the outcome", "call_id", c.id, "error", err)
			return s.attach(ctx, st, c)
		}
		return res, err
	})
}

func (s *Session) callRequest(t *flow.Task, lane uint32, st *storagev1.ActiveStep, c *call) *mcppoolv1.CallToolRequest {
	mcpID, name := flow.ToolName(st.GetToolId())
	req := &mcppoolv1.CallToolRequest{
		McpId: mcpID, Name: name, InputJson: st.GetInputJson(), SessionId: s.id, CallId: c.id, PoolId: st.GetPoolId(),
		IdempotencyKey:         flow.IdempotencyKey(t.ID, st.GetOrdinal(), st.GetInputJson()),
		ExpectedDefinitionHash: st.GetDefinitionHash(), ExpectedConfigRevision: st.GetConfigRevision(),
		Epoch: s.epoch, StartBy: timestamppb.New(t.Now.Add(s.r.cfg.PoolPatience + startSlack)), AckCallIds: s.takeAcks(st.GetPoolId()),
	}
	if l := t.Head.GetLimits(); l.GetMaxModelCalls() > 0 || l.GetMaxTokens() > 0 || l.GetMaxCostNanoUsd() > 0 {
		req.ModelBudget = modelBudget(t, flow.LaneOf(t.State, lane))
	}
	if st.GetRound() > 0 {
		req.RequestState, req.Answers = st.GetRequestState(), callAnswers(st.GetAnswers())
	}
	return req
}

// attachCall returns the Run that attaches to an earlier call and emits its outcome. The Run first delivers people's answers, except to a call
// that is to stop.
func (s *Session) attachCall(ctx context.Context, lane uint32, st *storagev1.ActiveStep, a flow.Attach) Run {
	c := s.beginCall(ctx, lane, st, a.Attempt)
	c.stopping.Store(a.Stopping)
	return s.runCall(c, st, nil, func(ctx context.Context) (*mcppoolv1.CallResult, error) {
		if !a.Stopping {
			if err := s.deliverAnswers(ctx, st, c, a.Fresh); err != nil {
				return nil, err
			}
		}
		return s.attach(ctx, st, c)
	})
}

// runCall returns the Run that follows a call to its end and emits the outcome. follow sends the call, or attaches to it, and returns its
// result.
func (s *Session) runCall(c *call, st *storagev1.ActiveStep, next func(string) *flow.Planned, follow func(context.Context) (*mcppoolv1.CallResult, error)) Run {
	return func(_ context.Context, emit func(flow.Input)) {
		defer c.end()
		c.emit = emit
		res, err := follow(c.ctx)
		if err != nil {
			emit(s.inputForError(c, st, err))
			return
		}
		out := flow.Called{Ordinal: c.ordinal, Attempt: c.attempt, Round: c.round, Outcome: commonv1.Outcome_OUTCOME_KNOWN, Usage: addUsage(nil, res.GetModelUsage())}
		if res.GetIsError() {
			out.Err = &storagev1.ErrorNote{
				ErrMsg: toolcall.ErrorText(res), DataJson: st.GetInputJson(),
				Reason: commonv1.ErrorReason_ERROR_REASON_TOOL_EXECUTION_FAILED,
			}
		} else if out.Output = toolcall.Output(res); next != nil {
			out.Next = next(out.Output)
		}
		emit(out)
	}
}

// send sends the call and follows it. While no replica of the MCP pool can be reached or accepts the call, send retries, unless the call may
// have run.
func (s *Session) send(ctx context.Context, msg *mcppoolv1.CallToolsRequest, c *call) (res *mcppoolv1.CallResult, err error) {
	notice := time.Now().Add(noticeAfter)
	s.retry(ctx, func() (again bool) {
		var sent bool
		res, sent, err = s.callOnStream(ctx, msg, c)
		if err == nil {
			return false
		}
		otherPool := errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_OTHER_POOL
		if otherPool || toolcall.RefusedAtShutdown(err) && s.r.cfg.Replicas != nil {
			// The id of the new replica is committed before the call is sent, because later only that replica can prove that the call did not run.
			if m := s.otherReplica(ctx, msg.GetCall()); m != nil {
				err = m
				return false
			}
		}
		if !otherPool && !toolcall.RefusedAtShutdown(err) && (sent || status.Code(err) != codes.Unavailable) {
			return false
		}
		if time.Now().After(notice) {
			notice = notice.Add(time.Hour) // notify only once
			s.notifyWaiting("MCP pool", err)
		}
		err = errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR,
			"the MCP pool cannot be reached: %w", err).With(errs.OutcomeKey, errs.OutcomeNotExecuted)
		return !c.stopping.Load()
	})
	return res, err
}

// attach asks the MCP pool for the outcome of a call and follows a call that still runs. While the pool cannot be reached, attach waits,
// because the pool may have the outcome.
func (s *Session) attach(ctx context.Context, st *storagev1.ActiveStep, c *call) (res *mcppoolv1.CallResult, err error) {
	mcpID, name := flow.ToolName(c.toolID)
	req := &mcppoolv1.AttachCallRequest{
		CallId: c.id, RequestHash: flow.RequestHash(mcpID, name, st.GetInputJson()), PoolId: c.location.poolID, SessionId: s.id, Epoch: s.epoch,
	}
	s.retry(ctx, func() (again bool) {
		res, err = s.attachAnywhere(ctx, req, c)
		reason := errs.Reason(err)
		return reason == commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR ||
			c.mcpTaskID != "" && reason == commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN // another replica can ask for the MCP task
	})
	return res, err
}

// retry calls fn until it returns false, ctx is done or PoolPatience is over.
func (s *Session) retry(ctx context.Context, fn func() (again bool)) {
	deadline := time.Now().Add(s.r.cfg.PoolPatience)
	for pause := 50 * time.Millisecond; fn(); pause = min(2*pause, 2*time.Second) {
		if time.Now().Add(pause).After(deadline) || !sleep(ctx, pause) {
			return
		}
	}
}
