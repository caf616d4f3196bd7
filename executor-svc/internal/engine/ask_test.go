package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/executor-svc/internal/fake"
	"pawl.dev/executor-svc/internal/journal"
)

// asks makes each call ask a person, and have its effect after the answer. With a state, the server keeps nothing between question
// and answer.
func (r *rig) asks(state string) (effects *atomic.Int32) {
	effects = &atomic.Int32{}
	r.pool.Detached = true
	r.t.Cleanup(r.pool.Die)
	r.pool.CallFn = func(ctx context.Context, req *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		if len(req.GetAnswers()) == 0 {
			q := &mcppoolv1.CallInputRequired{InputId: "q", Message: "really?", SchemaJson: `{"type":"object"}`, RequestState: state}
			if _, err := r.pool.Ask(ctx, send, q); err != nil {
				return err
			}
		}
		effects.Add(1)
		return send(fake.TextResult("done", false))
	}
	return effects
}

// Wherever executor and pool crash in a call that asks a person, the task goes on to its end, and no side effect happens twice. If the
// server sends a request state, a question survives the pool.
func TestCrashAtEachCommitOfAQuestion(t *testing.T) {
	for state, unknown := range map[string]int{"": 3, "state": 2} { // after the intent and the answer; without a state also after the question
		t.Run(fmt.Sprintf("%q", state), func(t *testing.T) {
			id, copies, before := questionCrashes(t, "write", state, false)
			lost := 0
			for i, path := range copies {
				r := newRig(t, fake.Script("write"))
				r.path = path
				effects := r.asks(state)
				r.start()
				if end := r.finish(id); end != success {
					t.Errorf("a crash after commit %d: %s, %v", i, end, r.task(id).Checkpoint.GetError())
				}
				for _, e := range r.events(id) {
					if e.GetStepWaitingForStart().GetOutcomeUnknown() {
						lost++
					}
				}
				if n := before[i] + effects.Load(); n > 1 {
					t.Errorf("a crash after commit %d: the side effect happens %d times", i, n)
				}
				if err := r.stop(); err != nil {
					t.Error(err)
				}
			}
			if lost != unknown {
				t.Errorf("%d crashes leave an unknown outcome, want %d, of %d commits", lost, unknown, len(copies))
			}
		})
	}
}

// Wherever executor and pool crash, a repeatable tool gets the accepted answer again, and the person is asked once.
func TestCrashAfterAnAcceptedAnswer(t *testing.T) {
	id, copies, _ := questionCrashes(t, "read", "", true)
	again := 0
	for i, path := range copies {
		r := newRig(t, fake.Script("read"))
		r.path, r.accepts = path, true
		r.asks("")
		r.start()
		if end := r.finish(id); end != success {
			t.Errorf("a crash after commit %d: %s, %v", i, end, r.task(id).Checkpoint.GetError())
		}
		asked := 0
		for _, e := range r.events(id) {
			if e.GetInputRequired() != nil {
				asked++
			}
			if strings.Contains(e.GetStatusChanged().GetReason(), "got the same answer") {
				again++
			}
		}
		if asked != 1 {
			t.Errorf("a crash after commit %d: asked %d times", i, asked)
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	}
	if again != 2 { // after the question, which the call does not survive, and after the answer
		t.Errorf("%d answers are given again, of %d crashes, want 2", again, len(copies))
	}
}

// questionCrashes runs a task that asks. It returns a copy of the journal after each commit, and how many side effects may have
// happened before the next commit.
func questionCrashes(t *testing.T, tool, state string, accepts bool) (id string, copies []string, effects []int32) {
	dir := t.TempDir()
	r := newRig(t, fake.Script(tool))
	r.accepts = accepts
	made := r.asks(state)
	r.j.onCommit = func(_ journal.Transition, do func() error) error {
		if len(copies) > 0 {
			effects = append(effects, made.Load())
		}
		err := do()
		copies = append(copies, r.copyTo(dir, len(copies)))
		return err
	}
	r.start()
	id = r.create(never)
	if s := r.finish(id); s != success {
		t.Errorf("without a crash the task is %s", s)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if got := made.Load(); got != 1 {
		t.Errorf("%d side effects without a crash", got)
	}
	return id, copies, append(effects, made.Load())
}

// A28: a question that expires is closed without a slot. Its call goes on once there is one.
func TestQuestionExpiresWithoutASlot(t *testing.T) {
	r := newRig(t, fake.Script("write"))
	r.cfg.MaxRunning = 1
	r.asks("")
	plain := r.pool.CallFn
	asking, holding, held := newTask(never), newTask(never), newBarrier(t)
	r.holds.Store(holding.ID, held)
	began, queued := make(chan struct{}, 9), make(chan struct{})
	r.pool.CallFn = func(ctx context.Context, req *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		if req.GetSessionId() != asking.ID {
			return send(fake.TextResult("done", false))
		}
		began <- struct{}{}
		<-queued // the slot goes to another task as soon as it is free
		return plain(ctx, req, func(m *mcppoolv1.CallToolResponse) error {
			if q := m.GetInputRequired(); q != nil {
				q.ExpireTime = timestamppb.New(time.Now().Add(time.Second))
			}
			return send(m)
		})
	}
	r.start()
	r.createAs(asking)
	receive(t, began)
	r.createAs(holding)
	close(queued)
	held.await()
	r.await(asking.ID, running) // and no longer waiting
	if n := len(r.pool.Seen().Answers); n != 0 {
		t.Errorf("%d answers were given without a slot", n)
	}
	held.open()
	r.await(asking.ID, success)
	if a := r.pool.Seen().Answers; len(a) != 1 || a[0].GetAnswer().GetAction() != mcppoolv1.CallAnswer_ACTION_CANCEL {
		t.Errorf("answers %v", a)
	}
}
