package reason

import (
	"context"
	"sync"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/model"
)

// Beginning is what a task begins with.
type Beginning struct {
	Steps []*plannerv1.PlannedStep
	Name  string         // "" where the model did not find one
	Risk  *commonv1.Risk // nil where the model did not assess it
	Usage model.Usage
}

// Begin plans the first steps, names the flow and assesses its risk (A3). Models that cost something are asked the three at once.
// The plan alone has to succeed: what becomes of the others is logged.
func (r *Reasoner) Begin(ctx context.Context, tc *plannerv1.TaskContext) (*Beginning, error) {
	m, err := r.models.choose(tc)
	if err != nil {
		return nil, err
	}
	facts := model.Facts{Context: tc}
	plan, name, risk := shares(facts.Calls())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var b Beginning
	var planned, named, assessed model.Usage
	asks := []func(){
		func() {
			if b.Steps, planned, err = r.planSteps(ctx, model.Facts{Context: tc, MostCalls: plan}); err != nil {
				cancel() // the others are of no use
			}
		},
		func() {
			var problem error
			b.Name, named, problem = r.flowName(ctx, model.Facts{Context: tc, MostCalls: name})
			r.note(ctx, tc, "the flow has no name", problem)
		},
		func() {
			var problem error
			b.Risk, assessed, problem = r.flowRisk(ctx, model.Facts{Context: tc, MostCalls: risk})
			r.note(ctx, tc, "the flow's risk is not known", problem)
		},
	}
	each(asks, !m.Info().Deterministic)
	if err != nil {
		return nil, err
	}
	b.Usage = planned.Add(named).Add(assessed)
	return &b, nil
}

// each calls the functions, one after the other or at once, and waits for all.
func each(do []func(), atOnce bool) {
	if !atOnce {
		for _, f := range do {
			f()
		}
		return
	}
	var all sync.WaitGroup
	for _, f := range do {
		all.Go(f)
	}
	all.Wait()
}

func (r *Reasoner) note(ctx context.Context, tc *plannerv1.TaskContext, what string, err error) {
	if err != nil && ctx.Err() == nil {
		r.log.WarnContext(ctx, what, "task_id", tc.GetTaskId(), "error", err.Error())
	}
}
