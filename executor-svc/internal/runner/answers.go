package runner

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/toolcall"
)

// errUndelivered reports that the call that waited for answers is gone and received none of them.
var errUndelivered = errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND,
	"the process that kept the call ended while a person was asked")

// deliverAnswers passes people's answers to the pool. An answer that the pool does not take is delivered when the call asks again.
// deliverAnswers returns errUndelivered if another call can safely take the answers. firstDelivery reports that no answer was delivered
// before.
func (s *Session) deliverAnswers(ctx context.Context, st *storagev1.ActiveStep, c *call, firstDelivery bool) error {
	undelivered := callAnswers(st.GetAnswers())
	if len(undelivered) == 0 || st.GetAnswersSent() {
		return nil
	}
	untouched := firstDelivery // no call can have received an answer
	for len(undelivered) > 0 {
		if c.stopping.Load() {
			return nil // only the call's end matters
		}
		delivered, uncertain := s.deliverAnswer(ctx, c, undelivered[0])
		untouched = untouched && !uncertain && !delivered
		if !delivered {
			break
		}
		undelivered = undelivered[1:]
	}
	if len(undelivered) > 0 && untouched && stillOpen(st.GetAnswers()) && st.GetRequestState() != "" && st.GetMcpTaskId() == "" && ctx.Err() == nil {
		return errUndelivered
	}
	c.answer = func(ctx context.Context, inputID string) bool {
		i := slices.IndexFunc(undelivered, func(a *mcppoolv1.CallAnswer) bool { return a.GetInputId() == inputID })
		if i < 0 {
			return false
		}
		a := undelivered[i]
		undelivered = slices.Delete(undelivered, i, i+1)
		delivered, _ := s.deliverAnswer(ctx, c, a)
		return delivered
	}
	return nil
}

// stillOpen reports whether the pool cannot have given up all questions yet, even if clocks differ by startSlack.
func stillOpen(answers []*storagev1.InputAnswer) bool {
	soon := time.Now().Add(startSlack).UnixNano()
	return slices.ContainsFunc(answers, func(a *storagev1.InputAnswer) bool { return a.GetDeadline() == 0 || soon < a.GetDeadline() })
}

// deliverAnswer passes one answer to the MCP pool, and retries while the pool cannot be reached. delivered reports that the pool has the
// answer, no longer needs it, or refuses it; uncertain, that the pool may have the answer although it did not confirm it.
func (s *Session) deliverAnswer(ctx context.Context, c *call, a *mcppoolv1.CallAnswer) (delivered, uncertain bool) {
	replied := false // the pool has replied
	s.retry(ctx, func() (again bool) {
		if c.stopping.Load() {
			return false
		}
		var to peer.Peer
		unreached, err := s.answerAnywhere(ctx, c.location, &mcppoolv1.AnswerCallRequest{CallId: c.id, Answer: a}, &to)
		switch reason := errs.Reason(err); {
		case err == nil, reason == commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN:
			replied, delivered, uncertain = true, true, false
			return false
		case reason == commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND:
			replied, delivered, uncertain = true, false, uncertain || unreached
			return false
		case toolcall.RefusedAtShutdown(err), status.Code(err) == codes.Unavailable && to.Addr == nil: // not sent
			return true
		case reason == commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR, status.Code(err) == codes.Unavailable:
			uncertain = true
			return true
		}
		s.log.WarnContext(ctx, "the MCP pool refused an answer; the call's question will be asked again", "call_id", c.id, "error", err)
		replied, delivered, uncertain = true, true, true
		return false
	})
	return delivered, uncertain || !replied
}

// callAnswers converts stored answers for the pool.
func callAnswers(answers []*storagev1.InputAnswer) []*mcppoolv1.CallAnswer {
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
