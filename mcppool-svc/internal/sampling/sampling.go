package sampling

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"

	"pawl.dev/mcppool-svc/internal/call"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
)

const (
	// atOnce is how many requests of all servers are with the planner at once, and atOnceOfUser how many of them are for one user, so
	// that one whose models are slow does not keep all others waiting.
	atOnce, atOnceOfUser = 64, 8
	// longest is how long one request may take, the waiting included, and maxText how much text it may bring.
	longest = 10 * time.Minute
	maxText = 4 << 20
)

// Models implements call.Models.
type Models struct {
	planner plannerv1.PlannerServiceClient
	slots   chan struct{}

	mu    sync.Mutex
	users map[string]int // guarded by mu; requests of each user who has any, those that wait for a slot included
}

// New makes Models over a planner.
func New(planner plannerv1.PlannerServiceClient) *Models {
	return &Models{planner: planner, slots: make(chan struct{}, atOnce), users: make(map[string]int)}
}

// begin counts a request of a user, until end; an error where the user has too many.
func (m *Models) begin(user string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.users[user] >= atOnceOfUser {
		return errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
			"models are being asked %d times at once for you by MCP servers, which is as often as may be; try again when one has answered", atOnceOfUser)
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

// Sample implements call.Models.
func (m *Models) Sample(ctx context.Context, user string, policy *registry.Sampling, s mcp.Sample) (call.Sampled, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, longest, errs.New(codes.DeadlineExceeded, commonv1.ErrorReason_ERROR_REASON_TIMEOUT,
		"no model answered within %v", longest))
	defer cancel()
	if err := m.begin(user); err != nil {
		return call.Sampled{}, err
	}
	defer m.end(user)
	select {
	case m.slots <- struct{}{}:
		defer func() { <-m.slots }()
	case <-ctx.Done():
		return call.Sampled{}, context.Cause(ctx)
	}
	stream, err := m.planner.Generate(identity.OnBehalfOf(ctx, user), request(policy, s))
	if err != nil {
		return call.Sampled{}, ended(ctx, err)
	}
	text, end, err := collect(stream)
	if err != nil {
		return call.Sampled{}, ended(ctx, err)
	}
	got := call.Sampled{
		Sampled: mcp.Sampled{Text: text, Model: end.GetProviderModel(), Stop: stops[end.GetStopReason()]}, Name: end.GetModel(),
		InputTokens: end.GetUsage().GetInputTokens(), OutputTokens: end.GetUsage().GetOutputTokens(),
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

// Names lists the models that can be asked; it implements checkup.Models.
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

// stops are the reasons to stop as MCP has them, which leaves their words open.
var stops = map[plannerv1.StopReason]string{
	plannerv1.StopReason_STOP_REASON_END: "endTurn", plannerv1.StopReason_STOP_REASON_MAX_TOKENS: "maxTokens",
	plannerv1.StopReason_STOP_REASON_STOP_SEQUENCE: "stopSequence", plannerv1.StopReason_STOP_REASON_REFUSED: "refusal",
	plannerv1.StopReason_STOP_REASON_UNSPECIFIED: "endTurn",
}

// ended is why a request failed: its own end, where that came first.
func ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return errs.From(err)
}

// errTooMuch is an answer without end.
var errTooMuch = errors.New("the model's answer is too long")

// collect reads an answer to its end.
func collect(stream interface {
	Recv() (*plannerv1.GenerateResponse, error)
}) (string, *plannerv1.GenerateEnd, error) {
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
			return "", nil, errTooMuch
		}
		if e := got.GetEnd(); e != nil {
			end = e
		}
		text.WriteString(got.GetText())
	}
}

// request is what the planner is asked. Where the operator names a model, the server's hints do not count.
func request(policy *registry.Sampling, s mcp.Sample) *plannerv1.GenerateRequest {
	tokens := policy.Tokens()
	if s.MaxTokens > 0 {
		tokens = min(tokens, s.MaxTokens)
	}
	r := &plannerv1.GenerateRequest{
		Model: policy.Model, System: s.System, MaxOutputTokens: uint32(tokens), Temperature: s.Temperature, StopSequences: s.Stop,
		Messages: make([]*plannerv1.ModelMessage, 0, len(s.Messages)),
	}
	if policy.Model == "" {
		r.ModelHints = s.Hints
	}
	for _, m := range s.Messages {
		message := &plannerv1.ModelMessage{Role: plannerv1.ModelRole_MODEL_ROLE_USER}
		if m.Assistant {
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
