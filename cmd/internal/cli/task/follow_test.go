package task_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"pawl.dev/cmd/internal/cli/task"
	"pawl.dev/cmd/internal/clitest"
	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

// session returns a session with the server that server.json of a fresh data folder names; move makes the file name another server.
func session(t *testing.T, addr string) (s *discover.Session, move func(addr string)) {
	t.Helper()
	dir := t.TempDir()
	move = func(addr string) {
		if err := discover.WriteServerFile(dir, discover.ServerInfo{PID: os.Getpid(), GRPC: addr}); err != nil {
			t.Error(err)
		}
	}
	move(addr)
	s = discover.New(discover.Config{DataDir: dir, Patience: 5 * time.Second, Flags: " --server box:1"})
	_, err := s.Server(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, move
}

func seqs(t *testing.T, items <-chan task.Item) (got []uint64, err error) {
	t.Helper()
	for item := range items {
		if item.Err != nil {
			return got, item.Err
		}
		if item.Event != nil { // the stream goes on
			got = append(got, item.Event.GetSeq())
		}
	}
	return got, nil
}

func story() *clitest.Executor {
	e := clitest.NewExecutor()
	e.Add("goal").Play(clitest.StepInit("s1", "FINAL"), clitest.Text("a", "1"), clitest.Text("a", "2"), clitest.Text("a", "3"), clitest.Success("123"))
	return e
}

func TestFollowToTheEnd(t *testing.T) {
	for after, want := range map[uint64][]uint64{0: {1, 2, 3, 4, 5}, 3: {4, 5}, 5: nil, 9: nil} {
		s, _ := session(t, clitest.Serve(t, story()).Addr)
		got, err := seqs(t, task.Follow(t.Context(), s, clitest.ID(1), after))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("after %d: %v, %v; want %v", after, got, err, want)
		}
	}
}

func stopping() error {
	return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN, "stopping")
}

// However often the stream breaks off, each event comes once and in order.
func TestFollowLosesAndRepeatsNothing(t *testing.T) {
	e := story()
	var once sync.Map
	e.OnWatch = func(_ string, seq uint64) error {
		if _, seen := once.LoadOrStore(seq, true); !seen && seq%2 == 1 {
			return stopping()
		}
		return nil
	}
	s, _ := session(t, clitest.Serve(t, e).Addr)
	got, err := seqs(t, task.Follow(t.Context(), s, clitest.ID(1), 0))
	if err != nil || !slices.Equal(got, []uint64{1, 2, 3, 4, 5}) {
		t.Errorf("%v, %v", got, err)
	}
}

// If the server's process ends, the task is followed at the server that has it then.
func TestFollowGoesOnAtAnotherServer(t *testing.T) {
	first, second := clitest.NewExecutor(), story()
	first.Add("goal").Play(clitest.StepInit("s1", "FINAL"), clitest.Text("a", "1"))
	one, two := clitest.Serve(t, first), clitest.Serve(t, second)
	s, move := session(t, one.Addr)
	items := task.Follow(t.Context(), s, clitest.ID(1), 0)
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

func TestFollowEndsWithAServiceError(t *testing.T) {
	s, _ := session(t, clitest.Serve(t, clitest.NewExecutor()).Addr)
	_, err := seqs(t, task.Follow(t.Context(), s, clitest.ID(1), 0))
	if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_TASK_NOT_FOUND {
		t.Errorf("got %v", err)
	}
}

func TestFollowGivesUp(t *testing.T) {
	e := clitest.NewExecutor()
	e.Add("goal")
	e.OnWatch = func(string, uint64) error { return stopping() }
	s, _ := session(t, clitest.Serve(t, e).Addr)
	_, err := seqs(t, task.Follow(t.Context(), s, clitest.ID(1), 0))
	var gaveUp *ui.Error
	if !errors.As(err, &gaveUp) || gaveUp.Next != "pawl watch "+clitest.ID(1)+" --after 0 --server box:1" {
		t.Errorf("got %v with the hint %q", err, gaveUp.Next)
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	e := clitest.NewExecutor()
	e.Add("goal").Play(clitest.StepInit("s1", "FINAL"))
	s, _ := session(t, clitest.Serve(t, e).Addr)
	ctx, cancel := context.WithCancelCause(t.Context())
	items := task.Follow(ctx, s, clitest.ID(1), 0)
	<-items
	cancel(errors.New("enough"))
	if item, open := <-items; open {
		t.Errorf("got %v", item)
	}
}
