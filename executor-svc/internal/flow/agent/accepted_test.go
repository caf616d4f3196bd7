package agent_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// acceptances are what people accepted in the steps' calls, and whether a person said that a step is to be called again.
type acceptances map[uint32]*acceptance

type acceptance struct {
	attempts []uint32 // for each accepted answer, the last attempt that got it
	retried  bool
}

func (a acceptances) of(ordinal uint32) *acceptance {
	if a[ordinal] == nil {
		a[ordinal] = &acceptance{}
	}
	return a[ordinal]
}

func (a acceptances) said(s *storagev1.ActiveStep, action executorv1.InputAnswer_Action) {
	switch of := a.of(s.GetOrdinal()); {
	case s == nil:
	case action == executorv1.InputAnswer_ACTION_ACCEPT:
		of.attempts = append(of.attempts, s.GetAttempt())
	default:
		of.attempts = nil
	}
}

func (a acceptances) retry(ordinal uint32) { a.of(ordinal).retried = true }

func (a acceptances) failed(ordinal uint32, o commonv1.Outcome) {
	if o == commonv1.Outcome_OUTCOME_KNOWN {
		a.of(ordinal).attempts = nil
	}
}

// again returns why an answer must not have been given again; "" if it may, or if the fact is about something else.
func (a acceptances) again(f *storagev1.Fact, repeats bool) string {
	if !strings.Contains(f.GetStatusChanged().GetReason(), "got the same answer") {
		return ""
	}
	of := a.of(f.GetOrdinal())
	if !repeats && !of.retried {
		return "an answer is given again to a tool that must not be called again"
	}
	for i, attempt := range of.attempts {
		if attempt < f.GetAttempt() {
			of.attempts[i] = f.GetAttempt()
			return ""
		}
	}
	return "an answer is given again that no person gave, or twice in an attempt"
}

func repeats(tool string) bool { return tool == "t/read" || tool == "t/idempotent" }

var what = flow.Elicitation{InputID: "q", Message: "what?", SchemaJSON: `{"type":"object"}`}

// secondAttempt is a task whose first call asked, was answered, and was lost; its second one runs.
func secondAttempt(t *testing.T, actions ...executorv1.InputAnswer_Action) (*flow.Task, func(time.Duration, flow.Input) flow.Transition) {
	t.Helper()
	task, on := asking(t, &storagev1.TaskHead{Limits: limits()}, what)
	task.State.Lanes[0].Step.Effect = write
	for i, action := range actions {
		if i > 0 {
			on(5*time.Second, flow.Elicited{Ordinal: 1, Attempt: 1, Elicitations: []flow.Elicitation{what}})
		}
		said := answer(flow.WaitID(uint32(i + 1)))
		said.GetInput().Action = action
		on(5*time.Second, said)
	}
	on(5*time.Second, losses()["by Pawl"])
	on(5*time.Second, flow.Command{Command: outcome(&storagev1.SettleOutcome{
		WaitId: task.State.GetWaits()[0].GetId(), Answer: &storagev1.SettleOutcome_Retry{Retry: true},
	})})
	return task, on
}

// What a person accepted is given again to exactly the same question of the same call, and to nothing else; a no is not taken for a
// yes. The log says which answer it was.
func TestAcceptedAnswersAreGivenAgain(t *testing.T) {
	other := func(change func(*flow.Elicitation)) flow.Elicitation {
		q := what
		change(&q)
		return q
	}
	for name, c := range map[string]struct {
		actions []executorv1.InputAnswer_Action
		asks    flow.Elicitation
		before  func(*storagev1.ActiveStep)
		again   bool
	}{
		"the same":             {actions: []executorv1.InputAnswer_Action{accept}, asks: what, again: true},
		"another input id":     {actions: []executorv1.InputAnswer_Action{accept}, asks: other(func(q *flow.Elicitation) { q.InputID = "2.q" }), again: true},
		"another message":      {actions: []executorv1.InputAnswer_Action{accept}, asks: other(func(q *flow.Elicitation) { q.Message = "what? " })},
		"another schema":       {actions: []executorv1.InputAnswer_Action{accept}, asks: other(func(q *flow.Elicitation) { q.SchemaJSON = `{"type": "object"}` })},
		"a page":               {actions: []executorv1.InputAnswer_Action{accept}, asks: other(func(q *flow.Elicitation) { q.URL, q.SchemaJSON = "https://a.example", "" })},
		"declined":             {actions: []executorv1.InputAnswer_Action{decline}, asks: what},
		"dismissed":            {actions: []executorv1.InputAnswer_Action{dismiss}, asks: what},
		"accepted, then not":   {actions: []executorv1.InputAnswer_Action{accept, decline}, asks: what},
		"declined, then not":   {actions: []executorv1.InputAnswer_Action{decline, accept}, asks: what, again: true},
		"another input":        {actions: []executorv1.InputAnswer_Action{accept}, asks: what, before: func(s *storagev1.ActiveStep) { s.InputJson = `{"n":1}` }},
		"another definition":   {actions: []executorv1.InputAnswer_Action{accept}, asks: what, before: func(s *storagev1.ActiveStep) { s.DefinitionHash = "other" }},
		"another registration": {actions: []executorv1.InputAnswer_Action{accept}, asks: what, before: func(s *storagev1.ActiveStep) { s.ConfigRevision++ }},
	} {
		t.Run(name, func(t *testing.T) {
			task, on := secondAttempt(t, c.actions...)
			s := task.State.Lanes[0].Step
			if c.before != nil {
				c.before(s)
			}
			tr := on(6*time.Second, flow.Elicited{Ordinal: 1, Attempt: 2, Elicitations: []flow.Elicitation{c.asks}})
			if !c.again {
				if n := len(task.State.GetWaits()); n != 1 || len(tr.Actions) != 0 || len(s.GetAnswers()) != 0 {
					t.Errorf("%d waits, actions %v, answers %v", n, tr.Actions, s.GetAnswers())
				}
				return
			}
			if len(task.State.GetWaits()) != 0 || len(tr.Actions) != 1 || tr.Actions[0].Action != (flow.Attach{Ordinal: 1, Attempt: 2, Fresh: true}) {
				t.Fatalf("waits %v, actions %v", task.State.GetWaits(), tr.Actions)
			}
			if a := s.GetAnswers(); len(a) != 1 || a[0].GetInputId() != c.asks.InputID || a[0].GetAction() != accept || a[0].GetContentJson() != "{}" {
				t.Errorf("answers %v", a)
			}
			said := tr.Facts[0].GetStatusChanged()
			given := flow.ElicitationAnswerHash(&storagev1.SupplyInput{Action: accept, ContentJson: "{}"})
			if !strings.Contains(said.GetReason(), flow.WaitID(uint32(len(c.actions)))) || !bytes.Equal(said.GetSuppliedHash(), given) {
				t.Errorf("the log says %v", said)
			}
			// It is given once in an attempt.
			on(7*time.Second, flow.Elicited{Ordinal: 1, Attempt: 2, Elicitations: []flow.Elicitation{c.asks}})
			if n := len(task.State.GetWaits()); n != 1 {
				t.Errorf("%d waits after the same question again, want 1", n)
			}
		})
	}
}

// After a tool's own error the answer is not given again: the tool has had it, and the person may want to give another one.
func TestAcceptedAnswersEndWithAnError(t *testing.T) {
	task, on := asking(t, &storagev1.TaskHead{Limits: limits()}, what)
	on(5*time.Second, answer("wait-1"))
	if len(task.State.Lanes[0].Step.GetAccepted()) != 1 {
		t.Fatal("nothing is kept")
	}
	on(5*time.Second, flow.Called{Ordinal: 1, Attempt: 1, Outcome: commonv1.Outcome_OUTCOME_KNOWN,
		Err: &storagev1.ErrorNote{ErrMsg: "wrong", Reason: commonv1.ErrorReason_ERROR_REASON_TOOL_EXECUTION_FAILED}})
	if kept := task.State.Lanes[0].Step.GetAccepted(); len(kept) != 0 {
		t.Errorf("kept %v", kept)
	}
}

// If the policy repeats a call with a side effect, a person answers its questions again.
func TestRetryByPolicyAsksAgain(t *testing.T) {
	task, on := asking(t, &storagev1.TaskHead{Limits: limits(), OnUnknownOutcome: executorv1.OnUnknownOutcome_ON_UNKNOWN_OUTCOME_RETRY}, what)
	task.State.Lanes[0].Step.Effect = write
	on(5*time.Second, answer("wait-1"))
	on(5*time.Second, losses()["by Pawl"])
	on(6*time.Second, flow.Elicited{Ordinal: 1, Attempt: 2, Elicitations: []flow.Elicitation{what}})
	if n := len(task.State.GetWaits()); n != 1 {
		t.Errorf("%d waits", n)
	}
}

// An answer that is too large to be kept is asked for again.
func TestAcceptedAnswersAreBounded(t *testing.T) {
	task, on := asking(t, &storagev1.TaskHead{Limits: limits()}, what)
	long := answer("wait-1")
	long.GetInput().ContentJson = `{"a":"` + strings.Repeat("x", 64<<10) + `"}`
	on(5*time.Second, long)
	if kept := task.State.Lanes[0].Step.GetAccepted(); len(kept) != 0 {
		t.Errorf("%d answers are kept", len(kept))
	}
}
