package call

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
)

// sampled is the answer of a model, and what it cost.
type sampled struct {
	mcp.Sampled
	Name  string          // of the model in the planner
	Usage *commonv1.Usage // nil if unknown
}

// sample implements mcp.Call.Sample. The timer of the call is paused: Models bound the time of a request.
func (a *attempt) sample(ctx context.Context, wanted mcp.Sample) (mcp.Sampled, error) {
	policy := a.Server.Sampling
	switch {
	case policy == nil:
		return mcp.Sampled{}, mcp.Refusef(mcp.SampleRefused, "MCP server %s may not have a model asked (sampling)", a.Server.ID)
	case a.deps.Models == nil:
		return mcp.Sampled{}, mcp.Refusef(mcp.SampleRefused,
			"the MCP pool has no planner to ask models through; an operator gives it one with --planner, and with keys a --service-key")
	case a.usage.begin() > policy.Requests():
		return mcp.Sampled{}, mcp.Refusef(mcp.SampleRefused,
			"MCP server %s had models asked %d times during this call, which is as often as it may; an operator can raise maxRequests of `sampling`",
			a.Server.ID, policy.Requests())
	}
	a.timer.pause()
	defer a.timer.resume()
	began := time.Now()
	got, err := a.deps.Models.sample(ctx, a.User, policy, wanted)
	if e := errs.From(err); e != nil && got.Usage == nil {
		got.Usage = e.Usage
	}
	a.usage.add(got.Usage)
	a.audit(ctx, "model_request", a.sampleAttrs(policy, got, err, time.Since(began))...)
	if err != nil {
		e, code := errs.From(err), mcp.SampleFailed
		if e.Code == codes.InvalidArgument { // the planner checks the server's request
			code = mcp.SampleInvalid
		}
		return mcp.Sampled{}, &mcp.Refusal{Code: code, Message: e.Message, Err: err}
	}
	return got.Sampled, nil
}

// sampleAttrs say which model was asked for whom. They hold no words.
func (a *attempt) sampleAttrs(policy *registry.Sampling, got sampled, err error, took time.Duration) []slog.Attr {
	name, reason := got.Name, ""
	if name == "" {
		name = policy.Model
	}
	if err != nil {
		reason = errs.ReasonName(errs.Reason(err))
	}
	return []slog.Attr{
		slog.String("user", a.User), slog.String("session_id", a.Session), slog.String("mcp_id", a.MCPID), slog.String("tool", a.Tool),
		slog.String("call_id", a.CallID), slog.String("model", name), slog.String("provider_model", got.Model),
		slog.Uint64("input_tokens", got.Usage.GetInputTokens()), slog.Uint64("output_tokens", got.Usage.GetOutputTokens()), slog.String("reason", reason),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
	}
}

// withoutModel returns the error of a call that failed because no model answered. Codes that would blame the caller are not passed on.
func withoutModel(e *mcp.Error) *errs.Error {
	code := codes.FailedPrecondition
	var cause *errs.Error
	if errors.As(e.Err, &cause) && (cause.Code == codes.Unavailable || cause.Code == codes.ResourceExhausted || cause.Code == codes.DeadlineExceeded) {
		code = cause.Code
	}
	return errs.New(code, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "%s", e.Message)
}

// usage is what the models cost that were asked during a call.
type usage struct {
	mu       sync.Mutex
	requests int             // guarded by mu; refused ones included
	total    *commonv1.Usage // guarded by mu; nil if no model answered
}

// begin counts a request and returns its number.
func (u *usage) begin() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.requests++
	return u.requests
}

// add counts what a request cost. The cost is unknown once that of one request is.
func (u *usage) add(cost *commonv1.Usage) {
	if cost.GetModelCalls() == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	sum := &commonv1.Usage{
		InputTokens: u.total.GetInputTokens() + cost.GetInputTokens(), OutputTokens: u.total.GetOutputTokens() + cost.GetOutputTokens(),
		CachedInputTokens: u.total.GetCachedInputTokens() + cost.GetCachedInputTokens(), ModelCalls: u.total.GetModelCalls() + cost.GetModelCalls(),
	}
	if cost.CostNanoUsd != nil && (u.total == nil || u.total.CostNanoUsd != nil) {
		sum.CostNanoUsd = proto.Uint64(u.total.GetCostNanoUsd() + cost.GetCostNanoUsd())
	}
	u.total = sum
}

// any reports whether a model was asked. One that has not answered yet may cost as much.
func (u *usage) any() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.requests > 0
}

// message returns the usage, or nil if no model answered.
func (u *usage) message() *commonv1.Usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.total
}
