package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"
)

// errDead is the result of every call of a dead process.
var errDead = errors.New("the process is dead")

// roll is the random number with which a gate is released; it decides what fails. With the zero roll nothing fails.
type roll uint64

// oneIn says whether something that happens once in n times happens; a roll is used for several such questions, each with
// a salt of its own.
func (r roll) oneIn(n, salt uint64) bool { return r != 0 && n != 0 && r.draw(n, salt) == 0 }

// draw gives a number below n.
func (r roll) draw(n, salt uint64) uint64 {
	x := (uint64(r) + salt) * 0x9e3779b97f4a7c15
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return (x ^ x>>32) % n
}

// gate is a goroutine that waits to continue.
type gate struct {
	label string
	no    int
	// notBefore is the earliest time at which it is released, unless the scheduler is calm.
	notBefore time.Time
	open      chan roll
}

// sched lets one thing happen at a time. Everything that crosses an interface of the engine waits at a gate.
type sched struct {
	rng   *rand.Rand
	began time.Time
	// calm: nothing fails, and nothing is held back.
	calm bool

	mu      sync.Mutex // guards what follows
	waiting []*gate
	count   int
	trace   []line
}

type line struct {
	at    time.Duration
	label string
	roll  roll
}

func newSched(seed uint64) *sched {
	return &sched{rng: rand.New(rand.NewPCG(seed, seed^0x5bd1e995)), began: time.Now()}
}

// pass waits until the scheduler lets it go on, the caller's process dies or its context ends.
func (s *sched) pass(ctx context.Context, dead <-chan struct{}, label string) (roll, error) {
	select {
	case <-dead:
		return 0, errDead
	default:
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	g := &gate{label: label, open: make(chan roll, 1)}
	s.mu.Lock()
	s.count++
	g.no = s.count
	s.waiting = append(s.waiting, g)
	s.mu.Unlock()
	select {
	case r := <-g.open:
		return r, nil
	case <-dead:
		s.remove(g)
		return 0, errDead
	case <-ctx.Done():
		s.remove(g)
		return 0, ctx.Err()
	}
}

func (s *sched) remove(g *gate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, g); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
}

// ready returns the gates that may be released now, in an order that does not depend on how goroutines were run.
func (s *sched) ready() []*gate {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	var all []*gate
	for _, g := range s.waiting {
		if s.calm || !now.Before(g.notBefore) {
			all = append(all, g)
		}
	}
	slices.SortFunc(all, func(a, b *gate) int { return cmp.Or(strings.Compare(a.label, b.label), cmp.Compare(a.no, b.no)) })
	return all
}

// release opens a gate, and returns once all goroutines are blocked again.
func (s *sched) release(g *gate) {
	r := roll(0)
	if !s.calm {
		r = roll(s.rng.Uint64() | 1)
	}
	s.remove(g)
	s.note(g.label, r)
	g.open <- r
	synctest.Wait()
}

func (s *sched) note(label string, r roll) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trace = append(s.trace, line{time.Since(s.began), label, r})
}

// pause lets virtual time pass.
func (s *sched) pause(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// lines is the trace as it is shown.
func (s *sched) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]string, 0, len(s.trace))
	for _, l := range s.trace {
		all = append(all, fmt.Sprintf("%12s %s", l.at.Round(time.Microsecond), l.label))
	}
	return all
}

// chance says whether something that happens once in n times happens now.
func (s *sched) chance(n int) bool { return s.rng.IntN(n) == 0 }

// pick draws one of these.
func pick[T any](s *sched, of ...T) T { return of[s.rng.IntN(len(of))] }
