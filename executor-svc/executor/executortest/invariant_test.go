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

// in returns an event of a subtask or branch, with the task's status.
func in(subtask string, e *event, status executorv1.ExecutorStatus) *event {
	e.SubtaskId, e.Flow.ExecutorStatus = subtask, status
	return e
}

const (
	running = executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING
	waiting = executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING

	pending    = executorv1.SubtaskStatus_SUBTASK_STATUS_PENDING
	blocked    = executorv1.SubtaskStatus_SUBTASK_STATUS_BLOCKED
	inProgress = executorv1.SubtaskStatus_SUBTASK_STATUS_IN_PROGRESS
	completed  = executorv1.SubtaskStatus_SUBTASK_STATUS_COMPLETED
)

func planned(p *executorv1.Plan) *event {
	e := in("", of(executorv1.EventType_EVENT_TYPE_PLAN_CREATED, "", 0, ""), running)
	e.Payload = &executorv1.ExecutorEvent_PlanCreated{PlanCreated: &executorv1.PlanCreated{Plan: p}}
	return e
}

func change(subtask string, from, to executorv1.SubtaskStatus) *event {
	e := in(subtask, of(executorv1.EventType_EVENT_TYPE_SUBTASK_CHANGED, "", 0, ""), running)
	e.Payload = &executorv1.ExecutorEvent_SubtaskChanged{SubtaskChanged: &executorv1.SubtaskChanged{From: from, To: to}}
	return e
}

func thinks(subtask string, offset uint64, words string) *event {
	e := in(subtask, of(executorv1.EventType_EVENT_TYPE_THOUGHT, "", 0, ""), running)
	e.Payload = &executorv1.ExecutorEvent_Thought{Thought: &executorv1.Thought{ThoughtId: "thought-1", Offset: offset, Text: words}}
	return e
}

func stops(waits ...string) *event {
	e := in("", of(stop, "", 0, ""), waiting)
	e.Payload = &executorv1.ExecutorEvent_FlowStop{FlowStop: &executorv1.FlowStop{WaitIds: waits}}
	return e
}

// subtasks returns the events of a task with two subtasks that are worked on at once, and a third one after them, that violate no rule.
func subtasks() []*event {
	return numbered([]*event{
		in("", of(start, "", 0, ""), running),
		planned(&executorv1.Plan{MainTask: "all", Revision: 1, Subtasks: []*executorv1.Subtask{{Id: "a"}, {Id: "b"}, {Id: "c", DependsOn: []string{"a", "b"}}}}),
		change("c", pending, blocked), change("a", pending, inProgress), change("b", pending, inProgress),
		in("a", of(stepInit, "step-1", 0, ""), running), in("a", of(input, "step-1", 1, ""), running),
		in("b", of(stepInit, "step-2", 0, ""), running), in("b", of(asks, "step-2", 0, "wait-1"), running),
		in("a", of(stepInit, "step-3", 0, ""), running), in("a", of(input, "step-3", 1, ""), running), // both calls of a at once
		in("a", of(output, "step-1", 1, ""), running), in("a", of(output, "step-3", 1, ""), running), change("a", inProgress, completed),
		stops("wait-1"), in("b", of(input, "step-2", 1, "wait-1"), running), in("b", of(output, "step-2", 1, ""), running),
		change("b", inProgress, completed), change("c", blocked, pending), change("c", pending, inProgress),
		thinks("c", 0, "hm "), thinks("c", 3, "well"),
	})
}

// branches returns the events of a task with two branches, and a step of the main line after them, that violate no rule.
func branches() []*event {
	return numbered([]*event{
		in("", of(start, "", 0, ""), running),
		in("x", of(stepInit, "step-1", 0, ""), running), in("x", of(asks, "step-1", 0, "wait-1"), running),
		in("y", of(stepInit, "step-2", 0, ""), running), in("y", of(asks, "step-2", 0, "wait-2"), waiting), stops("wait-1", "wait-2"),
		in("y", of(input, "step-2", 1, "wait-2"), running), in("y", of(output, "step-2", 1, ""), running), stops("wait-1"),
		in("x", of(input, "step-1", 1, "wait-1"), running), in("x", of(output, "step-1", 1, ""), running),
		in("", of(stepInit, "step-3", 0, ""), running), in("", of(input, "step-3", 1, ""), running), in("", of(output, "step-3", 1, ""), running),
	})
}

// Each rule about lanes finds a violation of its own (D7, A26).
func TestEachRuleOfLanesFindsItsViolation(t *testing.T) {
	move := func(e []*event, from, to int) []*event {
		moved := e[from]
		return numbered(slices.Insert(slices.Delete(e, from, from+1), to, moved))
	}
	add := func(e []*event, at int, more ...*event) []*event { return numbered(slices.Insert(e, at, more...)) }
	for name, c := range map[string]struct {
		whole   func() []*event
		violate func([]*event) []*event
		want    string
	}{
		"an outcome in another lane":      {subtasks, func(e []*event) []*event { e[11].SubtaskId = "b"; return e }, `it was planned in "a"`},
		"a call in another lane":          {subtasks, func(e []*event) []*event { e[6].SubtaskId = "b"; return e }, `it was planned in "a"`},
		"a wait answered in another lane": {subtasks, func(e []*event) []*event { e[6].WaitId = "wait-1"; e[15].WaitId = ""; return e }, "not open"},
		"FLOW_STOP while a lane runs":     {subtasks, func(e []*event) []*event { return move(e, 14, 11) }, "EVENT_TYPE_FLOW_STOP while attempt step-1/1 runs"},
		"a task waits while a lane runs":  {subtasks, func(e []*event) []*event { e[8].Flow.ExecutorStatus = waiting; return e }, "while attempt step-1/1 runs"},
		"a dependent starts early":        {subtasks, func(e []*event) []*event { return move(e, 17, 19) }, "subtask c starts before b"},
		"a change of another status":      {subtasks, func(e []*event) []*event { return numbered(slices.Delete(e, 3, 4)) }, "subtask a changes from"},
		"a change against the table":      {subtasks, func(e []*event) []*event { return add(e, 14, change("a", completed, inProgress)) }, "subtask a changes from"},
		"a change of an unknown subtask":  {subtasks, func(e []*event) []*event { return add(e, 14, change("z", pending, inProgress)) }, "is not in the plan"},
		"a revision that does not grow":   {subtasks, func(e []*event) []*event { return add(e, 14, planned(&executorv1.Plan{Revision: 1})) }, "revision 1 after 1"},
		"a subtask is added twice": {subtasks, func(e []*event) []*event {
			return add(e, 14, planned(&executorv1.Plan{Revision: 2, Subtasks: []*executorv1.Subtask{{Id: "a"}}}))
		}, "is added again"},
		"a thought with a gap":            {subtasks, func(e []*event) []*event { return numbered(slices.Delete(e, 20, 21)) }, "a piece of c/thought-1 is at 3"},
		"a thought in no work":            {subtasks, func(e []*event) []*event { return move(e, 20, 5) }, "which is not worked on"},
		"a subtask ends during its call":  {subtasks, func(e []*event) []*event { return move(e, 13, 11) }, "ends while attempt step-1/1 runs"},
		"a task ends before its subtasks": {subtasks, func(e []*event) []*event { return add(e, 22, of(failed, "", 0, "")) }, "subtask c is"},
		"an attempt after the end":        {subtasks, func(e []*event) []*event { return add(e, 13, in("a", of(input, "step-1", 2, ""), running)) }, "its step has ended"},
		"an attempt beside another":       {subtasks, func(e []*event) []*event { return add(e, 7, in("a", of(input, "step-1", 2, ""), running)) }, "while attempt 1 runs"},
		"an attempt of no step":           {subtasks, func(e []*event) []*event { return numbered(slices.Delete(e, 5, 6)) }, "not planned"},

		"a wait that FLOW_STOP leaves out": {branches, func(e []*event) []*event { e[5] = stops("wait-1"); return numbered(e) }, "does not name wait-2"},
		"a closed wait in FLOW_STOP":       {branches, func(e []*event) []*event { e[8] = stops("wait-1", "wait-2"); return numbered(e) }, "names wait-2"},
		"FLOW_STOP is missing":             {branches, func(e []*event) []*event { return numbered(slices.Delete(e, 5, 6)) }, "want FLOW_STOP"},
		"FLOW_STOP of a running task":      {branches, func(e []*event) []*event { e[8].Flow.ExecutorStatus = running; return e }, "FLOW_STOP while the task is"},
		"answers that are swapped": {branches, func(e []*event) []*event {
			e[6].WaitId, e[9].WaitId = "wait-1", "wait-2"
			return e
		}, "answers wait-1, which is about step-1"},
		"the main line goes on early": {branches, func(e []*event) []*event { return move(e, 11, 10) }, "step-3 is planned while an attempt runs: step-1/1"},
		"two steps of a branch":       {branches, func(e []*event) []*event { e[3].SubtaskId, e[4].SubtaskId = "x", "x"; return e }, "step-2 is planned while step-1 is open"},
		"a question that stops no one": {branches, func(e []*event) []*event {
			e[12] = in("", of(asks, "step-3", 0, "wait-3"), running)
			return numbered(e)
		}, "nothing else can run"},
	} {
		t.Run(name, func(t *testing.T) {
			if problems := executortest.Violations(c.whole()); len(problems) > 0 {
				t.Fatalf("a whole task: %v", problems)
			}
			problems := executortest.Violations(c.violate(c.whole()))
			if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, c.want) }) {
				t.Errorf("found %q, want %q", problems, c.want)
			}
		})
	}
}
