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
// FLOW_START comes at most once. Each attempt begins once and ends once. FLOW_STOP follows a question, or several that are asked
// together. A tool's server asks only while an attempt runs. Each answer closes an open wait of its own step. No wait id is used
// twice. The pieces of an answer, joined, are the full answer. No event follows the end. The numbers of steps and attempts have no
// gaps. Usage never decreases.
func Violations(events []*executorv1.ExecutorEvent) []string {
	c := &checker{running: map[string]bool{}, begun: map[string]bool{}, openWaits: map[string]string{}, answers: map[string]string{}, waitIDs: map[string]bool{}}
	for i, e := range events {
		if e.GetSeq() != uint64(i+1) {
			c.report("event %d has seq %d", i+1, e.GetSeq())
		}
		if c.ended {
			c.report("%s after the end", e.GetType())
		}
		if c.stopDue && e.GetType() != flowStop && (e.GetType() != forInput || events[i-1].GetType() != forInput) {
			c.report("a question is followed by %s, want FLOW_STOP", e.GetType())
		}
		c.stopDue = false
		c.checkCounts(e)
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
	running   map[string]bool   // attempts that run
	begun     map[string]bool   // attempts that began
	openWaits map[string]string // steps by the ids of their open waits
	answers   map[string]string // the joined pieces of each answer
	step      string            // the newest planned step
	waitIDs   map[string]bool   // of all waits so far
	steps     int               // planned so far
	attempts  uint32            // of the newest step
	usage     *commonv1.Usage   // at the last event
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
		c.steps, c.attempts = c.steps+1, 0
		if want := fmt.Sprintf("step-%d", c.steps); e.GetFlow().GetStepId() != want {
			c.report("%s is planned, want %s", e.GetFlow().GetStepId(), want)
		}
	case stepInput:
		if c.attempts++; e.GetAttempt() != c.attempts {
			c.report("attempt %s begins, want attempt %d", attemptOf(e), c.attempts)
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
		if len(c.running) > 0 {
			c.report("%s is planned while an attempt runs", step)
		}
		c.step = step
	case stepInput:
		c.beginAttempt(e)
	case stepOutput, stepError, stepCancel:
		c.endAttempt(e)
	case forStart, forParam, forInput:
		c.openWait(e)
		return
	case textAdd:
		t := e.GetTextAdd()
		if have := uint64(len(c.answers[t.GetAnswerId()])); have != t.GetOffset() {
			c.report("a piece of %s is at %d, after %d bytes", t.GetAnswerId(), t.GetOffset(), have)
		}
		c.answers[t.GetAnswerId()] += t.GetText()
	case success:
		if s := e.GetFlowSuccess(); c.answers[s.GetAnswerId()] != s.GetFullAnswer() {
			c.report("the pieces of %s do not join to the answer", s.GetAnswerId())
		}
		c.ended = true
	case failed:
		if f := e.GetFlowFailed(); f.GetAnswerId() != "" && c.answers[f.GetAnswerId()] != f.GetFullAnswer() {
			c.report("the pieces of %s do not join to the answer", f.GetAnswerId())
		}
		c.ended = true
	case cancelled:
		c.ended = true
	}
	c.closeWait(e)
}

func (c *checker) openWait(e *executorv1.ExecutorEvent) {
	switch attempt := attemptOf(e); {
	case e.GetStepWaitingForStart().GetOutcomeUnknown():
		c.endAttempt(e)
	case e.GetType() == forInput && !c.running[attempt]:
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
	if e.GetFlow().GetStepId() != c.step {
		c.report("attempt %s begins, but the newest planned step is %s", attempt, c.step)
	}
	c.begun[attempt], c.running[attempt] = true, true
}

// endAttempt records the end of the event's attempt. An event without an attempt ends only the step; its newest attempt has ended before.
func (c *checker) endAttempt(e *executorv1.ExecutorEvent) {
	if e.GetAttempt() == 0 {
		return
	}
	attempt := attemptOf(e)
	if !c.running[attempt] {
		c.report("%s ends attempt %s, which does not run", e.GetType(), attempt)
	}
	delete(c.running, attempt)
}
