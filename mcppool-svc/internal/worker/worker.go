// Package worker runs functions beside their callers, who may stop waiting for them, in goroutines that are used again: one begun anew for
// each small thing would grow its stack each time. What panics ends the function and nothing else. It knows nothing of what is done.
package worker

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// maxIdle is how many goroutines wait for work.
const maxIdle = 64

// Pool keeps goroutines between uses. Its zero value can be used.
type Pool struct {
	mu     sync.Mutex
	idle   []*Worker // guarded by mu; the one that worked last is the last
	closed bool      // guarded by mu
}

// Worker is a goroutine that does one thing for somebody. It ends when its work is closed.
type Worker struct {
	work chan func() error
	done chan error // buffered
}

// Panic is the error of a function that panicked.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// errExited is the error of a function that ended its goroutine (runtime.Goexit).
var errExited = errors.New("the function ended its goroutine instead of returning")

// Do has a function run. Give the Worker back in the end.
func (p *Pool) Do(f func() error) *Worker {
	w := p.take()
	w.work <- f
	return w
}

// Done gets the function's error once it has ended.
func (w *Worker) Done() <-chan error { return w.done }

func (p *Pool) take() *Worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 {
		w := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return w
	}
	w := &Worker{work: make(chan func() error, 1), done: make(chan error, 1)}
	go w.run()
	return w
}

// Give takes a worker back, once the error was read (ended) or nobody waits for it any more: then the function goes on, and the goroutine
// ends with it.
func (p *Pool) Give(w *Worker, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !ended || p.closed || len(p.idle) >= maxIdle {
		close(w.work)
		return
	}
	p.idle = append(p.idle, w)
}

// Close ends the goroutines that wait for work, and the others when they are given back.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, w := range p.idle {
		close(w.work)
	}
	p.idle = nil
}

func (w *Worker) run() {
	exited := true
	defer func() {
		if exited {
			go w.run() // in the place of the one that the function ended
		}
	}()
	for f := range w.work {
		w.do(f)
	}
	exited = false
}

func (w *Worker) do(f func() error) {
	err := errExited
	defer func() {
		if v := recover(); v != nil {
			err = &Panic{Value: v, Stack: debug.Stack()}
		}
		w.done <- err
	}()
	err = f()
}
