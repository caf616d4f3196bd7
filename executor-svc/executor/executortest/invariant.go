package executortest

import (
	"fmt"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

const (
	flowStart  = executorv1.EventType_EVENT_TYPE_FLOW_START
	flowStop   = executorv1.EventType_EVENT_TYPE_FLOW_STOP
	success    = executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS
	failed     = executorv1.EventType_EVENT_TYPE_FLOW_FAILED
	cancelled  = executorv1.EventType_EVENT_TYPE_FLOW_CANCEL
	stepInit   = executorv1.EventType_EVENT_TYPE_STEP_INIT
	stepInput  = executorv1.EventType_EVENT_TYPE_STEP_INPUT
	stepOutput = executorv1.EventType_EVENT_TYPE_STEP_OUTPUT
	stepError  = executorv1.EventType_EVENT_TYPE_STEP_ERROR
	stepCancel = executorv1.EventType_EVENT_TYPE_STEP_CANCEL
	forStart   = executorv1.EventType_EVENT_TYPE_STEP_WAITING_FOR_START
	forParam   = executorv1.EventType_EVENT_TYPE_STEP_WAITING_FOR_PARAM
	forInput   = executorv1.EventType_EVENT_TYPE_INPUT_REQUIRED
	textAdd    = executorv1.EventType_EVENT_TYPE_TEXT_ADD
)

// Violations takes all events of a task, from the first one on, and returns the violated invariants. The seqs are 1, 2, 3 ….
// FLOW_START comes at most once. Each attempt begins once and ends once, in the subtask or branch of its step. FLOW_STOP follows a question, or
// several that are asked together, unless other lanes go on; no attempt runs then, but those that ask. A tool's server asks only while an
// attempt runs. Each answer closes an open wait of its own step. No wait id is used twice. The pieces of an answer, joined, are the full answer.
// No event follows the end. The numbers of steps and attempts have no gaps. Usage never decreases. Statuses of subtasks follow one another, and
// no subtask starts before those that it depends on are completed.
func Violations(events []*executorv1.ExecutorEvent) []string {
	c := &checker{
		running: map[string]string{}, begun: map[string]bool{}, openWaits: map[string]string{}, answers: map[string]string{}, waitIDs: map[string]bool{},
		step: map[string]string{}, lineOf: map[string]string{}, attempts: map[string]uint32{},
		subtasks: map[string]executorv1.SubtaskStatus{}, needs: map[string][]string{},
	}
	for i, e := range events {
		if e.GetSeq() != uint64(i+1) {
			c.report("event %d has seq %d", i+1, e.GetSeq())
		}
		if c.ended {
			c.report("%s after the end", e.GetType())
		}
		c.lanes = c.lanes || e.GetSubtaskId() != ""
		if c.stopDue && !c.lanes && e.GetType() != flowStop && (e.GetType() != forInput || events[i-1].GetType() != forInput) {
			c.report("a question is followed by %s, want FLOW_STOP", e.GetType())
		}
		c.stopDue = false
		c.checkCounts(e)
		c.checkPlan(e)
		c.checkEvent(e)
	}
	if c.ended {
		for attempt := range c.running {
			c.report("attempt %s has no end", attempt)
		}
	}
	return c.problems
}

type checker struct {
	problems  []string
	starts    int  // FLOW_START events
	stopDue   bool // the last event was a question
	ended     bool
	lanes     bool              // there are subtasks or branches
	running   map[string]string // steps of the attempts that run, by attempt
	begun     map[string]bool   // attempts that began
	openWaits map[string]string // steps by the ids of their open waits
	answers   map[string]string // the joined pieces of each answer
	step      map[string]string // the newest planned step of each line: of a subtask, a branch, or the main line ""
	lineOf    map[string]string // lines by step
	waitIDs   map[string]bool   // of all waits so far
	steps     int               // planned so far
	attempts  map[string]uint32 // of each step
	subtasks  map[string]executorv1.SubtaskStatus
	needs     map[string][]string // what each subtask depends on
	usage     *commonv1.Usage     // at the last event
}

func (c *checker) report(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// checkCounts checks the usage, the numbers of steps and attempts, and the wait ids.
func (c *checker) checkCounts(e *executorv1.ExecutorEvent) {
	u := e.GetUsage()
	if u.GetInputTokens() < c.usage.GetInputTokens() || u.GetOutputTokens() < c.usage.GetOutputTokens() ||
		u.GetModelCalls() < c.usage.GetModelCalls() || u.GetToolCalls() < c.usage.GetToolCalls() {
		c.report("the usage at event %d, %s, is less than before: %v after %v", e.GetSeq(), e.GetType(), u, c.usage)
	}
	c.usage = u
	switch e.GetType() {
	case stepInit:
		c.steps++
		if want := fmt.Sprintf("step-%d", c.steps); e.GetFlow().GetStepId() != want {
			c.report("%s is planned, want %s", e.GetFlow().GetStepId(), want)
		}
	case stepInput:
		step := e.GetFlow().GetStepId()
		if c.attempts[step]++; e.GetAttempt() != c.attempts[step] {
			c.report("attempt %s begins, want attempt %d", attemptOf(e), c.attempts[step])
		}
	case forStart, forParam, forInput:
		if c.waitIDs[e.GetWaitId()] {
			c.report("%s is asked again", e.GetWaitId())
		}
		c.waitIDs[e.GetWaitId()] = true
	}
}

func (c *checker) checkEvent(e *executorv1.ExecutorEvent) {
	step := e.GetFlow().GetStepId()
	switch e.GetType() {
	case flowStart:
		if c.starts++; c.starts > 1 {
			c.report("FLOW_START again")
		}
	case stepInit:
		for attempt, other := range c.running {
			// A subtask may make several calls at once.
			if line := e.GetSubtaskId(); c.lineOf[other] == line && c.subtasks[line] == 0 {
				c.report("%s is planned while attempt %s runs", step, attempt)
			}
		}
		c.step[e.GetSubtaskId()], c.lineOf[step] = step, e.GetSubtaskId()
	case stepInput:
		c.beginAttempt(e)
	case stepOutput, stepError, stepCancel:
		c.endAttempt(e)
	case forStart, forParam, forInput:
		c.openWait(e)
		return
	case flowStop:
		c.stop()
	case textAdd, success, failed, cancelled:
		c.checkAnswer(e)
	}
	c.closeWait(e)
}

// checkAnswer checks a piece of an answer, or the end of the task.
func (c *checker) checkAnswer(e *executorv1.ExecutorEvent) {
	c.ended = e.GetType() != textAdd
	full, id := e.GetFlowSuccess().GetFullAnswer(), e.GetFlowSuccess().GetAnswerId()
	if f := e.GetFlowFailed(); f != nil {
		full, id = f.GetFullAnswer(), f.GetAnswerId()
	}
	if id != "" && c.answers[id] != full {
		c.report("the pieces of %s do not join to the answer", id)
	}
	if t := e.GetTextAdd(); t != nil {
		if have := uint64(len(c.answers[t.GetAnswerId()])); have != t.GetOffset() {
			c.report("a piece of %s is at %d, after %d bytes", t.GetAnswerId(), t.GetOffset(), have)
		}
		c.answers[t.GetAnswerId()] += t.GetText()
	}
}

// stop checks that only attempts that ask run.
func (c *checker) stop() {
	for attempt, step := range c.running {
		asks := false
		for _, about := range c.openWaits {
			asks = asks || about == step
		}
		if !asks {
			c.report("FLOW_STOP while attempt %s runs", attempt)
		}
	}
}

// checkPlan checks an event about the plan or a subtask.
func (c *checker) checkPlan(e *executorv1.ExecutorEvent) {
	plan, change, id := e.GetPlanCreated().GetPlan(), e.GetSubtaskChanged(), e.GetSubtaskId()
	if plan.GetMainTask() != "" { // a whole plan
		clear(c.subtasks)
	}
	for _, s := range plan.GetSubtasks() {
		c.subtasks[s.GetId()], c.needs[s.GetId()] = executorv1.SubtaskStatus_SUBTASK_STATUS_PENDING, s.GetDependsOn()
	}
	if change == nil {
		return
	}
	if c.subtasks[id] != change.GetFrom() {
		c.report("subtask %s changes from %s, and is %s", id, change.GetFrom(), c.subtasks[id])
	}
	c.subtasks[id] = change.GetTo()
	for _, d := range c.needs[id] {
		if change.GetTo() == executorv1.SubtaskStatus_SUBTASK_STATUS_IN_PROGRESS && c.subtasks[d] != executorv1.SubtaskStatus_SUBTASK_STATUS_COMPLETED {
			c.report("subtask %s starts while %s is %s", id, d, c.subtasks[d])
		}
	}
}

func (c *checker) openWait(e *executorv1.ExecutorEvent) {
	switch attempt := attemptOf(e); {
	case e.GetStepWaitingForStart().GetOutcomeUnknown():
		c.endAttempt(e)
	case e.GetType() == forInput && c.running[attempt] == "":
		c.report("attempt %s asks a question, but does not run", attempt)
	}
	c.openWaits[e.GetWaitId()], c.stopDue = e.GetFlow().GetStepId(), true
}

// closeWait checks that the answer to a wait is about the wait's step.
func (c *checker) closeWait(e *executorv1.ExecutorEvent) {
	id := e.GetWaitId()
	if id == "" || e.GetType() == cancelled {
		return
	}
	about, open := c.openWaits[id]
	switch step := e.GetFlow().GetStepId(); {
	case !open && step != "":
		c.report("%s answers %s, which is not open", e.GetType(), id)
	case open && step != "" && about != step:
		c.report("%s of %s answers %s, which is about %s", e.GetType(), step, id, about)
	}
	delete(c.openWaits, id)
}

func attemptOf(e *executorv1.ExecutorEvent) string {
	return fmt.Sprintf("%s/%d", e.GetFlow().GetStepId(), e.GetAttempt())
}

func (c *checker) beginAttempt(e *executorv1.ExecutorEvent) {
	attempt := attemptOf(e)
	if c.begun[attempt] {
		c.report("attempt %s begins again", attempt)
	}
	step, line := e.GetFlow().GetStepId(), e.GetSubtaskId()
	if planned, known := c.lineOf[step]; !known || planned != line || step != c.step[line] && c.subtasks[line] == 0 {
		c.report("attempt %s begins in %q, but the newest planned step is %q, and %s is planned in %q", attempt, line, c.step[line], step, planned)
	}
	c.begun[attempt], c.running[attempt] = true, step
}

// endAttempt records the end of the event's attempt. An event without an attempt ends only the step; its newest attempt has ended before.
func (c *checker) endAttempt(e *executorv1.ExecutorEvent) {
	if e.GetAttempt() == 0 {
		return
	}
	attempt := attemptOf(e)
	if line := c.lineOf[e.GetFlow().GetStepId()]; line != e.GetSubtaskId() {
		c.report("attempt %s ends in %q, and began in %q", attempt, e.GetSubtaskId(), line)
	}
	if c.running[attempt] == "" {
		c.report("%s ends attempt %s, which does not run", e.GetType(), attempt)
	}
	delete(c.running, attempt)
}
