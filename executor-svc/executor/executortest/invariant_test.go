package executortest_test

import (
	"slices"
	"strings"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/executor/executortest"
)

type event = executorv1.ExecutorEvent

func of(kind executorv1.EventType, step string, attempt uint32, wait string) *event {
	return &event{Type: kind, Flow: &executorv1.Flow{StepId: step}, Attempt: attempt, WaitId: wait}
}

const (
	start    = executorv1.EventType_EVENT_TYPE_FLOW_START
	stop     = executorv1.EventType_EVENT_TYPE_FLOW_STOP
	done     = executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS
	failed   = executorv1.EventType_EVENT_TYPE_FLOW_FAILED
	stepInit = executorv1.EventType_EVENT_TYPE_STEP_INIT
	input    = executorv1.EventType_EVENT_TYPE_STEP_INPUT
	output   = executorv1.EventType_EVENT_TYPE_STEP_OUTPUT
	asks     = executorv1.EventType_EVENT_TYPE_STEP_WAITING_FOR_START
	elicits  = executorv1.EventType_EVENT_TYPE_INPUT_REQUIRED
	status   = executorv1.EventType_EVENT_TYPE_STATUS_CHANGED
	text     = executorv1.EventType_EVENT_TYPE_TEXT_ADD
)

// whole returns the events of a task that violate no rule.
func whole() []*event {
	piece := of(text, "", 0, "")
	piece.Payload = &executorv1.ExecutorEvent_TextAdd{TextAdd: &executorv1.TextAdd{AnswerId: "answer-1", Text: "done"}}
	end := of(done, "", 0, "")
	end.Payload = &executorv1.ExecutorEvent_FlowSuccess{FlowSuccess: &executorv1.FlowSuccess{AnswerId: "answer-1", FullAnswer: "done"}}
	return numbered([]*event{
		of(start, "", 0, ""),
		of(stepInit, "step-1", 0, ""), of(asks, "step-1", 0, "wait-1"), of(stop, "", 0, ""),
		of(input, "step-1", 1, "wait-1"), of(output, "step-1", 1, ""),
		of(stepInit, "step-2", 0, ""), of(asks, "step-2", 0, "wait-2"), of(stop, "", 0, ""),
		of(input, "step-2", 1, "wait-2"), of(output, "step-2", 1, ""),
		of(stepInit, "step-3", 0, ""), of(input, "step-3", 1, ""),
		of(elicits, "step-3", 1, "wait-3"), of(elicits, "step-3", 1, "wait-4"), of(stop, "", 0, ""),
		of(status, "step-3", 1, "wait-3"), of(status, "step-3", 1, "wait-4"), of(output, "step-3", 1, ""),
		piece, end,
	})
}

func numbered(events []*event) []*event {
	for i, e := range events {
		e.Seq = uint64(i + 1)
	}
	return events
}

// Each rule finds a violation of its own.
func TestEachRuleFindsItsViolation(t *testing.T) {
	if problems := executortest.Violations(whole()); len(problems) > 0 {
		t.Fatalf("a whole task: %v", problems)
	}
	without := func(i int) func([]*event) []*event {
		return func(e []*event) []*event { return numbered(slices.Delete(e, i, i+1)) }
	}
	for name, c := range map[string]struct {
		violate func([]*event) []*event
		want    string
	}{
		"a seq is skipped":               {func(e []*event) []*event { e[5].Seq = 9; return e }, "has seq 9"},
		"an event is lost":               {func(e []*event) []*event { return slices.Delete(e, 5, 6) }, "has seq"},
		"an intent is dropped":           {without(4), "which does not run"},
		"an outcome is dropped":          {without(5), "while an attempt runs"},
		"an outcome comes twice":         {func(e []*event) []*event { return numbered(slices.Insert(e, 6, of(output, "step-1", 1, ""))) }, "which does not run"},
		"a call is repeated":             {func(e []*event) []*event { return numbered(slices.Insert(e, 6, of(input, "step-1", 1, ""))) }, "begins again"},
		"FLOW_START comes twice":         {func(e []*event) []*event { return numbered(slices.Insert(e, 1, of(start, "", 0, ""))) }, "FLOW_START again"},
		"FLOW_STOP is missing":           {without(3), "want FLOW_STOP"},
		"something after the end":        {func(e []*event) []*event { return numbered(append(e, of(failed, "", 0, ""))) }, "after the end"},
		"an approval of an earlier wait": {func(e []*event) []*event { e[9].WaitId = "wait-1"; return e }, "not open"},
		"an approval of a later wait":    {func(e []*event) []*event { e[4].WaitId = "wait-2"; return e }, "not open"},
		"the answer lacks a piece":       {without(19), "do not join"},
		"a wait is asked twice":          {func(e []*event) []*event { e[7].WaitId = "wait-1"; e[9].WaitId = "wait-1"; return e }, "asked again"},
		"a step is left out":             {func(e []*event) []*event { e[6].Flow.StepId = "step-3"; return e }, "want step-2"},
		"an attempt is left out":         {func(e []*event) []*event { e[4].Attempt, e[5].Attempt = 2, 2; return e }, "want attempt 1"},
		"a question without a call": {func(e []*event) []*event {
			return numbered(slices.Insert(e, 6, of(elicits, "step-1", 1, "wait-9"), of(stop, "", 0, "")))
		}, "asks a question"},
		"work after a question":     {func(e []*event) []*event { return numbered(slices.Insert(e, 5, of(elicits, "step-1", 1, "wait-9"))) }, "want FLOW_STOP"},
		"usage shrinks":             {func(e []*event) []*event { e[4].Usage = &commonv1.Usage{ToolCalls: 1}; return e }, "less than before"},
		"an end without an outcome": {func(e []*event) []*event { return numbered(slices.Delete(e, 18, 19)) }, "has no end"},
	} {
		t.Run(name, func(t *testing.T) {
			problems := executortest.Violations(c.violate(whole()))
			if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, c.want) }) {
				t.Errorf("found %q, want %q", problems, c.want)
			}
		})
	}
}
