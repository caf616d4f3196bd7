package agent

import (
	"fmt"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/flow/step"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// begun records the tools and the task's name and risk, and continues with the first plan.
func begun(l step.Lane, in flow.Begun) {
	l.Started(in.Tools, in.Name, in.Risk)
	planned(l, in.Plan)
}

// planned starts the step that the planner proposed, the branches, or the answer.
func planned(l step.Lane, in flow.Planned) {
	if in.Answering {
		l.OpenAnswer()
	}
	if in.Memory != nil {
		l.Checkpoint.Memory = in.Memory
	}
	if in.Answering && in.Answer == nil {
		l.State.Phase = phasePlan // if the process crashes in the middle of the text, the planner is asked again
		return
	}
	limits := l.Task.Head.GetLimits()
	switch {
	case in.Err != nil:
		l.FailTask(in.Err)
	case in.Answer != nil:
		l.Answered(*in.Answer)
	case len(in.Branches) > 0:
		branch(l, in.Branches)
	case in.Step == nil && l.State.GetId() != 0:
		endBranch(l, in.CutShort)
	case in.Step == nil:
		l.BeginAnswer(in.CutShort)
	case l.Checkpoint.GetStepCount() >= limits.GetMaxSteps() && l.State.GetId() != 0:
		endBranch(l, stepLimit(limits))
	case l.Checkpoint.GetStepCount() >= limits.GetMaxSteps():
		l.BeginAnswer(stepLimit(limits))
	default:
		if in.Step.Retry && l.Checkpoint.GetErrorCount() > 0 {
			l.Checkpoint.ErrorCount-- // the repeated step does not count as failed
		}
		l.Begin(step.NewStep(in.Step), in.Step.Problem)
	}
}

func stepLimit(l *storagev1.Limits) string {
	return fmt.Sprintf("The limit of %d steps was reached.", l.GetMaxSteps())
}

// branch opens a lane for each branch; the lane that branches waits for them.
func branch(l step.Lane, ids []string) {
	l.State.Phase = phaseIdle
	for _, id := range ids {
		l.OpenLane(id).Ask(phasePlan, flow.Plan{})
	}
}

// endBranch ends a branch. After the last one the task's main line continues, or answers if a branch was cut short.
func endBranch(l step.Lane, cutShort string) {
	if cutShort != "" {
		l.Checkpoint.CutShort = cutShort
	}
	l.Close()
	lanes := l.Lanes()
	switch main := lanes[0]; {
	case len(lanes) > 1:
	case l.Checkpoint.GetCutShort() != "":
		main.BeginAnswer(l.Checkpoint.GetCutShort())
	default:
		main.Ask(phasePlan, flow.Plan{})
	}
}
