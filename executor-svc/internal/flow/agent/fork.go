package agent

import (
	"bytes"
	"fmt"
	"slices"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// StepEnd is the end of a step.
type StepEnd struct {
	Seq uint64
	// Failed: it ended with an error that no person accepted.
	Failed bool
}

// StepEnds returns the ends of steps, oldest first: a task can be forked there. Cancelled steps are left out, so that a fork repeats
// them. The records start with the task's first.
func StepEnds(records []*storagev1.Record) []StepEnd {
	var ends []StepEnd
	last, open := StepEnd{}, uint32(0) // the newest end of an attempt, and its step
	seq := uint64(0)
	for _, r := range records {
		for _, f := range r.GetFacts() {
			seq++
			if f.GetOrdinal() == 0 {
				continue
			}
			if f.GetOrdinal() != open && last.Seq != 0 {
				ends, last = append(ends, last), StepEnd{}
			}
			open = f.GetOrdinal()
			switch f.GetKind().(type) {
			case *storagev1.Fact_StepOutput, *storagev1.Fact_StepError:
				last = StepEnd{Seq: seq, Failed: f.GetStepError() != nil && !history.Skipped(f)}
			case *storagev1.Fact_ToolProgress:
			default:
				last = StepEnd{} // the step continued
			}
		}
	}
	if last.Seq != 0 {
		ends = append(ends, last)
	}
	return ends
}

// Fork returns the checkpoint of a task that continues after the first seq facts of another one, and the fact that records the fork. kept holds
// the records of those facts, all holds the records of the whole task. Grants and waits are dropped. Unknown outcomes stay unknown, also those
// after the fork, because those calls may have had their effect. If the flow's start is not kept, the task starts again.
func Fork(from string, all, kept []*storagev1.Record, seq uint64) (*storagev1.Checkpoint, *storagev1.Fact) {
	f := &forked{c: &storagev1.Checkpoint{Rev: 1, Status: taskRunning, Phase: storagev1.Phase_PHASE_PLAN, LastSeq: seq + 1}}
	var log history.Log
	for _, r := range kept {
		log.Add(r)
		for _, fact := range r.GetFacts() {
			// Numbers continue: none is used twice in a log.
			f.c.WaitCount = max(f.c.GetWaitCount(), flow.WaitNumber(fact.GetWaitId()))
			f.c.AnswerCount = max(f.c.GetAnswerCount(), fact.GetTextAdd().GetAnswer())
		}
		if r.GetUsage() != nil {
			f.c.Usage = r.GetUsage()
		}
	}
	for _, e := range log.Entries {
		f.c.StepCount = max(f.c.GetStepCount(), e.Ordinal)
	}
	f.c.ErrorCount = countFailed(&log)
	f.kept = seq
	for _, r := range all {
		f.log.Add(r)
		for _, fact := range r.GetFacts() {
			f.seq++
			f.fact(fact)
		}
	}
	for _, e := range f.log.Entries {
		if e.Status == executorv1.StepStatus_STEP_STATUS_RUNNING || e.Asking() { // it runs, and may have its effect
			f.add(flow.ToolInputHash(e.ToolID, e.InputJSON))
		}
	}
	if f.c.GetFlowStartSeq() == 0 {
		f.c.Status, f.c.Phase = executorv1.ExecutorStatus_EXECUTOR_STATUS_INIT, storagev1.Phase_PHASE_BEGIN
	}
	said := &storagev1.Fact{Status: f.c.GetStatus(), Kind: &storagev1.Fact_StatusChanged{StatusChanged: &storagev1.StatusChanged{
		Reason: fmt.Sprintf("forked from %s at %d", from, seq),
	}}}
	return f.c, said
}

// CountFailedSteps counts the failed steps in a task's first records.
func CountFailedSteps(records []*storagev1.Record) uint32 {
	var log history.Log
	for _, r := range records {
		log.Add(r)
	}
	return countFailed(&log)
}

func countFailed(log *history.Log) (n uint32) {
	for _, e := range log.Entries {
		if e.Status == executorv1.StepStatus_STEP_STATUS_ERROR && !e.Skipped {
			n++
		}
	}
	return n
}

// forked collects a fork's checkpoint from the facts of the forked task.
type forked struct {
	c   *storagev1.Checkpoint
	log history.Log
	seq uint64
	// kept is the number of facts that the fork keeps.
	kept uint64
}

func (f *forked) fact(fact *storagev1.Fact) {
	switch k := fact.GetKind().(type) {
	case *storagev1.Fact_FlowStart:
		if f.seq <= f.kept {
			f.c.FlowStartSeq, f.c.Name, f.c.Risk = f.seq, k.FlowStart.GetName(), k.FlowStart.GetRisk()
		}
	case *storagev1.Fact_StepWaitingForStart:
		if k.StepWaitingForStart.GetOutcomeUnknown() != nil {
			f.unknown(fact)
		}
	case *storagev1.Fact_StepError:
		if k.StepError.GetOutcome() == commonv1.Outcome_OUTCOME_UNKNOWN {
			f.unknown(fact)
		}
	case *storagev1.Fact_StepCancel:
		if k.StepCancel.GetOutcome() == commonv1.Outcome_OUTCOME_UNKNOWN {
			f.unknown(fact)
		}
	case *storagev1.Fact_StepOutput:
		if fact.GetWaitId() != "" { // supplied by a person
			hash := f.hash(fact)
			f.c.UnknownCalls = slices.DeleteFunc(f.c.GetUnknownCalls(), func(h []byte) bool { return bytes.Equal(h, hash) })
		}
	}
}

func (f *forked) unknown(fact *storagev1.Fact) { f.add(f.hash(fact)) }

func (f *forked) add(hash []byte) {
	if !slices.ContainsFunc(f.c.GetUnknownCalls(), func(h []byte) bool { return bytes.Equal(h, hash) }) {
		f.c.UnknownCalls = append(f.c.UnknownCalls, hash)
	}
}

// hash returns the hash of the newest input of a fact's step.
func (f *forked) hash(fact *storagev1.Fact) []byte {
	for _, e := range f.log.Entries {
		if e.Ordinal == fact.GetOrdinal() {
			return flow.ToolInputHash(e.ToolID, e.InputJSON)
		}
	}
	return nil
}
