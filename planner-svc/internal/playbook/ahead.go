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
	var steps []*plannerv1.PlannedStep
	ordinal, known := plan.NextOrdinal(r.tc.GetHistory())
	for p, size := r.at, 0; len(steps) < mostSteps; {
		step, err := r.propose(p)
		if err != nil && len(steps) == 0 {
			return nil, err
		}
		if size += proto.Size(step); err != nil || len(steps) > 0 && size > mostBytes {
			break
		}
		steps = append(steps, step)
		if p.step == len(r.Steps) || len(r.Steps[p.step].Expect) > 0 {
			break
		}
		if known && r.Steps[p.step].Foreach == nil {
			r.states[p.step].ahead = plan.StepPrefix + strconv.FormatUint(ordinal+uint64(len(steps))-1, 10)
		}
		if p, err = r.after(p); err != nil {
			break
		}
	}
	return steps, nil //nolint:nilerr // what is wrong with a later step is told when it is due
}
