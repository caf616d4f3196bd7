package reason

import (
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"

	"pawl.dev/planner-svc/internal/model"
)

// allow refuses a call of a model that the task may not make any more, after what the same question has cost already. Models that
// compute are no calls.
func allow(m model.Model, f *model.Facts, made model.Usage, wrong []model.Correction) error {
	if most := f.Calls(); most == nil || made.Calls < *most || m.Info().Deterministic {
		return nil
	}
	if len(wrong) == 0 {
		return errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED,
			"the task may make no more model calls, and the model %q was not asked; raise the budget, or end the task", m.Info().Name)
	}
	return spent(made, errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED,
		"the task may make no more model calls, and the last answer of the model %q (try %d) was wrong: %s. Raise the budget, or choose another model",
		m.Info().Name, len(wrong), wrong[len(wrong)-1].Problem))
}

// spent says in an error what was spent before it: there is no response to say it.
func spent(u model.Usage, e *errs.Error) error {
	if u.Calls == 0 {
		return e
	}
	return e.WithUsage(u.Proto())
}

// shares divides the model calls that are left between a plan, a name and a risk that are asked for at once: one each for the
// plan, the name and the risk, in this order, and all others for the plan's corrections. Nil is any number.
func shares(left *uint32) (plan, name, risk *uint32) {
	if left == nil {
		return nil, nil, nil
	}
	var p, n, k uint32
	rest := *left
	for _, share := range []*uint32{&p, &n, &k} {
		if rest > 0 {
			*share, rest = 1, rest-1
		}
	}
	p += rest
	return &p, &n, &k
}
