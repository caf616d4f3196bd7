package executortest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

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

	statusChanged  = executorv1.EventType_EVENT_TYPE_STATUS_CHANGED
	planCreated    = executorv1.EventType_EVENT_TYPE_PLAN_CREATED
	subtaskChanged = executorv1.EventType_EVENT_TYPE_SUBTASK_CHANGED
	thought        = executorv1.EventType_EVENT_TYPE_THOUGHT
)

// forkReason begins the reason of the STATUS_CHANGED with which a fork continues.
const forkReason = "forked from "

// Violations takes all events of a task, from the first one on, and returns the violated invariants. The seqs are 1, 2, 3 ….
// FLOW_START comes at most once. The numbers of steps and attempts have no gaps. An attempt begins only for a step that was planned and
// has not ended, and only after the attempt before; it ends once. In a task without a plan of subtasks, a branch has one open step at a
// time, and the main line has none while a branch has one; a task with a plan keeps the rules of checkPlan. A tool's server asks only
// while an attempt runs. FLOW_STOP follows once nothing continues, and names the open waits. Each answer closes an open wait of its own
// step. No wait id is used twice. The pieces of an answer and of a thought have no gaps, and those of the answer, joined, are the full
// answer. No event follows the end. Usage never decreases.
func Violations(events []*executorv1.ExecutorEvent) []string {
	c := &checker{
		steps: map[string]*stepCheck{}, openWaits: map[string]string{}, pieces: map[string]string{}, waitIDs: map[string]bool{}, subtasks: map[string]*subtaskCheck{},
	}
	for i, e := range events {
		if e.GetSeq() != uint64(i+1) {
			c.report("event %d has seq %d", i+1, e.GetSeq())
		}
		if c.ended {
			c.report("%s after the end", e.GetType())
		}
		c.checkStop(e)
		c.checkCounts(e)
		c.checkEvent(e)
		c.checkPlan(e)
		c.noteStop(e)
	}
	if c.ended {
		for _, s := range c.sortedSteps() {
			if s.running != 0 {
				c.report("attempt %s/%d has no end", s.id, s.running)
			}
		}
		c.checkSubtasksEnded()
	}
	return c.problems
}

type checker struct {
	problems []string
	starts   int // FLOW_START events
	ended    bool
	steps    map[string]*stepCheck
	// openWaits holds the steps of the open waits, by wait; empty for a wait about a plan.
	openWaits map[string]string
	waitIDs   map[string]bool   // of all waits so far
	pieces    map[string]string // the joined pieces of each answer and thought
	usage     *commonv1.Usage   // at the last event
	// last is the event before, and stopDue reports that FLOW_STOP has to follow it.
	last     *executorv1.ExecutorEvent
	stopDue  bool
	revision uint32 // of the plan; 0: there is none
	subtasks map[string]*subtaskCheck
}

// stepCheck is a step that was planned.
type stepCheck struct {
	id, subtask string
	no          int
	attempts    uint32
	running     uint32 // the attempt that runs; 0: none
	ended       bool
	// failed reports that the newest attempt failed, so that the step may have ended.
	failed bool
}

func (c *checker) report(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

func (c *checker) sortedSteps() []*stepCheck {
	return slices.SortedFunc(maps.Values(c.steps), func(a, b *stepCheck) int { return cmp.Compare(a.no, b.no) })
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
		if want := fmt.Sprintf("step-%d", len(c.steps)+1); e.GetFlow().GetStepId() != want {
			c.report("%s is planned, want %s", e.GetFlow().GetStepId(), want)
		}
	case forStart, forParam, forInput:
		if c.waitIDs[e.GetWaitId()] {
			c.report("%s is asked again", e.GetWaitId())
		}
		c.waitIDs[e.GetWaitId()] = true
	}
}

func (c *checker) checkEvent(e *executorv1.ExecutorEvent) {
	if s := c.steps[e.GetFlow().GetStepId()]; s != nil && s.subtask != e.GetSubtaskId() {
		c.report("%s of %s in %q, but it was planned in %q", e.GetType(), s.id, e.GetSubtaskId(), s.subtask)
	}
	switch e.GetType() {
	case flowStart:
		if c.starts++; c.starts > 1 {
			c.report("FLOW_START again")
		}
	case stepInit:
		c.planStep(e)
	case stepInput:
		c.beginAttempt(e)
	case stepOutput, stepError, stepCancel:
		c.closeWait(e)
		c.endAttempt(e)
		c.endStep(e)
		return
	case forStart, forParam, forInput:
		c.openWait(e)
		return
	case planCreated:
		return
	case textAdd:
		c.addPiece(e.GetTextAdd().GetAnswerId(), e.GetTextAdd().GetOffset(), e.GetTextAdd().GetText())
	case success, failed, cancelled:
		c.endTask(e)
	case statusChanged:
		if strings.HasPrefix(e.GetStatusChanged().GetReason(), forkReason) {
			c.fork()
		}
	}
	c.closeWait(e)
}

// endTask checks the answer, if the task ends with one.
func (c *checker) endTask(e *executorv1.ExecutorEvent) {
	c.ended = true
	full, id := e.GetFlowSuccess().GetFullAnswer(), e.GetFlowSuccess().GetAnswerId()
	if f := e.GetFlowFailed(); f != nil {
		full, id = f.GetFullAnswer(), f.GetAnswerId()
	}
	if id != "" && c.pieces[id] != full {
		c.report("the pieces of %s do not join to the answer", id)
	}
}

// addPiece checks that a piece of a text follows the pieces before.
func (c *checker) addPiece(id string, offset uint64, text string) {
	if have := uint64(len(c.pieces[id])); have != offset {
		c.report("a piece of %s is at %d, after %d bytes", id, offset, have)
	}
	c.pieces[id] += text
}

// fork drops what ran or waited in the forked task.
func (c *checker) fork() {
	for _, s := range c.steps {
		s.running, s.ended = 0, true
	}
	clear(c.openWaits)
}

// planStep checks that no step is open that excludes the planned one.
func (c *checker) planStep(e *executorv1.ExecutorEvent) {
	s := &stepCheck{id: e.GetFlow().GetStepId(), subtask: e.GetSubtaskId(), no: len(c.steps) + 1}
	for _, other := range c.sortedSteps() {
		switch {
		case other.ended || !c.excludes(s, other):
		case other.running != 0:
			c.report("%s is planned while an attempt runs: %s/%d", s.id, other.id, other.running)
		case !other.failed:
			c.report("%s is planned while %s is open", s.id, other.id)
		default:
			other.ended = true
		}
	}
	c.steps[s.id] = s
}

// excludes reports whether two steps may not be open at once. A subtask of a plan may have several calls that only read.
func (c *checker) excludes(a, b *stepCheck) bool {
	return c.revision == 0 && (a.subtask == b.subtask || a.subtask == "" || b.subtask == "")
}

func (c *checker) openWait(e *executorv1.ExecutorEvent) {
	id := e.GetFlow().GetStepId()
	switch s := c.steps[id]; {
	case e.GetStepWaitingForStart().GetOutcomeUnknown():
		c.endAttempt(e)
	case e.GetType() == forInput && (s == nil || s.running != e.GetAttempt()):
		c.report("attempt %s asks a question, but does not run", attemptOf(e))
	case s == nil:
		c.report("%s of %s, which was not planned", e.GetType(), id)
	}
	c.openWaits[e.GetWaitId()] = id
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
	attempt, s := attemptOf(e), c.steps[e.GetFlow().GetStepId()]
	if s == nil {
		c.report("attempt %s begins, but its step was not planned", attempt)
		return
	}
	switch {
	case e.GetAttempt() <= s.attempts:
		c.report("attempt %s begins again", attempt)
	case e.GetAttempt() != s.attempts+1:
		c.report("attempt %s begins, want attempt %d", attempt, s.attempts+1)
	}
	if s.ended {
		c.report("attempt %s begins, but its step has ended", attempt)
	}
	if s.running != 0 {
		c.report("attempt %s begins while attempt %d runs", attempt, s.running)
	}
	s.attempts, s.running, s.failed = max(s.attempts, e.GetAttempt()), e.GetAttempt(), false
}

// endAttempt records the end of the event's attempt. An event without an attempt ends only the step; its newest attempt has ended before.
func (c *checker) endAttempt(e *executorv1.ExecutorEvent) {
	if e.GetAttempt() == 0 {
		return
	}
	s := c.steps[e.GetFlow().GetStepId()]
	if s == nil || s.running != e.GetAttempt() {
		c.report("%s ends attempt %s, which does not run", e.GetType(), attemptOf(e))
		return
	}
	s.running = 0
}

// endStep records the end of a step, with its waits, or the failure of an attempt.
func (c *checker) endStep(e *executorv1.ExecutorEvent) {
	id := e.GetFlow().GetStepId()
	s := c.steps[id]
	if s == nil {
		c.report("%s of %s, which was not planned", e.GetType(), id)
		return
	}
	if s.ended {
		c.report("%s of %s, which has ended", e.GetType(), id)
	}
	then := e.GetStepError().GetRecovery()
	s.failed = e.GetType() == stepError
	s.ended = !s.failed || then == executorv1.Recovery_RECOVERY_STOP || then == executorv1.Recovery_RECOVERY_CONTINUE
	maps.DeleteFunc(c.openWaits, func(_, about string) bool { return about == id })
}
