package call

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
)

// sampled is a model's answer, and its usage.
type sampled struct {
	mcp.Sampled
	Name  string          // of the model in the planner
	Usage *commonv1.Usage // nil if unknown
}

// sample implements mcp.Call.Sample. The timer of the call is paused: Models limits the time of a request.
func (a *attempt) sample(ctx context.Context, wanted mcp.Sample) (mcp.Sampled, error) {
	policy := a.Server.Sampling
	switch {
	case policy == nil:
		return mcp.Sampled{}, mcp.Refusef(mcp.SampleRefused, "MCP server %s may not ask models (sampling)", a.Server.ID)
	case a.deps.Models == nil:
		return mcp.Sampled{}, mcp.Refusef(mcp.SampleRefused,
			"the MCP pool has no planner through which to ask models; an operator sets --planner, and with keys also --service-key")
	case a.usage.begin() > policy.Requests():
		return mcp.Sampled{}, mcp.Refusef(mcp.SampleRefused,
			"MCP server %s asked models %d times during this call, which is the limit; an operator can raise maxRequests of `sampling`",
			a.Server.ID, policy.Requests())
	}
	a.timer.pause()
	defer a.timer.resume()
	began := time.Now()
	if a.ModelBudget != nil { // the cost of one request must be known before the next one is made
		a.usage.reserving.Lock()
		defer a.usage.reserving.Unlock()
	}
	got, err := a.deps.Models.sample(ctx, a.User, policy, a.usage.remaining(a.ModelBudget), wanted)
	if e := errs.From(err); e != nil && got.Usage == nil {
		got.Usage = e.Usage
	}
	a.usage.add(got.Usage)
	a.deps.Audit.Record(ctx, "model_request", a.sampleAttrs(policy, got, err, time.Since(began))...)
	if err != nil {
		e, code := errs.From(err), mcp.SampleFailed
		if e.Code == codes.InvalidArgument { // the planner checks the server's request
			code = mcp.SampleInvalid
		}
		return mcp.Sampled{}, &mcp.Error{Kind: mcp.Answered, Code: code, Message: e.Message, Err: err}
	}
	return got.Sampled, nil
}

// sampleAttrs describes a model request without its texts.
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

// withoutModel returns the error of a call that failed because no model answered. It passes on only codes that do not blame the caller.
func withoutModel(e *mcp.Error) *errs.Error {
	code := codes.FailedPrecondition
	var cause *errs.Error
	if errors.As(e.Err, &cause) && (cause.Code == codes.Unavailable || cause.Code == codes.ResourceExhausted || cause.Code == codes.DeadlineExceeded) {
		code = cause.Code
	}
	return errs.New(code, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "%s", e.Message)
}

// usage is the cost of the model requests during a call.
type usage struct {
	reserving sync.Mutex // held during a request within a budget

	mu       sync.Mutex
	requests int             // guarded by mu; refused ones included
	total    *commonv1.Usage // guarded by mu; nil if no model answered
}

// remaining returns what remains of a budget, or nil if there is no budget.
func (u *usage) remaining(b *commonv1.ModelBudget) *commonv1.ModelBudget {
	if b == nil {
		return nil
	}
	spent := u.message()
	return &commonv1.ModelBudget{
		ModelCalls: subtract(b.ModelCalls, spent.GetModelCalls()), Tokens: subtract(b.Tokens, spent.GetInputTokens()+spent.GetOutputTokens()),
		CostNanoUsd: subtract(b.CostNanoUsd, spent.GetCostNanoUsd()),
	}
}

func subtract[T uint32 | uint64](limit *T, spent T) *T {
	if limit == nil {
		return nil
	}
	difference := *limit - min(*limit, spent)
	return &difference
}

// begin counts a request and returns its number.
func (u *usage) begin() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.requests++
	return u.requests
}

// add adds the usage of a request. The total cost is unknown once the cost of one request is unknown.
func (u *usage) add(spent *commonv1.Usage) {
	if spent.GetModelCalls() == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	sum := &commonv1.Usage{
		InputTokens: u.total.GetInputTokens() + spent.GetInputTokens(), OutputTokens: u.total.GetOutputTokens() + spent.GetOutputTokens(),
		CachedInputTokens: u.total.GetCachedInputTokens() + spent.GetCachedInputTokens(), ModelCalls: u.total.GetModelCalls() + spent.GetModelCalls(),
	}
	if spent.CostNanoUsd != nil && (u.total == nil || u.total.CostNanoUsd != nil) {
		sum.CostNanoUsd = proto.Uint64(u.total.GetCostNanoUsd() + spent.GetCostNanoUsd())
	}
	u.total = sum
}

// any reports whether the server made a model request, answered or not.
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

const (
	// maxRequests bounds the concurrent requests to the planner. maxRequestsPerUser bounds a user's, so that one user's slow models do not
	// block other users.
	maxRequests, maxRequestsPerUser = 64, 8
	// maxRequestTime bounds one request, the wait for a slot included.
	maxRequestTime = 10 * time.Minute
	// maxText bounds the answer of a model, in bytes.
	maxText = 4 << 20
)

// Models sends the model requests of servers (sampling) to the planner.
type Models struct {
	planner plannerv1.PlannerServiceClient
	slots   chan struct{}

	mu    sync.Mutex
	users map[string]int // guarded by mu; requests by user, those that wait for a slot included
}

// NewModels returns the Models of a planner.
func NewModels(planner plannerv1.PlannerServiceClient) *Models {
	return &Models{planner: planner, slots: make(chan struct{}, maxRequests), users: make(map[string]int)}
}

// begin counts a running request of a user, or refuses it if the user has too many. Call end when the request has ended.
func (m *Models) begin(user string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.users[user] >= maxRequestsPerUser {
		return errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
			"MCP servers have %d model requests running for you, which is the limit; try again when one has been answered", maxRequestsPerUser)
	}
	m.users[user]++
	return nil
}

func (m *Models) end(user string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.users[user]--; m.users[user] == 0 {
		delete(m.users, user)
	}
}

// sample asks a model on behalf of a user, within the operator's limits. The error is an *errs.Error or the cause of ctx. The usage is set
// even if the model refused.
func (m *Models) sample(ctx context.Context, user string, policy *registry.Sampling, budget *commonv1.ModelBudget, s mcp.Sample) (sampled, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, maxRequestTime, errs.New(codes.DeadlineExceeded, commonv1.ErrorReason_ERROR_REASON_TIMEOUT,
		"no model answered within %v", maxRequestTime))
	defer cancel()
	if err := m.begin(user); err != nil {
		return sampled{}, err
	}
	defer m.end(user)
	select {
	case m.slots <- struct{}{}:
		defer func() { <-m.slots }()
	case <-ctx.Done():
		return sampled{}, context.Cause(ctx)
	}
	wanted := request(policy, s)
	wanted.Budget = budget
	stream, err := m.planner.Generate(identity.OnBehalfOf(ctx, user), wanted)
	if err != nil {
		return sampled{}, requestError(ctx, err)
	}
	text, end, err := collect(stream)
	if err != nil {
		return sampled{}, requestError(ctx, err)
	}
	got := sampled{
		Sampled: mcp.Sampled{Text: text, Model: end.GetProviderModel(), Stop: stops[end.GetStopReason()]}, Name: end.GetModel(),
		Usage: end.GetUsage(),
	}
	if got.Model == "" {
		got.Model = got.Name
	}
	if end.GetStopReason() == plannerv1.StopReason_STOP_REASON_REFUSED && text == "" {
		return got, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR,
			"the model %q would not answer that; ask something else", got.Name)
	}
	return got, nil
}

// Names lists the models that can be asked on behalf of a user.
func (m *Models) Names(ctx context.Context, user string) ([]string, error) {
	list, err := m.planner.ListModels(identity.OnBehalfOf(ctx, user), &plannerv1.ListModelsRequest{})
	if err != nil {
		return nil, errs.From(err)
	}
	var names []string
	for _, model := range list.GetModels() {
		if model.GetCanGenerate() {
			names = append(names, model.GetName())
		}
	}
	return names, nil
}

// stops maps the planner's stop reasons to MCP's.
var stops = map[plannerv1.StopReason]string{
	plannerv1.StopReason_STOP_REASON_END: "endTurn", plannerv1.StopReason_STOP_REASON_MAX_TOKENS: "maxTokens",
	plannerv1.StopReason_STOP_REASON_STOP_SEQUENCE: "stopSequence", plannerv1.StopReason_STOP_REASON_REFUSED: "refusal",
	plannerv1.StopReason_STOP_REASON_UNSPECIFIED: "endTurn",
}

// requestError returns the error of a failed request, or the cause of ctx if ctx ended first.
func requestError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return errs.From(err)
}

// collect reads an answer to its end.
func collect(stream grpc.ServerStreamingClient[plannerv1.GenerateResponse]) (string, *plannerv1.GenerateEnd, error) {
	var text strings.Builder
	var end *plannerv1.GenerateEnd
	for {
		got, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && end == nil:
			return "", nil, io.ErrUnexpectedEOF
		case errors.Is(err, io.EOF):
			return text.String(), end, nil
		case err != nil:
			return "", nil, err
		case text.Len()+len(got.GetText()) > maxText:
			return "", nil, errors.New("the model's answer is too long")
		}
		if e := got.GetEnd(); e != nil {
			end = e
		}
		text.WriteString(got.GetText())
	}
}

// request returns the request to the planner. If the operator names a model, the server's hints are ignored.
func request(policy *registry.Sampling, s mcp.Sample) *plannerv1.GenerateRequest {
	tokens := policy.Tokens()
	if s.MaxTokens > 0 {
		tokens = int(min(float64(tokens), max(1, s.MaxTokens)))
	}
	r := &plannerv1.GenerateRequest{
		Model: policy.Model, System: s.System, MaxOutputTokens: uint32(tokens), Temperature: s.Temperature, StopSequences: s.Stop,
		Messages: make([]*plannerv1.ModelMessage, 0, len(s.Messages)),
	}
	if policy.Model == "" {
		for _, hint := range s.Preferences.Hints {
			if hint.Name != "" {
				r.ModelHints = append(r.ModelHints, hint.Name)
			}
		}
	}
	for _, m := range s.Messages {
		message := &plannerv1.ModelMessage{Role: plannerv1.ModelRole_MODEL_ROLE_USER}
		if m.Role == "assistant" {
			message.Role = plannerv1.ModelRole_MODEL_ROLE_ASSISTANT
		}
		for _, p := range m.Parts {
			message.Parts = append(message.Parts, partOf(p))
		}
		r.Messages = append(r.Messages, message)
	}
	return r
}

func partOf(p mcp.SamplePart) *plannerv1.ModelPart {
	media := &plannerv1.ModelMedia{MimeType: p.MIME, Data: p.Data}
	switch p.Kind {
	case "image":
		return &plannerv1.ModelPart{Part: &plannerv1.ModelPart_Image{Image: media}}
	case "audio":
		return &plannerv1.ModelPart{Part: &plannerv1.ModelPart_Audio{Audio: media}}
	default:
		return &plannerv1.ModelPart{Part: &plannerv1.ModelPart_Text{Text: p.Text}}
	}
}
