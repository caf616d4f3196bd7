package runner

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/toolcall"
)

// askPlanner makes a planner call. It retries a call that fails, unless the error is definitive, and adds the usage of all attempts to usage.
// The budgets of c are those of the whole question, of which usage is what its earlier calls used.
func askPlanner[T interface{ GetUsage() *commonv1.Usage }](
	ctx context.Context, s *Session, c *plannerv1.TaskContext, usage **storagev1.Usage,
	call func(context.Context, *plannerv1.TaskContext, ...grpc.CallOption) (T, error),
) (T, error) {
	for attempt := 1; ; attempt++ {
		res, err := askOnce(ctx, s, reduceBudget(c, *usage), call)
		spent := res.GetUsage()
		if err != nil {
			spent = errs.From(err).Usage
		}
		*usage = addUsage(*usage, spent)
		if err == nil || isDefinitive(err) || attempt >= s.r.cfg.PlannerTries || !sleep(ctx, time.Duration(attempt)*200*time.Millisecond) {
			return res, err
		}
	}
}

// askOnce asks the planner once. It sends only the part of the context that the planner does not keep, and the whole context if the planner
// keeps nothing or has dropped what it kept.
func askOnce[T any](
	ctx context.Context, s *Session, c *plannerv1.TaskContext, call func(context.Context, *plannerv1.TaskContext, ...grpc.CallOption) (T, error),
) (T, error) {
	if delta := s.contextSince(c); delta != nil {
		res, err := askWith(ctx, s, delta, call)
		if err == nil || errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_CONTEXT_MISSING {
			return res, err
		}
		s.setBase("", c)
	}
	return askWithCatalogs(ctx, s, c, call)
}

// askWithCatalogs asks the planner with a whole context. It sends the hashes of the catalogs, and their tools only if the planner lacks them.
func askWithCatalogs[T any](
	ctx context.Context, s *Session, c *plannerv1.TaskContext, call func(context.Context, *plannerv1.TaskContext, ...grpc.CallOption) (T, error),
) (T, error) {
	all := c.GetCatalogs()
	defer func() { c.Catalogs = all }()
	send := func(hashes []string) {
		c.Catalogs = make([]*plannerv1.Catalog, len(all))
		for i, catalog := range all {
			if c.Catalogs[i] = catalog; !slices.Contains(hashes, catalog.GetHash()) {
				c.Catalogs[i] = &plannerv1.Catalog{Hash: catalog.GetHash()}
			}
		}
	}
	for {
		send(nil)
		res, err := askWith(ctx, s, c, call)
		if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_CONTEXT_MISSING || len(all) == 0 {
			return res, err
		}
		hashes := strings.Split(errs.From(err).Metadata["catalogs"], ",")
		end, arrived := s.r.sends.Begin(hashes)
		if end != nil {
			defer end()
			send(hashes)
			return askWith(ctx, s, c, call)
		}
		select {
		case <-arrived: // unless another replica of the planner got them
		case <-ctx.Done():
			return res, ctx.Err()
		}
	}
}

// askWith asks the planner with a context, whose stored outputs it reads for the call.
func askWith[T any](
	ctx context.Context, s *Session, c *plannerv1.TaskContext, call func(context.Context, *plannerv1.TaskContext, ...grpc.CallOption) (T, error),
) (res T, err error) {
	full, held, err := s.withOutputs(ctx, c)
	if err != nil {
		return res, err
	}
	defer held.Release()
	ctx, cancel := context.WithTimeout(ctx, s.r.cfg.PlannerTimeout)
	defer cancel()
	return callWhenReachable(ctx, s, "planner", func(ctx context.Context, o ...grpc.CallOption) (T, error) { return call(ctx, full, o...) })
}

// noticeAfter is how long a service may be unreachable before the task's status names it.
const noticeAfter = 2 * time.Second

// callWhenReachable makes a call to another service. While the service cannot be reached, it waits within ctx, and the task's status names
// the service.
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

// isDefinitive reports whether a planner call must not be retried after an error, because a part of the answer was shown, the result would be
// the same, or the planner has already retried a provider that fails or limits requests.
func isDefinitive(err error) bool {
	var p *partialAnswerError
	if errors.As(err, &p) {
		return true
	}
	switch e := errs.From(err); e.Reason {
	case commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED:
		return true
	case commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED:
		return e.Code != codes.Internal // Internal: the model's answer broke off
	default:
		return toolcall.RefusesRequest(e.Code)
	}
}

// reduceBudget returns c with its budgets reduced by the usage of earlier calls.
func reduceBudget(c *plannerv1.TaskContext, spent *storagev1.Usage) *plannerv1.TaskContext {
	if spent == nil || c.ModelCallsLeft == nil && c.TokensLeft == nil && c.CostNanoUsdLeft == nil {
		return c
	}
	c = shallowCopy(c)
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
	e := errs.From(err).Public()
	return &storagev1.ErrorNote{ErrMsg: validUTF8(e.Message), Reason: e.Reason}
}

func riskNote(r *commonv1.Risk) *storagev1.RiskNote {
	return &storagev1.RiskNote{Level: r.GetLevel(), Reason: validUTF8(r.GetReason())}
}

// addUsage returns the sum and a planner call's or a tool call's usage. Either may be nil.
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

// validUTF8 replaces invalid UTF-8, which cannot be stored. gRPC refuses it, but in-process calls do not check.
func validUTF8(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// sleep waits for d. It returns false if ctx ends first.
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
