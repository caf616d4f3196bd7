package step

import (
	"bytes"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// maxAcceptedBytes bounds the accepted answers that a step keeps. Further answers are not kept: if the call is lost, the person is asked
// again.
const maxAcceptedBytes = 64 << 10

// keepAccepted keeps an accepted answer, so that a repeated call need not ask the person again. A refusal drops the answers kept so far.
// An answer given in a browser is not kept, because Pawl does not see it.
func (d *Draft) keepAccepted(s *storagev1.ActiveStep, w *storagev1.Wait, a *storagev1.SupplyInput) {
	switch {
	case a.GetAction() != executorv1.InputAnswer_ACTION_ACCEPT:
		s.Accepted = nil
		return
	case w.GetUrl() != "":
		return
	}
	size := len(a.GetContentJson())
	for _, accepted := range s.GetAccepted() {
		size += len(accepted.GetContentJson())
	}
	if size <= maxAcceptedBytes {
		s.Accepted = append(s.Accepted, &storagev1.Accepted{
			AskedHash: flow.ElicitationHash(d.Task, s, w.GetMessage(), w.GetParamsSchemaJson()), ContentJson: a.GetContentJson(),
			WaitId: w.GetId(), Attempt: s.GetAttempt(),
		})
	}
}

// reuseAnswers answers the questions that an earlier, lost attempt asked too, and returns the unanswered questions. It uses each answer once
// per attempt.
func (d *Draft) reuseAnswers(s *storagev1.ActiveStep, questions []flow.Elicitation) (unanswered []flow.Elicitation) {
	for _, q := range questions {
		a := d.reuseAccepted(s, q)
		if a == nil {
			unanswered = append(unanswered, q)
			continue
		}
		s.Answers = append(s.Answers, &storagev1.InputAnswer{
			InputId: q.InputID, Action: executorv1.InputAnswer_ACTION_ACCEPT, ContentJson: a.GetContentJson(), Deadline: q.Expire,
		})
		answer := &storagev1.SupplyInput{Action: executorv1.InputAnswer_ACTION_ACCEPT, ContentJson: a.GetContentJson()}
		d.addStepFact(s, &storagev1.Fact{Kind: &storagev1.Fact_StatusChanged{StatusChanged: &storagev1.StatusChanged{
			From: d.Checkpoint.GetStatus(), SuppliedHash: flow.ElicitationAnswerHash(answer),
			Reason: "the tool repeats the question that was answered as " + a.GetWaitId() + " before its call was lost; it got the same answer",
		}}})
	}
	return unanswered
}

// reuseAccepted returns an unused kept answer to exactly this question and marks it as used by this attempt; nil if there is none.
func (d *Draft) reuseAccepted(s *storagev1.ActiveStep, q flow.Elicitation) *storagev1.Accepted {
	if q.URL != "" || len(s.GetAccepted()) == 0 {
		return nil
	}
	hash := flow.ElicitationHash(d.Task, s, q.Message, q.SchemaJSON)
	for i, a := range s.GetAccepted() {
		if a.GetAttempt() < s.GetAttempt() && bytes.Equal(a.GetAskedHash(), hash) {
			used := &storagev1.Accepted{AskedHash: hash, ContentJson: a.GetContentJson(), WaitId: a.GetWaitId(), Attempt: s.GetAttempt()}
			s.Accepted[i] = used
			return used
		}
	}
	return nil
}
