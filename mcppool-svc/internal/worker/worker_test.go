package worker

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// do runs one function to its end.
func do(p *Pool, f func() error) error {
	w := p.Do(f)
	err := <-w.Done()
	p.Give(w, true)
	return err
}

// A goroutine is used again, whatever the function before did to it.
func TestUsedAgain(t *testing.T) {
	var p Pool
	defer p.Close()
	want := errors.New("no")
	if err := do(&p, func() error { return want }); !errors.Is(err, want) {
		t.Errorf("error = %v", err)
	}
	first := p.idle[0]
	var panicked *Panic
	if err := do(&p, func() error { panic("boom") }); !errors.As(err, &panicked) || panicked.Error() != "panic: boom" || !strings.Contains(string(panicked.Stack), "TestUsedAgain") {
		t.Errorf("error = %v", err)
	}
	if err := do(&p, func() error { runtime.Goexit(); return nil }); !errors.Is(err, errExited) {
		t.Errorf("error = %v", err)
	}
	if err := do(&p, func() error { return nil }); err != nil || len(p.idle) != 1 || p.idle[0] != first {
		t.Errorf("%v; %d wait, the same: %v", err, len(p.idle), p.idle[0] == first)
	}
}

// What nobody waits for goes on to its end, and its goroutine is not given to somebody else before.
func TestLeftAlone(t *testing.T) {
	var p Pool
	held, ended := make(chan struct{}), make(chan struct{})
	p.Give(p.Do(func() error { <-held; close(ended); return nil }), false)
	if err := do(&p, func() error { return nil }); err != nil {
		t.Error(err)
	}
	p.Close()
	close(held)
	<-ended
	// Later ones still run; their goroutines end with them.
	if err := do(&p, func() error { return nil }); err != nil || len(p.idle) != 0 {
		t.Errorf("%v; %d wait", err, len(p.idle))
	}
}

func TestManyAtOnce(t *testing.T) {
	var p Pool
	defer p.Close()
	var all sync.WaitGroup
	together := make(chan struct{})
	for range 2 * maxIdle {
		all.Go(func() { _ = do(&p, func() error { <-together; return nil }) })
	}
	close(together)
	all.Wait()
	if n := len(p.idle); n > maxIdle {
		t.Errorf("%d wait, at most %d may", n, maxIdle)
	}
}
