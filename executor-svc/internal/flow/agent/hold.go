package agent

import (
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/span"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// settle is the last thing that each move does: where somebody asked for a pause, or a budget is spent, what the move
// would have begun is not begun.
func (m *move) settle() (flow.Transition, error) {
	if m.s.GetStatus() == running || m.s.GetStatus() == initial {
		if err := m.hold(); err != nil {
			return flow.Transition{}, err
		}
	}
	return m.transition(), nil
}

func (m *move) hold() error {
	switch m.s.GetPhase() {
	case storagev1.Phase_PHASE_CALL, storagev1.Phase_PHASE_WAIT, storagev1.Phase_PHASE_END:
		return nil
	}
	if m.s.GetPauseRequested() {
		return m.paused()
	}
	if !m.asksPlanner() {
		return nil
	}
	if spent := m.spent(); spent != "" {
		m.effects = nil
		m.unchanged = false
		return m.budgetExceeded(spent)
	}
	if m.t.Head.GetLimits().GetMaxModelCalls() > 0 && m.s.GetReservedModelCalls() == 0 {
		m.s.ReservedModelCalls = 1
		m.unchanged = false
	}
	return nil
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

// spent says which budget leaves no room for another planner call; empty where there is room.
func (m *move) spent() string {
	l, u := m.t.Head.GetLimits(), m.s.GetUsage()
	switch {
	case l.GetMaxModelCalls() > 0 && u.GetModelCalls() >= l.GetMaxModelCalls():
		return plural(l.GetMaxModelCalls(), "model call")
	case l.GetMaxTokens() > 0 && u.GetInputTokens()+u.GetOutputTokens() >= l.GetMaxTokens():
		return fmt.Sprintf("%d tokens", l.GetMaxTokens())
	}
	return m.timeSpent()
}

// callSpent says which budget leaves no room for another tool call.
func (m *move) callSpent() string {
	if l := m.t.Head.GetLimits().GetMaxToolCalls(); l > 0 && m.s.GetUsage().GetToolCalls() >= l {
		return plural(l, "tool call")
	}
	return m.timeSpent()
}

func (m *move) timeSpent() string {
	limit := m.t.Head.GetLimits().GetMaxRunTime()
	if limit > 0 && flow.RunTime(m.s, m.t.Now) >= limit {
		return fmt.Sprintf("%s of running", span.Text(nanos(limit)))
	}
	return ""
}

func (m *move) budgetExceeded(spent string) error {
	return m.fail(&storagev1.ErrorNote{
		ErrMsg: "the task's budget of " + spent + " is spent; start a new task, or fork this one, with a larger budget",
		Reason: commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED,
	})
}

// pause asks that nothing new is begun. What only thinks is given up; a running call comes back first.
func (m *move) pause(p *storagev1.Pause) error {
	if m.s.GetPauseRequested() {
		m.unchanged = true
		return nil
	}
	m.s.PauseRequested = true
	reason := "pause requested"
	if p.GetReason() != "" {
		reason += ": " + p.GetReason()
	}
	m.statusFact(m.s.GetStatus(), "", reason)
	if m.s.GetPhase() == storagev1.Phase_PHASE_WAIT {
		m.open(nil, pause, p.GetReason())
		m.stop()
	}
	return nil
}

// paused holds the task where it is, and waits until somebody lets it go on.
func (m *move) paused() error {
	// In place of what would have begun, and of what runs and only thinks.
	m.effects = []flow.Effect{flow.Abandon{}}
	m.unchanged = false
	m.spendReserve() // of what is given up: whether it was made is not known
	m.s.PausedPhase = m.s.GetPhase()
	if err := m.executor(running); err != nil { // a task in INIT
		return err
	}
	if err := m.executor(waiting); err != nil {
		return err
	}
	if !slices.ContainsFunc(m.s.GetWaits(), func(w *storagev1.Wait) bool { return w.GetKind() == pause }) {
		m.open(nil, pause, "paused")
	}
	m.statusFact(running, "", "paused")
	m.stop()
	return nil
}

// unpause lets the task go on where it was.
func (m *move) unpause(u *storagev1.Unpause) error {
	if !m.s.GetPauseRequested() {
		return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN, "the task is not paused")
	}
	closed := ""
	for i, w := range m.s.GetWaits() {
		if w.GetKind() == pause {
			closed = w.GetId()
			m.s.Waits = append(m.s.Waits[:i:i], m.s.Waits[i+1:]...)
			break
		}
	}
	if u.GetWaitId() != "" && closed != "" && u.GetWaitId() != closed {
		return notOpen(u.GetWaitId())
	}
	m.s.PauseRequested = false
	if len(m.s.GetWaits()) > 0 || m.s.GetPausedPhase() == storagev1.Phase_PHASE_UNSPECIFIED || m.s.GetPhase() == storagev1.Phase_PHASE_CALL {
		m.s.PausedPhase = storagev1.Phase_PHASE_UNSPECIFIED
		m.statusFact(m.s.GetStatus(), closed, "unpaused")
		return nil // other questions are still open, or a call is running
	}
	before := m.s.GetStatus()
	if err := m.executor(running); err != nil {
		return err
	}
	m.statusFact(before, closed, "unpaused")
	m.s.Phase, m.s.PausedPhase = m.s.GetPausedPhase(), storagev1.Phase_PHASE_UNSPECIFIED
	return m.goOn()
}

func (m *move) statusFact(from executorv1.ExecutorStatus, waitID, reason string) {
	m.fact(&storagev1.Fact{WaitId: waitID, Kind: &storagev1.Fact_StatusChanged{StatusChanged: &storagev1.StatusChanged{From: from, Reason: reason}}})
}

// lapsed ends a task whose question was not answered in time, or that has run for as long as it may.
func (m *move) lapsed() error {
	for _, w := range m.s.GetWaits() {
		if w.GetDeadline() != 0 && w.GetDeadline() <= m.t.Now.UnixNano() {
			return m.expired(w)
		}
	}
	spent := m.timeSpent()
	switch {
	case m.s.GetStatus() == waiting || spent == "":
		m.unchanged = true
		return nil
	case m.s.GetPhase() == storagev1.Phase_PHASE_CALL:
		m.unchanged = true
		m.run(flow.StopCall{Reason: "the task's run time is spent"}) // what comes of it is recorded; nothing is begun then
		return nil
	}
	m.run(flow.Abandon{})
	return m.budgetExceeded(spent)
}

// expired ends the step and the task: a deadline is an error of its own, not a rejection. What a pool gave up goes on
// without an answer.
func (m *move) expired(w *storagev1.Wait) error {
	if m.givenUp(w) {
		return m.unanswered(w)
	}
	e := &storagev1.ErrorNote{
		ErrMsg: fmt.Sprintf("nobody answered %s within %s", w.GetId(), span.Text(nanos(w.GetDeadline()-w.GetCreateTime()))),
		Reason: commonv1.ErrorReason_ERROR_REASON_WAIT_EXPIRED,
	}
	s, err := m.current(w.GetOrdinal())
	if err != nil {
		return err
	}
	if m.asking(s) {
		return m.inputExpired(s, e, w)
	}
	if err := m.stepEnds(s, e, w.GetId()); err != nil {
		return err
	}
	return m.fail(e)
}

// recover counts what a crash left open.
func (m *move) recover(recovered bool) {
	if m.s.GetStatus() == running && m.s.GetRunSince() == 0 && m.t.Head.GetLimits().GetMaxRunTime() > 0 {
		m.clock(true) // a fork
	}
	if !recovered {
		return
	}
	m.s.Recoveries++
	m.spendReserve() // whether it was made is not known; a budget is not to be overrun by crashes
	if m.s.GetRunSince() != 0 {
		m.s.RunTime += max(0, m.s.GetUpdateTime()-m.s.GetRunSince())
		m.s.RunSince = m.t.Now.UnixNano()
	}
}

// recoverySettled resets the recovery count: the task did not crash this process.
func (m *move) recoverySettled() error {
	m.unchanged = m.s.GetRecoveries() == 0
	m.s.Recoveries = 0
	return nil
}

// blocked says what a running task waits for.
func (m *move) blocked(in flow.Blocked) error {
	if m.s.GetStatus() == waiting || m.s.GetStatusReason() == in.Reason {
		m.unchanged = true
		return nil
	}
	m.s.StatusReason = in.Reason
	m.statusFact(m.s.GetStatus(), "", in.Reason)
	return nil
}

// giveUp ends a task that gets nowhere, instead of letting it take its host down for ever.
func (m *move) giveUp(limit uint32) error {
	e := &storagev1.ErrorNote{
		ErrMsg: fmt.Sprintf("the task was taken up %d times without getting anywhere; the executor's log says how the processes ended", limit),
		Reason: commonv1.ErrorReason_ERROR_REASON_NO_PROGRESS,
	}
	if err := m.closeAttempt(e); err != nil {
		return err
	}
	return m.fail(e)
}

// closeAttempt ends an attempt that has no end yet: what became of it will never be known (A17).
func (m *move) closeAttempt(e *storagev1.ErrorNote) error {
	if len(m.s.GetActiveSteps()) == 0 {
		return nil
	}
	s := m.s.GetActiveSteps()[0]
	if m.s.GetPhase() != storagev1.Phase_PHASE_CALL && !m.asking(s) {
		return nil
	}
	m.withdraw(s, e.GetErrMsg())
	o := s.GetOutcome()
	if o == commonv1.Outcome_OUTCOME_UNSPECIFIED {
		o = unknown
	}
	return m.recordError(s, e, o)
}
