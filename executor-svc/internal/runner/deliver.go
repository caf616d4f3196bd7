package runner

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// errUndelivered says that a call which waited for answers is gone, and that none of them can have come to it.
var errUndelivered = errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND,
	"the process that kept the call ended while a person was asked")

// deliver gives the pool what people answered. errUndelivered: another call can go on from there without any doubt.
// Everything else is for AttachCall to find out.
func (s *Session) deliver(ctx context.Context, st *storagev1.ActiveStep, l *listener, fresh bool) error {
	left := answersOf(st.GetAnswers())
	if len(left) == 0 || st.GetAnswersSent() {
		return nil
	}
	// One that was taken, or may have been, lets the call go on: then it is not certain that nothing came of it.
	certain := fresh
	for len(left) > 0 {
		if l.call.deaf.Load() {
			return nil // it is to hear of no answer any more, only how it ends matters
		}
		took, doubt := s.giveAnswer(ctx, l.call, left[0])
		certain = certain && !doubt && !took
		if !took {
			break
		}
		left = left[1:]
	}
	if len(left) > 0 && certain && stillAsked(st.GetAnswers()) && st.GetRequestState() != "" && st.GetMcpTaskId() == "" && ctx.Err() == nil {
		return errUndelivered
	}
	l.answer = func(ctx context.Context, inputID string) bool {
		i := slices.IndexFunc(left, func(a *mcppoolv1.CallAnswer) bool { return a.GetInputId() == inputID })
		if i < 0 {
			return false
		}
		again := left[i]
		left = slices.Delete(left, i, i+1)
		took, _ := s.giveAnswer(ctx, l.call, again)
		return took
	}
	return nil
}

// stillAsked says whether the call cannot have gone on by itself yet: not all of what it asked for was given up, with some
// room for clocks that differ.
func stillAsked(answers []*storagev1.InputAnswer) bool {
	soon := time.Now().Add(startSlack).UnixNano()
	return slices.ContainsFunc(answers, func(a *storagev1.InputAnswer) bool { return a.GetDeadline() == 0 || soon < a.GetDeadline() })
}

// giveAnswer gives the pool one answer; a pool that is out of reach for a while is waited for. took: it has the answer, or
// needs none any more. doubt: it may have got it all the same.
func (s *Session) giveAnswer(ctx context.Context, c *call, a *mcppoolv1.CallAnswer) (took, doubt bool) {
	deadline := time.Now().Add(s.r.cfg.PoolPatience)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		var to peer.Peer
		hidden, err := s.answerAnywhere(ctx, c.at, &mcppoolv1.AnswerCallRequest{CallId: c.id, Answer: a}, &to)
		switch reason := errs.Reason(err); {
		case err == nil, reason == commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN:
			return true, false
		case reason == commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND:
			return false, doubt || hidden
		case refused(err), status.Code(err) == codes.Unavailable && to.Addr == nil: // it was not sent
		case reason == commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR, status.Code(err) == codes.Unavailable:
			doubt = true
		default:
			s.log.WarnContext(ctx, "the pool does not take an answer; what the call asks for then is asked again", "call_id", c.id, "error", err)
			return true, true
		}
		if time.Now().Add(pause).After(deadline) {
			return false, true
		}
		if !sleep(ctx, pause) || c.deaf.Load() { // told to stop meanwhile: it gets no answer any more
			return false, true
		}
	}
}

// Withdraw ends a call that waits for people who are not going to answer. Failing to costs nothing: the pool gives the
// question up by itself after a while.
func (s *Session) Withdraw(ctx context.Context, w flow.Withdraw) {
	ctx, cancel := context.WithTimeout(s.asUser(ctx), s.r.cfg.StopGrace)
	defer cancel()
	id := flow.LegID(s.id, w.Ordinal, w.Attempt, w.Leg)
	mcpID, _ := flow.ToolName(w.ToolID)
	err := s.cancelAnywhere(ctx, where{w.PoolID, mcpID}, &mcppoolv1.CancelCallRequest{CallId: id, Reason: w.Reason})
	if err != nil && errs.From(err).Code != codes.NotFound {
		s.log.WarnContext(ctx, "ending a call that waits for a person", "call_id", id, "error", err)
		return
	}
	// How it ends is nobody's to know any more: the pool need not keep it.
	err = s.atPool(ctx, where{w.PoolID, mcpID}, func(ctx context.Context, pool mcppoolv1.McpPoolServiceClient, o ...grpc.CallOption) error {
		_, err := pool.AckCall(ctx, &mcppoolv1.AckCallRequest{CallIds: []string{id}}, o...)
		return err
	})
	if err != nil {
		s.log.WarnContext(ctx, "acknowledging a call that waited for a person", "call_id", id, "error", err)
	}
}

// answersOf is what people answered as the pool takes it.
func answersOf(answers []*storagev1.InputAnswer) []*mcppoolv1.CallAnswer {
	all := make([]*mcppoolv1.CallAnswer, 0, len(answers))
	for _, a := range answers {
		out := &mcppoolv1.CallAnswer{InputId: a.GetInputId(), Action: actions[a.GetAction()]}
		if out.GetAction() == mcppoolv1.CallAnswer_ACTION_ACCEPT {
			out.ContentJson = a.GetContentJson()
		}
		all = append(all, out)
	}
	return all
}

var actions = map[executorv1.InputAnswer_Action]mcppoolv1.CallAnswer_Action{
	executorv1.InputAnswer_ACTION_ACCEPT:  mcppoolv1.CallAnswer_ACTION_ACCEPT,
	executorv1.InputAnswer_ACTION_DECLINE: mcppoolv1.CallAnswer_ACTION_DECLINE,
	executorv1.InputAnswer_ACTION_CANCEL:  mcppoolv1.CallAnswer_ACTION_CANCEL,
}
