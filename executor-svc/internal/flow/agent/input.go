package agent

import (
	"fmt"
	"slices"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"

	"pawl.dev/services/humantime"
)

// asked lets people answer the questions of a tool's server during a call (A5, A26). The call and its attempt continue in the pool. A
// call that has to stop asks nothing.
func (m *move) asked(in flow.Asked) {
	s := m.attempted(in.Ordinal, in.Attempt)
	if s == nil {
		return
	}
	switch {
	case m.s.GetCancelRequested():
		m.follow(s, "the task was cancelled")
		return
	case m.timeSpent() != "":
		m.follow(s, "the task's run time is spent")
		return
	}
	s.RequestState, s.Answers, s.AnswersSent = in.RequestState, nil, false
	left := m.answerAgain(s, in.Questions)
	if len(left) == 0 {
		m.schedule(flow.Attach{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt(), Fresh: true})
		return
	}
	m.setStepStatus(s, stepWaiting)
	m.setStatus(taskWaiting)
	for _, q := range left {
		m.question(s, q)
	}
	m.stop()
}

func (m *move) question(s *storagev1.ActiveStep, q flow.Question) {
	w := m.open(s, waitInput, q.Message)
	w.InputId, w.ParamsSchemaJson, w.Url = q.InputID, q.SchemaJSON, q.URL
	if q.Expire != 0 && (w.GetDeadline() == 0 || q.Expire < w.GetDeadline()) {
		w.Deadline = q.Expire
	}
	m.stepFact(s, &storagev1.Fact{WaitId: w.GetId(), Kind: &storagev1.Fact_InputRequired{
		InputRequired: &storagev1.InputRequired{Message: q.Message, SchemaJson: q.SchemaJSON, Url: q.URL, Deadline: w.GetDeadline()},
	}})
}

// follow waits for the end of a call that is told to stop, and drops its questions.
func (m *move) follow(s *storagev1.ActiveStep, why string) {
	m.schedule(flow.Attach{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt(), Stopping: true}, flow.StopCall{Reason: why})
}

// asking reports whether a step's call waits in the pool for a person.
func (m *move) asking(s *storagev1.ActiveStep) bool {
	return slices.ContainsFunc(m.s.GetWaits(), func(w *storagev1.Wait) bool {
		return w.GetKind() == waitInput && w.GetOrdinal() == s.GetOrdinal()
	})
}

// supplyInput records an answer to the tool's server. Once all questions asked together are answered, the call receives the answers and
// continues in the same attempt.
func (m *move) supplyInput(a *storagev1.SupplyInput) {
	w := m.wait(a.GetWaitId())
	s := m.closeWait(a.GetWaitId(), waitInput)
	if s == nil {
		return
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
	m.inputAnswered(s, w, &storagev1.StatusChanged{SuppliedHash: flow.ElicitationHash(a), Reason: said}, true)
}

func (m *move) wait(id string) *storagev1.Wait {
	for _, w := range m.s.GetWaits() {
		if w.GetId() == id {
			return w
		}
	}
	return nil
}

// inputAnswered lets the call continue if none of its questions is open.
func (m *move) inputAnswered(s *storagev1.ActiveStep, w *storagev1.Wait, said *storagev1.StatusChanged, fresh bool) {
	said.From = m.s.GetStatus()
	open := m.asking(s)
	if !open {
		m.closePause()
		m.setStatus(taskRunning)
		m.setStepStatus(s, stepRunning)
		m.s.Phase = storagev1.Phase_PHASE_CALL
		m.schedule(flow.Attach{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt(), Fresh: fresh})
	}
	m.stepFact(s, &storagev1.Fact{WaitId: w.GetId(), Kind: &storagev1.Fact_StatusChanged{StatusChanged: said}})
}

// closePause closes the wait of a pause while a call runs; it is opened again afterwards.
func (m *move) closePause() {
	m.s.Waits = slices.DeleteFunc(slices.Clone(m.s.GetWaits()), func(w *storagev1.Wait) bool { return w.GetKind() == waitPause })
}

// givenUp reports whether the pool gave up a question before the task's own timeout.
func (m *move) givenUp(w *storagev1.Wait) bool {
	timeout := m.t.Head.GetWaitTimeout()
	return w.GetKind() == waitInput && (timeout <= 0 || w.GetDeadline()-w.GetCreateTime() < timeout)
}

// unanswered continues a call whose question the pool gave up: its server is told that there is no answer.
func (m *move) unanswered(w *storagev1.Wait) {
	s := m.closeWait(w.GetId(), waitInput)
	if s == nil {
		return
	}
	s.Answers = append(s.Answers, &storagev1.InputAnswer{
		InputId: w.GetInputId(), Action: executorv1.InputAnswer_ACTION_CANCEL, Deadline: w.GetDeadline(), GivenUp: true,
	})
	m.inputAnswered(s, w, &storagev1.StatusChanged{Reason: fmt.Sprintf(
		"no answer to %s within %s; the tool goes on without one", w.GetId(), humantime.Text(nanos(w.GetDeadline()-w.GetCreateTime())))}, false)
}

// inputExpired ends a task whose tool's server got no answer in time. The call is ended, and its outcome is unknown.
func (m *move) inputExpired(s *storagev1.ActiveStep, e *storagev1.ErrorNote, w *storagev1.Wait) {
	m.withdraw(s, "no answer in time")
	m.recordError(s, e, s.GetOutcome())
	m.facts[len(m.facts)-1].WaitId = w.GetId()
	m.fail(e)
}

// withdraw ends a call that waits for a person, because there will be no answer.
func (m *move) withdraw(s *storagev1.ActiveStep, why string) {
	if !m.asking(s) {
		return
	}
	s.Outcome = outcomeUnknown
	m.spend(&storagev1.Usage{ToolCalls: 1})
	m.schedule(flow.Withdraw{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt(), Round: s.GetRound(), PoolID: s.GetPoolId(), ToolID: s.GetToolId(), Reason: why})
}

// undelivered continues an attempt whose call died in the pool while a person was asked. If the server keeps no state between its
// questions and the answers, another call of the same attempt continues.
func (m *move) undelivered(in flow.Undelivered) {
	s := m.attempted(in.Ordinal, in.Attempt)
	if s == nil {
		return
	}
	lost := flow.Called{Ordinal: in.Ordinal, Attempt: in.Attempt, Round: s.GetRound(), Err: in.Err, Outcome: outcomeUnknown, Lost: true}
	if m.s.GetCancelRequested() || m.timeSpent() != "" || s.GetRequestState() == "" || s.GetRound()+1 >= m.t.Head.GetLimits().GetMaxAttempts() {
		m.called(lost)
		return
	}
	s.Round++
	s.McpTaskId, s.AnswersSent = "", true
	m.schedule(flow.Call{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt()})
}

// mcpTask keeps the id of the MCP task, because another replica of the MCP pool may have to ask for it (DESIGN 4).
func (m *move) mcpTask(in flow.McpTask) {
	s := m.attempted(in.Ordinal, in.Attempt)
	if s == nil {
		return
	}
	m.unchanged = s.GetMcpTaskId() == in.TaskID
	s.McpTaskId = in.TaskID
}

// forgetCall clears what only a running call needs.
func forgetCall(s *storagev1.ActiveStep) {
	s.Round, s.McpTaskId, s.RequestState, s.Answers, s.AnswersSent = 0, "", "", nil, false
	s.Outcome = commonv1.Outcome_OUTCOME_UNSPECIFIED
}
