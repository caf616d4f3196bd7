package follow_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/exit"
	"pawl.dev/cmd/internal/fake"
	"pawl.dev/cmd/internal/follow"
	"pawl.dev/cmd/internal/serverfile"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/serve"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// session is with the server whose note is in a fresh data folder; move writes the note of another one.
func session(t *testing.T, addr string) (s *discover.Session, move func(addr string)) {
	t.Helper()
	dir := t.TempDir()
	move = func(addr string) {
		if err := serverfile.Write(dir, serverfile.Info{PID: os.Getpid(), GRPC: addr}); err != nil {
			t.Error(err)
		}
	}
	move(addr)
	dial := func(addr, key string) (discover.Conn, error) { return serve.Dial(addr, key) }
	s, err := discover.New(discover.Config{DataDir: dir, Dial: dial, Patience: 5 * time.Second}).NewSession(t.Context(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, move
}

func seqs(t *testing.T, items <-chan follow.Item) (got []uint64, err error) {
	t.Helper()
	for item := range items {
		if item.Err != nil {
			return got, item.Err
		}
		got = append(got, item.Event.GetSeq())
	}
	return got, nil
}

func story() *fake.Executor {
	e := fake.NewExecutor()
	e.Add("goal").Play(fake.StepInit("s1", "FINAL"), fake.Text("a", "1"), fake.Text("a", "2"), fake.Text("a", "3"), fake.Success("123"))
	return e
}

func TestFollowToTheEnd(t *testing.T) {
	for after, want := range map[uint64][]uint64{0: {1, 2, 3, 4, 5}, 3: {4, 5}, 5: nil, 9: nil} {
		s, _ := session(t, fake.Serve(t, story()).Addr)
		got, err := seqs(t, follow.Task(t.Context(), s, fake.ID(1), after, ""))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("after %d: %v, %v; want %v", after, got, err, want)
		}
	}
}

func stopping() error {
	return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN, "stopping")
}

// However often the stream breaks off, each event comes once and in order.
func TestNothingIsLostOrRepeated(t *testing.T) {
	e := story()
	var once sync.Map
	e.OnWatch = func(_ string, seq uint64) error {
		if _, seen := once.LoadOrStore(seq, true); !seen && seq%2 == 1 {
			return stopping()
		}
		return nil
	}
	s, _ := session(t, fake.Serve(t, e).Addr)
	got, err := seqs(t, follow.Task(t.Context(), s, fake.ID(1), 0, ""))
	if err != nil || !slices.Equal(got, []uint64{1, 2, 3, 4, 5}) {
		t.Errorf("%v, %v", got, err)
	}
}

// The process ends in the middle and another one has the task then.
func TestGoOnAtAnotherServer(t *testing.T) {
	first, second := fake.NewExecutor(), story()
	first.Add("goal").Play(fake.StepInit("s1", "FINAL"), fake.Text("a", "1"))
	one, two := fake.Serve(t, first), fake.Serve(t, second)
	s, move := session(t, one.Addr)
	items := follow.Task(t.Context(), s, fake.ID(1), 0, "")
	for range 2 {
		<-items
	}
	move(two.Addr)
	one.Stop()
	got, err := seqs(t, items)
	if err != nil || !slices.Equal(got, []uint64{3, 4, 5}) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestErrorsOfTheServiceEndIt(t *testing.T) {
	s, _ := session(t, fake.Serve(t, fake.NewExecutor()).Addr)
	_, err := seqs(t, follow.Task(t.Context(), s, fake.ID(1), 0, ""))
	if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_TASK_NOT_FOUND {
		t.Errorf("got %v", err)
	}
}

func TestItGivesUpWhenNothingComes(t *testing.T) {
	e := fake.NewExecutor()
	e.Add("goal")
	e.OnWatch = func(string, uint64) error { return stopping() }
	s, _ := session(t, fake.Serve(t, e).Addr)
	_, err := seqs(t, follow.Task(t.Context(), s, fake.ID(1), 0, " --server box:1"))
	var gaveUp *exit.Error
	if !errors.As(err, &gaveUp) || gaveUp.Next != "pawl watch "+fake.ID(1)+" --after 0 --server box:1" {
		t.Errorf("got %v with the hint %q", err, gaveUp.Next)
	}
}

func TestItEndsWithItsContext(t *testing.T) {
	e := fake.NewExecutor()
	e.Add("goal").Play(fake.StepInit("s1", "FINAL"))
	s, _ := session(t, fake.Serve(t, e).Addr)
	ctx, cancel := context.WithCancelCause(t.Context())
	items := follow.Task(ctx, s, fake.ID(1), 0, "")
	<-items
	cancel(errors.New("enough"))
	if item, open := <-items; open {
		t.Errorf("got %v", item)
	}
}
