package api

import (
	"container/list"
	"crypto/rand"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
)

// contextStore caches the contexts of tasks by name, so that the next request of a task sends only the new part. It may drop a context at any
// time, because the sender has the original. It is safe for concurrent use. Contexts passed to it and returned by it share their parts,
// which must not be changed.
type contextStore struct {
	maxCount, maxBytes int

	mu       sync.Mutex
	contexts map[string]*list.Element // by name
	order    *list.List               // of *kept, the most recently used in front
	bytes    int                      // of all contexts, approximately
}

// kept is the context of a task at one of its steps.
type kept struct {
	name, user string
	whole      *plannerv1.TaskContext
	bytes      int // approximately
}

// entryOverhead is the approximate size of a context, step, tool or round without its texts, in bytes.
const entryOverhead = 256

// newContextStore makes an empty store of at most maxCount contexts and about maxBytes bytes; with a maxCount of 0 or less, it keeps none. It drops
// the least recently used contexts first.
func newContextStore(maxCount, maxBytes int) *contextStore {
	return &contextStore{maxCount: maxCount, maxBytes: maxBytes, contexts: map[string]*list.Element{}, order: list.New()}
}

// complete returns the whole context of a request: tc itself, or the kept context that its base names, with tc's history appended
// and tc's limits. If that context is not kept, or belongs to another user, the error is CONTEXT_MISSING.
func (s *contextStore) complete(user string, tc *plannerv1.TaskContext) (*plannerv1.TaskContext, error) {
	if tc.GetBase() == "" {
		return tc, nil
	}
	s.mu.Lock()
	c := s.find(user, tc.GetBase())
	s.mu.Unlock()
	if c == nil {
		return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_CONTEXT_MISSING,
			"the planner no longer keeps the context that the request continues; send the whole context, without `base`")
	}
	whole := withoutLimits(c.whole)
	whole.ModelCallsLeft, whole.TokensLeft, whole.CostNanoUsdLeft = tc.ModelCallsLeft, tc.TokensLeft, tc.CostNanoUsdLeft
	whole.History = append(whole.History[:len(whole.History):len(whole.History)], tc.GetHistory()...)
	return whole, nil
}

// find returns the context of that name and makes it the most recently used; nil if it is not kept for the user. s.mu is held.
func (s *contextStore) find(user, name string) *kept {
	element := s.contexts[name]
	if element == nil || element.Value.(*kept).user != user {
		return nil
	}
	s.order.MoveToFront(element)
	return element.Value.(*kept)
}

// keep stores a whole context and returns its name. It drops the context named base, which whole continues. If whole is too large, or the store
// keeps none, keep changes nothing and returns "".
func (s *contextStore) keep(user, base string, whole *plannerv1.TaskContext) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &kept{name: rand.Text(), user: user, whole: withoutLimits(whole)}
	added := c.whole.GetHistory()
	before := s.find(user, base)
	if before != nil {
		c.bytes, added = before.bytes, added[len(before.whole.GetHistory()):]
	} else {
		head := withoutLimits(whole)
		head.History = nil
		c.bytes = entryOverhead*(1+len(head.GetRounds())+len(head.GetTools())) + proto.Size(head)
	}
	for _, e := range added {
		c.bytes += entryOverhead + proto.Size(e)
	}
	if s.maxCount <= 0 || c.bytes > s.maxBytes {
		return ""
	}
	s.drop(before)
	s.contexts[c.name] = s.order.PushFront(c)
	s.bytes += c.bytes
	for s.order.Len() > s.maxCount || s.bytes > s.maxBytes { // the newest fits by itself
		s.drop(s.order.Back().Value.(*kept))
	}
	return c.name
}

// forget drops the context of that name, if it is kept for the user.
func (s *contextStore) forget(user, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(s.find(user, name))
}

// drop removes a context; c may be nil. s.mu is held.
func (s *contextStore) drop(c *kept) {
	if c != nil {
		s.order.Remove(s.contexts[c.name])
		s.bytes -= c.bytes
		delete(s.contexts, c.name)
	}
}

// withoutLimits returns a context without the fields that belong to a single request: the base and what is left of the
// budget. It shares the rest with the original.
func withoutLimits(tc *plannerv1.TaskContext) *plannerv1.TaskContext {
	out := &plannerv1.TaskContext{}
	to := out.ProtoReflect()
	tc.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		to.Set(f, v)
		return true
	})
	out.Base = ""
	out.ModelCallsLeft, out.TokensLeft, out.CostNanoUsdLeft = nil, nil, nil
	return out
}
