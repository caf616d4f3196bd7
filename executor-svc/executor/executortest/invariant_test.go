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
		"an outcome is dropped":          {without(5), "while attempt step-1/1 runs"},
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

// lanes returns the events of a task with two subtasks that work at once, and a third one after them, that violate no rule.
func lanes() []*event {
	plan := of(executorv1.EventType_EVENT_TYPE_PLAN_CREATED, "", 0, "")
	plan.Payload = &executorv1.ExecutorEvent_PlanCreated{PlanCreated: &executorv1.PlanCreated{Plan: &executorv1.Plan{
		MainTask: "all", Subtasks: []*executorv1.Subtask{{Id: "a"}, {Id: "b"}, {Id: "c", DependsOn: []string{"a", "b"}}},
	}}}
	in := func(subtask string, e *event) *event {
		e.SubtaskId = subtask
		return e
	}
	change := func(subtask string, from, to executorv1.SubtaskStatus) *event {
		e := in(subtask, of(executorv1.EventType_EVENT_TYPE_SUBTASK_CHANGED, "", 0, ""))
		e.Payload = &executorv1.ExecutorEvent_SubtaskChanged{SubtaskChanged: &executorv1.SubtaskChanged{From: from, To: to}}
		return e
	}
	const (
		pending, blocked, working, completed = executorv1.SubtaskStatus_SUBTASK_STATUS_PENDING, executorv1.SubtaskStatus_SUBTASK_STATUS_BLOCKED,
			executorv1.SubtaskStatus_SUBTASK_STATUS_IN_PROGRESS, executorv1.SubtaskStatus_SUBTASK_STATUS_COMPLETED
	)
	return numbered([]*event{
		of(start, "", 0, ""), plan, change("c", pending, blocked), change("a", pending, working), change("b", pending, working),
		in("a", of(stepInit, "step-1", 0, "")), in("a", of(input, "step-1", 1, "")),
		in("b", of(stepInit, "step-2", 0, "")), in("b", of(asks, "step-2", 0, "wait-1")),
		in("a", of(stepInit, "step-3", 0, "")), in("a", of(input, "step-3", 1, "")), // both calls of a at once
		in("a", of(output, "step-1", 1, "")), in("a", of(output, "step-3", 1, "")), change("a", working, completed),
		of(stop, "", 0, ""), in("b", of(input, "step-2", 1, "wait-1")), in("b", of(output, "step-2", 1, "")),
		change("b", working, completed), change("c", blocked, pending), change("c", pending, working),
	})
}

// Each rule about lanes finds a violation of its own.
func TestEachRuleOfLanesFindsItsViolation(t *testing.T) {
	if problems := executortest.Violations(lanes()); len(problems) > 0 {
		t.Fatalf("a whole task: %v", problems)
	}
	move := func(e []*event, from, to int) []*event {
		moved := e[from]
		return numbered(slices.Insert(slices.Delete(e, from, from+1), to, moved))
	}
	for name, c := range map[string]struct {
		violate func([]*event) []*event
		want    string
	}{
		"an outcome in another lane":      {func(e []*event) []*event { e[11].SubtaskId = "b"; return e }, `ends in "b", and began in "a"`},
		"a call in another lane":          {func(e []*event) []*event { e[6].SubtaskId = "b"; return e }, `is planned in "a"`},
		"a wait answered in another lane": {func(e []*event) []*event { e[6].WaitId = "wait-1"; e[15].WaitId = ""; return e }, "not open"},
		"FLOW_STOP while a lane runs":     {func(e []*event) []*event { return move(e, 14, 10) }, "FLOW_STOP while attempt step-1/1 runs"},
		"a dependent starts early":        {func(e []*event) []*event { return move(e, 17, 19) }, "subtask c starts while b is SUBTASK_STATUS_IN_PROGRESS"},
		"a change of another status":      {func(e []*event) []*event { return numbered(slices.Delete(e, 3, 4)) }, "subtask a changes from"},
	} {
		t.Run(name, func(t *testing.T) {
			problems := executortest.Violations(c.violate(lanes()))
			if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, c.want) }) {
				t.Errorf("found %q, want %q", problems, c.want)
			}
		})
	}
}
