package history

import (
	"cmp"
	"slices"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Entry is a step as it is now. Times are nanoseconds since 1970, or 0.
type Entry struct {
	Ordinal     uint32
	SubtaskID   string
	ToolID      string
	Description string
	Status      executorv1.StepStatus
	Outcome     commonv1.Outcome
	Attempt     uint32
	InputJSON   string
	// OutputJSON is the step's output; empty if it has none, or if the Log does not keep it. OutputSize is its length, and OutputSeq the seq of the
	// fact that holds it.
	OutputJSON string
	OutputSize int
	OutputSeq  uint64
	Error      *storagev1.ErrorNote
	Risk       *storagev1.RiskNote
	WaitID     string
	CreateTime int64
	StartTime  int64
	// Skipped: a person chose to continue without the step.
	Skipped bool
	// Dropped: the step was open in the forked task, and the fork does not continue it.
	Dropped bool
	// FirstSeq is the seq of the step's first fact, StartSeq that of the newest attempt's start.
	FirstSeq, StartSeq uint64
	EndTime            int64
	// RunTime is how long the newest attempt ran, in nanoseconds, without the period that began at runSince. runSince is 0 if the attempt does
	// not run now.
	RunTime, runSince int64
	// openWaits holds the ids of the open waits of a running call.
	openWaits []string
}

// Ended reports whether the step has ended. A failed step may begin again as long as no other step follows it in its line.
func (e *Entry) Ended() bool {
	switch e.Status {
	case executorv1.StepStatus_STEP_STATUS_SUCCESS, executorv1.StepStatus_STEP_STATUS_ERROR, executorv1.StepStatus_STEP_STATUS_CANCELLED:
		return true
	}
	return false
}

// Asking reports whether the step's call runs and waits for a person.
func (e *Entry) Asking() bool { return len(e.openWaits) > 0 }

// LargeOutput is the size from which a Log with a bound keeps no output.
const LargeOutput = 256 << 10

// IsStored reports whether the step has an output that the Log does not keep.
func (e *Entry) IsStored() bool { return e.OutputJSON == "" && e.OutputSize > 0 }

// Log is the history of one task.
type Log struct {
	// MaxOutputs bounds the bytes of the outputs that the Log keeps: the newest ones that are not large. 0: it keeps all.
	MaxOutputs int

	Entries []*Entry
	// Plan is the task's plan; nil if it has none.
	Plan *Plan
	// Inputs are what people said about steps, oldest first: refusals with their reasons.
	Inputs []string
	seq    uint64
	// skipped is the ordinal of the newest step that the Log leaves out.
	skipped uint32
	// ended holds the ended steps of each line, by the ids of the lines' subtasks or branches, in the order of their ordinals.
	ended map[string][]*Entry
	// kept holds the entries whose outputs are kept, in the order of the outputs, and keptBytes the size of these, if there is a bound.
	kept      []*Entry
	keptBytes int
}

// Tail returns a Log without the steps up to an ordinal. The first record that is added to it begins with the seq first.
func Tail(ordinal uint32, first uint64) *Log { return &Log{skipped: ordinal, seq: first - 1} }

// Add adds a record. Records are added in the order of their seqs, from the first one on.
func (l *Log) Add(r *storagev1.Record) {
	before := l.seq
	for _, f := range r.GetFacts() {
		l.seq++
		if f.GetOrdinal() != 0 {
			if f.GetOrdinal() <= l.skipped {
				continue
			}
			e := l.entry(f)
			ended := e.Ended()
			e.add(f, r.GetTime(), l.seq)
			if e.Ended() != ended {
				l.moveToLine(e)
			}
			l.bound(e)
			if e := f.GetStepError().GetError(); e.GetReason() == commonv1.ErrorReason_ERROR_REASON_REJECTED {
				l.Inputs = append(l.Inputs, "About the call of "+f.GetToolId()+": "+e.GetErrMsg())
			}
		} else {
			l.addPlanFact(f, r.GetTime())
			l.dropAtFork(f)
		}
	}
	// The outputs of this record may not be durable yet, so they cannot be read from the journal.
	for l.keptBytes > l.MaxOutputs && len(l.kept) > 0 && l.kept[0].OutputSeq <= before {
		l.keptBytes -= len(l.kept[0].OutputJSON)
		l.kept[0].OutputJSON = ""
		l.kept = l.kept[1:]
	}
}

// Settled reports whether no later record can change the first n steps: each has ended, and another step follows it in its line if it failed.
func (l *Log) Settled(n int) bool {
	newest := map[string]*Entry{}
	for _, e := range l.Entries {
		newest[e.SubtaskID] = e
	}
	return !slices.ContainsFunc(l.Entries[:n], func(e *Entry) bool {
		return !e.Ended() || e.Status == executorv1.StepStatus_STEP_STATUS_ERROR && newest[e.SubtaskID] == e
	})
}

// EndedSteps returns the ended steps of a line in the order of their ordinals; "" is the main line. It is valid until the next Add.
func (l *Log) EndedSteps(subtaskID string) []*Entry { return l.ended[subtaskID] }

// EndedStep returns the ended step of a line with this ordinal, or nil.
func (l *Log) EndedStep(subtaskID string, ordinal uint32) *Entry {
	if at, found := find(l.ended[subtaskID], ordinal); found {
		return l.ended[subtaskID][at]
	}
	return nil
}

// moveToLine adds a step that has ended to the ended steps of its line, and removes one that began again.
func (l *Log) moveToLine(e *Entry) {
	line := l.ended[e.SubtaskID]
	at, found := find(line, e.Ordinal)
	switch {
	case e.Ended() && !found:
		line = slices.Insert(line, at, e)
	case !e.Ended() && found:
		line = slices.Delete(line, at, at+1)
	}
	if l.ended == nil {
		l.ended = map[string][]*Entry{}
	}
	l.ended[e.SubtaskID] = line
}

func find(line []*Entry, ordinal uint32) (at int, found bool) {
	return slices.BinarySearchFunc(line, ordinal, func(e *Entry, ordinal uint32) int { return cmp.Compare(e.Ordinal, ordinal) })
}

// bound drops the output of a step if it is large, and else counts it, if there is a bound and the output is that of the newest fact.
func (l *Log) bound(e *Entry) {
	switch {
	case l.MaxOutputs == 0 || e.OutputSeq != l.seq:
	case e.OutputSize >= LargeOutput:
		e.OutputJSON = ""
	default:
		l.kept = append(l.kept, e)
		l.keptBytes += e.OutputSize
	}
}

// dropAtFork marks the open steps as dropped if f is the fact with which a fork continues: those of other lanes than the one whose step ended.
func (l *Log) dropAtFork(f *storagev1.Fact) {
	if !f.GetStatusChanged().GetForks() {
		return
	}
	for _, e := range l.Entries {
		e.Dropped = e.Dropped || !e.Ended()
	}
}

// entry returns the entry of a fact's step; it adds one for a new step.
func (l *Log) entry(f *storagev1.Fact) *Entry {
	for _, e := range slices.Backward(l.Entries) { // the newest first, because most facts are about it
		if e.Ordinal == f.GetOrdinal() {
			return e
		}
	}
	e := &Entry{Ordinal: f.GetOrdinal(), ToolID: f.GetToolId(), SubtaskID: f.GetSubtaskId(), FirstSeq: l.seq}
	l.Entries = append(l.Entries, e)
	return e
}

func (e *Entry) add(f *storagev1.Fact, now int64, seq uint64) {
	e.Status, e.WaitID = f.GetStepStatus(), ""
	e.trackWaits(f)
	e.countRunTime(f, now)
	if f.GetAttempt() != 0 {
		e.Attempt = f.GetAttempt()
	}
	switch k := f.GetKind().(type) {
	case *storagev1.Fact_StepInit:
		e.Description, e.CreateTime = k.StepInit, now
	case *storagev1.Fact_StepWaitingForStart:
		e.InputJSON, e.Risk, e.WaitID = k.StepWaitingForStart.GetInputJson(), k.StepWaitingForStart.GetRisk(), f.GetWaitId()
		if why := k.StepWaitingForStart.GetOutcomeUnknown(); why != nil {
			e.Outcome, e.Error, e.EndTime = commonv1.Outcome_OUTCOME_UNKNOWN, why, now
		}
	case *storagev1.Fact_StepWaitingForParam:
		e.WaitID = f.GetWaitId()
	case *storagev1.Fact_StepInput:
		e.InputJSON, e.StartTime, e.EndTime, e.StartSeq = k.StepInput, now, 0, seq
		e.Outcome, e.Error = commonv1.Outcome_OUTCOME_UNSPECIFIED, nil
		e.OutputJSON, e.OutputSize = "", 0
	case *storagev1.Fact_StepOutput:
		e.Outcome, e.Error, e.EndTime = commonv1.Outcome_OUTCOME_KNOWN, nil, now
		e.OutputJSON, e.OutputSize, e.OutputSeq = k.StepOutput, len(k.StepOutput), seq
	case *storagev1.Fact_StepError:
		e.Outcome, e.Error, e.EndTime = k.StepError.GetOutcome(), k.StepError.GetError(), now
		e.Skipped = Skipped(f)
	case *storagev1.Fact_StepCancel:
		e.EndTime = now
		if o := k.StepCancel.GetOutcome(); o != commonv1.Outcome_OUTCOME_UNSPECIFIED {
			e.Outcome = o
		}
	}
}

// Skipped reports whether a fact ends a step because a person chose to continue without the step.
func Skipped(f *storagev1.Fact) bool {
	return f.GetWaitId() != "" && f.GetStepError().GetError().GetReason() == commonv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN
}

// trackWaits updates openWaits, and sets WaitID to the newest of them.
func (e *Entry) trackWaits(f *storagev1.Fact) {
	switch f.GetKind().(type) {
	case *storagev1.Fact_InputRequired:
		e.openWaits = append(e.openWaits, f.GetWaitId())
	case *storagev1.Fact_StatusChanged, *storagev1.Fact_ToolProgress:
		e.openWaits = slices.DeleteFunc(e.openWaits, func(id string) bool { return id == f.GetWaitId() })
	default:
		e.openWaits = nil
	}
	if n := len(e.openWaits); n > 0 {
		e.WaitID = e.openWaits[n-1]
	}
}

// countRunTime counts how long an attempt runs, without the time that it waits for people.
func (e *Entry) countRunTime(f *storagev1.Fact, now int64) {
	switch f.GetKind().(type) {
	case *storagev1.Fact_StepInput:
		e.RunTime, e.runSince = 0, now
	case *storagev1.Fact_ToolProgress:
	case *storagev1.Fact_StatusChanged:
		if e.runSince == 0 && e.StartTime != 0 && f.GetStepStatus() == executorv1.StepStatus_STEP_STATUS_RUNNING {
			e.runSince = now
		}
	default:
		if e.runSince != 0 {
			e.RunTime, e.runSince = e.RunTime+max(0, now-e.runSince), 0
		}
	}
}
