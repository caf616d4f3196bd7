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

// Violations takes all events of a task from the first one and returns the invariants that they break: the seqs are 1, 2, 3 …;
// FLOW_START comes once; each attempt begins once and ends once; a question is followed by FLOW_STOP, or by other questions
// that are asked together and then FLOW_STOP; a tool's server asks only while an attempt runs; each answer closes an open wait
// of its own step; no wait id is used twice; the pieces of an answer, joined, are the full answer; no event follows the end; the
// numbers of steps and attempts have no gaps; usage never decreases.
func Violations(events []*executorv1.ExecutorEvent) []string {
	c := &checker{open: map[string]bool{}, seen: map[string]bool{}, waits: map[string]string{}, answers: map[string]string{}, asks: map[string]bool{}}
	for i, e := range events {
		if e.GetSeq() != uint64(i+1) {
			c.wrong("event %d has seq %d", i+1, e.GetSeq())
		}
		if c.ended {
			c.wrong("%s after the end", e.GetType())
		}
		if c.asked && e.GetType() != flowStop && (e.GetType() != forInput || events[i-1].GetType() != forInput) {
			c.wrong("a question is followed by %s, want FLOW_STOP", e.GetType())
		}
		c.asked = false
		c.counts(e)
		c.event(e)
	}
	if c.ended {
		for attempt := range c.open {
			c.wrong("attempt %s has no end", attempt)
		}
	}
	return c.problems
}

type checker struct {
	problems []string
	starts   int
	asked    bool
	ended    bool
	open     map[string]bool   // attempts that run
	seen     map[string]bool   // attempts that began
	waits    map[string]string // open waits, and the step that each is about
	answers  map[string]string // the joined pieces of each answer
	step     string            // the newest planned step
	asks     map[string]bool   // all waits so far
	steps    int               // planned so far
	attempts uint32            // of the newest step
	usage    *commonv1.Usage   // at the last event
}

func (c *checker) wrong(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// counts checks counters that may only grow.
func (c *checker) counts(e *executorv1.ExecutorEvent) {
	u := e.GetUsage()
	if u.GetInputTokens() < c.usage.GetInputTokens() || u.GetOutputTokens() < c.usage.GetOutputTokens() ||
		u.GetModelCalls() < c.usage.GetModelCalls() || u.GetToolCalls() < c.usage.GetToolCalls() {
		c.wrong("the usage at event %d, %s, is less than before: %v after %v", e.GetSeq(), e.GetType(), u, c.usage)
	}
	c.usage = u
	switch e.GetType() {
	case stepInit:
		c.steps, c.attempts = c.steps+1, 0
		if want := fmt.Sprintf("step-%d", c.steps); e.GetFlow().GetStepId() != want {
			c.wrong("%s is planned, want %s", e.GetFlow().GetStepId(), want)
		}
	case stepInput:
		if c.attempts++; e.GetAttempt() != c.attempts {
			c.wrong("attempt %s begins, want attempt %d", attemptOf(e), c.attempts)
		}
	case forStart, forParam, forInput:
		if c.asks[e.GetWaitId()] {
			c.wrong("%s is asked again", e.GetWaitId())
		}
		c.asks[e.GetWaitId()] = true
	}
}

func (c *checker) event(e *executorv1.ExecutorEvent) {
	step := e.GetFlow().GetStepId()
	switch e.GetType() {
	case flowStart:
		if c.starts++; c.starts > 1 {
			c.wrong("FLOW_START again")
		}
	case stepInit:
		if len(c.open) > 0 {
			c.wrong("%s is planned while an attempt runs", step)
		}
		c.step = step
	case stepInput:
		c.begins(e)
	case stepOutput, stepError, stepCancel:
		c.ends(e)
	case forStart, forParam, forInput:
		c.question(e)
		return
	case textAdd:
		t := e.GetTextAdd()
		if have := uint64(len(c.answers[t.GetAnswerId()])); have != t.GetOffset() {
			c.wrong("a piece of %s is at %d, after %d bytes", t.GetAnswerId(), t.GetOffset(), have)
		}
		c.answers[t.GetAnswerId()] += t.GetText()
	case success:
		if s := e.GetFlowSuccess(); c.answers[s.GetAnswerId()] != s.GetFullAnswer() {
			c.wrong("the pieces of %s do not join to the answer", s.GetAnswerId())
		}
		c.ended = true
	case failed:
		if f := e.GetFlowFailed(); f.GetAnswerId() != "" && c.answers[f.GetAnswerId()] != f.GetFullAnswer() {
			c.wrong("the pieces of %s do not join to the answer", f.GetAnswerId())
		}
		c.ended = true
	case cancelled:
		c.ended = true
	}
	c.answered(e)
}

func (c *checker) question(e *executorv1.ExecutorEvent) {
	switch attempt := attemptOf(e); {
	case e.GetStepWaitingForStart().GetOutcomeUnknown():
		c.ends(e)
	case e.GetType() == forInput && !c.open[attempt]:
		c.wrong("attempt %s asks for something, and does not run", attempt)
	}
	c.waits[e.GetWaitId()], c.asked = e.GetFlow().GetStepId(), true
}

// answered checks that the answer to a wait is about the wait's step.
func (c *checker) answered(e *executorv1.ExecutorEvent) {
	id := e.GetWaitId()
	if id == "" || e.GetType() == cancelled {
		return
	}
	about, open := c.waits[id]
	switch step := e.GetFlow().GetStepId(); {
	case !open && step != "":
		c.wrong("%s answers %s, which is not open", e.GetType(), id)
	case open && step != "" && about != step:
		c.wrong("%s of %s answers %s, which asked about %s", e.GetType(), step, id, about)
	}
	delete(c.waits, id)
}

func attemptOf(e *executorv1.ExecutorEvent) string {
	return fmt.Sprintf("%s/%d", e.GetFlow().GetStepId(), e.GetAttempt())
}

func (c *checker) begins(e *executorv1.ExecutorEvent) {
	attempt := attemptOf(e)
	if c.seen[attempt] {
		c.wrong("attempt %s begins again", attempt)
	}
	if e.GetFlow().GetStepId() != c.step {
		c.wrong("attempt %s begins, but the newest planned step is %s", attempt, c.step)
	}
	c.seen[attempt], c.open[attempt] = true, true
}

// ends records the end of the event's attempt. An event without an attempt ends only the step; its newest attempt has ended before.
func (c *checker) ends(e *executorv1.ExecutorEvent) {
	if e.GetAttempt() == 0 {
		return
	}
	attempt := attemptOf(e)
	if !c.open[attempt] {
		c.wrong("%s ends attempt %s, which does not run", e.GetType(), attempt)
	}
	delete(c.open, attempt)
}
