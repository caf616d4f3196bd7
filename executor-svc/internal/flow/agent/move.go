package agent

import (
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// move collects one transition. Every change of a status goes through setStatus or setStepStatus, which check the tables of A4 and A5. The first
// error ends it: transition then returns that error, and nothing of the move is kept.
type move struct {
	t         *flow.Task
	s         *storagev1.Checkpoint
	facts     []*storagev1.Fact
	effects   []flow.Effect
	unchanged bool
	err       error
}

func (m *move) transition() (flow.Transition, error) {
	if m.err != nil {
		return flow.Transition{}, m.err
	}
	return flow.Transition{Facts: m.facts, Effects: m.effects, Unchanged: m.unchanged && len(m.facts) == 0}, nil
}

// refuse ends the move with an error.
func (m *move) refuse(err error) {
	if m.err == nil {
		m.err = err
	}
}

// schedule adds effects that the engine runs after the transition.
func (m *move) schedule(effects ...flow.Effect) { m.effects = append(m.effects, effects...) }

// setStatus moves the task to a status.
func (m *move) setStatus(to executorv1.ExecutorStatus) {
	if err := state.MoveExecutor(m.s.GetStatus(), to); err != nil {
		m.refuse(err)
		return
	}
	if m.s.GetStatus() != to {
		m.s.StatusReason = ""
	}
	m.s.Status = to
	if m.t.Head.GetLimits().GetMaxRunTime() > 0 {
		m.clock(to == taskRunning)
	}
}

// clock starts or stops counting the task's run time.
func (m *move) clock(runs bool) {
	now := m.t.Now.UnixNano()
	switch {
	case runs && m.s.GetRunSince() == 0:
		m.s.RunSince = now
	case !runs:
		m.s.RunTime, m.s.RunSince = flow.RunTime(m.s, m.t.Now), 0
	}
}

// setStepStatus moves a step to a status.
func (m *move) setStepStatus(s *storagev1.ActiveStep, to executorv1.StepStatus) {
	if err := state.MoveStep(s.GetStatus(), to); err != nil {
		m.refuse(err)
		return
	}
	s.Status = to
}

// fact adds a fact about the whole task, with the task's status.
func (m *move) fact(f *storagev1.Fact) {
	f.Status = m.s.GetStatus()
	m.facts = append(m.facts, f)
}

// stepFact adds a fact about a step, with the step's status.
func (m *move) stepFact(s *storagev1.ActiveStep, f *storagev1.Fact) {
	f.Ordinal, f.ToolId, f.StepStatus = s.GetOrdinal(), s.GetToolId(), s.GetStatus()
	f.SubtaskId = s.GetSubtaskId()
	if _, first := f.GetKind().(*storagev1.Fact_StepInit); !first {
		f.Attempt = s.GetAttempt()
	}
	m.fact(f)
}

// inputFact adds a fact that holds the step's input, and notes its seq.
func (m *move) inputFact(s *storagev1.ActiveStep, f *storagev1.Fact) {
	m.stepFact(s, f)
	s.InputSeq = m.s.GetLastSeq() + uint64(len(m.facts))
}

// step returns the active step; its absence is an explicit error (A25).
func (m *move) step() *storagev1.ActiveStep {
	if len(m.s.GetActiveSteps()) == 0 {
		m.refuse(errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR,
			"task %s has no current step in phase %s; this is a defect, please report it", m.t.ID, m.s.GetPhase()))
		return nil
	}
	return m.s.GetActiveSteps()[0]
}

// current returns the active step if it has this ordinal; a result of another step is stale.
func (m *move) current(ordinal uint32) *storagev1.ActiveStep {
	s := m.step()
	if s == nil {
		return nil
	}
	if s.GetOrdinal() != ordinal {
		m.refuse(errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR,
			"a result of %s came while %s is current", flow.StepID(ordinal), flow.StepID(s.GetOrdinal())))
		return nil
	}
	return s
}

func (m *move) finish(s *storagev1.ActiveStep) {
	for i, a := range m.s.GetActiveSteps() {
		if a == s {
			m.s.ActiveSteps = append(m.s.ActiveSteps[:i], m.s.ActiveSteps[i+1:]...)
			return
		}
	}
}

// end closes the task for good (A19).
func (m *move) end(to executorv1.ExecutorStatus, f *storagev1.Fact) {
	if state.Ended(m.s.GetStatus()) {
		m.refuse(ended(m.s.GetStatus()))
		return
	}
	m.setStatus(to)
	m.s.Phase = storagev1.Phase_PHASE_END
	m.s.ActiveSteps, m.s.Waits = nil, nil
	m.s.EndTime = m.t.Now.UnixNano()
	m.fact(f)
}

func (m *move) fail(e *storagev1.ErrorNote) {
	m.s.Error = e
	m.end(taskFailed, &storagev1.Fact{Kind: &storagev1.Fact_FlowFailed{FlowFailed: e}})
}

func (m *move) spend(u *storagev1.Usage) { m.s.Usage = flow.AddUsage(m.s.GetUsage(), u) }

// settleReserve replaces the reservation of a planner call by its usage.
func (m *move) settleReserve(u *storagev1.Usage) {
	m.s.ReservedModelCalls = 0
	m.spend(u)
}

// spendReserve counts a reservation as used.
func (m *move) spendReserve() {
	if n := m.s.GetReservedModelCalls(); n > 0 {
		m.settleReserve(&storagev1.Usage{ModelCalls: n})
	}
}

func repeatable(s *storagev1.ActiveStep) bool {
	return s.GetEffect() == commonv1.Effect_EFFECT_READ || s.GetIdempotent()
}
