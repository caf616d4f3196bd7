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
)

// errUndelivered: the call that waited for answers is gone, and it certainly received none of them.
var errUndelivered = errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND,
	"the process that kept the call ended while a person was asked")

// deliverAnswers passes people's answers to the pool. It returns errUndelivered if another call can certainly continue from here; AttachCall
// finds out everything else. firstDelivery: no answer was passed on before.
func (s *Session) deliverAnswers(ctx context.Context, st *storagev1.ActiveStep, f *follower, firstDelivery bool) error {
	left := callAnswers(st.GetAnswers())
	if len(left) == 0 || st.GetAnswersSent() {
		return nil
	}
	// A call that took an answer, or may have, has continued.
	untouched := firstDelivery
	for len(left) > 0 {
		if f.call.stopping.Load() {
			return nil // only the call's end matters
		}
		took, doubt := s.deliverAnswer(ctx, f.call, left[0])
		untouched = untouched && !doubt && !took
		if !took {
			break
		}
		left = left[1:]
	}
	if len(left) > 0 && untouched && stillOpen(st.GetAnswers()) && st.GetRequestState() != "" && st.GetMcpTaskId() == "" && ctx.Err() == nil {
		return errUndelivered
	}
	f.answer = func(ctx context.Context, inputID string) bool {
		i := slices.IndexFunc(left, func(a *mcppoolv1.CallAnswer) bool { return a.GetInputId() == inputID })
		if i < 0 {
			return false
		}
		again := left[i]
		left = slices.Delete(left, i, i+1)
		took, _ := s.deliverAnswer(ctx, f.call, again)
		return took
	}
	return nil
}

// stillOpen reports whether the pool cannot have given up all questions yet, with some room for clock differences.
func stillOpen(answers []*storagev1.InputAnswer) bool {
	soon := time.Now().Add(startSlack).UnixNano()
	return slices.ContainsFunc(answers, func(a *storagev1.InputAnswer) bool { return a.GetDeadline() == 0 || soon < a.GetDeadline() })
}

// deliverAnswer passes one answer to the MCP pool, and waits while that cannot be reached. took: the pool has the answer or no longer
// needs it. doubt: the pool may have received it without saying so.
func (s *Session) deliverAnswer(ctx context.Context, c *call, a *mcppoolv1.CallAnswer) (took, doubt bool) {
	answered := false // by the pool
	s.retry(ctx, func() (again bool) {
		if c.stopping.Load() {
			return false
		}
		var to peer.Peer
		unreached, err := s.answerAnywhere(ctx, c.location, &mcppoolv1.AnswerCallRequest{CallId: c.id, Answer: a}, &to)
		switch reason := errs.Reason(err); {
		case err == nil, reason == commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN:
			answered, took, doubt = true, true, false
			return false
		case reason == commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND:
			answered, took, doubt = true, false, doubt || unreached
			return false
		case refusedAtShutdown(err), status.Code(err) == codes.Unavailable && to.Addr == nil: // not sent
			return true
		case reason == commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR, status.Code(err) == codes.Unavailable:
			doubt = true
			return true
		}
		s.log.WarnContext(ctx, "the pool does not take an answer; the call's question will be asked again", "call_id", c.id, "error", err)
		answered, took, doubt = true, true, true
		return false
	})
	return took, doubt || !answered
}

// callAnswers converts stored answers to those that the pool takes.
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
