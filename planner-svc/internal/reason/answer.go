package reason

import (
	"context"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/model"
)

// Answer streams the answer (A22). It is not tried again here: what was emitted has been read.
func (r *Reasoner) Answer(ctx context.Context, req *plannerv1.GenerateAnswerRequest, emit func(string) error) (model.Usage, error) {
	m, err := r.models.choose(req.GetContext())
	if err != nil {
		return model.Usage{}, err
	}
	facts := model.Facts{Context: req.GetContext(), CutShort: req.GetCutShort()}
	if err := allow(m, &facts, model.Usage{}, nil); err != nil {
		return model.Usage{}, err
	}
	var sent error
	usage, err := m.Generate(ctx, r.request(model.Answer, facts, nil), func(piece string) error {
		sent = emit(piece)
		return sent
	})
	if sent != nil {
		return usage, sent
	}
	if err != nil {
		return usage, failed(ctx, m, usage, err)
	}
	return usage, nil
}
