package agent

import (
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/humantime"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// hold replaces what a move would start by a pause that was requested, or by the end of the task if a budget is spent.
func (m *move) hold() {
	if m.err != nil || m.s.GetStatus() != taskRunning && m.s.GetStatus() != taskInit {
		return
	}
	switch m.s.GetPhase() {
	case storagev1.Phase_PHASE_CALL, storagev1.Phase_PHASE_WAIT, storagev1.Phase_PHASE_END:
		return
	}
	if m.s.GetPauseRequested() {
		m.paused()
		return
	}
	if !m.asksPlanner() {
		return
	}
	if spent := m.spent(); spent != "" {
		m.effects = nil
		m.unchanged = false
		m.budgetExceeded(spent)
		return
	}
	if m.t.Head.GetLimits().GetMaxModelCalls() > 0 && m.s.GetReservedModelCalls() == 0 {
		m.s.ReservedModelCalls = 1
		m.unchanged = false
	}
}

func (m *move) asksPlanner() bool {
	for _, e := range m.effects {
		switch e.(type) {
		case flow.Begin, flow.Plan, flow.Derive, flow.Diagnose, flow.Fill, flow.Answer:
			return true
		}
	}
	return false
}

// spent names the budget that leaves no room for another planner call, or returns "".
func (m *move) spent() string {
	l, u := m.t.Head.GetLimits(), m.s.GetUsage()
	switch {
	case l.GetMaxModelCalls() > 0 && u.GetModelCalls() >= l.GetMaxModelCalls():
		return plural(l.GetMaxModelCalls(), "model call")
	case l.GetMaxTokens() > 0 && u.GetInputTokens()+u.GetOutputTokens() >= l.GetMaxTokens():
		return fmt.Sprintf("%d tokens", l.GetMaxTokens())
	case l.GetMaxCostNanoUsd() > 0 && u.GetCostNanoUsd() >= l.GetMaxCostNanoUsd():
		return fmt.Sprintf("$%g for models", float64(l.GetMaxCostNanoUsd())/1e9)
	}
	return m.timeSpent()
}

// callSpent names the budget that leaves no room for another tool call, or returns "".
func (m *move) callSpent(s *storagev1.ActiveStep) string {
	if l := m.t.Head.GetLimits().GetMaxToolCalls(); l > 0 && m.s.GetUsage().GetToolCalls() >= l && !flow.FromHistory(s) {
		return plural(l, "tool call")
	}
	return m.timeSpent()
}

func (m *move) timeSpent() string {
	limit := m.t.Head.GetLimits().GetMaxRunTime()
	if limit > 0 && flow.RunTime(m.s, m.t.Now) >= limit {
		return fmt.Sprintf("%s of running", humantime.Text(nanos(limit)))
	}
	return ""
}

func (m *move) budgetExceeded(spent string) {
	m.fail(&storagev1.ErrorNote{
		ErrMsg: "the task's budget of " + spent + " is spent; start a new task, or fork this one, with a larger budget",
		Reason: commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED,
	})
}

// pause requests that nothing new is started. Planning is dropped; a running call ends first.
func (m *move) pause(p *storagev1.Pause) {
	if m.s.GetPauseRequested() {
		m.unchanged = true
		return
	}
	m.s.PauseRequested = true
	reason := "pause requested"
	if p.GetReason() != "" {
		reason += ": " + p.GetReason()
	}
	m.statusFact(m.s.GetStatus(), "", reason)
	if m.s.GetPhase() == storagev1.Phase_PHASE_WAIT {
		m.open(nil, waitPause, p.GetReason())
		m.stop()
	}
}

// paused stops the task until it is unpaused.
func (m *move) paused() {
	// Instead of what would have started, and of running planner calls.
	m.effects = []flow.Effect{flow.Abandon{}}
	m.unchanged = false
	m.spendReserve() // the dropped planner call may have been made
	m.s.PausedPhase = m.s.GetPhase()
	m.setStatus(taskRunning) // a task in INIT
	m.setStatus(taskWaiting)
	if !slices.ContainsFunc(m.s.GetWaits(), func(w *storagev1.Wait) bool { return w.GetKind() == waitPause }) {
		m.open(nil, waitPause, "paused")
	}
	m.statusFact(taskRunning, "", "paused")
	m.stop()
}

// unpause continues a paused task.
func (m *move) unpause(u *storagev1.Unpause) {
	if !m.s.GetPauseRequested() {
		m.refuse(errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN, "the task is not paused"))
		return
	}
	closed := ""
	for i, w := range m.s.GetWaits() {
		if w.GetKind() == waitPause {
			closed = w.GetId()
			m.s.Waits = append(m.s.Waits[:i:i], m.s.Waits[i+1:]...)
			break
		}
	}
	if u.GetWaitId() != "" && closed != "" && u.GetWaitId() != closed {
		m.refuse(notOpen(u.GetWaitId()))
		return
	}
	m.s.PauseRequested = false
	if len(m.s.GetWaits()) > 0 || m.s.GetPausedPhase() == storagev1.Phase_PHASE_UNSPECIFIED || m.s.GetPhase() == storagev1.Phase_PHASE_CALL {
		m.s.PausedPhase = storagev1.Phase_PHASE_UNSPECIFIED
		m.statusFact(m.s.GetStatus(), closed, "unpaused")
		return // other questions are still open, or a call is running
	}
	before := m.s.GetStatus()
	m.setStatus(taskRunning)
	m.statusFact(before, closed, "unpaused")
	m.s.Phase, m.s.PausedPhase = m.s.GetPausedPhase(), storagev1.Phase_PHASE_UNSPECIFIED
	m.resume()
}

func (m *move) statusFact(from executorv1.ExecutorStatus, waitID, reason string) {
	m.fact(&storagev1.Fact{WaitId: waitID, Kind: &storagev1.Fact_StatusChanged{StatusChanged: &storagev1.StatusChanged{From: from, Reason: reason}}})
}

// timeout ends a task if a wait has expired or its run time is over.
func (m *move) timeout() {
	for _, w := range m.s.GetWaits() {
		if w.GetDeadline() != 0 && w.GetDeadline() <= m.t.Now.UnixNano() {
			m.expired(w)
			return
		}
	}
	spent := m.timeSpent()
	switch {
	case m.s.GetStatus() == taskWaiting || spent == "":
		m.unchanged = true
	case m.s.GetPhase() == storagev1.Phase_PHASE_CALL:
		m.unchanged = true
		m.schedule(flow.StopCall{Reason: "the task's run time is spent"}) // the task ends with the call
	default:
		m.schedule(flow.Abandon{})
		m.budgetExceeded(spent)
	}
}

// expired ends step and task with WAIT_EXPIRED. A call whose question the pool gave up continues without an answer.
func (m *move) expired(w *storagev1.Wait) {
	if m.givenUp(w) {
		m.unanswered(w)
		return
	}
	e := &storagev1.ErrorNote{
		ErrMsg: fmt.Sprintf("no answer to %s within %s", w.GetId(), humantime.Text(nanos(w.GetDeadline()-w.GetCreateTime()))),
		Reason: commonv1.ErrorReason_ERROR_REASON_WAIT_EXPIRED,
	}
	s := m.current(w.GetOrdinal())
	if s == nil {
		return
	}
	if m.asking(s) {
		m.inputExpired(s, e, w)
		return
	}
	m.failWaitingStep(s, e, w.GetId())
	m.fail(e)
}

// recover counts a recovery, and the usage that may have been lost.
func (m *move) recover(recovered bool) {
	if m.s.GetStatus() == taskRunning && m.s.GetRunSince() == 0 && m.t.Head.GetLimits().GetMaxRunTime() > 0 {
		m.clock(true) // a fork
	}
	if !recovered {
		return
	}
	m.s.Recoveries++
	m.spendReserve() // it may have been made, and crashes must not exceed a budget
	if m.s.GetRunSince() != 0 {
		m.s.RunTime += max(0, m.s.GetUpdateTime()-m.s.GetRunSince())
		m.s.RunSince = m.t.Now.UnixNano()
	}
}

// recoverySettled resets the recovery count: the task did not crash this process.
func (m *move) recoverySettled() {
	m.unchanged = m.s.GetRecoveries() == 0
	m.s.Recoveries = 0
}

// blocked says what a running task waits for.
func (m *move) blocked(in flow.Blocked) {
	if m.s.GetStatus() == taskWaiting || m.s.GetStatusReason() == in.Reason {
		m.unchanged = true
		return
	}
	m.s.StatusReason = in.Reason
	m.statusFact(m.s.GetStatus(), "", in.Reason)
}

// failNoProgress ends a task that was recovered too often, so that it does not crash its host for ever.
func (m *move) failNoProgress(limit uint32) {
	e := &storagev1.ErrorNote{
		ErrMsg: fmt.Sprintf("the task was taken up %d times without getting anywhere; the executor's log says how the processes ended", limit),
		Reason: commonv1.ErrorReason_ERROR_REASON_NO_PROGRESS,
	}
	m.closeAttempt(e)
	m.fail(e)
}

// closeAttempt ends a running attempt whose outcome will not be known (A17).
func (m *move) closeAttempt(e *storagev1.ErrorNote) {
	if len(m.s.GetActiveSteps()) == 0 {
		return
	}
	s := m.s.GetActiveSteps()[0]
	if m.s.GetPhase() != storagev1.Phase_PHASE_CALL && !m.asking(s) {
		return
	}
	m.withdraw(s, e.GetErrMsg())
	o := s.GetOutcome()
	if o == commonv1.Outcome_OUTCOME_UNSPECIFIED {
		o = outcomeUnknown
	}
	m.recordError(s, e, o)
}
