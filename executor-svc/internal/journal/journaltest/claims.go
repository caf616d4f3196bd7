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
		"ClaimWhatIsDue":         claimWhatIsDue,
		"EpochsGrow":             epochsGrow,
		"StaleEpochRefused":      staleEpochRefused,
		"NothingTwice":           nothingTwice,
		"ReopenedUnclaimed":      reopenedUnclaimed,
		"CommandsWithoutSlot":    commandsWithoutSlot,
		"CommandsOfOwnedTask":    commandsOfOwnedTask,
		"YieldOfALostClaim":      yieldOfALostClaim,
		"RenewReportsLostClaims": renewReportsLostClaims,
		"CommandsAfterTheEnd":    commandsAfterTheEnd,
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
	commitNext(t, j, run, running, nil)
	endTask(t, j, ended, start)
	commitNext(t, j, wait, waiting, nil)
	commitNext(t, j, asked, waiting, nil)
	no := send(t, j, asked.ID)
	all := claim(t, j, 10)
	wantClaims(t, all, fresh.ID, run.ID, asked.ID)
	wantClaims(t, claim(t, j, 10))
	if err := j.Commit(t.Context(), transition(t, j, asked, all[2].Epoch, waiting, []uint64{no})); err != nil {
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
			c := claimTask(t, j, n.ID)
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
		if err := j.Commit(t.Context(), transition(t, j, n, epoch, running, nil, "lost")); !errors.Is(err, journal.ErrStale) {
			t.Errorf("Commit %s: %v, want ErrStale", when, err)
		}
	}
	stale(0, "of an unclaimed task without an epoch")
	first := claimTask(t, j, n.ID)
	stale(first.Epoch+1, "with an epoch to come")
	stale(0, "without an epoch")
	yield(t, j, first)
	stale(first.Epoch, "after Yield")
	second := claimTask(t, j, n.ID)
	stale(first.Epoch, "after another's Claim")
	j = restart(t, j, reopen)
	stale(second.Epoch, "after a restart")
	third := claimTask(t, j, n.ID)
	stale(second.Epoch, "after a restart and another's Claim")
	if err := j.Commit(t.Context(), transition(t, j, n, third.Epoch, running, nil, "kept")); err != nil {
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

// While no slot is free, a task with commands is claimed without a slot, and again only after a further command.
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
			t.Error("a claim got a slot, but none is free")
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
	// After a restart it is unknown which commands were seen.
	j = restart(t, j, reopen)
	wantClaims(t, claim(t, j, 0), tasks[1])
}

// A command that arrives while a task is owned is not lost if the owner leaves without applying it.
func commandsOfOwnedTask(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	c := claimTask(t, j, n.ID)
	no := send(t, j, n.ID)
	wantClaims(t, claim(t, j, 10))
	if in, err := j.Inbox(t.Context(), n.ID); err != nil || len(in) != 1 || in[0].No != no {
		t.Errorf("Inbox: %v, %v; want the command", in, err)
	}
	if err := j.Commit(t.Context(), transition(t, j, n, c.Epoch, waiting, nil)); err != nil {
		t.Fatal(err)
	}
	yield(t, j, c)
	got := claim(t, j, 0)
	wantClaims(t, got, n.ID)
	if err := j.Commit(t.Context(), transition(t, j, n, got[0].Epoch, waiting, []uint64{no})); err != nil {
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
	endTask(t, j, n, start)
	no := send(t, j, n.ID)
	c := claimTask(t, j, n.ID)
	tr := transition(t, j, n, c.Epoch, success, []uint64{no})
	if err := j.Commit(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	yield(t, j, c)
	wantClaims(t, claim(t, j, 10))
}

func yieldOfALostClaim(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	first := claimTask(t, j, n.ID)
	yield(t, j, first)
	second := claimTask(t, j, n.ID)
	yield(t, j, first)
	wantClaims(t, claim(t, j, 10))
	if err := j.Commit(t.Context(), transition(t, j, n, second.Epoch, running, nil)); err != nil {
		t.Errorf("the owner's commit after a Yield with another epoch: %v", err)
	}
}

// A renewed claim stays. A claim whose task has another owner, or no owner, is reported as lost.
func renewReportsLostClaims(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	first, second := NewTask("ann"), NewTask("ann")
	create(t, j, first)
	create(t, j, second)
	claims := claim(t, j, 10)
	yield(t, j, claims[1])
	again := claim(t, j, 10)
	for _, c := range []struct {
		claims []journal.Claim
		want   []string
	}{
		{claims, []string{second.ID}}, {append(again, claims[0]), nil}, {nil, nil},
	} {
		lost, err := j.Renew(t.Context(), c.claims, time.Now(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(append([]string{}, c.want...), append([]string{}, lost...)); d != "" {
			t.Errorf("lost of %v (-want +got): %s", ids(c.claims), d)
		}
	}
}
