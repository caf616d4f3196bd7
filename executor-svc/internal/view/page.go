package view

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
)

// page is what the events of a record consist of.
type page struct {
	at      timestamppb.Timestamp
	usage   commonv1.Usage
	elapsed durationpb.Duration
	entries []entry
	step    *stepPage // that this is part of; may be nil
}

type entry struct {
	event executorv1.ExecutorEvent
	flow  executorv1.Flow
}

// stepPage is the page of a usual step (the output of one, beginning and input of the next), allocated at once: a record is read
// as a whole, and forgotten as one.
type stepPage struct {
	page
	entries [3]entry
	events  [3]*executorv1.ExecutorEvent
	output  stepOutput
	init    stepInit
	input   stepInput
}

func newPage(r journal.Record, elapsed int64) *page {
	var p *page
	if n := len(r.GetFacts()); n == len(stepPage{}.entries) {
		step := &stepPage{}
		p = &step.page
		p.entries, p.step = step.entries[:], step
	} else {
		p = &page{entries: make([]entry, n)}
	}
	at := time.Unix(0, r.GetTime())
	p.at.Seconds, p.at.Nanos = at.Unix(), int32(at.Nanosecond())
	p.elapsed.Seconds, p.elapsed.Nanos = elapsed/int64(time.Second), int32(elapsed%int64(time.Second))
	setUsage(&p.usage, r.GetUsage(), &p.elapsed)
	return p
}

// list is where the events are listed.
func (p *page) list() []*executorv1.ExecutorEvent {
	if p.step != nil {
		return p.step.events[:0]
	}
	return make([]*executorv1.ExecutorEvent, 0, len(p.entries))
}

// What each step has is one piece of memory with the field that says what it is, and with the twin of the JSON in it.
type (
	stepInit struct {
		executorv1.StepInit
		kind executorv1.ExecutorEvent_StepInit
	}
	stepInput struct {
		executorv1.StepInput
		kind executorv1.ExecutorEvent_StepInput
		twin structpb.Struct
	}
	stepOutput struct {
		executorv1.StepOutput
		kind executorv1.ExecutorEvent_StepOutput
		twin structpb.Struct
	}
)

func (p *page) setStepInit(e *executorv1.ExecutorEvent, toolID, description string) {
	var s *stepInit
	if p.step != nil && p.step.init.kind.StepInit == nil {
		s = &p.step.init
	} else {
		s = &stepInit{}
	}
	s.ToolId, s.Description = toolID, description
	s.kind.StepInit = &s.StepInit
	e.Payload = &s.kind
}

func (p *page) setStepInput(e *executorv1.ExecutorEvent, input, callID string) {
	var s *stepInput
	if p.step != nil && p.step.input.kind.StepInput == nil {
		s = &p.step.input
	} else {
		s = &stepInput{}
	}
	s.InputJson, s.Input, s.CallId = input, twinIn(&s.twin, input), callID
	s.kind.StepInput = &s.StepInput
	e.Payload = &s.kind
}

func (p *page) setStepOutput(e *executorv1.ExecutorEvent, output string) {
	var s *stepOutput
	if p.step != nil && p.step.output.kind.StepOutput == nil {
		s = &p.step.output
	} else {
		s = &stepOutput{}
	}
	s.OutputJson, s.Output = output, twinIn(&s.twin, output)
	s.kind.StepOutput = &s.StepOutput
	e.Payload = &s.kind
}
