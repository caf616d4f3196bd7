package bolt_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
)

// held lets a test say when each batch becomes durable, or panics.
type held struct {
	begun   chan struct{}
	release chan error
}

func hold(s *bolt.Store) *held {
	h := &held{begun: make(chan struct{}), release: make(chan error)}
	s.FailCommits(func(commit func() error) error {
		h.begun <- struct{}{}
		if err := <-h.release; err != nil {
			panic(err)
		}
		return commit()
	})
	return h
}

// commitAll commits once for each task, and returns the channel of the answers.
func commitAll(s *bolt.Store, tasks []*owned) chan error {
	answers := make(chan error, len(tasks))
	for _, o := range tasks {
		go func() {
			defer func() {
				if fault := recover(); fault != nil {
					answers <- fault.(error)
				}
			}()
			answers <- o.commit(s)
		}()
	}
	return answers
}

// Changes that arrive while a batch is written form the next one; and the goroutine that wrote a batch gets its answer
// before the next one is written, so that it does not write for others forever.
func TestLeaderIsAnsweredFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, tasks := openWith(t, 20)
		before := s.Logged()
		h := hold(s)
		first := commitAll(s, tasks[:1])
		<-h.begun
		others := commitAll(s, tasks[1:])
		synctest.Wait()
		h.release <- nil
		if err := <-first; err != nil {
			t.Error(err)
		}
		<-h.begun
		select {
		case err := <-others:
			t.Errorf("answered %v before it was durable", err)
		default:
		}
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		synctest.Wait()
		if err := tasks[0].commit(s); !errors.Is(err, journal.ErrClosed) {
			t.Errorf("a change while it is closed: %v", err)
		}
		h.release <- nil
		for range tasks[1:] {
			if err := <-others; err != nil {
				t.Error(err)
			}
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if n := s.Logged() - before; n != 2 {
			t.Errorf("%d records of the log, want 2", n)
		}
	})
}

// A panic in the middle of a batch leaves no caller waiting, and no further change is accepted.
func TestLeaderPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, tasks := openWith(t, 20)
		h := hold(s)
		first := commitAll(s, tasks[:1])
		<-h.begun
		others := commitAll(s, tasks[1:])
		synctest.Wait()
		fault := errors.New("a program error")
		h.release <- nil
		<-h.begun
		if err := <-first; err != nil {
			t.Error(err)
		}
		later := commitAll(s, tasks[:1])
		synctest.Wait()
		h.release <- fault
		torn := 0
		for range tasks[1:] {
			switch err := <-others; {
			case errors.Is(err, fault):
				torn++
			case err == nil || !strings.Contains(err.Error(), "start pawl again"):
				t.Error(err)
			}
		}
		if torn != 1 {
			t.Errorf("%d of them wrote", torn)
		}
		if err := <-later; err == nil {
			t.Error("a change that arrived meanwhile was answered as stored")
		}
		if err := tasks[0].commit(s); err == nil || errors.Is(err, journal.ErrClosed) {
			t.Errorf("a change after it: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func openWith(t *testing.T, n int) (s *bolt.Store, tasks []*owned) {
	s = open(t, filepath.Join(t.TempDir(), "journal.db"))
	for range n {
		tasks = append(tasks, newOwned(t, s))
	}
	return s, tasks
}
