package flow

import (
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Question is what an Ask asks. Each question says which Inputs it sends.
type Question interface{ question() }

type (
	// Begin loads the tools and asks the planner for the task's name, its risk and the first step. It sends Begun. If Begun.Plan is
	// Answering without an Answer, Begin continues as Plan does; otherwise it ends.
	Begin struct{}
	// Plan asks the planner for the next step of the task, or of a branch. It ends with Planned. If the planner answers instead, Plan may first
	// send a Planned that is Answering, and Text.
	Plan struct{}
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
	// RefreshTool lists the tools again, because the step's tool has changed. It ends with ToolRefreshed. It asks no planner.
	RefreshTool struct{ Ordinal uint32 }
	// Answer lets the planner write the answer. It sends Text and ends with Answered.
	Answer struct {
		// CutShort says why the task ends early; empty if the planner chose to answer.
		CutShort string
	}
	// CreatePlan loads the tools and asks the planner for the task's name, its risk and a plan of subtasks. It ends with PlanCreated.
	CreatePlan struct {
		// Problem says why the plan before was refused; empty for the first.
		Problem string
	}
	// Think lets the planner think about the lane's subtask and choose its next calls. It sends Thinking and ends with Thought.
	Think struct {
		// Observation is what the subtask's history does not show; may be empty.
		Observation string
	}
	// Reflect asks the planner whether the lane's subtask is done. It ends with Thought.
	Reflect struct{}
)

func (Begin) question()       {}
func (Plan) question()        {}
func (Derive) question()      {}
func (Diagnose) question()    {}
func (Fill) question()        {}
func (RefreshTool) question() {}
func (Answer) question()      {}
func (CreatePlan) question()  {}
func (Think) question()       {}
func (Reflect) question()     {}

type (
	// Begun ends Begin.
	Begun struct {
		Tools *storagev1.ToolsLoaded
		Name  string
		Risk  *storagev1.RiskNote
		Plan  Planned
	}
	// Planned ends Plan.
	Planned struct {
		// Step is the next step; nil means FINAL, which ends the task or the branch.
		Step *PlannedStep
		// CutShort says why the step is FINAL although the planner did not choose FINAL; may be empty.
		CutShort string
		// Answering reports that a new answer begins. If Answer is nil, Text follows, and then another Planned.
		Answering bool
		// Answer is the end of an answer that the planner wrote in the planning call; nil if it wrote none.
		Answer *Answered
		// Branches are the ids of the branches that run next, side by side; then Step is nil.
		Branches []string
		// Memory replaces the planner's summary of the oldest steps; nil keeps the summary.
		Memory *storagev1.Memory
		// Err ends the task: the planner cannot continue.
		Err   *storagev1.ErrorNote
		Usage *storagev1.Usage
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
		// Err says why the planner could not be asked; nil if it could. The step fails.
		Err   *storagev1.ErrorNote
		Usage *storagev1.Usage
	}
	// Text is a piece of the answer.
	Text struct{ Text string }
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
		Gathered
		Err   *storagev1.ErrorNote
		Usage *storagev1.Usage
	}
	// Gathered is what the calls gave that a reply to a message rests on.
	Gathered struct {
		// Media are the media of the outputs, as many as a message holds, and MediaOmitted is the number of the others.
		Media        []*storagev1.Media
		MediaOmitted int
		// Results are the newest calls, oldest first.
		Results []ToolResult
	}
	// ToolResult is how a call ended. Error is empty if it succeeded.
	ToolResult struct {
		Tool    string `json:"tool"`
		Success bool   `json:"success"`
		Error   string `json:"error,omitempty"`
	}
	// PlanCreated ends CreatePlan.
	PlanCreated struct {
		Tools *storagev1.ToolsLoaded
		Name  string
		Risk  *storagev1.RiskNote
		// MainTask is the whole task in one sentence.
		MainTask string
		Subtasks []*storagev1.PlannedSubtask
		Err      *storagev1.ErrorNote
		Usage    *storagev1.Usage
	}
	// Thinking is a piece of a thought. Again says that the thought broke off and begins again with this piece.
	Thinking struct {
		Text  string
		Again bool
	}
	// Thought ends Think and Reflect.
	Thought struct {
		// Text is the thought's last piece; may be empty.
		Text string
		// Steps are the calls to make, in order; none after Reflect.
		Steps []*PlannedStep
		// Reflection is the planner's verdict on the subtask; nil if it gave none.
		Reflection *storagev1.Reflection
		// Change is how the plan should change; nil if it should not.
		Change *PlanChange
		// Err says why the planner could not think; nil if it could.
		Err   *storagev1.ErrorNote
		Usage *storagev1.Usage
	}
)

// PlanChange changes the subtasks that have not started.
type PlanChange struct {
	Add []*storagev1.PlannedSubtask
	// Drop names the subtasks to drop; Order is the new order, empty to keep it.
	Drop, Order []string
	Reason      string
}

func (Begun) input()         {}
func (Planned) input()       {}
func (Derived) input()       {}
func (Diagnosed) input()     {}
func (ToolRefreshed) input() {}
func (Text) input()          {}
func (Answered) input()      {}
func (PlanCreated) input()   {}
func (Thinking) input()      {}
func (Thought) input()       {}

// AskEnd returns the usage and the error of an Input that ends a question to the planner; ends is false for other Inputs.
func AskEnd(in Input) (u *storagev1.Usage, e *storagev1.ErrorNote, ends bool) {
	switch in := in.(type) {
	case Begun:
		return AskEnd(in.Plan)
	case Planned:
		return in.Usage, in.Err, !in.Answering || in.Answer != nil
	case Derived:
		return in.Usage, in.Err, true
	case Diagnosed:
		return in.Usage, in.Err, true
	case Answered:
		return in.Usage, in.Err, true
	case PlanCreated:
		return in.Usage, in.Err, true
	case Thought:
		return in.Usage, in.Err, true
	case Decided:
		return in.Usage, in.Err, true
	case ToolsListed:
		return in.Usage, in.Err, true
	case ToolsSelected:
		return in.Usage, in.Err, true
	case Summarized:
		return in.Usage, in.Err, true
	case Responded:
		return in.Usage, in.Err, true
	}
	return nil, nil, false
}

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
