package reason

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/schema"

	"pawl.dev/planner-svc/internal/model"
	"pawl.dev/planner-svc/internal/prompt"
)

// tries is how often a structured answer is asked for before the model is given up (A18, JSON_GEN_MAX_TRIAL).
const tries = 3

// maxAnswer bounds what is taken of one answer, in bytes.
const maxAnswer = 4 << 20

// Reasoner asks models. It may be used by several goroutines.
type Reasoner struct {
	models  *Models
	prompts *prompt.Renderer
	schemas map[model.Purpose]*schema.Schema
	log     *slog.Logger
}

// New makes a reasoner over these models.
func New(models *Models, prompts *prompt.Renderer, log *slog.Logger) (*Reasoner, error) {
	r := &Reasoner{models: models, prompts: prompts, schemas: map[model.Purpose]*schema.Schema{}, log: log}
	for purpose, raw := range schemas {
		compiled, err := schema.Compile(raw)
		if err != nil {
			return nil, fmt.Errorf("the schema of %s answers: %w", purpose, err)
		}
		r.schemas[purpose] = compiled
	}
	return r, nil
}

// Models returns the models that can plan.
func (r *Reasoner) Models() *Models { return r.models }

// structured asks for an answer of the purpose's schema and decodes it. check finds what a schema cannot, such as unknown
// tools; it may be nil. A wrong answer is sent back with what is wrong, three tries in all; then it is MODEL_ERROR, and
// never an empty answer (A18). Tries end earlier where the task may make no more model calls.
func structured[T any](ctx context.Context, r *Reasoner, purpose model.Purpose, f model.Facts, check func(*T) error) (*T, model.Usage, error) {
	m, err := r.models.choose(f.Context)
	if err != nil {
		return nil, model.Usage{}, err
	}
	var usage model.Usage
	var corrections []model.Correction
	for {
		if err := allow(m, &f, usage, corrections); err != nil {
			return nil, usage, err
		}
		text, u, err := r.collect(ctx, m, r.request(purpose, f, corrections))
		usage = usage.Add(u)
		if err != nil {
			return nil, usage, failed(ctx, m, usage, err)
		}
		answer, err := decode(r.schemas[purpose], text, check)
		if err == nil {
			return answer, usage, nil
		}
		corrections = append(corrections, model.Correction{Answer: text, Problem: err.Error()})
		r.log.WarnContext(ctx, "a model's answer cannot be used", "task_id", f.Context.GetTaskId(), "model", m.Info().Name,
			"purpose", string(purpose), "try", len(corrections), "problem", err.Error())
		if len(corrections) == tries || m.Info().Deterministic {
			return nil, usage, spent(usage, errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR,
				"the model %q gave no usable answer in %d tries (%s); the last one was wrong: %w. Try again, or choose another model",
				m.Info().Name, len(corrections), purpose, err))
		}
	}
}

// compute asks a model that answers in values. computed is false where the task's model is none.
func compute[T any](ctx context.Context, r *Reasoner, f *model.Facts, ask func(model.Computing, *model.Facts) (T, error)) (answer T, computed bool, err error) {
	m, err := r.models.choose(f.Context)
	if err != nil {
		return answer, false, err
	}
	c, ok := m.(model.Computing)
	if !ok {
		return answer, false, nil
	}
	if answer, err = ask(c, f); err != nil {
		return answer, true, failed(ctx, m, model.Usage{}, err)
	}
	return answer, true, nil
}

func (r *Reasoner) request(purpose model.Purpose, f model.Facts, corrections []model.Correction) *model.Request {
	return &model.Request{
		Purpose: purpose, Facts: f, Schema: schemas[purpose], Corrections: corrections,
		Prompt: sync.OnceValues(func() (model.Prompt, error) { return r.prompts.Render(purpose, f, corrections) }),
	}
}

// errTooLong ends an answer without end.
var errTooLong = errors.New("the answer is too long")

func (r *Reasoner) collect(ctx context.Context, m model.Model, req *model.Request) (string, model.Usage, error) {
	var b strings.Builder
	usage, err := m.Generate(ctx, req, func(piece string) error {
		if b.Len()+len(piece) > maxAnswer {
			return errTooLong
		}
		b.WriteString(piece)
		return nil
	})
	return b.String(), usage, err
}

// failed names the reason of an error of a model's call. Errors that know their reason keep it.
func failed(ctx context.Context, m model.Model, usage model.Usage, err error) error {
	var typed *errs.Error
	switch {
	case errors.As(err, &typed):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return spent(usage, errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "the model %q failed: %w", m.Info().Name, err))
}

func decode[T any](s *schema.Schema, text string, check func(*T) error) (*T, error) {
	text = unfenced(text)
	if err := s.Validate(text); err != nil {
		return nil, err
	}
	var answer T
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return nil, err
	}
	if check != nil {
		if err := check(&answer); err != nil {
			return nil, err
		}
	}
	return &answer, nil
}

// unfenced takes JSON out of the code block that models like to put around it.
func unfenced(text string) string {
	text = strings.TrimSpace(text)
	inner, ok := strings.CutPrefix(text, "```")
	if !ok {
		return text
	}
	if inner, ok = strings.CutSuffix(inner, "```"); !ok {
		return text
	}
	if language, rest, ok := strings.Cut(inner, "\n"); ok && !strings.ContainsAny(language, "{[") {
		inner = rest
	}
	return strings.TrimSpace(inner)
}
