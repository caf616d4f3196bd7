package step

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// End is the end of a step.
type End struct {
	Seq uint64
	// Failed reports that the step ended with an error and was not skipped by a person.
	Failed bool
}

// Ends returns the ends of steps, oldest first, at which a task can be forked. It leaves out cancelled steps, so that a fork repeats
// them. records start with the task's first record.
func Ends(records []*storagev1.Record) []End {
	last := map[uint32]End{} // each step's end, by its ordinal; absent while the step continues
	seq := uint64(0)
	for _, r := range records {
		for _, f := range r.GetFacts() {
			seq++
			switch f.GetKind().(type) {
			case *storagev1.Fact_StepOutput, *storagev1.Fact_StepError:
				last[f.GetOrdinal()] = End{Seq: seq, Failed: f.GetStepError() != nil && !history.Skipped(f)}
			case *storagev1.Fact_ToolProgress:
			default:
				delete(last, f.GetOrdinal()) // the step continues
			}
		}
	}
	return slices.SortedFunc(maps.Values(last), func(a, b End) int { return cmp.Compare(a.Seq, b.Seq) })
}

// Fork returns the checkpoint of a fork, without lanes, and the fact that records the fork. The fork has no grants and no waits. It keeps all
// calls with an unknown outcome, because they may have had their effect. If FlowStart is not kept, the fork is in INIT: it starts from the
// beginning.
func Fork(in flow.Fork) (*storagev1.Checkpoint, *storagev1.Fact) {
	f := &forkBuilder{checkpoint: &storagev1.Checkpoint{Rev: 1, Status: taskRunning, LastSeq: in.Seq + 1}}
	var log history.Log
	for _, r := range in.Kept {
		log.Add(r)
		for _, fact := range r.GetFacts() {
			// Numbers continue, so that none is used twice in a log.
			f.checkpoint.WaitCount = max(f.checkpoint.GetWaitCount(), flow.WaitNumber(fact.GetWaitId()))
			f.checkpoint.AnswerCount = max(f.checkpoint.GetAnswerCount(), fact.GetTextAdd().GetAnswer())
		}
		if r.GetUsage() != nil {
			f.checkpoint.Usage = r.GetUsage()
		}
	}
	for _, e := range log.Entries {
		f.checkpoint.StepCount = max(f.checkpoint.GetStepCount(), e.Ordinal)
	}
	f.checkpoint.ErrorCount = countFailed(&log)
	f.keep = in.Seq
	for _, r := range in.Records {
		f.log.Add(r)
		for _, fact := range r.GetFacts() {
			f.read++
			f.addFact(fact)
		}
	}
	for _, e := range f.log.Entries {
		if e.Status == executorv1.StepStatus_STEP_STATUS_RUNNING || e.Asking() { // the call may still have its effect
			f.addUnknown(flow.ToolInputHash(e.ToolID, e.InputJSON))
		}
	}
	if f.checkpoint.GetFlowStartSeq() == 0 {
		f.checkpoint.Status = taskInit
	}
	fact := &storagev1.Fact{Status: f.checkpoint.GetStatus(), Kind: &storagev1.Fact_StatusChanged{StatusChanged: &storagev1.StatusChanged{
		Reason: fmt.Sprintf("forked from %s at %d", in.From, in.Seq), Forks: true,
	}}}
	return f.checkpoint, fact
}

// CountFailedSteps counts the failed steps in records, which start with a task's first record.
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

// forkBuilder builds a fork's checkpoint from the facts of the forked task.
type forkBuilder struct {
	checkpoint *storagev1.Checkpoint
	log        history.Log
	// read is how many facts were read so far; keep is how many facts the fork keeps.
	read, keep uint64
}

func (f *forkBuilder) addFact(fact *storagev1.Fact) {
	switch k := fact.GetKind().(type) {
	case *storagev1.Fact_FlowStart:
		if f.read <= f.keep {
			f.checkpoint.FlowStartSeq, f.checkpoint.Name, f.checkpoint.Risk = f.read, k.FlowStart.GetName(), k.FlowStart.GetRisk()
		}
	case *storagev1.Fact_StepWaitingForStart:
		if k.StepWaitingForStart.GetOutcomeUnknown() != nil {
			f.addUnknown(f.hash(fact))
		}
	case *storagev1.Fact_StepError:
		if k.StepError.GetOutcome() == commonv1.Outcome_OUTCOME_UNKNOWN {
			f.addUnknown(f.hash(fact))
		}
	case *storagev1.Fact_StepCancel:
		if k.StepCancel.GetOutcome() == commonv1.Outcome_OUTCOME_UNKNOWN {
			f.addUnknown(f.hash(fact))
		}
	case *storagev1.Fact_StepOutput:
		if fact.GetWaitId() != "" { // supplied by a person
			hash := f.hash(fact)
			f.checkpoint.UnknownCalls = slices.DeleteFunc(f.checkpoint.GetUnknownCalls(), func(h []byte) bool { return bytes.Equal(h, hash) })
		}
	}
}

func (f *forkBuilder) addUnknown(hash []byte) {
	if !slices.ContainsFunc(f.checkpoint.GetUnknownCalls(), func(h []byte) bool { return bytes.Equal(h, hash) }) {
		f.checkpoint.UnknownCalls = append(f.checkpoint.UnknownCalls, hash)
	}
}

// hash returns the ToolInputHash of a fact's step with its newest input.
func (f *forkBuilder) hash(fact *storagev1.Fact) []byte {
	for _, e := range f.log.Entries {
		if e.Ordinal == fact.GetOrdinal() {
			return flow.ToolInputHash(e.ToolID, e.InputJSON)
		}
	}
	return nil
}
