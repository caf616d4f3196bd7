package runner

import (
	"sync"
	"time"
)

const (
	// suspectPatience is how long a task with several servers waits for a server that did not answer in time the last time.
	suspectPatience = 200 * time.Millisecond
	// maxSuspects bounds how many servers are remembered.
	maxSuspects = 10_000
)

// slowServers remembers by user which servers did not list their tools in time, so that a server that hangs delays only one task. It
// forgets a server that answers in time again. The zero value is ready to use.
type slowServers struct {
	mu       sync.Mutex
	suspects map[[2]string]bool // by user and server; guarded by mu
}

// patience returns how long to wait for a server.
func (s *slowServers) patience(user, id string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.suspects[[2]string{user, id}] {
		return suspectPatience
	}
	return slowAfter
}

// note remembers a server that did not answer within patience.
func (s *slowServers) note(user, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.suspects == nil || len(s.suspects) >= maxSuspects {
		s.suspects = make(map[[2]string]bool)
	}
	s.suspects[[2]string{user, id}] = true
}

// answered forgets a server that answered in time.
func (s *slowServers) answered(user, id string, took time.Duration) {
	if took >= slowAfter {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.suspects, [2]string{user, id})
}
