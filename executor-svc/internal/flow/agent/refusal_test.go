package agent_test

import (
	"strings"
	"testing"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// refusals are the steps in whose newest questions a person said no; true once the call was lost after that.
type refusals map[uint32]bool

func (r refusals) said(ordinal uint32, action executorv1.InputAnswer_Action) {
	if action != executorv1.InputAnswer_ACTION_ACCEPT {
		r[ordinal] = false
	}
}

func (r refusals) asked(ordinal uint32) { delete(r, ordinal) }

func (r refusals) failed(ordinal uint32, o commonv1.Outcome) {
	if _, no := r[ordinal]; !no {
		return
	}
	if r[ordinal] = o == commonv1.Outcome_OUTCOME_UNKNOWN; !r[ordinal] {
		delete(r, ordinal) // the tool knows the answer
	}
}

// final reports whether the step may have no further attempt.
func (r refusals) final(ordinal uint32) bool { return r[ordinal] }

// stepOf returns the ordinal of the step that a wait is about, 0 if the wait is not open.
func (p *poolModel) stepOf(wait string) uint32 {
	for _, w := range p.w.task.State.GetWaits() {
		if w.GetId() == wait {
			return w.GetOrdinal()
		}
	}
	return 0
}

// losses are calls that were lost by Pawl, or with their server.
func losses() map[string]flow.Called {
	return map[string]flow.Called{
		"by Pawl": {Ordinal: 1, Attempt: 1, Outcome: commonv1.Outcome_OUTCOME_UNKNOWN, Lost: true,
			Err: &storagev1.ErrorNote{ErrMsg: "the pool ended", Reason: commonv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN}},
		"with its server": {Ordinal: 1, Attempt: 1, Outcome: commonv1.Outcome_OUTCOME_UNKNOWN,
			Err: &storagev1.ErrorNote{ErrMsg: "the server ended", Reason: commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_UNAVAILABLE}},
	}
}

// A14, A20: a refused question is not asked again if the call was lost, whatever the policy; an accepted one is, if the tool may run twice.
// Without an answer, the rules are those of every call.
func TestLostAfterAnAnswer(t *testing.T) {
	const waiting, running = executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING, executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING
	retry := executorv1.OnUnknownOutcome_ON_UNKNOWN_OUTCOME_RETRY
	for name, c := range map[string]struct {
		action   executorv1.InputAnswer_Action
		effect   commonv1.Effect
		policy   executorv1.OnUnknownOutcome
		attempts map[string]uint32
		status   executorv1.ExecutorStatus
	}{
		"accepted":             {accept, read, 0, map[string]uint32{"by Pawl": 2, "with its server": 2}, running},
		"declined":             {decline, read, 0, nil, running},
		"dismissed":            {dismiss, read, 0, nil, running},
		"not answered":         {unanswered, read, 0, map[string]uint32{"by Pawl": 2}, running},
		"accepted, wrote":      {accept, write, 0, nil, waiting},
		"declined, wrote":      {decline, write, 0, nil, waiting},
		"accepted, to retry":   {accept, write, retry, map[string]uint32{"by Pawl": 2, "with its server": 2}, running},
		"declined, with retry": {decline, write, retry, nil, waiting},
	} {
		for loss, lost := range losses() {
			t.Run(name+" "+loss, func(t *testing.T) {
				task, on := asking(t, &storagev1.TaskHead{Limits: limits(), OnUnknownOutcome: c.policy},
					flow.Elicitation{InputID: "q", Expire: time.Unix(1060, 0).UnixNano()})
				task.State.Lanes[0].Step.Effect = c.effect
				at := 6 * time.Second
				if c.action == unanswered {
					at = time.Minute
					on(at, flow.Timeout{})
				} else {
					on(at, said("wait-1", c.action))
				}
				tr := on(at, lost)
				attempts := uint32(1)
				for _, f := range tr.Facts {
					attempts = max(attempts, f.GetAttempt())
				}
				if want := max(1, c.attempts[loss]); attempts != want || task.State.GetStatus() != c.status {
					t.Errorf("%d attempts and %s, want %d and %s", attempts, task.State.GetStatus(), want, c.status)
				}
				no := c.action == decline || c.action == dismiss
				if e := reasonOf(tr.Facts[0]); e == "" || strings.Contains(e, "not called again") != no {
					t.Errorf("the attempt ends with %q", e)
				}
			})
		}
	}
}

const (
	accept     = executorv1.InputAnswer_ACTION_ACCEPT
	decline    = executorv1.InputAnswer_ACTION_DECLINE
	dismiss    = executorv1.InputAnswer_ACTION_CANCEL
	unanswered = executorv1.InputAnswer_ACTION_UNSPECIFIED

	read  = commonv1.Effect_EFFECT_READ
	write = commonv1.Effect_EFFECT_WRITE
)

func said(wait string, action executorv1.InputAnswer_Action) flow.Command {
	return flow.Command{Command: &storagev1.Command{Kind: &storagev1.Command_Input{Input: &storagev1.SupplyInput{WaitId: wait, Action: action}}}}
}

// reasonOf returns the error message of a fact that ends an attempt.
func reasonOf(f *storagev1.Fact) string {
	if w := f.GetStepWaitingForStart(); w != nil {
		return w.GetOutcomeUnknown().GetErrMsg()
	}
	return f.GetStepError().GetError().GetErrMsg()
}
