package flow

import (
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Final is the virtual tool that ends a flow (A2).
const Final = "FINAL"

// Flow decides what a task does next.
type Flow interface {
	// On moves the task. It changes t.State in place; where it returns an error, nothing was changed and nothing is
	// written (A6). The error is for whoever sent the command. t itself is the flow's only until it returns.
	On(t *Task, in Input) (Transition, error)
	// TakeUp says how a task goes on that was loaded from the journal. recovered: it was running when a process ended.
	TakeUp(t *Task, recovered bool) (Transition, error)
	// Fail ends a task that cannot go on for a reason outside the flow.
	Fail(t *Task, e *storagev1.ErrorNote) (Transition, error)
}

// Task is what a flow reads and, in State, changes.
type Task struct {
	ID    string
	Head  *storagev1.TaskHead
	State *storagev1.Checkpoint
	// Now is the time of what happened.
	Now time.Time
}

// RunTime is how long a task has run until now, in nanoseconds; counted only where that is bounded.
func RunTime(c *storagev1.Checkpoint, now time.Time) int64 {
	if c.GetRunSince() == 0 {
		return c.GetRunTime()
	}
	return c.GetRunTime() + max(0, now.UnixNano()-c.GetRunSince())
}

// Transition is one move of a task: the facts to commit with the changed state, and the effects to run.
type Transition struct {
	Facts   []*storagev1.Fact
	Effects []Effect
	// Unchanged says that neither state nor facts are to be committed.
	Unchanged bool
}

// Effect is something that the engine does for a flow. Its result comes back as an Input.
type Effect interface{ effect() }

type (
	// Begin loads the tools and asks for the flow's name, its risk and the first step. Comes back as Begun.
	Begin struct{}
	// Plan asks for the next step. Comes back as Planned.
	Plan struct{}
	// Call calls the tool of a step whose intent is durable. Comes back as any number of Progress, perhaps Tasked, and then
	// Called, Moved, Asked or Undelivered.
	Call struct {
		Ordinal uint32
		Attempt uint32
	}
	// Attach asks the pool what became of a call that was made before; what people answered to it is given to it first. Comes
	// back as Call does.
	Attach struct {
		Ordinal uint32
		Attempt uint32
		// Fresh: the answers are given to the pool for the first time.
		Fresh bool
		// Deaf: only the call's end matters, and not what it asks for.
		Deaf bool
	}
	// StopCall asks a running call to stop; its Called still comes.
	StopCall struct{ Reason string }
	// Withdraw tells the pool to end a call that waits for a person. Nothing comes back.
	Withdraw struct {
		Ordinal uint32
		Attempt uint32
		Leg     uint32
		// PoolID and ToolID say who has it.
		PoolID, ToolID string
		Reason         string
	}
	// Derive makes the input of a failed attempt anew. Comes back as Derived.
	Derive struct{ Ordinal uint32 }
	// Judge asks whether an error is about parameters and, if so, what is missing. Comes back as Judged.
	Judge struct {
		Ordinal uint32
		// Known: the error is about parameters beyond doubt (the input did not fit the schema).
		Known bool
	}
	// Fill mends an input with what a person supplied. Comes back as Derived.
	Fill struct{ Ordinal uint32 }
	// Look lists the tools again, for a step whose tool is not as it was. Comes back as Looked.
	Look struct{ Ordinal uint32 }
	// Answer writes the answer. Comes back as any number of Text and one Answered.
	Answer struct{ CutShort string }
	// Abandon stops every effect that runs; none of them comes back.
	Abandon struct{}
)

func (Begin) effect()    {}
func (Plan) effect()     {}
func (Call) effect()     {}
func (Attach) effect()   {}
func (StopCall) effect() {}
func (Withdraw) effect() {}
func (Derive) effect()   {}
func (Judge) effect()    {}
func (Fill) effect()     {}
func (Look) effect()     {}
func (Answer) effect()   {}
func (Abandon) effect()  {}

// Input is what happened to a task.
type Input interface{ input() }

type (
	// Command is what someone asked.
	Command struct{ *storagev1.Command }
	// Lapsed says that a deadline or the task's run time may have passed.
	Lapsed struct{}
	// Harmless says that the task, which has not got on since it was taken up, does not take its host down: the process has lived
	// on with it for a while, or stops in an orderly way.
	Harmless struct{}
	// Begun is what Begin found.
	Begun struct {
		Tools *storagev1.ToolsLoaded
		Name  string
		Risk  *storagev1.RiskNote
		Plan  Planned
	}
	// Planned is what Plan or Begin answered.
	Planned struct {
		// Step is the next step; nil means FINAL.
		Step *PlannedStep
		// CutShort says why it is FINAL although the planner did not say so; may be empty.
		CutShort string
		// Err ends the task: the planner said that there is no way on.
		Err   *storagev1.ErrorNote
		Usage *storagev1.Usage
	}
	// Called is how a call ended.
	Called struct {
		Ordinal uint32
		Attempt uint32
		// Leg is the one of the attempt's calls that ended.
		Leg uint32
		// Output is the step's output as JSON where the tool succeeded.
		Output string
		// Err is why it failed; nil where it succeeded.
		Err     *storagev1.ErrorNote
		Outcome commonv1.Outcome
		// Lost says that the call failed because a process or a connection of Pawl's own was lost, and not the tool's.
		Lost bool
		// Next is what follows where the tool succeeded and that is known already; nil where the planner has to be asked.
		Next *Planned
	}
	// Moved says that a call was not made, and that another pool is to make it: which one is durable before it is asked.
	Moved struct {
		Ordinal uint32
		Attempt uint32
		PoolID  string
	}
	// Asked says that a call waits for people: nobody follows it until they have answered.
	Asked struct {
		Ordinal   uint32
		Attempt   uint32
		Questions []Question
		// RequestState is what the server wants back with the answers; may be empty.
		RequestState string
	}
	// Undelivered says that no pool knows the call that was to get the answers, and that none can have got them.
	Undelivered struct {
		Ordinal uint32
		Attempt uint32
		// Err is what the pool says of the call.
		Err *storagev1.ErrorNote
	}
	// Tasked says that the server does a call as an MCP task.
	Tasked struct {
		Ordinal uint32
		Attempt uint32
		TaskID  string
	}
	// NotStarted says that a call whose intent is durable was not begun: the executor is stopping.
	NotStarted struct{ Ordinal uint32 }
	// Progress is how far a call is.
	Progress struct {
		Ordinal  uint32
		Attempt  uint32
		Progress *storagev1.ToolProgress
	}
	// Derived is an input made by Derive or Fill.
	Derived struct {
		Ordinal uint32
		Input   string
		// Problem says what of the input does not fit the tool's schema; empty where it fits.
		Problem string
		// Err: the planner could not make one.
		Err   *storagev1.ErrorNote
		Usage *storagev1.Usage
		// Tool is what the input was made for.
		Tool *Tool
	}
	// Looked is what Look found.
	Looked struct {
		Ordinal uint32
		Tool    *Tool
		// Problem says what of the step's input does not fit the tool's schema; empty where it fits.
		Problem string
		// Err: the tool cannot be used any more.
		Err *storagev1.ErrorNote
	}
	// Judged is what Judge found.
	Judged struct {
		Ordinal      uint32
		IsParamError bool
		Message      string
		SchemaJSON   string
		Usage        *storagev1.Usage
	}
	// Text is a piece of the answer.
	Text struct{ Text string }
	// Answered is the end of the answer.
	Answered struct {
		// Text is its last piece; may be empty.
		Text string
		// FullAnswer is all pieces joined.
		FullAnswer string
		Err        *storagev1.ErrorNote
		Usage      *storagev1.Usage
	}
)

func (Command) input()     {}
func (Lapsed) input()      {}
func (Harmless) input()    {}
func (Begun) input()       {}
func (Planned) input()     {}
func (Called) input()      {}
func (Moved) input()       {}
func (Progress) input()    {}
func (Asked) input()       {}
func (Undelivered) input() {}
func (Tasked) input()      {}
func (NotStarted) input()  {}
func (Derived) input()     {}
func (Judged) input()      {}
func (Looked) input()      {}
func (Text) input()        {}
func (Answered) input()    {}

// Tool is what the pool says of a tool now.
type Tool struct {
	Effect         commonv1.Effect
	Idempotent     bool
	RiskFloor      commonv1.RiskLevel
	DefinitionHash string
	ConfigRevision uint64
	PoolID         string
}

// PlannedStep is a step that the planner proposed, with what the pool says of its tool.
type PlannedStep struct {
	ToolID         string
	Description    string
	InputJSON      string
	Risk           *storagev1.RiskNote
	Effect         commonv1.Effect
	Idempotent     bool
	RiskFloor      commonv1.RiskLevel
	DefinitionHash string
	ConfigRevision uint64
	// PoolID names the pool that would make the call.
	PoolID string
	// Problem says what of the input does not fit the tool's schema; empty where it fits.
	Problem string
}

// Question is what a tool's server asks a person for in the middle of a call.
type Question struct {
	// InputID names it within the call.
	InputID    string
	Message    string
	SchemaJSON string
	URL        string
	// Expire is when the pool gives it up, in nanoseconds since 1970; 0: never.
	Expire int64
}

// EndsCall says whether the effect of a call is over with an input.
func EndsCall(in Input) bool {
	switch in.(type) {
	case Called, Moved, Asked, Undelivered:
		return true
	}
	return false
}
