package executor_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/executor-svc/internal/fake"
)

// loseQuestion loses the open question of a task's call: with the pool, with pool and executor ("everything"), or with the MCP server.
func (r *rig) loseQuestion(what string) {
	switch what {
	case "pool":
		r.pool.Restart()
	case "everything":
		r.stop()
		r.pool.Die()
		r.start()
		r.t.Cleanup(r.pool.Die) // runs before the cleanup of the servers that start has served, which wait for calls
	case "server":
		r.pool.LoseServer()
	}
}

// A17: an attempt whose question was lost ends, and says why, before the next one asks. A question that a person
// had accepted is not asked again.
func TestLostQuestionEndsItsAttempt(t *testing.T) {
	for _, what := range []string{"pool", "everything", "server"} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, fake.Script("read"))
			r.elicit(round(form("q1")))
			id := r.create(free(r)).GetId()
			w := r.untilWait(id, inputWait)
			r.loseQuestion(what)
			r.mustInput(id, w.GetId(), `{"city":"Bern"}`)
			r.until(id, flowSuccess)
			wantTypes(t, r.events(id), "FLOW_START", "STEP_INIT", "STEP_INPUT", "INPUT_REQUIRED", "FLOW_STOP", "STATUS_CHANGED",
				"STEP_ERROR", "STEP_INPUT", "STATUS_CHANGED", "STEP_OUTPUT", "TEXT_ADD", "FLOW_SUCCESS")
			if got := r.output(id); got != `{"message":"ACCEPT{\"city\":\"Bern\"}"}` {
				t.Errorf("output %s", got)
			}
			if e := r.until(id, executorv1.EventType_EVENT_TYPE_STEP_ERROR); e.GetAttempt() != 1 || !strings.Contains(e.GetStepError().GetError().GetErrMsg(), "ended") {
				t.Errorf("the lost attempt ended with %v", e)
			}
		})
	}
}

// A20: if a person declined or dismissed a question that is lost, no further attempt is made. The step fails, or its outcome is
// unknown if the tool is not repeatable.
func TestLostQuestionThatWasRefused(t *testing.T) {
	for name, c := range map[string]struct {
		tool, what string
		action     executorv1.InputAnswer_Action
		word       string
	}{
		"declined":                        {"read", "pool", executorv1.InputAnswer_ACTION_DECLINE, "declined"},
		"dismissed":                       {"read", "everything", executorv1.InputAnswer_ACTION_CANCEL, "dismissed"},
		"its server is gone":              {"read", "server", executorv1.InputAnswer_ACTION_DECLINE, "declined"},
		"side effect":                     {"write", "pool", executorv1.InputAnswer_ACTION_DECLINE, "declined"},
		"side effect, its server is gone": {"write", "server", executorv1.InputAnswer_ACTION_CANCEL, "dismissed"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fake.Script(c.tool))
			r.elicit(round(form("q1")))
			id := r.create(free(r)).GetId()
			w := r.untilWait(id, inputWait)
			r.loseQuestion(c.what)
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
			if len(r.pool.Called()) != 1 || !strings.Contains(said, c.word+", so the tool is not called again") {
				t.Errorf("%d calls, and the attempt ended with %q", len(r.pool.Called()), said)
			}
		})
	}
}

// Only exactly the same question gets the earlier answer; a person answers any other.
func TestLostQuestionThatHasChanged(t *testing.T) {
	r := newRig(t, fake.Script("read"))
	r.elicit(round(form("q1")))
	plain := r.pool.CallFn
	r.pool.CallFn = func(ctx context.Context, req *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		if !strings.HasSuffix(req.GetCallId(), "/2") {
			return plain(ctx, req, send)
		}
		if _, err := r.pool.Ask(ctx, send, form("q1"), form("q2")); err != nil {
			return err
		}
		return send(fake.TextResult("done", false))
	}
	id := r.create(free(r)).GetId()
	w := r.untilWait(id, inputWait)
	r.loseQuestion("pool")
	first := r.until(id, inputRequired)
	r.mustInput(id, w.GetId(), `{"city":"Bern"}`)
	next := r.untilAfter(id, first.GetSeq(), inputRequired)
	r.untilAfter(id, next.GetSeq(), flowStop)
	waits := r.task(id).GetWaits()
	if len(waits) != 1 || waits[0].GetMessage() != "Which city (q2)?" {
		t.Fatalf("asked %v", waits)
	}
	r.mustInput(id, waits[0].GetId(), `{"city":"Rome"}`)
	r.until(id, flowSuccess)
	var given []string
	for _, a := range r.pool.Seen().Answers {
		if strings.HasSuffix(a.GetCallId(), "/2") {
			given = append(given, a.GetAnswer().GetInputId()+a.GetAnswer().GetContentJson())
		}
	}
	if want := []string{`q1{"city":"Bern"}`, `q2{"city":"Rome"}`}; !slices.Equal(given, want) {
		t.Errorf("the second attempt got %v, want %v", given, want)
	}
}

// A call that is repeated because a person said so gets the person's earlier answers.
func TestLostQuestionAndAPersonsRetry(t *testing.T) {
	r := newRig(t, fake.Script("write"))
	r.elicit(round(form("q1")), round(form("q2")))
	id := r.create(free(r)).GetId()
	r.mustInput(id, r.untilWait(id, inputWait).GetId(), `{"city":"Bern"}`)
	first := r.until(id, inputRequired)
	r.untilAfter(id, r.untilAfter(id, first.GetSeq(), inputRequired).GetSeq(), flowStop)
	w := r.untilWait(id, inputWait)
	r.loseQuestion("everything")
	r.mustInput(id, w.GetId(), `{"city":"Rome"}`)
	if _, err := r.outcome(id, r.untilWait(id, outcomeWait).GetId(), retry()); err != nil {
		t.Fatal(err)
	}
	r.until(id, flowSuccess)
	if got := r.output(id); got != `{"message":"ACCEPT{\"city\":\"Bern\"} ACCEPT{\"city\":\"Rome\"}"}` {
		t.Errorf("output %s", got)
	}
	if n := len(r.pool.Called()); n != 2 {
		t.Errorf("%d calls", n)
	}
}
