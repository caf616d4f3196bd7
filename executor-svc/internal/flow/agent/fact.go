package agent

import (
	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// A fact that each step has is one piece of memory with the field that says what it is.
type (
	initFact struct {
		storagev1.Fact
		kind storagev1.Fact_StepInit
	}
	startFact struct {
		storagev1.Fact
		kind storagev1.Fact_StepInput
	}
	outputFact struct {
		storagev1.Fact
		kind storagev1.Fact_StepOutput
	}
)

// usual is the memory of the usual transition: a step's output, the next one's beginning and input, and its call.
type usual struct {
	facts   [usualFacts]*storagev1.Fact
	effects [1]flow.Effect
	output  outputFact
	begun   initFact
	start   startFact
}

const usualFacts = 3

// makeUsual makes room for the usual transition.
func (m *move) makeUsual() {
	m.room = &usual{}
	m.facts, m.effects = m.room.facts[:0], m.room.effects[:0]
}

func (m *move) initFact(description string) *storagev1.Fact {
	var f *initFact
	if m.room != nil && m.room.begun.Kind == nil {
		f = &m.room.begun
	} else {
		f = &initFact{}
	}
	f.kind.StepInit = description
	f.Kind = &f.kind
	return &f.Fact
}

func (m *move) startFact(waitID, input string) *storagev1.Fact {
	var f *startFact
	if m.room != nil && m.room.start.Kind == nil {
		f = &m.room.start
	} else {
		f = &startFact{}
	}
	f.kind.StepInput = input
	f.WaitId, f.Kind = waitID, &f.kind
	return &f.Fact
}

func (m *move) outputFact(output string) *storagev1.Fact {
	var f *outputFact
	if m.room != nil && m.room.output.Kind == nil {
		f = &m.room.output
	} else {
		f = &outputFact{}
	}
	f.kind.StepOutput = output
	f.Kind = &f.kind
	return &f.Fact
}
