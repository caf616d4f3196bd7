package reason

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/model"
	"pawl.dev/planner-svc/internal/offline"
	"pawl.dev/planner-svc/internal/playbook"
	"pawl.dev/planner-svc/internal/prompt"
)

// scripted is a language model that says what it was told to, one answer per call, in two pieces.
type scripted struct {
	answers  []string
	fail     error
	requests []*model.Request
}

func (s *scripted) Info() model.Info { return model.Info{Name: "scripted", Description: "a script"} }

func (s *scripted) Generate(_ context.Context, req *model.Request, emit func(string) error) (model.Usage, error) {
	s.requests = append(s.requests, req)
	usage := model.Usage{InputTokens: 100, OutputTokens: 10, Calls: 1}
	if s.fail != nil {
		return usage, s.fail
	}
	if len(s.answers) == 0 {
		return usage, errors.New("the script has ended")
	}
	answer := s.answers[0]
	s.answers = s.answers[1:]
	half := len(answer) / 2
	for _, piece := range []string{answer[:half], answer[half:]} {
		if err := emit(piece); err != nil {
			return usage, err
		}
	}
	return usage, nil
}

func reasoner(t testing.TB, m model.Model) *Reasoner {
	t.Helper()
	plain := offline.New()
	models, err := NewModels(m.Info().Name, plain, playbook.New(plain), m)
	if err != nil {
		t.Fatal(err)
	}
	prompts, err := prompt.New()
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(models, prompts, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func task() *plannerv1.TaskContext {
	return &plannerv1.TaskContext{TaskId: "t", Goal: "count the Go files", Tools: []*commonv1.Tool{
		{Id: "ws/find", McpId: "ws", Name: "find", Effect: commonv1.Effect_EFFECT_READ,
			InputSchemaJson: `{"type":"object","properties":{"pattern":{"type":"string"},"depth":{"type":"integer"}},"required":["pattern"],"additionalProperties":false}`},
		{Id: "ws/drop", McpId: "ws", Name: "drop", Effect: commonv1.Effect_EFFECT_DESTRUCTIVE, InputSchemaJson: `{"type":"object"}`},
	}}
}
