package agent

import (
	"fmt"
	"slices"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"

	"pawl.dev/services/span"
)

// asked lets people answer what a tool's server asks for in the middle of a call (A5, A26). The call lives on in the pool,
// and its attempt with it. A call that is to stop, or that has no time left, asks nobody.
func (m *move) asked(in flow.Asked) error {
	s, err := m.attempted(in.Ordinal, in.Attempt)
	if err != nil {
		return err
	}
	switch {
	case m.s.GetCancelRequested():
		m.follow(s, "the task was cancelled")
		return nil
	case m.timeSpent() != "":
		m.follow(s, "the task's run time is spent")
		return nil
	}
	s.RequestState, s.Answers, s.AnswersSent = in.RequestState, nil, false
	left := m.answerAgain(s, in.Questions)
	if len(left) == 0 {
		m.run(flow.Attach{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt(), Fresh: true})
		return nil
	}
	if err := m.stepTo(s, stepWaiting); err != nil {
		return err
	}
	if err := m.executor(waiting); err != nil {
		return err
	}
	for _, q := range left {
		m.question(s, q)
	}
	m.stop()
	return nil
}

func (m *move) question(s *storagev1.ActiveStep, q flow.Question) {
	w := m.open(s, input, q.Message)
	w.InputId, w.ParamsSchemaJson, w.Url, w.Hash = q.InputID, q.SchemaJSON, q.URL, flow.AskedHash(m.t, s)
	if q.Expire != 0 && (w.GetDeadline() == 0 || q.Expire < w.GetDeadline()) {
		w.Deadline = q.Expire
	}
	m.stepFact(s, &storagev1.Fact{WaitId: w.GetId(), Kind: &storagev1.Fact_InputRequired{
		InputRequired: &storagev1.InputRequired{Message: q.Message, SchemaJson: q.SchemaJSON, Url: q.URL, Deadline: w.GetDeadline()},
	}})
}

// follow waits for the end of a call that is told to stop, whatever it asks for.
func (m *move) follow(s *storagev1.ActiveStep, why string) {
	m.run(flow.Attach{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt(), Stopping: true}, flow.StopCall{Reason: why})
}

// asking says whether a step's call waits in the pool for a person.
func (m *move) asking(s *storagev1.ActiveStep) bool {
	return slices.ContainsFunc(m.s.GetWaits(), func(w *storagev1.Wait) bool {
		return w.GetKind() == input && w.GetOrdinal() == s.GetOrdinal()
	})
}

// supplyInput takes an answer to the tool's server. Once nothing of what was asked together is open, the call gets all of
// them and goes on, in the same attempt.
func (m *move) supplyInput(a *storagev1.SupplyInput) error {
	w := m.wait(a.GetWaitId())
	s, err := m.answer(a.GetWaitId(), input)
	if err != nil {
		return err
	}
	answer := &storagev1.InputAnswer{InputId: w.GetInputId(), Action: a.GetAction(), Deadline: w.GetDeadline()}
	if w.GetUrl() == "" {
		answer.ContentJson = a.GetContentJson()
	}
	s.Answers = append(s.Answers, answer)
	m.accept(s, w, a)
	said := map[executorv1.InputAnswer_Action]string{
		executorv1.InputAnswer_ACTION_ACCEPT: "answered", executorv1.InputAnswer_ACTION_DECLINE: "declined",
	}[a.GetAction()]
	if said == "" {
		said = "dismissed"
	}
	return m.inputAnswered(s, w, &storagev1.StatusChanged{SuppliedHash: flow.AnswerHash(a), Reason: said}, true)
}

func (m *move) wait(id string) *storagev1.Wait {
	for _, w := range m.s.GetWaits() {
		if w.GetId() == id {
			return w
		}
	}
	return nil
}

// inputAnswered lets the call go on where nothing else that it asked for is open.
func (m *move) inputAnswered(s *storagev1.ActiveStep, w *storagev1.Wait, said *storagev1.StatusChanged, fresh bool) error {
	said.From = m.s.GetStatus()
	open := m.asking(s)
	if !open {
		m.closePause()
		if err := m.executor(running); err != nil {
			return err
		}
		if err := m.stepTo(s, stepRunning); err != nil {
			return err
		}
		m.s.Phase = storagev1.Phase_PHASE_CALL
		m.run(flow.Attach{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt(), Fresh: fresh})
	}
	m.stepFact(s, &storagev1.Fact{WaitId: w.GetId(), Kind: &storagev1.Fact_StatusChanged{StatusChanged: said}})
	return nil
}

// closePause closes the question whether to go on, because a running call does: it is asked again when that has come back.
func (m *move) closePause() {
	m.s.Waits = slices.DeleteFunc(slices.Clone(m.s.GetWaits()), func(w *storagev1.Wait) bool { return w.GetKind() == pause })
}

// givenUp says whether a question's time is over in the pool, and not yet the time that the task gives to people.
func (m *move) givenUp(w *storagev1.Wait) bool {
	timeout := m.t.Head.GetWaitTimeout()
	return w.GetKind() == input && (timeout <= 0 || w.GetDeadline()-w.GetCreateTime() < timeout)
}

// unanswered goes on with a call whose question the pool gave up: its server is told that nobody answered, and the tool
// decides what that means.
func (m *move) unanswered(w *storagev1.Wait) error {
	s, err := m.answer(w.GetId(), input)
	if err != nil {
		return err
	}
	s.Answers = append(s.Answers, &storagev1.InputAnswer{
		InputId: w.GetInputId(), Action: executorv1.InputAnswer_ACTION_CANCEL, Deadline: w.GetDeadline(), GivenUp: true,
	})
	return m.inputAnswered(s, w, &storagev1.StatusChanged{Reason: fmt.Sprintf(
		"nobody answered %s within %s; the tool goes on without", w.GetId(), span.Text(nanos(w.GetDeadline()-w.GetCreateTime())))}, false)
}

// inputExpired ends a task whose people did not answer a tool's server in time. The call is given up; what it did until then
// is not known.
func (m *move) inputExpired(s *storagev1.ActiveStep, e *storagev1.ErrorNote, w *storagev1.Wait) error {
	m.withdraw(s, "nobody answered in time")
	if err := m.recordError(s, e, s.GetOutcome()); err != nil {
		return err
	}
	m.facts[len(m.facts)-1].WaitId = w.GetId()
	return m.fail(e)
}

// withdraw ends a call that waits for a person, because nobody is going to answer.
func (m *move) withdraw(s *storagev1.ActiveStep, why string) {
	if !m.asking(s) {
		return
	}
	s.Outcome = unknown
	m.spend(&storagev1.Usage{ToolCalls: 1})
	m.run(flow.Withdraw{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt(), Round: s.GetRound(), PoolID: s.GetPoolId(), ToolID: s.GetToolId(), Reason: why})
}

// undelivered goes on with an attempt whose call died in the pool while a person was asked. Where the server keeps nothing
// between its questions and their answers, another call of the same attempt takes up what that one left.
func (m *move) undelivered(in flow.Undelivered) error {
	s, err := m.attempted(in.Ordinal, in.Attempt)
	if err != nil {
		return err
	}
	lost := flow.Called{Ordinal: in.Ordinal, Attempt: in.Attempt, Round: s.GetRound(), Err: in.Err, Outcome: unknown, Lost: true}
	if m.s.GetCancelRequested() || m.timeSpent() != "" || s.GetRequestState() == "" || s.GetRound()+1 >= m.t.Head.GetLimits().GetMaxAttempts() {
		return m.called(lost)
	}
	s.Round++
	s.McpTaskId, s.AnswersSent = "", true
	m.run(flow.Call{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt()})
	return nil
}

// tasked keeps by what name the server can be asked for the call: by then another pool may have to ask (DESIGN 4).
func (m *move) tasked(in flow.McpTask) error {
	s, err := m.attempted(in.Ordinal, in.Attempt)
	if err != nil {
		return err
	}
	m.unchanged = s.GetMcpTaskId() == in.TaskID
	s.McpTaskId = in.TaskID
	return nil
}

// forgetCall drops what only a running call needs.
func forgetCall(s *storagev1.ActiveStep) {
	s.Round, s.McpTaskId, s.RequestState, s.Answers, s.AnswersSent = 0, "", "", nil, false
	s.Outcome = commonv1.Outcome_OUTCOME_UNSPECIFIED
}
