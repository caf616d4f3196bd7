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

// move collects one transition. Every change of a status goes through executor or stepTo, so that the tables of A4 and
// A5 hold.
type move struct {
	t         *flow.Task
	s         *storagev1.Checkpoint
	facts     []*storagev1.Fact
	effects   []flow.Effect
	unchanged bool
}

func (m *move) transition() flow.Transition {
	return flow.Transition{Facts: m.facts, Effects: m.effects, Unchanged: m.unchanged && len(m.facts) == 0}
}

func (m *move) run(effects ...flow.Effect) { m.effects = append(m.effects, effects...) }

func (m *move) executor(to executorv1.ExecutorStatus) error {
	if err := state.MoveExecutor(m.s.GetStatus(), to); err != nil {
		return err
	}
	if m.s.GetStatus() != to {
		m.s.StatusReason = ""
	}
	m.s.Status = to
	if m.t.Head.GetLimits().GetMaxRunTime() > 0 {
		m.clock(to == running)
	}
	return nil
}

// clock counts the time that the task runs.
func (m *move) clock(runs bool) {
	now := m.t.Now.UnixNano()
	switch {
	case runs && m.s.GetRunSince() == 0:
		m.s.RunSince = now
	case !runs:
		m.s.RunTime, m.s.RunSince = flow.RunTime(m.s, m.t.Now), 0
	}
}

func (m *move) stepTo(s *storagev1.ActiveStep, to executorv1.StepStatus) error {
	if err := state.MoveStep(s.GetStatus(), to); err != nil {
		return err
	}
	s.Status = to
	return nil
}

// fact adds what happened to the flow as a whole, with where the task is now.
func (m *move) fact(f *storagev1.Fact) {
	f.Status = m.s.GetStatus()
	m.facts = append(m.facts, f)
}

// stepFact adds what happened to a step, with where the step is now.
func (m *move) stepFact(s *storagev1.ActiveStep, f *storagev1.Fact) {
	f.Ordinal, f.ToolId, f.StepStatus = s.GetOrdinal(), s.GetToolId(), s.GetStatus()
	f.SubtaskId = s.GetSubtaskId()
	if _, first := f.GetKind().(*storagev1.Fact_StepInit); !first {
		f.Attempt = s.GetAttempt()
	}
	m.fact(f)
}

// inputFact adds a fact that holds the step's input: what is stored of the step afterwards refers to it.
func (m *move) inputFact(s *storagev1.ActiveStep, f *storagev1.Fact) {
	m.stepFact(s, f)
	s.InputSeq = m.s.GetLastSeq() + uint64(len(m.facts))
}

// step returns the active step; its absence is an explicit error (A25).
func (m *move) step() (*storagev1.ActiveStep, error) {
	if len(m.s.GetActiveSteps()) == 0 {
		return nil, errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR,
			"task %s has no current step in phase %s; this is a defect, please report it", m.t.ID, m.s.GetPhase())
	}
	return m.s.GetActiveSteps()[0], nil
}

// current returns the active step if it is the one that a result is about; a result of another one is stale.
func (m *move) current(ordinal uint32) (*storagev1.ActiveStep, error) {
	s, err := m.step()
	if err != nil {
		return nil, err
	}
	if s.GetOrdinal() != ordinal {
		return nil, errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR,
			"a result of %s came while %s is current", flow.StepID(ordinal), flow.StepID(s.GetOrdinal()))
	}
	return s, nil
}

func (m *move) finish(s *storagev1.ActiveStep) {
	for i, a := range m.s.GetActiveSteps() {
		if a == s {
			m.s.ActiveSteps = append(m.s.ActiveSteps[:i], m.s.ActiveSteps[i+1:]...)
			return
		}
	}
}

// end closes the task. Nothing follows it (A19).
func (m *move) end(to executorv1.ExecutorStatus, f *storagev1.Fact) error {
	if state.Ended(m.s.GetStatus()) {
		return ended(m.s.GetStatus())
	}
	if err := m.executor(to); err != nil {
		return err
	}
	m.s.Phase = storagev1.Phase_PHASE_END
	m.s.ActiveSteps, m.s.Waits = nil, nil
	m.s.EndTime = m.t.Now.UnixNano()
	m.fact(f)
	return nil
}

func (m *move) fail(e *storagev1.ErrorNote) error {
	m.s.Error = e
	return m.end(failed, &storagev1.Fact{Kind: &storagev1.Fact_FlowFailed{FlowFailed: e}})
}

func (m *move) spend(u *storagev1.Usage) {
	if m.s.Usage == nil {
		m.s.Usage = &storagev1.Usage{}
	}
	m.s.Usage.InputTokens += u.GetInputTokens()
	m.s.Usage.OutputTokens += u.GetOutputTokens()
	m.s.Usage.ModelCalls += u.GetModelCalls()
	m.s.Usage.ToolCalls += u.GetToolCalls()
}

// settleReserve ends the reservation of the planner call that came back.
func (m *move) settleReserve(u *storagev1.Usage) {
	m.s.ReservedModelCalls = 0
	m.spend(u)
}

// spendReserve takes a reservation for spent.
func (m *move) spendReserve() {
	if n := m.s.GetReservedModelCalls(); n > 0 {
		m.settleReserve(&storagev1.Usage{ModelCalls: n})
	}
}

func repeatable(s *storagev1.ActiveStep) bool {
	return s.GetEffect() == commonv1.Effect_EFFECT_READ || s.GetIdempotent()
}
