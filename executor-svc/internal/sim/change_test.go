package sim

import (
	"fmt"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// decidedOn is a tool or an input with the revision of the server's configuration that a person was shown with it.
type decidedOn struct {
	what     string
	revision uint64
}

// change lets an operator change the server: calls that were decided on before are refused.
func (w *world) change() {
	w.s.note(fmt.Sprintf("the server has revision %d", w.revision.Add(1)), 0)
}

// show writes down, by wait, the revision of the server's configuration that a checkpoint's waits show.
func (k *taskBook) show(c *storagev1.Checkpoint) {
	for _, wait := range c.GetWaits() {
		for _, s := range activeSteps(c) {
			if s.GetOrdinal() == wait.GetOrdinal() {
				k.revisions[wait.GetId()] = s.GetConfigRevision()
			}
		}
	}
}

// activeSteps returns the steps that have not ended.
func activeSteps(c *storagev1.Checkpoint) (all []*storagev1.ActiveStep) {
	for _, l := range c.GetLanes() {
		if s := l.GetStep(); s != nil {
			all = append(all, s)
		}
	}
	return all
}

// keepApproval treats a changed server as the one that was approved.
func keepApproval(f flow.Flow, t *flow.Task, lane uint32, in flow.Input) (flow.Transition, error) {
	if l, ok := in.(flow.ToolRefreshed); ok && l.Tool != nil {
		flow.ActiveStep(t.State, l.Ordinal).ConfigRevision = l.Tool.ConfigRevision
	}
	return f.Apply(t, lane, in)
}
