package journaltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"google.golang.org/protobuf/testing/protocmp"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

func taskTests() map[string]test {
	return map[string]test{
		"CreateAndLoad":       createAndLoad,
		"CreateIsIdempotent":  createIsIdempotent,
		"SameTaskTwice":       sameTaskTwice,
		"CommitFollows":       commitFollows,
		"StaleWriterRefused":  staleWriterRefused,
		"Inbox":               inbox,
		"SurvivesReopening":   survivesReopening,
		"ConcurrentCommits":   concurrentCommits,
		"ClosedJournal":       closedJournal,
		"UnknownTaskNotFound": unknownTask,
		"InvalidCommits":      invalidCommits,
	}
}

func createAndLoad(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	got, err := j.Load(t.Context(), n.ID)
	if err != nil {
		t.Fatal(err)
	}
	want := &journal.Task{ID: n.ID, Head: n.Head, Checkpoint: n.Checkpoint, Queued: true}
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Error(d)
	}
}

func createIsIdempotent(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	first := NewTask("ann")
	first.Head.RequestId, first.Head.RequestHash = "r1", []byte("h")
	create(t, j, first)

	again := NewTask("ann")
	again.Head.RequestId, again.Head.RequestHash = "r1", []byte("h")
	id, created, err := j.Create(t.Context(), again)
	if err != nil || created || id != first.ID {
		t.Errorf("repeated request: id=%s created=%v err=%v, want the first id %s", id, created, err, first.ID)
	}
	again.Head.RequestHash = []byte("other")
	if _, _, err := j.Create(t.Context(), again); !errors.Is(err, journal.ErrRequestReused) {
		t.Errorf("different request: %v, want ErrRequestReused", err)
	}
	if found, err := j.FindRequest(t.Context(), "ann", "r1"); err != nil || found.ID != first.ID {
		t.Errorf("FindRequest: %v, %v; want %s", found, err, first.ID)
	}
	if _, err := j.FindRequest(t.Context(), "bob", "r1"); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("FindRequest of another user: %v, want ErrNotFound", err)
	}
	again.Head.UserSub = "bob"
	create(t, j, again)
}

func sameTaskTwice(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	commitNext(t, j, n, running, nil, "two")
	if id, created, err := j.Create(t.Context(), n); err != nil || created || id != n.ID {
		t.Errorf("the same task again: %s %v %v, want its id and nothing new", id, created, err)
	}
	if got, err := j.Load(t.Context(), n.ID); err != nil || got.Checkpoint.GetRev() != 2 {
		t.Errorf("%v, %v; want rev 2", got, err)
	}
}

func commitFollows(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	commitNext(t, j, n, running, nil, "two", "three")
	commitNext(t, j, n, running, nil)
	commitNext(t, j, n, success, nil, "four")
	rs, err := j.Records(t.Context(), n.ID, 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"1:created", "2:two", "3:three", "4:four"}, texts(rs, 0)); d != "" {
		t.Error(d)
	}
	got, _ := j.Load(t.Context(), n.ID)
	if got.Checkpoint.GetRev() != 4 || got.Checkpoint.GetStatus() != success {
		t.Errorf("checkpoint %v", got.Checkpoint)
	}
}

func staleWriterRefused(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	c := claimTask(t, j, n.ID)
	stale := transition(t, j, n, c.Epoch, running, nil, "lost")
	if err := j.Commit(t.Context(), transition(t, j, n, c.Epoch, running, nil, "kept")); err != nil {
		t.Fatal(err)
	}
	if err := j.Commit(t.Context(), stale); !errors.Is(err, journal.ErrStale) {
		t.Errorf("Commit of a stale writer: %v, want ErrStale", err)
	}
	rs, _ := j.Records(t.Context(), n.ID, 0, 1<<20)
	if d := cmp.Diff([]string{"1:created", "2:kept"}, texts(rs, 0)); d != "" {
		t.Error(d)
	}
}

func inbox(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	var nos []uint64
	for _, reason := range []string{"a", "b", "c"} {
		no, err := j.Send(t.Context(), n.ID, &storagev1.Command{Kind: &storagev1.Command_Cancel{Cancel: &storagev1.Cancel{Reason: reason}}})
		if err != nil {
			t.Fatal(err)
		}
		nos = append(nos, no)
	}
	if !slices.IsSorted(nos) || nos[0] == nos[1] || nos[1] == nos[2] {
		t.Errorf("numbers %v do not grow", nos)
	}
	commitNext(t, j, n, running, nos[:2])
	j = restart(t, j, reopen)
	if in, err := j.Inbox(t.Context(), n.ID); err != nil || len(in) != 1 || in[0].No != nos[2] || in[0].GetCancel().GetReason() != "c" {
		t.Errorf("inbox %v, %v; want the third command alone", in, err)
	}
	if no, err := j.Send(t.Context(), n.ID, &storagev1.Command{}); err != nil || no <= nos[2] {
		t.Errorf("number after a restart: %d, %v; want more than %d", no, err, nos[2])
	}
}

func survivesReopening(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	n := NewTask("ann")
	n.Head.RequestId, n.Head.RequestHash = "r", []byte("h")
	create(t, j, n)
	commitNext(t, j, n, running, nil, "two")
	j = restart(t, j, reopen)
	commitNext(t, j, n, running, nil, "three")
	rs, err := j.Records(t.Context(), n.ID, 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"1:created", "2:two", "3:three"}, texts(rs, 0)); d != "" {
		t.Error(d)
	}
	if id, created, err := j.Create(t.Context(), n); err != nil || created || id != n.ID {
		t.Errorf("the request is forgotten: %s %v %v", id, created, err)
	}
}

func concurrentCommits(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	const tasks, commits = 16, 20
	news, epochs := map[string]journal.NewTask{}, map[string]uint64{}
	for range tasks {
		n := NewTask("ann")
		create(t, j, n)
		news[n.ID] = n
	}
	for _, c := range claim(t, j, tasks) {
		epochs[c.TaskID] = c.Epoch
	}
	var wg sync.WaitGroup
	for id, n := range news {
		wg.Go(func() {
			c := n.Checkpoint
			for i := range commits {
				c.Rev++
				c.LastSeq++
				if err := j.Commit(context.Background(), journal.Transition{TaskID: id, Epoch: epochs[id], Head: n.Head, Checkpoint: c, Record: record(fmt.Sprint(i))}); err != nil {
					t.Errorf("commit %d: %v", i, err)
					return
				}
			}
			rs, err := j.Records(context.Background(), id, 1, 1<<20)
			if err != nil || len(rs) != commits {
				t.Errorf("%d records, %v; want %d", len(rs), err, commits)
			}
		})
	}
	wg.Wait()
}

func closedJournal(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	n := NewTask("ann")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := j.Create(t.Context(), n); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Create: %v, want ErrClosed", err)
	}
	if _, err := j.Load(t.Context(), n.ID); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Load: %v, want ErrClosed", err)
	}
	if _, err := j.Claim(t.Context(), journal.ClaimRequest{Slots: 1, Max: 1}); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Claim: %v, want ErrClosed", err)
	}
}

func unknownTask(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	for _, id := range []string{uuid.NewString(), "nonsense", ""} {
		n := NewTask("ann")
		_, send := j.Send(t.Context(), id, &storagev1.Command{})
		_, load := j.Load(t.Context(), id)
		commit := j.Commit(t.Context(), journal.Transition{TaskID: id, Head: n.Head, Checkpoint: n.Checkpoint})
		yield(t, j, journal.Claim{TaskID: uuid.NewString(), Epoch: 1})
		del := j.Delete(t.Context(), id)
		for name, err := range map[string]error{"Send": send, "Load": load, "Commit": commit, "Delete": del} {
			if !errors.Is(err, journal.ErrNotFound) {
				t.Errorf("%s(%q): %v, want ErrNotFound", name, id, err)
			}
		}
	}
}

func invalidCommits(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	c := claimTask(t, j, n.ID)
	if err := j.Commit(t.Context(), transition(t, j, n, c.Epoch, running, nil, "not UTF-8: \xff")); !errors.Is(err, journal.ErrInvalid) {
		t.Errorf("Commit: %v, want ErrInvalid", err)
	}
	gap := transition(t, j, n, c.Epoch, running, nil, "two")
	gap.Checkpoint.LastSeq++
	if err := j.Commit(t.Context(), gap); !errors.Is(err, journal.ErrInvalid) {
		t.Errorf("Commit that skips a seq: %v, want ErrInvalid", err)
	}
	yield(t, j, c)
	commitNext(t, j, n, running, nil, "fine")
}
