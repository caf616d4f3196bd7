package flow

import (
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

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

// Flow decides what a task does next. It is a pure function of the task and its inputs: no I/O, clock or randomness.
type Flow interface {
	// Kind is the flow's name in agents, tasks and stored data.
	Kind() string
	// PlanOptions returns options with defaults for what is absent; nil if the flow has no plan.
	PlanOptions(o *executorv1.PlanOptions) *executorv1.PlanOptions
	// Accepts returns why the flow cannot run a new task with this head; nil if it can.
	Accepts(h *storagev1.TaskHead) error
	// Memory returns what a task with this head knows of what came before it.
	Memory(h *storagev1.TaskHead) Memory
	// Start returns the first state of a new task.
	Start() *storagev1.Checkpoint
	// Apply handles one input. lane is the lane whose action sent it; 0 if no action did. It changes t.State in place. If it returns an error,
	// the caller discards the changed state, and the sender of a command gets the error. The flow does not keep t.
	Apply(t *Task, lane uint32, in Input) (Transition, error)
	// Resume decides how a task continues after an owner loaded it from the journal. recovered reports that the newest commit is from an earlier
	// process, which may have crashed.
	Resume(t *Task, recovered bool) (Transition, error)
	// Fail ends a task that cannot continue, because the flow refused an input or a transition cannot be stored.
	Fail(t *Task, e *storagev1.ErrorNote) (Transition, error)
	// Fork returns the state of a task that continues after the first facts of another one, and the fact that records it.
	Fork(f Fork) (*storagev1.Checkpoint, *storagev1.Fact)
}

// Memory is what a task knows of what came before it. Flows choose it, and package memory loads it.
type Memory struct {
	// Turns is how many of the newest successful tasks of its conversation the task knows, each by its goal and its answer.
	Turns int
	// Messages is how many of the newest messages of its topic the task knows, besides the message that it answers; with the agent's summary of the messages before.
	// MessageLength, if not 0, cuts each after that many characters. AfterSummary leaves out the messages that the summary covers.
	Messages, MessageLength int
	AfterSummary            bool
	// StepsOf are the tasks whose steps the task knows.
	StepsOf []string
}

// Fork describes a fork.
type Fork struct {
	// From is the id of the forked task, and Seq how many of its facts the fork keeps.
	From string
	Seq  uint64
	// Records are all records of the forked task, and Kept those of the first Seq facts.
	Records, Kept []*storagev1.Record
}

// Task is a task as a flow sees it. A flow changes only State.
type Task struct {
	ID    string
	Head  *storagev1.TaskHead
	State *storagev1.Checkpoint
	// Now is the time of the input.
	Now time.Time
}

// LaneOf returns the lane with this id, or nil.
func LaneOf(c *storagev1.Checkpoint, id uint32) *storagev1.Lane {
	for _, l := range c.GetLanes() {
		if l.GetId() == id {
			return l
		}
	}
	return nil
}

// ActiveStep returns the step with this ordinal if it has not ended, or nil.
func ActiveStep(c *storagev1.Checkpoint, ordinal uint32) *storagev1.ActiveStep {
	for _, l := range c.GetLanes() {
		if s := l.GetStep(); s != nil && s.GetOrdinal() == ordinal {
			return s
		}
	}
	return nil
}

// RunTime returns how long a task or a lane has run until now, in nanoseconds. It is 0 without a limit of the run time.
func RunTime(c interface {
	GetRunSince() int64
	GetRunTime() int64
}, now time.Time) int64 {
	if c.GetRunSince() == 0 {
		return c.GetRunTime()
	}
	return c.GetRunTime() + max(0, now.UnixNano()-c.GetRunSince())
}

// Transition is the result of one input: the facts to commit together with the changed Task.State, and the actions to run.
type Transition struct {
	Facts   []*storagev1.Fact
	Actions []LaneAction
	// Posts are facts for the topic whose message the task answers (Head.Chat). Summary, if set, becomes the agent's summary of that topic.
	Posts   []*storagev1.TopicFact
	Summary *storagev1.TopicSummary
	// Unchanged reports that there is nothing to commit. The actions run anyway. After the result of an action, State is then as it was before.
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

// LaneAction is an action of a lane. At most one Ask, Call or Attach runs in a lane at a time.
type LaneAction struct {
	Lane uint32
	Action
}

// Action is something that the engine does for a lane. Its results, if any, return as Inputs of the lane.
type Action interface{ action() }

type (
	// Ask has the runner answer a question, by asking the planner or by listing tools. It changes nothing in the world, so it may start before
	// the commit. The question says which Inputs it sends; the engine passes them on unread.
	Ask struct {
		Question
		// AfterCommit says that the question must not be asked before the commit is durable, because that reserves what the question may cost.
		AfterCommit bool
	}
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
	// StopCall stops the lane's running call; its Called still arrives.
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
	// Abandon stops what runs in the lane; its late results are dropped.
	Abandon struct{}
)

func (Ask) action()      {}
func (Call) action()     {}
func (Attach) action()   {}
func (StopCall) action() {}
func (Withdraw) action() {}
func (Abandon) action()  {}

// Input is something that happened to a task.
type Input interface{ input() }

type (
	// Command is a request from the task's inbox.
	Command struct{ *storagev1.Command }
	// Timeout reports that a wait's deadline, or the run time of the task or of a lane, may be over.
	Timeout struct{}
	// RecoverySettled reports that the task did not crash the process that recovered it: the process survived for a while, or shuts
	// down cleanly.
	RecoverySettled struct{}
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
	// Blocked reports that a running action waits for a service that cannot be reached.
	Blocked struct{ Reason string }
)

func (Command) input()         {}
func (Timeout) input()         {}
func (RecoverySettled) input() {}
func (Blocked) input()         {}
func (Called) input()          {}
func (Moved) input()           {}
func (Progress) input()        {}
func (Elicited) input()        {}
func (Undelivered) input()     {}
func (McpTask) input()         {}
func (NotStarted) input()      {}

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
