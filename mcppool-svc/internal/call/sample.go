package call

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
)

// Models have language models asked: a sampling.Models.
type Models interface {
	// Sample asks for a user, within what an operator allows. The error is an *errs.Error, or the end of ctx; what it cost is right also then.
	Sample(ctx context.Context, user string, policy *registry.Sampling, s mcp.Sample) (Sampled, error)
}

// Sampled is what a model said, and what it cost.
type Sampled struct {
	mcp.Sampled
	Name                      string // by which the planner knows the model
	InputTokens, OutputTokens uint64
}

// sample implements mcp.Call.Sample. The call's time stands still meanwhile: a model's is bounded where it is asked.
func (t *try) sample(ctx context.Context, wanted mcp.Sample) (mcp.Sampled, error) {
	policy := t.r.Server.Sampling
	switch {
	case policy == nil:
		return mcp.Sampled{}, mcp.SampleErrorf(mcp.SampleRefused, "MCP server %s may not have a model asked (sampling)", t.r.Server.ID)
	case t.deps.Models == nil:
		return mcp.Sampled{}, mcp.SampleErrorf(mcp.SampleRefused,
			"the MCP pool has no planner to ask models through; an operator gives it one with --planner, and with keys a --service-key")
	case t.f.cost.begin() > policy.Requests():
		return mcp.Sampled{}, mcp.SampleErrorf(mcp.SampleRefused,
			"MCP server %s had models asked %d times during this call, which is as often as it may; an operator can raise maxRequests of `sampling`",
			t.r.Server.ID, policy.Requests())
	}
	t.watch.pause()
	defer t.watch.resume()
	began := time.Now()
	got, err := t.deps.Models.Sample(ctx, t.r.User, policy, wanted)
	t.f.cost.add(got)
	t.audit(ctx, "model_request", t.sampled(policy, got, err, time.Since(began))...)
	if err != nil {
		e := errs.From(err)
		return mcp.Sampled{}, &mcp.SampleError{Code: mcp.SampleFailed, Message: e.Message, Err: err}
	}
	return got.Sampled, nil
}

// sampled is a record for those who ask later who had what asked: no words are in it.
func (t *try) sampled(policy *registry.Sampling, got Sampled, err error, took time.Duration) []slog.Attr {
	name, reason := got.Name, ""
	if name == "" {
		name = policy.Model
	}
	if err != nil {
		reason = errs.ReasonName(errs.Reason(err))
	}
	r := &t.r
	return []slog.Attr{
		slog.String("user", r.User), slog.String("session_id", r.Session), slog.String("mcp_id", r.MCPID), slog.String("tool", r.Tool),
		slog.String("call_id", r.CallID), slog.String("model", name), slog.String("provider_model", got.Model),
		slog.Uint64("input_tokens", got.InputTokens), slog.Uint64("output_tokens", got.OutputTokens), slog.String("reason", reason),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
	}
}

// withoutModel is the error of a call that got no further for want of a model. Codes that would speak of the caller are not passed on.
func withoutModel(e *mcp.Error) *errs.Error {
	code := codes.FailedPrecondition
	var cause *errs.Error
	if errors.As(e.Err, &cause) && (cause.Code == codes.Unavailable || cause.Code == codes.ResourceExhausted || cause.Code == codes.DeadlineExceeded) {
		code = cause.Code
	}
	return errs.New(code, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "%s", e.Message)
}
