// Package worker runs work beside its caller, who may stop waiting for it, in goroutines that are used again: one begun anew for each small
// thing would grow its stack each time. It knows nothing of what the work is.
package worker

import "sync"

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

// Done gets the function's error once it has returned.
func (w *Worker) Done() <-chan error { return w.done }

// Do has a function run. Give the Worker back in the end.
func (p *Pool) Do(f func() error) *Worker {
	w := p.take()
	w.work <- f
	return w
}

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

// Give takes a worker back, once the error was read or nobody waits for it any more: then the function goes on, and its goroutine ends with it.
func (p *Pool) Give(w *Worker, finished bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !finished || p.closed || len(p.idle) >= maxIdle {
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
	for f := range w.work {
		w.done <- f()
	}
}
