package contextcache

import (
	"container/list"
	"sync"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
)

// Limits bound what is kept. The contexts that were used least recently are dropped first.
type Limits struct {
	Count int // lines of history, which are about tasks; 0 or less: nothing is kept
	Bytes int // of all that is kept, about
}

// Store keeps contexts by name. It may be used by several goroutines. What it is given and what it returns share their parts, and
// are not to be changed.
type Store struct {
	limits Limits

	mu    sync.Mutex
	names map[name]place
	order *list.List // of *line, the one used last in front
	bytes int
}

// line is one task's context as it has grown. Its names stand for beginnings of its history.
type line struct {
	user    string
	head    *plannerv1.TaskContext
	history []*plannerv1.HistoryEntry // only ever appended to
	names   []name
	bytes   int
	element *list.Element
}

// place is what a name stands for: a line's first entries, and how large it is with them.
type place struct {
	*line
	n    int
	size int
}

// prefix is a context as it is at one place. Unlike its line, it does not change.
type prefix struct {
	head    *plannerv1.TaskContext
	history []*plannerv1.HistoryEntry
	step
}

// New makes an empty store.
func New(limits Limits) *Store {
	return &Store{limits: limits, names: map[name]place{}, order: list.New()}
}

// Whole returns the context that a request means: itself, or what its base names with the request's history behind it. A base
// that is not there, or is another user's, is CONTEXT_MISSING.
func (s *Store) Whole(user string, tc *plannerv1.TaskContext) (*plannerv1.TaskContext, error) {
	if tc.GetBase() == "" {
		return tc, nil
	}
	p, ok := s.find(user, tc.GetBase())
	if !ok {
		return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_CONTEXT_MISSING,
			"the context that the request continues is not kept here (any more); send the context whole, without `base`")
	}
	whole := headOf(p.head)
	whole.ModelCallsLeft, whole.InputTokensLeft, whole.OutputTokensLeft, whole.CostNanoUsdLeft =
		tc.ModelCallsLeft, tc.InputTokensLeft, tc.OutputTokensLeft, tc.CostNanoUsdLeft
	whole.History = append(p.history, tc.GetHistory()...)
	return whole, nil
}

// find looks a name up; its line is the one used last then.
func (s *Store) find(user, base string) (prefix, bool) {
	n, ok := parseName(base)
	if !ok {
		return prefix{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.names[n]
	if !ok || p.user != user {
		return prefix{}, false
	}
	s.order.MoveToFront(p.element)
	return prefix{head: p.head, history: p.history[:p.n:p.n], step: step{name: n, size: p.size}}, true
}

// Keep keeps a whole context and returns its name, "" where it is not kept. Base is the name that it was made from, if any: it
// makes this cheaper, and nothing else.
func (s *Store) Keep(user, base string, whole *plannerv1.TaskContext) (string, error) {
	if s.limits.Count <= 0 {
		return "", nil
	}
	p, ok := s.find(user, base)
	if !ok {
		p.head = headOf(whole)
		var err error
		if p.step, err = nameOfHead(user, p.head); err != nil {
			return "", err
		}
	}
	steps, err := p.chain(whole.GetHistory()[len(p.history):])
	if err != nil {
		return "", err
	}
	if steps[len(steps)-1].size > s.limits.Bytes {
		return "", nil
	}
	return s.put(user, p, steps, whole.GetHistory()), nil
}

// put keeps a context with the steps that lead from a prefix of its history, which need not be kept, to all of it.
func (s *Store) put(user string, from prefix, steps []step, history []*plannerv1.HistoryEntry) string {
	last := steps[len(steps)-1]
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.names[last.name]; ok {
		s.order.MoveToFront(known.element)
		return last.name.String()
	}
	l := s.lineTo(steps)
	if l == nil { // the first of its line, or another way on from the middle of one
		l = &line{user: user, head: from.head}
		l.element = s.order.PushFront(l)
	}
	s.order.MoveToFront(l.element)
	l.history = append(l.history, history[len(l.history):]...)
	s.bytes += last.size - l.bytes
	l.bytes = last.size
	l.names = append(l.names, last.name)
	s.names[last.name] = place{line: l, n: len(history), size: last.size}
	s.evict()
	return last.name.String()
}

// lineTo finds the line that ends at one of these steps; or nil.
func (s *Store) lineTo(steps []step) *line {
	for i := len(steps) - 1; i >= 0; i-- {
		if p, ok := s.names[steps[i].name]; ok && p.n == len(p.history) {
			return p.line
		}
	}
	return nil
}

// Forget drops the context of that name, and what it has grown from and to.
func (s *Store) Forget(user, base string) {
	n, ok := parseName(base)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.names[n]; ok && p.user == user {
		s.drop(p.line)
	}
}

// evict drops what was used least recently until the rest fits. The newest fits by itself.
func (s *Store) evict() {
	for s.order.Len() > s.limits.Count || s.bytes > s.limits.Bytes {
		s.drop(s.order.Back().Value.(*line))
	}
}

func (s *Store) drop(l *line) {
	s.order.Remove(l.element)
	s.bytes -= l.bytes
	for _, n := range l.names {
		delete(s.names, n)
	}
}
