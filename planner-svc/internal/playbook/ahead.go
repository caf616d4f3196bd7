package playbook

import (
	"strconv"

	"google.golang.org/protobuf/proto"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/plan"
)

// How much one answer plans, the next step included.
const (
	mostSteps = 64
	mostBytes = 256 << 10
)

// steps returns the next step, and the steps behind it that are what would be planned then, as long as every step succeeds. The
// list ends behind a step of which something is expected, since that is checked here, on what came out; before a step whose `if` or
// `foreach` reads a step that has not ended; and before a step about which something is not certain yet: its tool is not there, a
// value is missing, or its risk depends on a value.
func (r *run) steps() ([]*plannerv1.PlannedStep, error) {
	if err := r.replay(); err != nil {
		return nil, err
	}
	if err := r.whole(); err != nil {
		return nil, err
	}
	p := r.at
	step, err := r.propose(p)
	if err != nil {
		return nil, err
	}
	var steps []*plannerv1.PlannedStep
	ordinal, known := plan.NextOrdinal(r.tc.GetHistory())
	for size := 0; step != nil; {
		if size += proto.Size(step); len(steps) > 0 && size > mostBytes {
			break
		}
		steps = append(steps, step)
		if p.step == len(r.Steps) || len(steps) == mostSteps || len(r.Steps[p.step].Expect) > 0 {
			break
		}
		if known && r.Steps[p.step].Foreach == nil {
			r.states[p.step].ahead = plan.StepPrefix + strconv.FormatUint(ordinal+uint64(len(steps))-1, 10)
		}
		p, step = r.further(p)
	}
	return steps, nil
}

// further returns the call behind another one and its step; nil if that is not certain yet. What is wrong with it is told when it is due.
func (r *run) further(p place) (place, *plannerv1.PlannedStep) {
	next, err := r.after(p)
	if err != nil {
		return p, nil
	}
	step, err := r.propose(next)
	if err != nil {
		return p, nil
	}
	return next, step
}
