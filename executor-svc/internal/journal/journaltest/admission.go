package journaltest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

func admissionTests() map[string]test {
	return map[string]test{
		"Window":                 window,
		"WindowOfRepeats":        windowOfRepeats,
		"WindowOutOfOrder":       windowOutOfOrder,
		"WindowOfDeletedTasks":   windowOfDeleted,
		"WindowUnderConcurrency": windowUnderConcurrency,
		"WindowAfterRefusals":    windowAfterRefusals,
		"BytesOfAUser":           bytesOfAUser,
	}
}

// requestAt returns a request made seconds after start. The limit is 2 requests in 10 s.
func requestAt(user string, seconds float64) journal.NewTask {
	n := NewTask(user)
	n.Admission = journal.Admission{Now: start.Add(time.Duration(seconds * float64(time.Second))), Requests: 2, Window: 10 * time.Second}
	return n
}

// wantAdmission checks that a request is refused for want seconds; 0: that it is accepted.
func wantAdmission(t *testing.T, j journal.Journal, n journal.NewTask, want float64) {
	t.Helper()
	admit := j.Admit(t.Context(), n.Head.GetUserSub(), n.Admission)
	_, _, err := j.Create(t.Context(), n)
	for name, err := range map[string]error{"Admit": admit, "Create": err} {
		var l *journal.Limited
		switch {
		case want == 0 && err != nil:
			t.Errorf("%s: %v, want it to be accepted", name, err)
		case want != 0 && !errors.As(err, &l):
			t.Errorf("%s: %v, want Limited", name, err)
		case want != 0 && l.RetryAfter.Seconds() != want:
			t.Errorf("%s: retry after %s, want %vs", name, l.RetryAfter, want)
		}
	}
}

// window checks that the window of requests slides, per user, also across a restart.
func window(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	wantAdmission(t, j, requestAt("ann", 0), 0)
	wantAdmission(t, j, requestAt("ann", 4), 0)
	wantAdmission(t, j, requestAt("ann", 9), 1)
	wantAdmission(t, j, requestAt("bob", 9), 0)
	wantAdmission(t, j, requestAt("an", 9), 0)
	j = restart(t, j, reopen)
	wantAdmission(t, j, requestAt("ann", 9.5), 0.5)
	wantAdmission(t, j, requestAt("ann", 10), 0)
	wantAdmission(t, j, requestAt("ann", 11), 3)
	for s := range 20 {
		wantAdmission(t, j, requestAt("ann", float64(30+s*10)), 0)
	}
	wantAdmission(t, j, requestAt("ann", 221), 0)
	wantAdmission(t, j, requestAt("ann", 222), 8)
	// A clock that was set back, and no limit at all.
	wantAdmission(t, j, requestAt("ann", 0), 10)
	free := requestAt("ann", 222)
	free.Admission.Requests = 0
	wantAdmission(t, j, free, 0)
}

func windowOfRepeats(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	n := requestAt("ann", 0)
	n.Head.RequestId, n.Head.RequestHash = "r", []byte("h")
	create(t, j, n)
	for range 5 {
		if _, created, err := j.Create(t.Context(), n); err != nil || created {
			t.Fatalf("repeated: %v %v", created, err)
		}
	}
	wantAdmission(t, j, requestAt("ann", 1), 0)
	wantAdmission(t, j, requestAt("ann", 1), 9)
	if _, _, err := j.Create(t.Context(), n); err != nil {
		t.Errorf("a repeated request is limited: %v", err)
	}
}

func windowOfDeleted(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	for range 2 {
		n := requestAt("ann", 0)
		create(t, j, n)
		endTask(t, j, n, start)
		if err := j.Delete(t.Context(), n.ID); err != nil {
			t.Fatal(err)
		}
	}
	wantAdmission(t, j, requestAt("ann", 1), 9)
}

// Requests that arrive out of order count like the others: no window holds more requests than the limit.
func windowOutOfOrder(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	of3 := func(seconds float64) journal.NewTask {
		n := requestAt("ann", seconds)
		n.Admission.Requests = 3
		return n
	}
	for range 3 {
		wantAdmission(t, j, of3(5), 0)
	}
	wantAdmission(t, j, of3(15), 0)
	wantAdmission(t, j, of3(14.5), 0.5)
	wantAdmission(t, j, of3(15), 0)
	wantAdmission(t, j, of3(16), 0)
	wantAdmission(t, j, of3(15), 10)
}

// A refused request does not count.
func windowAfterRefusals(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	wantAdmission(t, j, requestAt("ann", 0), 0)
	wantAdmission(t, j, requestAt("ann", 0), 0)
	for range 5 {
		wantAdmission(t, j, requestAt("ann", 5), 5)
	}
	wantAdmission(t, j, requestAt("ann", 10), 0)
	wantAdmission(t, j, requestAt("ann", 10), 0)
}

func windowUnderConcurrency(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	accepted := 0
	for range 16 {
		wg.Go(func() {
			_, created, err := j.Create(context.Background(), requestAt("ann", 0))
			var l *journal.Limited
			if err != nil && !errors.As(err, &l) {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if created {
				accepted++
			}
		})
	}
	wg.Wait()
	if accepted != 2 {
		t.Errorf("%d requests were accepted, want 2", accepted)
	}
}

// bytesOfAUser checks that a user whose tasks take too many bytes gets no further one until tasks are deleted, also across a restart.
func bytesOfAUser(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	limited := func(user string) journal.NewTask {
		n := NewTask(user)
		n.Head.RequestId, n.Admission = n.ID, journal.Admission{Now: start, Bytes: 250 << 10}
		return n
	}
	refused := func(user string, want bool) {
		t.Helper()
		n := limited(user)
		_, created, err := j.Create(t.Context(), n)
		for name, err := range map[string]error{"Admit": j.Admit(t.Context(), user, n.Admission), "Create": err} {
			var full *journal.Full
			if errors.As(err, &full) != want || !want && err != nil {
				t.Errorf("%s by %s: %v; want a refusal: %v", name, user, err, want)
			}
		}
		if created == want {
			t.Errorf("created: %v", created)
		}
	}
	first, other := limited("ann"), limited("ann")
	create(t, j, first)
	create(t, j, other)
	refused("ann", false)
	commit(t, j, first, func(*storagev1.Checkpoint) {}, output(big("a")), output(big("b")))
	refused("ann", false)
	commit(t, j, other, func(*storagev1.Checkpoint) {}, output(big("b")), output(big("b"))) // shared, and counted for each task once
	refused("ann", true)
	refused("bob", false)
	if id, created, err := j.Create(t.Context(), first); err != nil || created || id != first.ID {
		t.Errorf("a repeated request: %s, %v, %v", id, created, err)
	}
	j = restart(t, j, reopen)
	refused("ann", true)
	endTask(t, j, other, start)
	if err := j.Delete(t.Context(), other.ID); err != nil {
		t.Fatal(err)
	}
	refused("ann", false)
}
