package view

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
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
	events  []*executorv1.ExecutorEvent
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
}

func newPage(r journal.Record, elapsed int64) *page {
	var p *page
	if n := len(r.GetFacts()); n == len(stepPage{}.entries) {
		step := &stepPage{}
		p = &step.page
		p.entries, p.events = step.entries[:], step.events[:]
	} else {
		p = &page{entries: make([]entry, n), events: make([]*executorv1.ExecutorEvent, n)}
	}
	at := time.Unix(0, r.GetTime())
	p.at.Seconds, p.at.Nanos = at.Unix(), int32(at.Nanosecond())
	p.elapsed.Seconds, p.elapsed.Nanos = elapsed/int64(time.Second), int32(elapsed%int64(time.Second))
	setUsage(&p.usage, r.GetUsage(), &p.elapsed)
	return p
}

// What each step has is allocated at once, with the field that says what it is.

func setStepInit(e *executorv1.ExecutorEvent, toolID, description string) {
	p := &struct {
		kind executorv1.ExecutorEvent_StepInit
		executorv1.StepInit
	}{}
	p.ToolId, p.Description = toolID, description
	p.kind.StepInit = &p.StepInit
	e.Payload = &p.kind
}

func setStepInput(e *executorv1.ExecutorEvent, input, callID string) {
	p := &struct {
		kind executorv1.ExecutorEvent_StepInput
		executorv1.StepInput
	}{}
	p.InputJson, p.Input, p.CallId = input, twin(input), callID
	p.kind.StepInput = &p.StepInput
	e.Payload = &p.kind
}

func setStepOutput(e *executorv1.ExecutorEvent, output string) {
	p := &struct {
		kind executorv1.ExecutorEvent_StepOutput
		executorv1.StepOutput
	}{}
	p.OutputJson, p.Output = output, twin(output)
	p.kind.StepOutput = &p.StepOutput
	e.Payload = &p.kind
}
