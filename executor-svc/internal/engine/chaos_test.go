package engine_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/executor-svc/internal/fake"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
)

// Restarts, approvals and cancels, several at a time, while some calls take long: each task comes to one end, no command is
// left, and no write is repeated.
func TestChaos(t *testing.T) {
	r := newRig(t, fake.Script("write", "read", "write", "read"))
	r.cfg.DrainTimeout, r.cfg.MaxRunning = time.Millisecond, 4
	var slow atomic.Pointer[chan struct{}] // closed when the round is over
	round := func() {
		next := make(chan struct{})
		if last := slow.Swap(&next); last != nil {
			close(*last)
		}
	}
	round()
	var calls atomic.Int32
	r.pool.CallFn = func(ctx context.Context, _ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		if calls.Add(1)%3 == 0 {
			select {
			case <-*slow.Load():
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return send(fake.TextResult("x", false))
	}
	r.start()
	var ids []string
	for i := range 20 {
		ids = append(ids, r.create([]executorv1.Confirm{always, never}[i%2]))
	}
	for n := range 12 {
		var wg sync.WaitGroup
		for k, id := range ids {
			wg.Go(func() { r.disturb(id, (k+n)%20 == 0) })
		}
		wg.Wait()
		if n%3 == 2 {
			if err := r.stop(); err != nil {
				t.Errorf("Run: %v", err)
			}
			r.start()
		}
		round()
	}
	close(*slow.Load())
	for _, id := range ids {
		r.finish(id)
		r.events(id)
	}
	r.checkChaos(ids)
}

// disturb approves what a task asks, and may cancel it, without long waits.
func (r *rig) disturb(id string, cancel bool) {
	ctx, stop := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer stop()
	for _, w := range r.task(id).Checkpoint.GetWaits() {
		_ = r.e.Send(ctx, id, approveCommand(w.GetId()))
	}
	if cancel {
		_ = r.e.Send(ctx, id, cancelCommand())
	}
}

func (r *rig) checkChaos(ids []string) {
	r.t.Helper()
	writes := map[string]int{}
	for _, c := range r.pool.Called() {
		if c.GetName() != "write" {
			continue
		}
		if writes[c.GetSessionId()+c.GetInputJson()]++; writes[c.GetSessionId()+c.GetInputJson()] > 1 {
			r.t.Errorf("task %s repeats %s", c.GetSessionId(), c.GetInputJson())
		}
	}
	for _, id := range ids {
		wantAnswer(r.t, "cancel after the end", r.send(id, cancelCommand()), taskEnded)
		if inbox := r.inbox(id); len(inbox) > 0 {
			r.t.Errorf("task %s has ended, and its inbox holds %v", id, inbox)
		}
	}
	if err := r.stop(); err != nil {
		r.t.Errorf("Run: %v", err)
	}
	s, err := bolt.Open(r.path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer s.Close()
	if err := s.Check(); err != nil {
		r.t.Errorf("the journal is inconsistent: %v", err)
	}
	left, err := s.Claim(context.Background(), journal.ClaimRequest{Now: time.Now(), Slots: 1, Max: 1})
	if err != nil || len(left.Claims) > 0 {
		r.t.Errorf("due are still %v, %v", left, err)
	}
}
