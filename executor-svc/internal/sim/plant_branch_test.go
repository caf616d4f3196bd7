//go:build !race

package sim

import (
	"slices"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// branching gives every task branches.
func branching(c *config) { c.branches = 1 }

// recordElsewhere records an outcome as that of a call in another branch.
func recordElsewhere(f flow.Flow, t *flow.Task, lane uint32, in flow.Input) (flow.Transition, error) {
	c, ended := in.(flow.Called)
	for _, l := range t.State.GetLanes() {
		s := l.GetStep()
		if ended && l.GetId() != lane && l.GetPhase() == storagev1.Phase_PHASE_CALL && s.GetStatus() == executorv1.StepStatus_STEP_STATUS_RUNNING {
			c.Ordinal, c.Attempt, c.Round = s.GetOrdinal(), s.GetAttempt(), s.GetRound()
			return f.Apply(t, l.GetId(), c)
		}
	}
	return f.Apply(t, lane, in)
}

// stopEarly stops the task with each question.
func stopEarly(f flow.Flow, t *flow.Task, lane uint32, in flow.Input) (flow.Transition, error) {
	before := t.State.GetWaitCount()
	tr, err := f.Apply(t, lane, in)
	if err != nil || t.State.GetWaitCount() == before || t.State.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING {
		return tr, err
	}
	t.State.Status = waiting
	var ids []string
	for _, w := range t.State.GetWaits() {
		ids = append(ids, w.GetId())
	}
	tr.Facts = append(tr.Facts, &storagev1.Fact{Status: waiting, Kind: &storagev1.Fact_FlowStop{FlowStop: &storagev1.FlowStop{WaitIds: ids}}})
	return tr, nil
}

// answerOther exchanges the branches of two waits when one is answered.
func answerOther(f flow.Flow, t *flow.Task, lane uint32, in flow.Input) (flow.Transition, error) {
	waits := t.State.GetWaits()
	c, _ := in.(flow.Command)
	i := slices.IndexFunc(waits, func(w *storagev1.Wait) bool { return w.GetId() == c.Command.GetApprove().GetWaitId() })
	if i >= 0 {
		for _, other := range waits {
			if w := waits[i]; other != w && other.GetKind() == w.GetKind() {
				w.Lane, other.Lane = other.GetLane(), w.GetLane()
				w.Ordinal, other.Ordinal = other.GetOrdinal(), w.GetOrdinal()
				break
			}
		}
	}
	return f.Apply(t, lane, in)
}

// continueEarly goes on with the main line while the last branch makes a call.
func continueEarly(f flow.Flow, t *flow.Task, lane uint32, in flow.Input) (flow.Transition, error) {
	tr, err := f.Apply(t, lane, in)
	lanes := t.State.GetLanes()
	if err != nil || len(lanes) != 2 || lanes[0].GetPhase() != storagev1.Phase_PHASE_IDLE || lanes[1].GetPhase() != storagev1.Phase_PHASE_CALL {
		return tr, err
	}
	s := lanes[1].GetStep()
	lanes[0].Phase = storagev1.Phase_PHASE_PLAN
	t.State.LastSeq += uint64(len(tr.Facts))
	more, err := f.Apply(t, 0, flow.Planned{Step: &flow.PlannedStep{
		ToolID: toolRead, Description: low.String(), InputJSON: `{"text":"early"}`, Risk: &storagev1.RiskNote{Level: low},
		Tool: flow.Tool{
			Effect: commonv1.Effect_EFFECT_READ, RiskFloor: low, DefinitionHash: "hash-read", ConfigRevision: s.GetConfigRevision(), PoolID: s.GetPoolId(),
		},
	}})
	t.State.LastSeq -= uint64(len(tr.Facts))
	tr.Facts, tr.Actions = append(tr.Facts, more.Facts...), append(tr.Actions, more.Actions...)
	tr.Unchanged = tr.Unchanged && more.Unchanged
	return tr, err
}
