package executor_test

import (
	"strings"
	"testing"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/fake"
)

// lost lets what a task's first call asked for be lost: with the pool, with everything, or with the server alone.
func (r *rig) lost(what string) {
	switch what {
	case "pool":
		r.pool.Restart()
	case "everything":
		r.stop()
		r.pool.Die()
		r.start()
		r.t.Cleanup(r.pool.Die) // before the servers of this start, which wait for calls
	case "server":
		r.pool.LoseServer()
	}
}

// A17: an attempt whose question was lost ends, and says why, before the next one asks.
func TestLostQuestionEndsItsAttempt(t *testing.T) {
	for _, what := range []string{"pool", "everything", "server"} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, fake.Script("read"))
			r.elicit(asked(form("q1")))
			id := r.create(free(r)).GetId()
			w := r.untilWait(id, inputWait)
			r.lost(what)
			first := r.until(id, inputRequired)
			r.mustInput(id, w.GetId(), `{"city":"Bern"}`)
			r.untilAfter(id, first.GetSeq(), inputRequired)
			wantTypes(t, r.events(id), "FLOW_START", "STEP_INIT", "STEP_INPUT", "INPUT_REQUIRED", "FLOW_STOP", "STATUS_CHANGED",
				"STEP_ERROR", "STEP_INPUT", "INPUT_REQUIRED", "FLOW_STOP")
			if e := r.until(id, executorv1.EventType_EVENT_TYPE_STEP_ERROR); e.GetAttempt() != 1 || !strings.Contains(e.GetStepError().GetError().GetErrMsg(), "ended") {
				t.Errorf("the lost attempt ended with %v", e)
			}
		})
	}
}

// A20: a person who said no to what was lost is not asked by another attempt: the step has failed. Nobody knows what came of a
// tool that is not repeatable.
func TestLostQuestionThatWasRefused(t *testing.T) {
	for name, c := range map[string]struct {
		tool, what string
		action     executorv1.InputAnswer_Action
		word       string
	}{
		"declined":             {"read", "pool", executorv1.InputAnswer_ACTION_DECLINE, "declined"},
		"dismissed":            {"read", "everything", executorv1.InputAnswer_ACTION_CANCEL, "dismissed"},
		"its server is gone":   {"read", "server", executorv1.InputAnswer_ACTION_DECLINE, "declined"},
		"with a side effect":   {"write", "pool", executorv1.InputAnswer_ACTION_DECLINE, "declined"},
		"one that wrote, gone": {"write", "server", executorv1.InputAnswer_ACTION_CANCEL, "dismissed"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fake.Script(c.tool))
			r.elicit(asked(form("q1")))
			id := r.create(free(r)).GetId()
			w := r.untilWait(id, inputWait)
			r.lost(c.what)
			if _, err := r.input(id, w.GetId(), c.action, ""); err != nil {
				t.Fatal(err)
			}
			var said string
			if c.tool == "write" {
				said = r.untilWait(id, outcomeWait).GetMessage()
			} else {
				r.until(id, flowSuccess)
				said = r.until(id, executorv1.EventType_EVENT_TYPE_STEP_ERROR).GetStepError().GetError().GetErrMsg()
			}
			if len(r.pool.Called()) != 1 || !strings.Contains(said, c.word+", so it is not called again") {
				t.Errorf("%d calls, and the attempt ended with %q", len(r.pool.Called()), said)
			}
		})
	}
}
