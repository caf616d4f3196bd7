package step

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"

	"pawl.dev/services/humantime"
)

// elicited opens waits for people to answer the questions of a tool's server. Meanwhile the attempt stays open, and the pool keeps the call.
// If the call has to stop, no person is asked.
func (l Lane) elicited(in flow.Elicited) {
	s := l.runningAttempt(in.Ordinal, in.Attempt)
	if s == nil {
		return
	}
	switch {
	case l.ending():
		l.stopAndAttach(s, "the task was cancelled")
		return
	case l.spentRunTime() != "":
		l.stopAndAttach(s, "the task's run time is spent")
		return
	}
	s.RequestState, s.Answers, s.AnswersSent = in.RequestState, nil, false
	unanswered := l.reuseAnswers(s, in.Elicitations)
	if len(unanswered) == 0 {
		l.Schedule(flow.Attach{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt(), Fresh: true})
		return
	}
	l.setStepStatus(s, stepWaiting)
	l.Rest()
	for _, q := range unanswered {
		l.openElicitation(s, q)
	}
}

func (l Lane) openElicitation(s *storagev1.ActiveStep, q flow.Elicitation) {
	w := l.OpenWait(s, waitInput, q.Message)
	w.InputId, w.ParamsSchemaJson, w.Url = q.InputID, q.SchemaJSON, q.URL
	if q.Expire != 0 && (w.GetDeadline() == 0 || q.Expire < w.GetDeadline()) {
		w.Deadline = q.Expire
	}
	l.addStepFact(s, &storagev1.Fact{WaitId: w.GetId(), Kind: &storagev1.Fact_InputRequired{
		InputRequired: &storagev1.InputRequired{Message: q.Message, SchemaJson: q.SchemaJSON, Url: q.URL, Deadline: w.GetDeadline()},
	}})
}

// stopAndAttach stops a call, drops its questions, and waits for its end.
func (l Lane) stopAndAttach(s *storagev1.ActiveStep, reason string) {
	l.Schedule(flow.Attach{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt(), Stopping: true})
	l.Schedule(flow.StopCall{Reason: reason})
}

// hasOpenElicitation reports whether a step's call waits for a person's answer.
func (d *Draft) hasOpenElicitation(s *storagev1.ActiveStep) bool {
	return slices.ContainsFunc(d.Checkpoint.GetWaits(), func(w *storagev1.Wait) bool {
		return w.GetKind() == waitInput && w.GetOrdinal() == s.GetOrdinal()
	})
}

// answerElicitation records a person's answer to a question of the tool's server.
func (l Lane) answerElicitation(w *storagev1.Wait, a *storagev1.SupplyInput) {
	s := l.State.GetStep()
	answer := &storagev1.InputAnswer{InputId: w.GetInputId(), Action: a.GetAction(), Deadline: w.GetDeadline()}
	if w.GetUrl() == "" {
		answer.ContentJson = a.GetContentJson()
	}
	s.Answers = append(s.Answers, answer)
	l.keepAccepted(s, w, a)
	reason := cmp.Or(map[executorv1.InputAnswer_Action]string{
		executorv1.InputAnswer_ACTION_ACCEPT: "answered", executorv1.InputAnswer_ACTION_DECLINE: "declined",
	}[a.GetAction()], "dismissed")
	l.closeElicitation(s, w, &storagev1.StatusChanged{SuppliedHash: flow.ElicitationAnswerHash(a), Reason: reason}, true)
}

// closeElicitation records that a question was closed. Once all questions asked together are closed, the call receives the answers and
// continues in the same attempt.
func (l Lane) closeElicitation(s *storagev1.ActiveStep, w *storagev1.Wait, change *storagev1.StatusChanged, fresh bool) {
	change.From = l.Checkpoint.GetStatus()
	if !l.hasOpenElicitation(s) {
		l.closePause() // while the call runs; enterPause opens another one afterwards
		l.SetStatus(taskRunning)
		l.setStepStatus(s, stepRunning)
		l.setPhase(storagev1.Phase_PHASE_CALL)
		l.Schedule(flow.Attach{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt(), Fresh: fresh})
	}
	l.addStepFact(s, &storagev1.Fact{WaitId: w.GetId(), Kind: &storagev1.Fact_StatusChanged{StatusChanged: change}})
}

// poolGaveUp reports whether an expired wait has the pool's deadline, which is earlier than the task's.
func (d *Draft) poolGaveUp(w *storagev1.Wait) bool {
	timeout := d.Task.Head.GetWaitTimeout()
	return w.GetKind() == waitInput && (timeout <= 0 || w.GetDeadline()-w.GetCreateTime() < timeout)
}

// giveUpElicitation continues a call after the pool gave up one of its questions: the server receives a CANCEL as the answer.
func (d *Draft) giveUpElicitation(w *storagev1.Wait) {
	l, _, ok := d.closeWait(w.GetId(), waitInput)
	if !ok {
		return
	}
	s := l.State.GetStep()
	s.Answers = append(s.Answers, &storagev1.InputAnswer{
		InputId: w.GetInputId(), Action: executorv1.InputAnswer_ACTION_CANCEL, Deadline: w.GetDeadline(), GivenUp: true,
	})
	l.closeElicitation(s, w, &storagev1.StatusChanged{Reason: fmt.Sprintf(
		"no answer to %s within %s; the tool goes on without one", w.GetId(), humantime.Text(time.Duration(w.GetDeadline()-w.GetCreateTime())))}, false)
}

// withdraw ends the step's call if it waits for a person, because there will be no answer.
func (l Lane) withdraw(s *storagev1.ActiveStep, reason string) {
	if !l.hasOpenElicitation(s) {
		return
	}
	s.Outcome = outcomeUnknown
	l.AddUsage(&storagev1.Usage{ToolCalls: 1})
	l.Schedule(flow.Withdraw{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt(), Round: s.GetRound(), PoolID: s.GetPoolId(), ToolID: s.GetToolId(), Reason: reason})
}

// undelivered continues an attempt whose call the pool lost while a person was asked. A RequestState lets another call of the same attempt
// continue; without it the call is lost.
func (l Lane) undelivered(in flow.Undelivered) {
	s := l.runningAttempt(in.Ordinal, in.Attempt)
	if s == nil {
		return
	}
	lost := flow.Called{Ordinal: in.Ordinal, Attempt: in.Attempt, Round: s.GetRound(), Err: in.Err, Outcome: outcomeUnknown, Lost: true}
	if l.ending() || l.spentRunTime() != "" || s.GetRequestState() == "" || s.GetRound()+1 >= l.Task.Head.GetLimits().GetMaxAttempts() {
		l.called(lost)
		return
	}
	s.Round++
	s.McpTaskId, s.AnswersSent = "", true
	l.Schedule(flow.Call{Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt()})
}

// mcpTask records the id of the MCP task, because another replica of the MCP pool may have to ask the server for the task.
func (l Lane) mcpTask(in flow.McpTask) {
	s := l.runningAttempt(in.Ordinal, in.Attempt)
	if s == nil {
		return
	}
	l.unchanged = s.GetMcpTaskId() == in.TaskID
	s.McpTaskId = in.TaskID
}

// forgetCall clears the fields that only a running call needs, and the outcome.
func forgetCall(s *storagev1.ActiveStep) {
	s.Round, s.McpTaskId, s.RequestState, s.Answers, s.AnswersSent = 0, "", "", nil, false
	s.Outcome = commonv1.Outcome_OUTCOME_UNSPECIFIED
}
