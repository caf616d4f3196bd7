package ui

import (
	"os"
	"slices"
	"sync"
)

// Signals delivers each interrupt to a command that takes interrupts itself, else it cancels the context of
// the whole program. A request to end (SIGTERM, SIGHUP) always ends the context: it does not cancel the task.
type Signals struct {
	done   chan struct{}
	cancel func()
	exit   func(int)

	mu    sync.Mutex
	takes []chan<- struct{} // the last one gets the next interrupt
	asked bool              // the context has been ended
}

// NewSignals hands out the signals of in until it is closed. cancel ends the program in order, exit at once.
func NewSignals(in <-chan os.Signal, cancel func(), exit func(int)) *Signals {
	s := &Signals{done: make(chan struct{}), cancel: cancel, exit: exit}
	go func() {
		for {
			select {
			case sig := <-in:
				s.deliver(sig)
			case <-s.done:
				return
			}
		}
	}()
	return s
}

// Close ends the handing out.
func (s *Signals) Close() { close(s.done) }

func (s *Signals) deliver(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.takes); n > 0 && sig == os.Interrupt {
		select {
		case s.takes[n-1] <- struct{}{}:
			return
		default: // it did not take the one before: the person means it
		}
	}
	if s.asked && s.exit != nil {
		s.exit(Stopped)
	}
	s.asked = true
	s.cancel()
}

// Take sends interrupts to the channel from now on, until the returned function is called.
func (s *Signals) Take() (<-chan struct{}, func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan struct{}, 1)
	s.takes = append(s.takes, c)
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.takes = slices.DeleteFunc(s.takes, func(t chan<- struct{}) bool { return t == c })
	}
}
