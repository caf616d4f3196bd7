package journaltest

import (
	"fmt"
	"testing"
	"time"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

const (
	initial = executorv1.ExecutorStatus_EXECUTOR_STATUS_INIT
	running = executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING
	waiting = executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING
	success = executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS
)

// start is the first time of the tests' clock.
var start = time.Unix(1_800_000_000, 0)

// Opener returns an empty store, and a function that opens the same store again, as after a restart of the process. When the test ends, the
// opener closes and checks the stores; the test may close a store before.
type Opener func(t *testing.T) (j journal.Journal, reopen func() journal.Journal)

type test = func(*testing.T, journal.Journal, func() journal.Journal)

// Run runs the contract tests, each with a fresh store.
func Run(t *testing.T, open Opener) {
	for _, group := range []map[string]test{
		taskTests(), recordTests(), admissionTests(), claimTests(), deadlineTests(), fairnessTests(), listTests(), deleteTests(),
		payloadTests(), agentTests(), topicTests(), webhookTests(),
	} {
		for name, test := range group {
			t.Run(name, func(t *testing.T) {
				j, reopen := open(t)
				test(t, j, reopen)
			})
		}
	}
}

// NewTask returns a task in INIT with one fact.
func NewTask(user string) journal.NewTask {
	return NewTaskAt(user, time.Now())
}

// NewTaskAt returns a task of a user that is created at a time.
func NewTaskAt(user string, at time.Time) journal.NewTask {
	id := journal.NewID(at.UnixNano())
	return journal.NewTask{
		ID:         id,
		Head:       &storagev1.TaskHead{UserSub: user, Goal: "goal of " + id, CreateTime: at.UnixNano()},
		Checkpoint: &storagev1.Checkpoint{Rev: 1, Status: initial, LastSeq: 1},
		Records:    []journal.Record{{FirstSeq: 1, Record: record("created")}},
	}
}

func record(texts ...string) *storagev1.Record {
	r := &storagev1.Record{Time: 1}
	for _, text := range texts {
		r.Facts = append(r.Facts, &storagev1.Fact{Kind: &storagev1.Fact_TextAdd{TextAdd: &storagev1.TextAdd{Text: text}}})
	}
	return r
}

func create(t *testing.T, j journal.Journal, n journal.NewTask) {
	t.Helper()
	if _, created, err := j.Create(t.Context(), n); err != nil || !created {
		t.Fatalf("Create: created=%v err=%v", created, err)
	}
}

func createMany(t *testing.T, j journal.Journal, users ...string) (ids []string) {
	t.Helper()
	for _, user := range users {
		n := NewTask(user)
		create(t, j, n)
		ids = append(ids, n.ID)
	}
	return ids
}

// claim claims all tasks that a process with this number of slots may claim.
func claim(t *testing.T, j journal.Journal, slots int) []journal.Claim {
	t.Helper()
	c, err := j.Claim(t.Context(), journal.ClaimRequest{Now: start, Slots: slots, Max: 1 << 20, Lease: time.Minute})
	if err != nil {
		t.Fatalf("Claim: %v", err)
	}
	return c.Claims
}

func yield(t *testing.T, j journal.Journal, claims ...journal.Claim) {
	t.Helper()
	for _, c := range claims {
		if err := j.Yield(t.Context(), c.TaskID, c.Epoch); err != nil {
			t.Fatalf("Yield: %v", err)
		}
	}
}

// claimTask claims one task that is due.
func claimTask(t *testing.T, j journal.Journal, id string) journal.Claim {
	t.Helper()
	var claimed journal.Claim
	for _, c := range claim(t, j, 1<<20) {
		if c.TaskID == id {
			claimed = c
		} else {
			yield(t, j, c)
		}
	}
	if claimed.TaskID == "" {
		t.Fatalf("task %s is not due, or has another owner", id)
	}
	return claimed
}

// commitNext claims a task, commits a transition with these facts, and yields the claim.
func commitNext(t *testing.T, j journal.Journal, n journal.NewTask, status executorv1.ExecutorStatus, applied []uint64, texts ...string) {
	t.Helper()
	c := claimTask(t, j, n.ID)
	if err := j.Commit(t.Context(), transition(t, j, n, c.Epoch, status, applied, texts...)); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	yield(t, j, c)
}

// transition returns the transition that follows the stored state of a task.
func transition(t *testing.T, j journal.Journal, n journal.NewTask, epoch uint64, status executorv1.ExecutorStatus, applied []uint64, texts ...string) journal.Transition {
	t.Helper()
	cur, err := j.Load(t.Context(), n.ID)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	c := cur.Checkpoint
	c.Rev++
	c.Status = status
	c.LastSeq += uint64(len(texts))
	tr := journal.Transition{TaskID: n.ID, Epoch: epoch, Head: n.Head, Checkpoint: c, Applied: applied}
	if len(texts) > 0 {
		tr.Record = record(texts...)
	}
	return tr
}

// endTask ends a task at a time.
func endTask(t *testing.T, j journal.Journal, n journal.NewTask, at time.Time) {
	t.Helper()
	c := claimTask(t, j, n.ID)
	tr := transition(t, j, n, c.Epoch, success, nil, "end")
	tr.Checkpoint.EndTime = at.UnixNano()
	if err := j.Commit(t.Context(), tr); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	yield(t, j, c)
}

func send(t *testing.T, j journal.Journal, id string) uint64 {
	t.Helper()
	no, err := j.Send(t.Context(), id, &storagev1.Command{Id: "c"})
	if err != nil {
		t.Fatalf("Send: %v", err)
	}
	return no
}

func restart(t *testing.T, j journal.Journal, reopen func() journal.Journal) journal.Journal {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return reopen()
}

func texts(rs []journal.Record, after uint64) []string {
	var all []string
	for _, r := range rs {
		for i, f := range r.GetFacts() {
			if seq := r.FirstSeq + uint64(i); seq > after {
				all = append(all, fmt.Sprintf("%d:%s", seq, f.GetTextAdd().GetText()))
			}
		}
	}
	return all
}
