package journaltest

import (
	"errors"
	"testing"
	"time"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

func deleteTests() map[string]test {
	return map[string]test{
		"Delete":         deleted,
		"DeleteNotEnded": deleteNotEnded,
		"Sweep":          sweep,
	}
}

// wantDeleted checks that a task has left no trace.
func wantDeleted(t *testing.T, j journal.Journal, n journal.NewTask) {
	t.Helper()
	_, load := j.Load(t.Context(), n.ID)
	_, request := j.FindRequest(t.Context(), n.Head.GetUserSub(), n.Head.GetRequestId())
	_, send := j.Send(t.Context(), n.ID, &storagev1.Command{})
	for name, err := range map[string]error{"Load": load, "FindRequest": request, "Send": send, "Delete": j.Delete(t.Context(), n.ID)} {
		if !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", name, err)
		}
	}
	if rs, err := j.Records(t.Context(), n.ID, 0, 1<<20); err != nil || len(rs) != 0 {
		t.Errorf("%d records are left; %v", len(rs), err)
	}
	for _, q := range []journal.Query{{}, {ConversationID: n.Head.GetConversationId()}} {
		q.User, q.Limit = n.Head.GetUserSub(), 100
		p, err := j.List(t.Context(), q)
		if err != nil {
			t.Error(err)
		}
		for _, task := range p.Tasks {
			if task.ID == n.ID {
				t.Errorf("%+v lists it", q)
			}
		}
	}
}

func deleted(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	before, n, after := NewTask("ann"), NewTask("ann"), NewTask("ann")
	for _, n := range []*journal.NewTask{&before, &n, &after} {
		n.Head.ConversationId, n.Head.RequestId = "c", "r"+n.ID
		create(t, j, *n)
		commitNext(t, j, *n, running, nil, "two")
		endTask(t, j, *n, start)
	}
	send(t, j, n.ID)
	if err := j.Delete(t.Context(), n.ID); err != nil {
		t.Fatal(err)
	}
	wantDeleted(t, j, n)
	wantClaims(t, claim(t, j, 10))
	j = restart(t, j, reopen)
	wantDeleted(t, j, n)
	for _, n := range []journal.NewTask{before, after} {
		if rs, err := j.Records(t.Context(), n.ID, 0, 1<<20); err != nil || len(rs) != 3 {
			t.Errorf("%d records of a neighbour, %v; want 3", len(rs), err)
		}
	}
	create(t, j, n)
}

func deleteNotEnded(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	n := NewTask("ann")
	create(t, j, n)
	if err := j.Delete(t.Context(), n.ID); !errors.Is(err, journal.ErrNotEnded) {
		t.Errorf("in INIT: %v, want ErrNotEnded", err)
	}
	commitNext(t, j, n, waiting, nil)
	if err := j.Delete(t.Context(), n.ID); !errors.Is(err, journal.ErrNotEnded) {
		t.Errorf("in WAITING: %v, want ErrNotEnded", err)
	}
	if _, err := j.Load(t.Context(), n.ID); err != nil {
		t.Error(err)
	}
}

func sweep(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	var tasks []journal.NewTask
	for i := range 25 {
		n := NewTask("ann")
		create(t, j, n)
		tasks = append(tasks, n)
		// The newest task ends first.
		endTask(t, j, n, start.Add(time.Duration(25-i)*time.Second))
	}
	open := NewTask("ann")
	create(t, j, open)
	commitNext(t, j, open, waiting, nil)
	j = restart(t, j, reopen)
	for _, step := range []struct {
		before int64
		max    int
		want   int
	}{{1, 100, 0}, {11, 3, 3}, {11, 100, 7}, {11, 100, 0}, {26, 100, 15}, {100, 100, 0}} {
		n, err := j.Sweep(t.Context(), time.Unix(start.Unix()+step.before, 0), step.max)
		if err != nil || n != step.want {
			t.Errorf("before %ds at most %d: %d, %v; want %d", step.before, step.max, n, err, step.want)
		}
		if step.max == 3 {
			for i, n := range tasks {
				if _, err := j.Load(t.Context(), n.ID); (err == nil) != (i < 22) {
					t.Errorf("task %d: %v; want the three that ended first to be gone", i, err)
				}
			}
		}
	}
	for _, n := range tasks {
		wantDeleted(t, j, n)
	}
	if p, err := j.List(t.Context(), journal.Query{User: "ann", Limit: 100}); err != nil || len(p.Tasks) != 1 {
		t.Errorf("%v, %v; want the open one alone", p.Tasks, err)
	}
}
