package journaltest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pawl.dev/executor-svc/internal/journal"
)

func claimTests() map[string]test {
	return map[string]test{
		"ClaimWhatIsDue":       claimWhatIsDue,
		"EpochsGrow":           epochsGrow,
		"StaleEpochRefused":    staleEpochRefused,
		"NothingTwice":         nothingTwice,
		"ReopenedUnclaimed":    reopenedUnclaimed,
		"CommandsWithoutSlot":  commandsWithoutSlot,
		"CommandsOfOwnedTask":  commandsOfOwnedTask,
		"Deadlines":            deadlines,
		"DeadlinesSurvive":     deadlinesSurvive,
		"YieldOfALostClaim":    yieldOfALostClaim,
		"CommandsAfterTheEnd":  commandsAfterTheEnd,
		"DeadlineWhileRunning": deadlineWhileRunning,
	}
}

func ids(claims []journal.Claim) []string {
	all := []string{}
	for _, c := range claims {
		all = append(all, c.TaskID)
	}
	return all
}

func wantClaims(t *testing.T, got []journal.Claim, want ...string) {
	t.Helper()
	if d := cmp.Diff(append([]string{}, want...), ids(got)); d != "" {
		t.Errorf("claims (-want +got): %s", d)
	}
}

func claimWhatIsDue(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	fresh, ended, wait, run, asked := NewTask("ann"), NewTask("ann"), NewTask("ann"), NewTask("ann"), NewTask("ann")
	for _, n := range []journal.NewTask{fresh, ended, wait, run, asked} {
		create(t, j, n)
	}
	next(t, j, run, running, nil)
	end(t, j, ended, start)
	next(t, j, wait, waiting, nil)
	next(t, j, asked, waiting, nil)
	no := send(t, j, asked.ID)
	all := claim(t, j, 10)
	wantClaims(t, all, fresh.ID, run.ID, asked.ID)
	wantClaims(t, claim(t, j, 10))
	if err := j.Commit(t.Context(), follow(t, j, asked, all[2].Epoch, waiting, []uint64{no})); err != nil {
		t.Fatal(err)
	}
	yield(t, j, all...)
	wantClaims(t, claim(t, j, 10), fresh.ID, run.ID)
}

func epochsGrow(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	last := uint64(0)
	for range 3 {
		for range 3 {
			c := own(t, j, n.ID)
			if c.Epoch <= last {
				t.Errorf("epoch %d after %d", c.Epoch, last)
			}
			last = c.Epoch
			yield(t, j, c)
		}
		j = restart(t, j, reopen)
	}
}

func staleEpochRefused(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	stale := func(epoch uint64, when string) {
		t.Helper()
		if err := j.Commit(t.Context(), follow(t, j, n, epoch, running, nil, "lost")); !errors.Is(err, journal.ErrStale) {
			t.Errorf("Commit %s: %v, want ErrStale", when, err)
		}
	}
	stale(0, "of an unclaimed task without an epoch")
	first := own(t, j, n.ID)
	stale(first.Epoch+1, "with an epoch to come")
	stale(0, "without an epoch")
	yield(t, j, first)
	stale(first.Epoch, "after Yield")
	second := own(t, j, n.ID)
	stale(first.Epoch, "after another's Claim")
	j = restart(t, j, reopen)
	stale(second.Epoch, "after a restart")
	third := own(t, j, n.ID)
	stale(second.Epoch, "after a restart and another's Claim")
	if err := j.Commit(t.Context(), follow(t, j, n, third.Epoch, running, nil, "kept")); err != nil {
		t.Error(err)
	}
	if rs, err := j.Records(t.Context(), n.ID, 0, 1<<20); err != nil || len(rs) != 2 {
		t.Errorf("%d records, %v; want 2", len(rs), err)
	}
}

func nothingTwice(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	const tasks, rounds = 20, 10
	for range tasks {
		create(t, j, NewTask("ann"))
	}
	var mu sync.Mutex
	owned := map[string]bool{}
	most := 0
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range rounds {
				c, err := j.Claim(context.Background(), journal.ClaimRequest{Now: start, Slots: 7, Max: 3})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				for _, c := range c.Claims {
					if owned[c.TaskID] {
						t.Errorf("task %s has two owners", c.TaskID)
					}
					owned[c.TaskID] = true
				}
				most = max(most, len(owned))
				mu.Unlock()
				for _, c := range c.Claims {
					mu.Lock()
					delete(owned, c.TaskID)
					mu.Unlock()
					if err := j.Yield(context.Background(), c.TaskID, c.Epoch); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if most == 0 || most > 7 {
		t.Errorf("up to %d tasks had an owner at once, want 1 to 7", most)
	}
}

func reopenedUnclaimed(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	tasks := createMany(t, j, "ann", "ann", "ann")
	wantClaims(t, claim(t, j, 10), tasks...)
	j = restart(t, j, reopen)
	wantClaims(t, claim(t, j, 10), tasks...)
}

// While there is no free slot, a task with commands is claimed without; again so only once a further command has come.
func commandsWithoutSlot(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	tasks := createMany(t, j, "ann", "bob")
	holder := claim(t, j, 1)
	wantClaims(t, holder, tasks[0])
	wantClaims(t, claim(t, j, 1))
	send(t, j, tasks[1])
	for round := range 2 {
		got := claim(t, j, 1)
		wantClaims(t, got, tasks[1])
		if len(got) == 1 && got[0].Slot {
			t.Error("a slot was given that is not there")
		}
		yield(t, j, got...)
		wantClaims(t, claim(t, j, 1))
		if round == 0 {
			send(t, j, tasks[1])
		}
	}
	yield(t, j, holder...)
	if got := claim(t, j, 2); len(got) != 2 || !got[0].Slot || !got[1].Slot {
		t.Errorf("with free slots: %v, want both with one", got)
	}
	// Nobody knows after a restart what was seen.
	j = restart(t, j, reopen)
	wantClaims(t, claim(t, j, 0), tasks[1])
}

// A command that comes while a task is owned is not lost when its owner leaves without it.
func commandsOfOwnedTask(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	c := own(t, j, n.ID)
	no := send(t, j, n.ID)
	wantClaims(t, claim(t, j, 10))
	if in, err := j.Inbox(t.Context(), n.ID); err != nil || len(in) != 1 || in[0].No != no {
		t.Errorf("Inbox: %v, %v; want the command", in, err)
	}
	if err := j.Commit(t.Context(), follow(t, j, n, c.Epoch, waiting, nil)); err != nil {
		t.Fatal(err)
	}
	yield(t, j, c)
	got := claim(t, j, 0)
	wantClaims(t, got, n.ID)
	if err := j.Commit(t.Context(), follow(t, j, n, got[0].Epoch, waiting, []uint64{no})); err != nil {
		t.Fatal(err)
	}
	if in, err := j.Inbox(t.Context(), n.ID); err != nil || len(in) != 0 {
		t.Errorf("Inbox: %v, %v; want it empty", in, err)
	}
	yield(t, j, got...)
	wantClaims(t, claim(t, j, 10))
}

func commandsAfterTheEnd(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	end(t, j, n, start)
	no := send(t, j, n.ID)
	c := own(t, j, n.ID)
	tr := follow(t, j, n, c.Epoch, success, []uint64{no})
	if err := j.Commit(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	yield(t, j, c)
	wantClaims(t, claim(t, j, 10))
}

// waitUntil makes a task wait with a deadline.
func waitUntil(t *testing.T, j journal.Journal, n journal.NewTask, deadline time.Time) {
	t.Helper()
	c := own(t, j, n.ID)
	tr := follow(t, j, n, c.Epoch, waiting, nil)
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
	for n, after := range map[*journal.NewTask]time.Duration{&late: 20, &soon: 10, &never: 0} {
		create(t, j, *n)
		deadline := time.Time{}
		if after != 0 {
			deadline = start.Add(after * time.Second)
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
	// Ended by its deadline: it has none any more.
	tr := follow(t, j, soon, c.Claims[0].Epoch, success, nil, "too late")
	if err := j.Commit(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	yield(t, j, c.Claims...)
	c = claimAt(t, j, start.Add(time.Hour))
	wantClaims(t, c.Claims, late.ID)
	if !c.Next.IsZero() {
		t.Errorf("next deadline %s, want none", c.Next)
	}
	// Its owner leaves without having done anything.
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
	c := own(t, j, moved.ID)
	tr := follow(t, j, moved, c.Epoch, waiting, []uint64{in[0].No})
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
	c := own(t, j, n.ID)
	tr := follow(t, j, n, c.Epoch, running, nil)
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

func yieldOfALostClaim(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	first := own(t, j, n.ID)
	yield(t, j, first)
	second := own(t, j, n.ID)
	yield(t, j, first)
	wantClaims(t, claim(t, j, 10))
	if err := j.Commit(t.Context(), follow(t, j, n, second.Epoch, running, nil)); err != nil {
		t.Errorf("the owner's commit after somebody else's Yield: %v", err)
	}
}
