package inflight

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/jsonrpc"
	"pawl.dev/services/errs"
	"pawl.dev/services/serve"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const pool = "this pool"

// begin begins a call of ann's that must be new.
func begin(t *testing.T, l *Calls, id string) *Call {
	t.Helper()
	c, first, err := l.Begin(Start{User: "ann", ID: id, Hashes: []Hash{{1}}, Cancel: func(error) {}})
	if err != nil || !first {
		t.Fatalf("call %s: first %v, %v", id, first, err)
	}
	return c
}

// finish makes a call with a result of about n bytes.
func finish(t *testing.T, l *Calls, id string, n int) {
	t.Helper()
	l.End(begin(t, l, id), End{Result: &mcppoolv1.CallResult{StructuredJson: strings.Repeat("x", n)}})
}

// wantOutcome fails unless an error has a reason and an outcome.
func wantOutcome(t *testing.T, err error, reason, outcome string) {
	t.Helper()
	if err == nil || errs.ReasonName(errs.Reason(err)) != reason || errs.From(err).Metadata[errs.OutcomeKey] != outcome {
		t.Errorf("error = %v, %v; want %s, %s", err, errs.From(err), reason, outcome)
	}
}

// attach returns "there" if a call of ann's is known, else the outcome of the error.
func attach(l *Calls, id string) string {
	_, err := l.Attach(Query{User: "ann", ID: id, Hash: Hash{1}, Pool: pool})
	if err == nil {
		return "there"
	}
	return errs.From(err).Metadata[errs.OutcomeKey]
}

// A14: an evicted call is UNKNOWN and never NOT_EXECUTED: by its tombstone and, once that is overwritten too, by the filter. The
// limits are never exceeded.
func TestEvictedCallsAreUnknown(t *testing.T) {
	l := New(Config{MaxFinished: 10, MaxTombstones: 20}, pool)
	for i := range 1000 {
		finish(t, l, strconv.Itoa(i), 1)
		if len(l.calls) > 10 || l.results.len() > 10 || len(l.tombstones.byID) > 20 || len(l.tombstones.ring) > 20 {
			t.Fatalf("%d calls, %d finished, %d tombstones", len(l.calls), l.results.len(), len(l.tombstones.byID))
		}
	}
	for i := range 1000 {
		want := errs.OutcomeUnknown
		if i >= 990 {
			want = "there"
		}
		if got := attach(l, strconv.Itoa(i)); got != want {
			t.Fatalf("call %d: %s, want %s", i, got, want)
		}
	}
}

func TestBoundOfBytes(t *testing.T) {
	l := New(Config{MaxFinishedBytes: 100_000}, pool)
	for i := range 50 {
		finish(t, l, strconv.Itoa(i), 10_000)
		if l.results.bytes > 100_000 {
			t.Fatalf("%d bytes are kept", l.results.bytes)
		}
	}
	if l.results.len() != 9 {
		t.Errorf("%d results are kept", l.results.len())
	}
	// A result over the limit evicts no other, and its followers still get it.
	large := begin(t, l, "large")
	result := &mcppoolv1.CallResult{StructuredJson: strings.Repeat("x", 200_000)}
	l.End(large, End{Result: result})
	<-large.Done()
	if large.End().Result != result || l.results.len() != 9 || attach(l, "large") != errs.OutcomeUnknown {
		t.Errorf("after a large one: %d results", l.results.len())
	}
	l.End(begin(t, l, "error"), End{Err: errs.New(5, 1, "no").With("structured_json", strings.Repeat("x", 95_000))})
	if l.results.len() != 1 || l.results.bytes < 95_000 {
		t.Errorf("an error's metadata is not counted: %d calls, %d bytes", l.results.len(), l.results.bytes)
	}
	l.Ack("ann", []string{"error"})
	if l.results.bytes != 0 {
		t.Errorf("%d bytes are counted without a result", l.results.bytes)
	}
}

func TestResultsWaitFor15Minutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l := New(Config{}, pool)
		ran := make(chan struct{})
		go func() { defer close(ran); l.Run(ctx) }()
		finish(t, l, "c1", 1)
		<-time.After(15*time.Minute - time.Second)
		if got := attach(l, "c1"); got != "there" {
			t.Errorf("before: %s", got)
		}
		<-time.After(2 * time.Minute)
		l.mu.Lock()
		if len(l.calls) != 0 || l.results.bytes != 0 {
			t.Error("Run does not drop expired results")
		}
		l.mu.Unlock()
		_, _, err := l.Begin(Start{User: "ann", ID: "c1", Hashes: []Hash{{1}}})
		// It did run: NOT_EXECUTED would invite a client to call again.
		wantOutcome(t, err, "ALREADY_EXISTS", errs.OutcomeUnknown)
		if got := attach(l, "c1"); got != errs.OutcomeUnknown {
			t.Errorf("after: %s", got)
		}
		cancel()
		<-ran
	})
}

func TestAck(t *testing.T) {
	l := New(Config{}, pool)
	finish(t, l, "done", 1)
	running := begin(t, l, "running")
	if n := l.Ack("bob", []string{"done", "running"}); n != 0 {
		t.Errorf("bob acknowledged %d calls of ann's", n)
	}
	if n := l.Ack("ann", []string{"done", "running", "never"}); n != 2 {
		t.Errorf("%d acknowledged, want 2", n)
	}
	if n := l.Ack("ann", []string{"done"}); n != 0 {
		t.Errorf("acknowledged twice: %d", n)
	}
	if got := attach(l, "done"); got != errs.OutcomeUnknown {
		t.Errorf("done: %s", got)
	}
	if got := attach(l, "running"); got != "there" {
		t.Errorf("running: %s", got)
	}
	l.End(running, End{Result: &mcppoolv1.CallResult{}})
	if got := attach(l, "running"); got != errs.OutcomeUnknown || len(l.calls) != 0 {
		t.Errorf("after its end: %s", got)
	}
	// Acknowledging an unknown id leaves no trace: it can be called.
	begin(t, l, "never")
}

func TestAttachToUnknownCall(t *testing.T) {
	l := New(Config{}, pool)
	for _, tt := range []struct {
		name, id, pool, want string
	}{
		{"this pool", "a", pool, errs.OutcomeNotExecuted},
		{"this pool again", "a", pool, errs.OutcomeNotExecuted},
		{"another pool", "b", "another", errs.OutcomeUnknown},
		{"then this pool", "b", pool, errs.OutcomeNotExecuted}, // it never came here, and no longer can
		{"no pool", "c", "", errs.OutcomeUnknown},
		{"the id of an unnamed call", Unnamed("x"), pool, errs.OutcomeUnknown},
	} {
		_, err := l.Attach(Query{User: "ann", ID: tt.id, Pool: tt.pool})
		if got := errs.From(err).Metadata[errs.OutcomeKey]; got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	_, _, err := l.Begin(Start{User: "ann", ID: "a"})
	wantOutcome(t, err, "ALREADY_EXISTS", errs.OutcomeNotExecuted)
	_, _, err = l.Begin(Start{User: "ann", ID: Unnamed("x")})
	wantOutcome(t, err, "ALREADY_EXISTS", errs.OutcomeUnknown)
	if _, first, err := l.Begin(Start{User: "bob", ID: "a"}); err != nil || !first {
		t.Errorf("bob's call of that name: %v", err)
	}
}

func TestUnnamedCallsAreNotKept(t *testing.T) {
	l := New(Config{}, pool)
	c := begin(t, l, Unnamed("1"))
	l.End(c, End{Result: &mcppoolv1.CallResult{}})
	if len(l.calls) != 0 || len(l.tombstones.byID) != 0 || l.Load().Running != 0 {
		t.Errorf("left: %d calls, %d tombstones", len(l.calls), len(l.tombstones.byID))
	}
}

func TestFenceForgetsTheLeastRecentSession(t *testing.T) {
	f := newFence(2)
	pass := func(session string, epoch uint64, want bool) {
		t.Helper()
		if got := f.pass("ann", session, epoch); got != want {
			t.Errorf("session %s, epoch %d: %v", session, epoch, got)
		}
	}
	pass("a", 5, true)
	pass("b", 5, true)
	pass("a", 4, false)
	pass("a", 0, false) // a caller without epoch counts as older
	pass("a", 5, true)
	pass("c", 5, true) // b is forgotten
	pass("b", 1, true)
	pass("", 0, true)
	if !f.pass("bob", "c", 1) {
		t.Error("sessions of two users are taken for one")
	}
	if len(f.owners) != 2 || f.order.Len() != 2 {
		t.Errorf("%d sessions are kept", len(f.owners))
	}
	f.pass("ann", "unowned", 0)
	if len(f.owners) != 2 || f.owners[keyOf("ann", "unowned")] != nil {
		t.Error("a session without owners takes room")
	}
}

func TestRunningCallsAreLimited(t *testing.T) {
	l := New(Config{MaxRunning: 3, MaxRunningPerUser: 2}, pool)
	first := begin(t, l, "1")
	begin(t, l, "2")
	_, _, err := l.Begin(Start{User: "ann", ID: "3"})
	wantOutcome(t, err, "LIMIT_REACHED", errs.OutcomeNotExecuted)
	if _, _, err := l.Begin(Start{User: "bob", ID: "1"}); err != nil {
		t.Error(err)
	}
	_, _, err = l.Begin(Start{User: "cid", ID: "1"})
	wantOutcome(t, err, "LIMIT_REACHED", errs.OutcomeNotExecuted)
	l.End(first, End{Result: &mcppoolv1.CallResult{}})
	begin(t, l, "3")
	if len(l.users) != 2 {
		t.Errorf("users: %v", l.users)
	}
}

func TestFollowersAreLimited(t *testing.T) {
	l := New(Config{}, pool)
	c := begin(t, l, "1")
	var follower *Follower
	for range maxFollowers {
		var err error
		if follower, err = c.Follow(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.Follow()
	wantOutcome(t, err, "LIMIT_REACHED", errs.OutcomeUnknown)
	c.Leave(follower)
	if _, err := c.Follow(); err != nil {
		t.Error(err)
	}
	l.End(c, End{Result: &mcppoolv1.CallResult{}})
	if _, err := c.Follow(); err != nil {
		t.Errorf("after the end: %v", err)
	}
}

func TestDrain(t *testing.T) {
	errStopping := errors.New("stopping")
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{}, pool)
		finish(t, l, "done", 1)
		stopped := make(chan error, 2)
		calls := make(map[string]*Call)
		for _, id := range []string{"quick", "slow"} {
			c, _, err := l.Begin(Start{User: "ann", ID: id, Cancel: func(cause error) { stopped <- cause }})
			if err != nil {
				t.Fatal(err)
			}
			calls[id] = c
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		done := make(chan struct{})
		go func() { defer close(done); l.Drain(ctx, false, errStopping) }()
		synctest.Wait()
		_, _, err := l.Begin(Start{User: "ann", ID: "late"})
		wantOutcome(t, err, "SHUTTING_DOWN", errs.OutcomeNotExecuted)
		<-time.After(5 * time.Second)
		l.End(calls["quick"], End{Result: &mcppoolv1.CallResult{}})
		synctest.Wait()
		if len(stopped) != 0 {
			t.Error("a call was cancelled before the drain's deadline")
		}
		if cause := <-stopped; !errors.Is(cause, errStopping) {
			t.Errorf("cause = %v", cause)
		}
		l.End(calls["slow"], End{Result: &mcppoolv1.CallResult{}})
		<-done
		if got := attach(l, "done"); got != "there" {
			t.Errorf("results cannot be fetched while draining: %s", got)
		}
	})
}

// Everything at once on few ids: each call is begun once, has one end, and all followers see it.
func TestRaces(t *testing.T) {
	l := New(Config{MaxFinished: 3, MaxTombstones: 50}, pool)
	var mu sync.Mutex
	begun := make(map[string]int)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 300 {
				id := strconv.Itoa(i % 40)
				switch (worker + i) % 4 {
				case 0:
					l.Ack("ann", []string{id})
				case 1:
					if c, err := l.Attach(Query{User: "ann", ID: id, Hash: Hash{1}, Pool: pool}); err == nil {
						wait(t, c, id)
					}
				default:
					c, first, err := l.Begin(Start{User: "ann", ID: id, Hashes: []Hash{{1}}, Cancel: func(error) {}})
					switch {
					case err != nil:
					case first:
						mu.Lock()
						begun[id]++
						mu.Unlock()
						l.End(c, End{Result: &mcppoolv1.CallResult{CallId: id}})
					default:
						wait(t, c, id)
					}
				}
			}
		})
	}
	wg.Wait()
	for id, n := range begun {
		if n > 1 {
			t.Errorf("call %s was made %d times", id, n)
		}
	}
	if l.running != 0 || len(l.users) != 0 || l.results.len() > 3 {
		t.Errorf("running %d, users %v, finished %d", l.running, l.users, l.results.len())
	}
}

func wait(t *testing.T, c *Call, id string) {
	<-c.Done()
	if !proto.Equal(c.End().Result, &mcppoolv1.CallResult{CallId: id}) {
		t.Errorf("call %s ended with %v", id, c.End())
	}
}

func TestFilter(t *testing.T) {
	f := newTombstones(1000)
	if f.mayBeOverwritten(keyOf("ann", "0")) {
		t.Error("an empty filter has something")
	}
	for i := range 10_000 {
		f.overwrite(keyOf("ann", strconv.Itoa(i)))
	}
	wrong := 0
	for i := range 10_000 {
		if !f.mayBeOverwritten(keyOf("ann", strconv.Itoa(i))) {
			t.Fatalf("%d is lost", i)
		}
		if f.mayBeOverwritten(keyOf("bob", strconv.Itoa(i))) {
			wrong++
		}
	}
	if wrong > 10_000/30 {
		t.Errorf("%d of 10,000 are taken for others", wrong)
	}
}

// A23: a call that was cancelled before it came never runs; CallTool and AttachCall both say NOT_EXECUTED.
func TestCancelledBeforeItCame(t *testing.T) {
	l := New(Config{MaxTombstones: 3}, pool)
	if l.Cancel("ann", "a", context.Canceled) {
		t.Error("an unknown call was cancelled")
	}
	_, _, err := l.Begin(Start{User: "ann", ID: "a", Hashes: []Hash{{1}}, Cancel: func(error) {}})
	wantOutcome(t, err, "ALREADY_EXISTS", errs.OutcomeNotExecuted)
	if got := attach(l, "a"); got != errs.OutcomeNotExecuted {
		t.Errorf("attached: %s", got)
	}
	_, err = l.Attach(Query{User: "ann", ID: "a", Hash: Hash{1}, Pool: "another"})
	wantOutcome(t, err, "CALL_NOT_FOUND", errs.OutcomeUnknown)
	c, first, err := l.Begin(Start{User: "bob", ID: "a", Hashes: []Hash{{1}}, Cancel: func(error) {}})
	if err != nil || !first {
		t.Fatalf("another user's call of that id: first %v, %v", first, err)
	}
	l.End(c, End{})

	// A call that ended and was forgotten stays UNKNOWN even if it is cancelled.
	finish(t, l, "ran", 1)
	l.Ack("ann", []string{"ran"})
	for i := range 10 {
		l.Cancel("ann", "other "+strconv.Itoa(i), context.Canceled)
		if len(l.tombstones.byID) > 3 {
			t.Fatalf("%d tombstones are kept", len(l.tombstones.byID))
		}
	}
	l.Cancel("ann", "ran", context.Canceled)
	_, _, err = l.Begin(Start{User: "ann", ID: "ran", Hashes: []Hash{{1}}, Cancel: func(error) {}})
	wantOutcome(t, err, "ALREADY_EXISTS", errs.OutcomeUnknown)
}

// One user's results do not evict another's that were not fetched yet: the user who keeps most loses first.
func TestBoundsAreFair(t *testing.T) {
	l := New(Config{MaxFinished: 10}, pool)
	c, _, err := l.Begin(Start{User: "bob", ID: "his", Hashes: []Hash{{1}}, Cancel: func(error) {}})
	if err != nil {
		t.Fatal(err)
	}
	l.End(c, End{Result: &mcppoolv1.CallResult{}})
	for i := range 100 {
		finish(t, l, strconv.Itoa(i), 1)
	}
	if _, err := l.Attach(Query{User: "bob", ID: "his", Hash: Hash{1}, Pool: pool}); err != nil {
		t.Error(err)
	}
	if attach(l, "90") != errs.OutcomeUnknown || attach(l, "91") != "there" || l.results.len() != 10 {
		t.Errorf("ann's: %s, %s, %d in all", attach(l, "90"), attach(l, "91"), l.results.len())
	}
}

// Issue 13, results: a large result counts for the budget until it is acknowledged, or sent to a client that gave no call id.
func TestResultsHoldTheirPartUntilTheyAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := serve.NewBudget("test", 10)
		l := New(Config{}, pool)
		used := func(id string, bytes int) *Call {
			c := begin(t, l, id)
			c.Hold(jsonrpc.Admit(t.Context(), budget, "", 10))
			l.End(c, End{Result: &mcppoolv1.CallResult{StructuredJson: strings.Repeat("x", bytes)}})
			l.Fetched(c)
			return c
		}
		free := func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			h := jsonrpc.Admit(ctx, budget, "", 10)
			h.Release()
			return h != nil
		}
		used("named", countedResult)
		if free() {
			t.Error("the part of a result that is kept was given back")
		}
		l.Ack("ann", []string{"named"})
		if !free() {
			t.Error("the acknowledged result still holds its part")
		}
		used(Unnamed("1"), countedResult)
		if !free() {
			t.Error("the result that is not kept still holds its part")
		}
		used("small", 0)
		if !free() {
			t.Error("a small result of a large message still holds its part")
		}
	})
}
