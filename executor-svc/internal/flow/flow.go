package flow

import (
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Final is the id of the virtual tool that ends a flow.
const Final = "FINAL"

// ReadOutput is the id of the virtual tool that reads a part of a large output. The executor serves it from the task's history, without a
// pool and without approval.
const ReadOutput = "pawl/read_output"

// IsReadOutput reports whether the executor serves a step's call itself. A server's tool with the same id has a definition hash; it is
// approved and called like any other tool.
func IsReadOutput(s *storagev1.ActiveStep) bool {
	return s.GetToolId() == ReadOutput && s.GetDefinitionHash() == ""
}

// Flow decides what a task does next.
type Flow interface {
	// Apply handles one input. It changes t.State in place. If it returns an error, the caller discards the changed state, and the sender of
	// a command gets the error. The flow does not keep t.
	Apply(t *Task, in Input) (Transition, error)
	// Resume decides how a task continues after an owner loaded it from the journal. recovered reports that the newest commit is from an earlier
	// process, which may have crashed.
	Resume(t *Task, recovered bool) (Transition, error)
	// Fail ends a task that cannot continue, because the flow refused an input or a transition cannot be stored.
	Fail(t *Task, e *storagev1.ErrorNote) (Transition, error)
}

// Task is a task as a flow sees it. A flow changes only State.
type Task struct {
	ID    string
	Head  *storagev1.TaskHead
	State *storagev1.Checkpoint
	// Now is the time of the input.
	Now time.Time
}

// RunTime returns how long a task has run until now, in nanoseconds. It is 0 for a task without a limit of its run time.
func RunTime(c *storagev1.Checkpoint, now time.Time) int64 {
	if c.GetRunSince() == 0 {
		return c.GetRunTime()
	}
	return c.GetRunTime() + max(0, now.UnixNano()-c.GetRunSince())
}

// Transition is the result of one input: the facts to commit together with the changed Task.State, and the actions to run.
type Transition struct {
	Facts   []*storagev1.Fact
	Actions []Action
	// Unchanged reports that there is nothing to commit. The actions run anyway.
	Unchanged bool
}

// AddUsage adds u to sum and returns sum. Either may be nil.
func AddUsage(sum, u *storagev1.Usage) *storagev1.Usage {
	if sum == nil {
		sum = &storagev1.Usage{}
	}
	sum.InputTokens += u.GetInputTokens()
	sum.OutputTokens += u.GetOutputTokens()
	sum.ModelCalls += u.GetModelCalls()
	sum.ToolCalls += u.GetToolCalls()
	sum.CachedInputTokens += u.GetCachedInputTokens()
	sum.CostNanoUsd += u.GetCostNanoUsd()
	sum.CostUnknown = sum.GetCostUnknown() || u.GetCostUnknown()
	return sum
}

// Action is something that the engine does for a flow. Its results, if any, return as Inputs.
type Action interface{ action() }

type (
	// Begin loads the tools and asks the planner for the task's name, its risk and the first step. It sends Begun. If Begun.Plan is
	// Answering without an Answer, Begin continues as Plan does; otherwise it ends.
	Begin struct{}
	// Plan asks the planner for the next step. It ends with Planned. If the planner answers instead, Plan may first send a Planned that is
	// Answering, and Text.
	Plan struct{}
	// Call calls the tool of a step once the intent is durable. It sends Progress and McpTask, and ends with Called, Moved or Elicited.
	Call struct {
		Ordinal uint32
		Attempt uint32
	}
	// Attach delivers people's answers to an earlier call and then waits for its outcome. It sends Progress and McpTask, and ends with
	// Called, Elicited or Undelivered.
	Attach struct {
		Ordinal uint32
		Attempt uint32
		// Fresh reports that none of the answers was delivered before.
		Fresh bool
		// Stopping reports that the call is being stopped; its questions are dropped.
		Stopping bool
	}
	// StopCall stops the running call; its Called still arrives.
	StopCall struct{ Reason string }
	// Withdraw ends a call that waits for a person. It produces no Input.
	Withdraw struct {
		Ordinal uint32
		Attempt uint32
		Round   uint32
		// PoolID names the replica of the MCP pool that has the call; ToolID names its tool.
		PoolID, ToolID string
		Reason         string
	}
	// Derive asks the planner for another input after a failed attempt. It ends with Derived.
	Derive struct{ Ordinal uint32 }
	// Diagnose asks the planner whether an error is about parameters and, if so, which are missing. It ends with Diagnosed.
	Diagnose struct {
		Ordinal uint32
		// Known reports that the error is about parameters, because the input did not fit the schema.
		Known bool
	}
	// Fill asks the planner to complete an input with the values that a person supplied. It ends with Derived.
	Fill struct{ Ordinal uint32 }
	// RefreshTool lists the tools again, because the step's tool has changed. It ends with ToolRefreshed.
	RefreshTool struct{ Ordinal uint32 }
	// Answer lets the planner write the answer. It sends Text and ends with Answered.
	Answer struct {
		// CutShort says why the task ends early; empty if the planner chose to answer.
		CutShort string
	}
	// Abandon stops all running actions; their late results are dropped.
	Abandon struct{}
)

func (Begin) action()       {}
func (Plan) action()        {}
func (Call) action()        {}
func (Attach) action()      {}
func (StopCall) action()    {}
func (Withdraw) action()    {}
func (Derive) action()      {}
func (Diagnose) action()    {}
func (Fill) action()        {}
func (RefreshTool) action() {}
func (Answer) action()      {}
func (Abandon) action()     {}

// Input is something that happened to a task.
type Input interface{ input() }

type (
	// Command is a request from the task's inbox.
	Command struct{ *storagev1.Command }
	// Timeout reports that a wait's deadline or the task's run time may be over.
	Timeout struct{}
	// RecoverySettled reports that the task did not crash the process that recovered it: the process survived for a while, or shuts
	// down cleanly.
	RecoverySettled struct{}
	// Begun ends Begin.
	Begun struct {
		Tools *storagev1.ToolsLoaded
		Name  string
		Risk  *storagev1.RiskNote
		Plan  Planned
	}
	// Planned ends Plan.
	Planned struct {
		// Step is the next step; nil means FINAL.
		Step *PlannedStep
		// CutShort says why the step is FINAL although the planner did not choose FINAL; may be empty.
		CutShort string
		// Answering reports that a new answer begins. If Answer is nil, Text follows, and then another Planned.
		Answering bool
		// Answer is the end of an answer that the planner wrote in the planning call; nil if it wrote none.
		Answer *Answered
		// Memory replaces the planner's summary of the oldest steps; nil keeps the summary.
		Memory *storagev1.Memory
		// Err ends the task: the planner cannot continue.
		Err   *storagev1.ErrorNote
		Usage *storagev1.Usage
	}
	// Called is the outcome of a call.
	Called struct {
		Ordinal uint32
		Attempt uint32
		// Round numbers the attempt's calls; an attempt has several if the pool lost a call while a person was asked, and another call continued it.
		Round uint32
		// Output is the step's output as JSON if the tool succeeded.
		Output string
		// Err says why the tool failed; nil if it succeeded.
		Err     *storagev1.ErrorNote
		Outcome commonv1.Outcome
		// Lost reports that a process or connection of Pawl failed, not the tool.
		Lost bool
		// Next is the next step if it is already known; nil if the planner has to be asked.
		Next *Planned
		// Usage is the usage of models that the tool's server asked during the call; nil if it asked none.
		Usage *storagev1.Usage
	}
	// Moved reports that the call was not made, and that another replica of the MCP pool has to make it.
	Moved struct {
		Ordinal uint32
		Attempt uint32
		// PoolID names the other replica; it is committed before the call is sent.
		PoolID string
	}
	// Elicited reports that the call waits for people to answer its server's questions. No action runs for the call until they have answered.
	Elicited struct {
		Ordinal      uint32
		Attempt      uint32
		Elicitations []Elicitation
		// RequestState is opaque state that the server gets back with the answers; may be empty.
		RequestState string
	}
	// Undelivered reports that no replica of the MCP pool knows the call, and that none can have received its answers.
	Undelivered struct {
		Ordinal uint32
		Attempt uint32
		// Err is the call's error if no further call can continue the attempt.
		Err *storagev1.ErrorNote
	}
	// McpTask reports that the server runs the call as an MCP task.
	McpTask struct {
		Ordinal uint32
		Attempt uint32
		TaskID  string
	}
	// NotStarted reports that a call with a durable intent was never sent, because the executor is stopping.
	NotStarted struct{ Ordinal uint32 }
	// Progress is the progress of a call.
	Progress struct {
		Ordinal  uint32
		Attempt  uint32
		Progress *storagev1.ToolProgress
	}
	// Derived ends Derive and Fill.
	Derived struct {
		Ordinal uint32
		Input   string
		// Problem says how the input violates the tool's schema; empty if it fits.
		Problem string
		// Err says why the planner could not make an input; nil if it made one.
		Err   *storagev1.ErrorNote
		Usage *storagev1.Usage
		// Tool describes the tool that the input was made for.
		Tool *Tool
	}
	// ToolRefreshed ends RefreshTool.
	ToolRefreshed struct {
		Ordinal uint32
		Tool    *Tool
		// Problem says how the step's input violates the tool's schema; empty if it fits.
		Problem string
		// Err says why the tool can no longer be used; nil if it can.
		Err *storagev1.ErrorNote
	}
	// Diagnosed ends Diagnose.
	Diagnosed struct {
		Ordinal      uint32
		IsParamError bool
		// Message describes the error to a person; SchemaJSON is the schema of the missing parameters.
		Message    string
		SchemaJSON string
		Usage      *storagev1.Usage
	}
	// Text is a piece of the answer.
	Text struct{ Text string }
	// Blocked reports that a running action waits for a service that cannot be reached.
	Blocked struct{ Reason string }
	// Answered ends Answer.
	Answered struct {
		// Text is the answer's last piece; may be empty.
		Text string
		// FullAnswer is all pieces joined.
		FullAnswer string
		// NotReached reports that the goal was not reached; the answer says what is missing.
		NotReached bool
		// CutShort says why the task ended early; empty if the planner chose to answer.
		CutShort string
		Err      *storagev1.ErrorNote
		Usage    *storagev1.Usage
	}
)

func (Command) input()         {}
func (Timeout) input()         {}
func (RecoverySettled) input() {}
func (Begun) input()           {}
func (Planned) input()         {}
func (Called) input()          {}
func (Moved) input()           {}
func (Progress) input()        {}
func (Elicited) input()        {}
func (Undelivered) input()     {}
func (McpTask) input()         {}
func (NotStarted) input()      {}
func (Derived) input()         {}
func (Diagnosed) input()       {}
func (ToolRefreshed) input()   {}
func (Text) input()            {}
func (Blocked) input()         {}
func (Answered) input()        {}

// Tool is the pool's current description of a tool.
type Tool struct {
	Effect         commonv1.Effect
	Idempotent     bool
	RiskFloor      commonv1.RiskLevel
	DefinitionHash string
	ConfigRevision uint64
	// PoolID is the replica of the MCP pool that would make a call.
	PoolID string
}

// PlannedStep is a step that the planner proposed, with the pool's description of its tool.
type PlannedStep struct {
	Tool
	ToolID      string
	Description string
	InputJSON   string
	Risk        *storagev1.RiskNote
	// Problem says how the input violates the tool's schema; empty if it fits.
	Problem string
	// Retry reports that this step repeats the failed call of the previous step.
	Retry bool
}

// Elicitation is a question of a tool's server to a person during a call.
type Elicitation struct {
	// InputID names the question within the call.
	InputID string
	Message string
	// SchemaJSON is the schema of a form to fill in. If URL is set, the person answers on that page instead.
	SchemaJSON string
	URL        string
	// Expire is the time when the pool gives up the question, in nanoseconds since 1970; 0: never.
	Expire int64
}

// EndsCall reports whether an input ends a Call or Attach action.
func EndsCall(in Input) bool {
	switch in.(type) {
	case Called, Moved, Elicited, Undelivered:
		return true
	}
	return false
}
