package journaltest

import (
	"testing"
	"time"

	"pawl.dev/executor-svc/internal/journal"
)

func deadlineTests() map[string]test {
	return map[string]test{
		"Deadlines":            deadlines,
		"DeadlinesSurvive":     deadlinesSurvive,
		"DeadlineWhileRunning": deadlineWhileRunning,
	}
}

// waitUntil makes a task wait with a deadline.
func waitUntil(t *testing.T, j journal.Journal, n journal.NewTask, deadline time.Time) {
	t.Helper()
	c := claimTask(t, j, n.ID)
	tr := transition(t, j, n, c.Epoch, waiting, nil)
	tr.Deadline = deadline
	if err := j.Commit(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	yield(t, j, c)
}

func claimAt(t *testing.T, j journal.Journal, at time.Time) journal.Claims {
	t.Helper()
	c, err := j.Claim(t.Context(), journal.ClaimRequest{Now: at, Slots: 0, Max: 10})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func deadlines(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	late, soon, never := NewTask("ann"), NewTask("ann"), NewTask("ann")
	for n, after := range map[*journal.NewTask]time.Duration{&late: 20 * time.Second, &soon: 10 * time.Second, &never: 0} {
		create(t, j, *n)
		deadline := time.Time{}
		if after != 0 {
			deadline = start.Add(after)
		}
		waitUntil(t, j, *n, deadline)
	}
	c := claimAt(t, j, start.Add(9*time.Second))
	wantClaims(t, c.Claims)
	if !c.Next.Equal(start.Add(10 * time.Second)) {
		t.Errorf("next deadline %s, want the earliest", c.Next)
	}
	c = claimAt(t, j, start.Add(10*time.Second))
	wantClaims(t, c.Claims, soon.ID)
	if !c.Next.Equal(start.Add(20 * time.Second)) {
		t.Errorf("next deadline %s, want that of the other task", c.Next)
	}
	if c.Claims[0].Slot {
		t.Error("a deadline needs no slot")
	}
	// The task has ended, so it no longer has a deadline.
	tr := transition(t, j, soon, c.Claims[0].Epoch, success, nil, "too late")
	if err := j.Commit(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	yield(t, j, c.Claims...)
	c = claimAt(t, j, start.Add(time.Hour))
	wantClaims(t, c.Claims, late.ID)
	if !c.Next.IsZero() {
		t.Errorf("next deadline %s, want none", c.Next)
	}
	// The owner yields without a commit: the task is claimed again.
	yield(t, j, c.Claims...)
	wantClaims(t, claimAt(t, j, start.Add(time.Hour)).Claims, late.ID)
}

func deadlinesSurvive(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	n, moved := NewTask("ann"), NewTask("ann")
	create(t, j, n)
	create(t, j, moved)
	waitUntil(t, j, n, start.Add(20*time.Second))
	waitUntil(t, j, moved, start.Add(5*time.Second))
	send(t, j, moved.ID)
	in, err := j.Inbox(t.Context(), moved.ID)
	if err != nil || len(in) != 1 {
		t.Fatalf("%v %v", in, err)
	}
	c := claimTask(t, j, moved.ID)
	tr := transition(t, j, moved, c.Epoch, waiting, []uint64{in[0].No})
	tr.Deadline = start.Add(30 * time.Second)
	if err := j.Commit(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	yield(t, j, c)
	j = restart(t, j, reopen)
	got := claimAt(t, j, start.Add(25*time.Second))
	wantClaims(t, got.Claims, n.ID)
	if !got.Next.Equal(start.Add(30 * time.Second)) {
		t.Errorf("next deadline %s, want the one that was moved", got.Next)
	}
}

// A task that waits for a slot can end by its deadline.
func deadlineWhileRunning(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	c := claimTask(t, j, n.ID)
	tr := transition(t, j, n, c.Epoch, running, nil)
	tr.Deadline = start.Add(time.Second)
	if err := j.Commit(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	if got := claimAt(t, j, start.Add(time.Hour)); len(got.Claims) != 0 || !got.Next.IsZero() {
		t.Errorf("%+v, want nothing while it is owned", got)
	}
	yield(t, j, c)
	wantClaims(t, claimAt(t, j, start).Claims)
	wantClaims(t, claimAt(t, j, start.Add(time.Second)).Claims, n.ID)
}
