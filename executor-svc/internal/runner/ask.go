package runner

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// askPlanner makes a planner call, with the context that the planner lacks. It tries again unless the answer would be the same. It adds
// the usage of all tries to usage, also of those that fail.
func askPlanner[T interface{ GetUsage() *commonv1.Usage }](
	ctx context.Context, s *Session, c *plannerv1.TaskContext, usage **storagev1.Usage,
	call func(context.Context, *plannerv1.TaskContext, ...grpc.CallOption) (T, error),
) (T, error) {
	for try := 1; ; try++ {
		callCtx, cancel := context.WithTimeout(ctx, s.r.cfg.PlannerTimeout)
		res, err := askOnce(callCtx, s, c, call)
		cancel()
		spent := res.GetUsage()
		if err != nil {
			spent = errs.From(err).Usage
		}
		*usage = addUsage(*usage, spent)
		if err == nil || definitive(err) || try >= s.r.cfg.PlannerTries || !sleep(ctx, time.Duration(try)*200*time.Millisecond) {
			return res, err
		}
		c = reduceBudget(c, spent)
	}
}

// askOnce sends only the part of the context that the planner lacks, or all of it if the planner no longer has the rest.
func askOnce[T any](
	ctx context.Context, s *Session, c *plannerv1.TaskContext, call func(context.Context, *plannerv1.TaskContext, ...grpc.CallOption) (T, error),
) (T, error) {
	if less := s.contextSince(c); less != nil {
		res, err := callWhenReachable(ctx, s, "planner", func(ctx context.Context, o ...grpc.CallOption) (T, error) { return call(ctx, less, o...) })
		if err == nil || errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_CONTEXT_MISSING {
			return res, err
		}
		s.setBase("", c)
	}
	return callWhenReachable(ctx, s, "planner", func(ctx context.Context, o ...grpc.CallOption) (T, error) { return call(ctx, c, o...) })
}

// noticeAfter is how long a service may be out of reach before the task's status names it.
const noticeAfter = 2 * time.Second

// callWhenReachable makes a call to another service, and waits within ctx while that cannot be reached. The task's status then names the service.
func callWhenReachable[T any](ctx context.Context, s *Session, service string, call func(context.Context, ...grpc.CallOption) (T, error)) (T, error) {
	var to peer.Peer
	res, err := call(ctx, grpc.Peer(&to))
	if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR || to.Addr != nil || ctx.Err() != nil {
		return res, err
	}
	notice := time.AfterFunc(noticeAfter, func() { s.notifyWaiting(service, err) })
	defer notice.Stop()
	return call(ctx, grpc.WaitForReady(true))
}

// definitive reports whether another try is useless: the answer would be the same, or the planner has already tried several times because
// the provider fails or limits requests.
func definitive(err error) bool {
	var p *partialAnswerError
	if errors.As(err, &p) {
		return true
	}
	switch e := errs.From(err); e.Reason {
	case commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED:
		return true
	case commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED:
		return e.Code != codes.Internal // which is an answer that broke off
	default:
		return refusesRequest(e.Code)
	}
}

// reduceBudget returns a context with the budget that a failed try has left. It is a copy, because other requests may be reading c.
func reduceBudget(c *plannerv1.TaskContext, spent *commonv1.Usage) *plannerv1.TaskContext {
	c = proto.CloneOf(c)
	c.ModelCallsLeft = reduce(c.ModelCallsLeft, spent.GetModelCalls())
	c.TokensLeft = reduce(c.TokensLeft, spent.GetInputTokens()+spent.GetOutputTokens())
	c.CostNanoUsdLeft = reduce(c.CostNanoUsdLeft, spent.GetCostNanoUsd())
	return c
}

func reduce[T uint32 | uint64](left *T, spent T) *T {
	if left == nil {
		return nil
	}
	rest := *left - min(*left, spent)
	return &rest
}

func errorNote(err error) *storagev1.ErrorNote {
	e := errs.From(err)
	return &storagev1.ErrorNote{ErrMsg: valid(e.Message), Reason: e.Reason}
}

func riskNote(r *commonv1.Risk) *storagev1.RiskNote {
	return &storagev1.RiskNote{Level: r.GetLevel(), Reason: valid(r.GetReason())}
}

// addUsage adds a planner call's usage to sum; nil stands for none.
func addUsage(sum *storagev1.Usage, u *commonv1.Usage) *storagev1.Usage {
	if u == nil {
		return sum
	}
	return flow.AddUsage(sum, &storagev1.Usage{
		InputTokens: u.GetInputTokens(), OutputTokens: u.GetOutputTokens(), ModelCalls: u.GetModelCalls(),
		CachedInputTokens: u.GetCachedInputTokens(), CostNanoUsd: u.GetCostNanoUsd(),
		CostUnknown: u.GetModelCalls() > 0 && u.CostNanoUsd == nil,
	})
}

// valid makes text storable: gRPC refuses invalid UTF-8, but in-process calls do not check it.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// sleep waits for d and reports whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
