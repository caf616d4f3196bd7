package engine_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/fake"
	"pawl.dev/executor-svc/internal/journal"
)

// A stopping executor begins no call, even if its intent is committed already; the call is made after the restart, as
// the same attempt (A17).
func TestNoCallIsBegunWhileDraining(t *testing.T) {
	r, intent := newRig(t, fake.Script("write")), newBarrier(t)
	r.cfg.DrainTimeout = patience
	r.j.onCommit = holdCommit(intent, isInput)
	r.start()
	id := r.create(never)
	intent.await()
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	receive(t, r.e.Draining())
	intent.open()
	if err := receive(t, stopped); err != nil {
		t.Errorf("Run: %v", err)
	}
	if n := len(r.pool.Called()); n > 0 {
		t.Errorf("%d calls were begun after the stop", n)
	}
	r.start()
	r.await(id, success)
	want := []string{"FLOW_START", "STEP_INIT", "STEP_INPUT", "STEP_OUTPUT", "TEXT_ADD", "FLOW_SUCCESS"}
	if d := cmp.Diff(want, r.types(id)); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	if n := len(r.pool.Called()); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}

// A stop while the pool refuses calls fails no step: the call is made after the restart, as the same attempt.
func TestStopWhileThePoolIsAway(t *testing.T) {
	r := newRig(t, fake.Script("write"))
	r.cfg.DrainTimeout = 10 * time.Millisecond // enough for the refusal to arrive, and too short for all attempts
	var back atomic.Bool
	tried := make(chan struct{}, 1)
	r.pool.CallFn = func(_ context.Context, _ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		if back.Load() {
			return send(fake.TextResult("done", false))
		}
		select {
		case tried <- struct{}{}:
		default:
		}
		return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN, "stopping").With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	}
	r.start()
	id := r.create(never)
	receive(t, tried)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	back.Store(true)
	r.start()
	r.await(id, success)
	want := []string{"FLOW_START", "STEP_INIT", "STEP_INPUT", "STEP_OUTPUT", "TEXT_ADD", "FLOW_SUCCESS"}
	if d := cmp.Diff(want, r.types(id)); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

// A cancel that was durable before a restart is applied before anything runs again.
func TestCancelInTheInboxAtRestart(t *testing.T) {
	for _, tool := range []string{"read", "write"} {
		t.Run(tool, func(t *testing.T) {
			r := newRig(t, fake.Script(tool))
			r.cfg.DrainTimeout = time.Millisecond
			called := make(chan struct{}, 1)
			r.pool.CallFn = func(ctx context.Context, req *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
				called <- struct{}{}
				return fake.Hang(ctx, req, send)
			}
			r.start()
			id := r.create(never)
			receive(t, called)
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			edit(t, r.path, func(j journal.Tasks) error {
				c := cancelCommand()
				c.Id = "sent before the process died"
				_, err := j.Send(t.Context(), id, c)
				return err
			})
			r.start()
			r.await(id, cancelled)
			if n := len(r.pool.Called()); n != 1 {
				t.Errorf("%d calls, want the 1 before the restart", n)
			}
			if got := r.types(id); !slices.Equal(got[len(got)-3:], []string{"STEP_INPUT", "STEP_CANCEL", "FLOW_CANCEL"}) {
				t.Errorf("events %v", got)
			}
		})
	}
}

// An answer that is cut off by the planner's timeout after its first half is no success (A22).
func TestAnswerThatTimesOut(t *testing.T) {
	for name, answer := range map[string]func(context.Context, <-chan struct{}){
		"planner stops":   func(ctx context.Context, _ <-chan struct{}) { <-ctx.Done() },
		"planner goes on": func(_ context.Context, end <-chan struct{}) { <-end },
	} {
		t.Run(name, func(t *testing.T) {
			p, end := fake.Script(), make(chan struct{})
			p.AnswerFn = func(ctx context.Context, _ *plannerv1.GenerateAnswerRequest, send func(string) error) error {
				if err := send("The first half of"); err != nil {
					return err
				}
				answer(ctx, end)
				return ctx.Err()
			}
			r := newRig(t, p)
			t.Cleanup(func() { close(end) })
			r.runner.PlannerTimeout = 100 * time.Millisecond
			r.start()
			var ids []string
			for range 20 {
				ids = append(ids, r.create(never))
			}
			for _, id := range ids {
				r.await(id, failed)
				r.events(id)
			}
		})
	}
}

// An owner whose claim was lost leaves its task to the next one, which finds the outcome of the running call.
func TestLostClaim(t *testing.T) {
	r := newRig(t, fake.Script("read"))
	r.cfg.Lease = 30 * time.Millisecond
	called := make(chan struct{}, 1)
	finish := make(chan struct{})
	r.pool.Detached = true
	r.pool.CallFn = func(_ context.Context, _ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		called <- struct{}{}
		<-finish
		return send(fake.TextResult("done", false))
	}
	lost, attached := make(chan string, 1), make(chan struct{}, 1)
	r.pool.BeforeAttach = func() { attached <- struct{}{} }
	r.j.onRenew = func([]journal.Claim) []string {
		select {
		case id := <-lost:
			return []string{id}
		default:
			return nil
		}
	}
	r.start()
	id := r.create(never)
	receive(t, called)
	lost <- id
	receive(t, attached) // by the next owner
	close(finish)
	r.await(id, success)
	r.events(id)
	if a, c := r.pool.Seen().Attached[0], r.pool.Called(); len(c) != 1 || a.GetEpoch() <= c[0].GetEpoch() {
		t.Errorf("attached with epoch %d after calls %v", a.GetEpoch(), c)
	}
}
