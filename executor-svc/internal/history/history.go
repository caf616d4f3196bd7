package history

import (
	"slices"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Entry is a step as it is now. Times are nanoseconds since 1970, 0 where it has not come to that.
type Entry struct {
	Ordinal     uint32
	SubtaskID   string
	ToolID      string
	Description string
	Status      executorv1.StepStatus
	Outcome     commonv1.Outcome
	Attempt     uint32
	InputJSON   string
	OutputJSON  string
	Error       *storagev1.ErrorNote
	Risk        *storagev1.RiskNote
	WaitID      string
	CreateTime  int64
	StartTime   int64
	// Skipped says that a person said to go on without it.
	Skipped bool
	// StartSeq is the seq of the newest attempt's beginning.
	StartSeq uint64
	EndTime  int64
	// RunTime is how long the newest attempt ran, as far as it is over; runSince is since when it runs now.
	RunTime, runSince int64
	// asked holds the open waits of a call that a person must answer before it goes on.
	asked []string
}

// Asking says that the step's call runs, and waits for a person.
func (e *Entry) Asking() bool { return len(e.asked) > 0 }

// Log is the history of one task.
type Log struct {
	Entries []*Entry
	seq     uint64
	room    []Entry // for the next entries
}

// atOnce is how many entries there is made room for at once, usually how many pointers to them there is room for at first.
const (
	atOnce  = 4
	usually = 16
)

// Add folds a record in. Records come in the order of their seqs, from the first one on.
func (l *Log) Add(r *storagev1.Record) {
	for _, f := range r.GetFacts() {
		l.seq++
		if f.GetOrdinal() != 0 {
			l.entry(f).add(f, r.GetTime(), l.seq)
		}
	}
}

func (l *Log) entry(f *storagev1.Fact) *Entry {
	// What happens is nearly always about one of the newest steps.
	for _, e := range slices.Backward(l.Entries) {
		if e.Ordinal == f.GetOrdinal() {
			return e
		}
	}
	if len(l.room) == 0 {
		l.room = make([]Entry, atOnce)
	}
	if l.Entries == nil {
		l.Entries = make([]*Entry, 0, usually)
	}
	e := &l.room[0]
	l.room = l.room[1:]
	e.Ordinal, e.ToolID, e.SubtaskID = f.GetOrdinal(), f.GetToolId(), f.GetSubtaskId()
	l.Entries = append(l.Entries, e)
	return e
}

func (e *Entry) add(f *storagev1.Fact, now int64, seq uint64) {
	e.Status, e.WaitID = f.GetStepStatus(), ""
	e.ask(f)
	e.clock(f, now)
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
		e.Outcome, e.Error, e.OutputJSON = commonv1.Outcome_OUTCOME_UNSPECIFIED, nil, ""
	case *storagev1.Fact_StepOutput:
		e.Outcome, e.OutputJSON, e.Error, e.EndTime = commonv1.Outcome_OUTCOME_KNOWN, k.StepOutput, nil, now
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

// Skipped says that a step ended because a person said to go on without it.
func Skipped(f *storagev1.Fact) bool {
	return f.GetWaitId() != "" && f.GetStepError().GetError().GetReason() == commonv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN
}

// ask keeps what a running call waits for.
func (e *Entry) ask(f *storagev1.Fact) {
	switch f.GetKind().(type) {
	case *storagev1.Fact_InputRequired:
		e.asked = append(e.asked, f.GetWaitId())
	case *storagev1.Fact_StatusChanged, *storagev1.Fact_ToolProgress:
		e.asked = slices.DeleteFunc(e.asked, func(id string) bool { return id == f.GetWaitId() })
	default:
		e.asked = nil
	}
	if n := len(e.asked); n > 0 {
		e.WaitID = e.asked[n-1]
	}
}

// clock counts the time that an attempt runs, and none that people take.
func (e *Entry) clock(f *storagev1.Fact, now int64) {
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
