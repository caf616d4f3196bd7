package model

import (
	"context"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// Purpose is what an answer is for. It decides the prompt and the shape of the answer.
type Purpose string

// The purposes. The answer is JSON of the request's schema, but for Answer, which is text.
const (
	FlowName      Purpose = "flow_name"
	FlowRisk      Purpose = "flow_risk"
	PlanSteps     Purpose = "plan_steps"
	NextStep      Purpose = "next_step"
	InputParams   Purpose = "input_params"
	FillParams    Purpose = "fill_params"
	ToolRisk      Purpose = "tool_risk"
	IsParamError  Purpose = "is_param_error"
	DescribeError Purpose = "describe_error"
	MissingParams Purpose = "missing_params"
	Answer        Purpose = "answer"
)

// Final is the tool id that says that nothing is left to do.
const Final = "FINAL"

// Facts are what the planner was asked with. What a purpose does not need is empty.
type Facts struct {
	Context     *plannerv1.TaskContext
	ToolID      string
	Description string // why the tool is called; of FillParams: what the person said
	InputJSON   string // the input that failed, or is judged; "" where there is none
	Error       string // why it failed
	ContentJSON string // what the person supplied
	CutShort    string // why the task ended early

	MostCalls *uint32 // how many model calls the answer may take; nil: as many as the context says
}

// Calls returns how many model calls the answer may take; nil: any number.
func (f *Facts) Calls() *uint32 {
	if f.MostCalls != nil || f.Context == nil {
		return f.MostCalls
	}
	return f.Context.ModelCallsLeft
}

// Tool returns the tool that the facts are about, nil if there is none.
func (f *Facts) Tool() *commonv1.Tool {
	for _, t := range f.Context.GetTools() {
		if t.GetId() == f.ToolID {
			return t
		}
	}
	return nil
}

// Role is who a message is from.
type Role string

// The roles of messages.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// Message is a turn of the conversation with the model.
type Message struct {
	Role Role
	Text string
}

// Prompt is what a language model reads. Its beginning stays the same from call to call of a task and it grows at the end,
// so that providers' prompt caches hit.
type Prompt struct {
	System   string
	Messages []Message
	Tools    []*commonv1.Tool // that are described in System, for models with a form of their own for tools
}

// Correction is a wrong answer and what was wrong with it.
type Correction struct {
	Answer  string
	Problem string
}

// Limits bound what a model samples. Zero values are the model's own.
type Limits struct {
	MaxOutputTokens int
	Temperature     *float64
}

// Request is one question to a model.
type Request struct {
	Purpose     Purpose
	Facts       Facts
	Schema      string                 // JSON Schema of the answer; "": the answer is text
	Prompt      func() (Prompt, error) // renders at the first call; a model that computes never calls it
	Corrections []Correction           // wrong answers to the same question; the prompt tells of them too
	Limits      Limits
}

// Usage is what an answer has cost. A model that computes costs nothing.
type Usage struct {
	InputTokens  uint64
	OutputTokens uint64
	Calls        uint32
}

// Add sums up.
func (u Usage) Add(v Usage) Usage {
	return Usage{InputTokens: u.InputTokens + v.InputTokens, OutputTokens: u.OutputTokens + v.OutputTokens, Calls: u.Calls + v.Calls}
}

// Proto is the usage as contracts have it.
func (u Usage) Proto() *commonv1.Usage {
	return &commonv1.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, ModelCalls: u.Calls}
}

// Info says what a model is.
type Info struct {
	Name          string
	Description   string
	Deterministic bool // asking again gives the same answer: a wrong one is not sent back
}

// Computing is a model that answers what every task asks in values, so that nothing is written and read again in between.
// It costs nothing. Its errors are those of Generate.
type Computing interface {
	Model
	FlowName(f *Facts) (string, error)
	FlowRisk(f *Facts) (*commonv1.Risk, error)
	// PlanSteps returns the next step, and those behind it that are certain.
	PlanSteps(f *Facts) ([]*plannerv1.PlannedStep, error)
}

// Model answers requests. Implementations may be used by several goroutines.
type Model interface {
	Info() Info
	// Generate answers a request, piece by piece: pieces of text, or of one JSON text. An error of emit ends the answer and
	// is returned. Usage is right also where an error is returned. Errors are *errs.Error where their reason matters
	// to the caller; others become MODEL_ERROR.
	Generate(ctx context.Context, req *Request, emit func(piece string) error) (Usage, error)
}
