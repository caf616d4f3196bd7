package call

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

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
)

const (
	// maxRequests bounds the requests to the planner at once, and maxRequestsPerUser those for one user, so that slow models of one
	// user do not block all others.
	maxRequests, maxRequestsPerUser = 64, 8
	// maxRequestTime bounds one request, the wait for a slot included.
	maxRequestTime = 10 * time.Minute
	// maxText bounds the answer of a model.
	maxText = 4 << 20
)

// Models are the language models that servers may ask (sampling). They are asked through the planner.
type Models struct {
	planner plannerv1.PlannerServiceClient
	slots   chan struct{}

	mu    sync.Mutex
	users map[string]int // guarded by mu; requests by user, those that wait for a slot included
}

// NewModels returns the models of a planner.
func NewModels(planner plannerv1.PlannerServiceClient) *Models {
	return &Models{planner: planner, slots: make(chan struct{}, maxRequests), users: make(map[string]int)}
}

// begin counts a request of a user until end, or refuses it if the user has too many.
func (m *Models) begin(user string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.users[user] >= maxRequestsPerUser {
		return errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
			"MCP servers are asking models %d times at once for you, which is the limit; try again when one has answered", maxRequestsPerUser)
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

// sample asks a model for a user, within what the operator allows. The error is an *errs.Error, or the end of ctx; the usage is right in any case.
func (m *Models) sample(ctx context.Context, user string, policy *registry.Sampling, s mcp.Sample) (sampled, error) {
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
	stream, err := m.planner.Generate(identity.OnBehalfOf(ctx, user), request(policy, s))
	if err != nil {
		return sampled{}, ended(ctx, err)
	}
	text, end, err := collect(stream)
	if err != nil {
		return sampled{}, ended(ctx, err)
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

// Names lists the models that can be asked for a user.
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

// stops are the reasons to stop in the words of MCP, which leaves them open.
var stops = map[plannerv1.StopReason]string{
	plannerv1.StopReason_STOP_REASON_END: "endTurn", plannerv1.StopReason_STOP_REASON_MAX_TOKENS: "maxTokens",
	plannerv1.StopReason_STOP_REASON_STOP_SEQUENCE: "stopSequence", plannerv1.StopReason_STOP_REASON_REFUSED: "refusal",
	plannerv1.StopReason_STOP_REASON_UNSPECIFIED: "endTurn",
}

// ended returns why a request failed: the end of ctx if that came first.
func ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return errs.From(err)
}

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

// request returns the request to the planner. If the operator names a model, the server's hints do not count.
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
