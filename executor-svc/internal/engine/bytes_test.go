package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/executor-svc/internal/fake"
	"pawl.dev/executor-svc/internal/journal"
)

// written is what a task commits while it makes a range of its steps.
type written struct {
	steps      uint32
	checkpoint int // bytes of the largest checkpoint
	records    int // bytes of all records
}

func (w *written) perStep() int { return w.records / int(max(w.steps, 1)) }

// What a task commits does not grow with the number of its steps, whether it has one lane, 32 lanes, or a plan of 200 subtasks.
func TestBytesPerStepAreConstant(t *testing.T) {
	script := func(n int) *fake.Planner {
		p := fake.Script(strings.Fields(strings.Repeat("read ", n))...)
		p.Ahead = true
		return p
	}
	plan := fake.Script("read", "read", "read")
	for i := range 200 {
		plan.Subtasks = append(plan.Subtasks, subtasks(fmt.Sprintf("make-the-tests-pass-%03d", i))...)
	}
	for name, c := range map[string]struct {
		planner *fake.Planner
		coding  bool
		steps   uint32
	}{
		"one line":      {script(1000), false, 1000},
		"32 branches":   {inBranches(script(15), 32), false, 480},
		"a plan of 200": {plan, true, 600},
	} {
		t.Run(name, func(t *testing.T) {
			const width = 60 // steps of a range
			r := newRig(t, c.planner)
			var mu sync.Mutex
			ranges := map[uint32]*written{}
			last := uint32(0)
			r.j.onCommit = func(tr journal.Transition, do func() error) error {
				mu.Lock()
				defer mu.Unlock()
				w := ranges[tr.Checkpoint.GetStepCount()/width]
				if w == nil {
					w = &written{}
					ranges[tr.Checkpoint.GetStepCount()/width] = w
				}
				w.checkpoint = max(w.checkpoint, proto.Size(tr.Checkpoint))
				w.records += proto.Size(tr.Record)
				w.steps += tr.Checkpoint.GetStepCount() - last
				last = tr.Checkpoint.GetStepCount()
				return do()
			}
			r.start()
			n := newTask(never)
			if c.coding {
				n = newCodingTask(never)
				n.Head.PlanOptions.MaxSubtasks = uint32(len(plan.Subtasks))
			}
			n.Head.Limits.MaxSteps = 2000
			id := r.createAs(n)
			if s := r.finish(id); s != success || last != c.steps {
				t.Fatalf("%s after %d steps, want %d", s, last, c.steps)
			}
			info, err := r.j.Info(t.Context())
			if err != nil || info.GetPayloads() > 2 {
				t.Errorf("%v; %d large values are stored beside the commits, want at most the plan and the answer", err, info.GetPayloads())
			}
			early := ranges[1]                           // the beginning of the task is in the range before
			for i := uint32(2); i < c.steps/width; i++ { // so is its end in the last one
				w := ranges[i]
				t.Logf("steps from %d: records of %d bytes per step, checkpoints up to %d bytes", i*width, w.perStep(), w.checkpoint)
				// A number may take a byte or two more, and a range may hold a little more of the work between steps than another.
				if w.checkpoint > early.checkpoint+early.checkpoint/20+32 || w.perStep() > early.perStep()+early.perStep()/8+32 {
					t.Errorf("steps from %d: %d bytes per step beside checkpoints of %d; steps from %d: %d beside %d",
						i*width, w.perStep(), w.checkpoint, width, early.perStep(), early.checkpoint)
				}
			}
		})
	}
}

// inBranches makes a planner follow its script in each of n branches.
func inBranches(p *fake.Planner, n int) *fake.Planner {
	var branches []string
	for i := range n {
		branches = append(branches, fmt.Sprintf("p1.%d", i+1))
	}
	steps := append(p.Steps, &plannerv1.PlannedStep{ToolId: "FINAL"})
	p.PlanFn = func(_ context.Context, c *plannerv1.TaskContext) (*plannerv1.PlanStepsResponse, error) {
		switch {
		case c.GetBranch() != "":
			return &plannerv1.PlanStepsResponse{Steps: steps}, nil
		case len(c.GetHistory()) == 0:
			return &plannerv1.PlanStepsResponse{Branches: branches}, nil
		}
		return &plannerv1.PlanStepsResponse{Steps: steps[len(steps)-1:]}, nil
	}
	return p
}
