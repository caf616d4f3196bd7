package journaltest

import (
	"testing"

	"pawl.dev/executor-svc/internal/journal"
)

func fairnessTests() map[string]test {
	return map[string]test{
		"Slots":                  slots,
		"FirstInFirstOut":        firstInFirstOut,
		"FewestSlotsFirst":       fewestSlotsFirst,
		"LongestWaitFirst":       longestWaitFirst,
		"PlaceInLineIsKept":      placeInLineIsKept,
		"PlaceInLineIsDurable":   placeInLineIsDurable,
		"MaxBoundsClaims":        maxBoundsClaims,
		"AWaitingTaskFreesASlot": aWaitingTaskFreesASlot,
		"TasksTakeTurns":         tasksTakeTurns,
	}
}

// slots checks that no more tasks than slots have an owner, and that the other tasks are claimed later.
func slots(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	tasks := createMany(t, j, "ann", "ann", "ann")
	first := claim(t, j, 2)
	wantClaims(t, first, tasks[0], tasks[1])
	wantClaims(t, claim(t, j, 2))
	yield(t, j, first[0])
	// The yielded task is still in INIT: its place is before the third task.
	wantClaims(t, claim(t, j, 2), tasks[0])
	wantClaims(t, claim(t, j, 3), tasks[2])
	wantClaims(t, claim(t, j, 1))
}

func firstInFirstOut(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	tasks := createMany(t, j, "ann", "ann", "ann", "ann")
	for _, want := range tasks {
		got, err := j.Claim(t.Context(), journal.ClaimRequest{Slots: 10, Max: 1})
		if err != nil {
			t.Fatal(err)
		}
		wantClaims(t, got.Claims, want)
	}
}

func fewestSlotsFirst(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	ann := createMany(t, j, "ann", "ann", "ann", "ann", "ann")
	wantClaims(t, claim(t, j, 2), ann[0], ann[1])
	bob := createMany(t, j, "bob", "bob", "bob")
	// Bob gets as many slots as Ann, then they take turns.
	wantClaims(t, claim(t, j, 8), bob[0], bob[1], ann[2], bob[2], ann[3], ann[4])
}

// With one slot, users take turns, even if one of them has an older and longer queue.
func longestWaitFirst(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	var ann []journal.NewTask
	for range 4 {
		n := NewTask("ann")
		create(t, j, n)
		ann = append(ann, n)
	}
	bob, eve := NewTask("bob"), NewTask("eve")
	create(t, j, bob)
	create(t, j, eve)
	for i, n := range []journal.NewTask{ann[0], bob, eve, ann[1], ann[2], ann[3]} {
		got := claim(t, j, 1)
		wantClaims(t, got, n.ID)
		if len(got) != 1 || got[0].TaskID != n.ID {
			t.Fatalf("turn %d", i)
		}
		if err := j.Commit(t.Context(), transition(t, j, n, got[0].Epoch, success, nil)); err != nil {
			t.Fatal(err)
		}
		yield(t, j, got...)
	}
}

// A task whose approval is applied without a slot keeps its place.
func placeInLineIsKept(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	commitNext(t, j, n, waiting, nil)
	holder := createMany(t, j, "ann")
	owned := claim(t, j, 1)
	no := send(t, j, n.ID)
	later := createMany(t, j, "ann")
	c := claim(t, j, 1)
	wantClaims(t, c, n.ID)
	if err := j.Commit(t.Context(), transition(t, j, n, c[0].Epoch, running, []uint64{no})); err != nil {
		t.Fatal(err)
	}
	yield(t, j, c...)
	wantClaims(t, owned, holder...)
	wantClaims(t, claim(t, j, 3), n.ID, later[0])
}

// The order in which tasks become due differs from the order of their ids, and survives a restart.
func placeInLineIsDurable(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	old := NewTask("ann")
	create(t, j, old)
	commitNext(t, j, old, waiting, nil)
	young := createMany(t, j, "ann", "bob")
	send(t, j, old.ID)
	j = restart(t, j, reopen)
	wantClaims(t, claim(t, j, 10), young[0], young[1], old.ID)
}

func maxBoundsClaims(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	createMany(t, j, "ann", "ann", "bob")
	for _, want := range []int{2, 1, 0} {
		got, err := j.Claim(t.Context(), journal.ClaimRequest{Slots: 10, Max: 2})
		if err != nil || len(got.Claims) != want {
			t.Errorf("%d claims, %v; want %d", len(got.Claims), err, want)
		}
	}
}

func aWaitingTaskFreesASlot(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	other := createMany(t, j, "ann")
	c := claim(t, j, 1)
	wantClaims(t, c, n.ID)
	if err := j.Commit(t.Context(), transition(t, j, n, c[0].Epoch, waiting, nil)); err != nil {
		t.Fatal(err)
	}
	wantClaims(t, claim(t, j, 1))
	yield(t, j, c...)
	wantClaims(t, claim(t, j, 1), other...)
}

// Of tasks with the same turn one has a slot at a time, in the order in which they became due, also after a restart. Commands of the others are applied without
// one meanwhile.
func tasksTakeTurns(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	var line []journal.NewTask
	of := func(user, turn string) journal.NewTask {
		n := NewTask(user)
		n.Head.Turn = turn
		create(t, j, n)
		return n
	}
	for range 4 {
		line = append(line, of("ann", "x"))
	}
	other, bobs, free := of("ann", "y"), of("bob", "x"), of("ann", "")
	first := claim(t, j, 10)
	wantClaims(t, first, line[0].ID, bobs.ID, other.ID, free.ID)
	send(t, j, line[2].ID)
	c := claim(t, j, 10)
	if wantClaims(t, c, line[2].ID); c[0].Slot {
		t.Error("a slot out of turn")
	}
	yield(t, j, c...)
	wantClaims(t, claim(t, j, 10))
	// A task that waits leaves its turn to the next one, and takes its place in the line when it continues.
	if err := j.Commit(t.Context(), transition(t, j, line[0], first[0].Epoch, waiting, nil)); err != nil {
		t.Fatal(err)
	}
	yield(t, j, first[0])
	c = claim(t, j, 10)
	wantClaims(t, c, line[1].ID)
	send(t, j, line[0].ID)
	late := of("ann", "x")
	wantClaims(t, claim(t, j, 10), line[0].ID) // without a slot
	j = restart(t, j, reopen)
	for i, want := range []journal.NewTask{line[1], line[2], line[3], line[0], late} {
		c := claimTask(t, j, want.ID)
		for _, l := range claim(t, j, 10) {
			if l.Slot && l.TaskID != other.ID && l.TaskID != bobs.ID && l.TaskID != free.ID {
				t.Errorf("beside task %d: %v", i, l)
			}
			yield(t, j, l)
		}
		tr := transition(t, j, want, c.Epoch, success, nil)
		if inbox, err := j.Inbox(t.Context(), want.ID); err != nil {
			t.Fatal(err)
		} else if len(inbox) > 0 {
			tr.Applied = []uint64{inbox[0].No}
		}
		if err := j.Commit(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
		yield(t, j, c)
	}
}
