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
// time, because the sender has the original. Callers must not change the parts of a context, because stored contexts share them. It is safe
// for concurrent use.
type contextStore struct {
	maxCount, maxBytes int

	mu       sync.Mutex
	contexts map[string]*list.Element // by name
	order    *list.List               // of *keptContext, the most recently used in front
	bytes    int                      // of all contexts, approximately
}

// keptContext is a stored context.
type keptContext struct {
	name, user string
	whole      *plannerv1.TaskContext
	bytes      int // approximately
}

// entryOverhead is the approximate size of a context, step, tool, round or message without its texts, in bytes.
const entryOverhead = 256

// newContextStore makes a store of at most maxCount contexts and about maxBytes bytes, which drops the least recently used contexts first. If
// maxCount is 0 or less, it keeps none.
func newContextStore(maxCount, maxBytes int) *contextStore {
	return &contextStore{maxCount: maxCount, maxBytes: maxBytes, contexts: map[string]*list.Element{}, order: list.New()}
}

// complete returns the whole context of a request. Without a base, that is tc itself; otherwise the stored context that the base names, with
// tc's history appended, and tc's limits and branch. If no such context is stored for the user, the error is CONTEXT_MISSING.
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
	whole.ModelCallsLeft, whole.TokensLeft, whole.CostNanoUsdLeft, whole.Branch = tc.ModelCallsLeft, tc.TokensLeft, tc.CostNanoUsdLeft, tc.GetBranch()
	whole.History = append(whole.History[:len(whole.History):len(whole.History)], tc.GetHistory()...)
	return whole, nil
}

// find returns the context of that name and makes it the most recently used. It returns nil if the context is not stored for the user. s.mu is held.
func (s *contextStore) find(user, name string) *keptContext {
	element := s.contexts[name]
	if element == nil || element.Value.(*keptContext).user != user {
		return nil
	}
	s.order.MoveToFront(element)
	return element.Value.(*keptContext)
}

// keep stores a whole context and returns its name. It drops the context named base, which whole continues. If whole is too large, or the store
// keeps none, keep changes nothing and returns "".
func (s *contextStore) keep(user, base string, whole *plannerv1.TaskContext) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &keptContext{name: rand.Text(), user: user, whole: withoutLimits(whole)}
	added := c.whole.GetHistory()
	before := s.find(user, base)
	if before != nil {
		c.bytes, added = before.bytes, added[len(before.whole.GetHistory()):]
	} else {
		head := withoutLimits(whole)
		head.History = nil
		c.bytes = entryOverhead*(1+len(head.GetRounds())+len(head.GetTools())+len(head.GetMessages())) + proto.Size(head)
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
		s.drop(s.order.Back().Value.(*keptContext))
	}
	return c.name
}

// forget drops the context of that name, if it is stored for the user.
func (s *contextStore) forget(user, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(s.find(user, name))
}

// drop removes a context; c may be nil. s.mu is held.
func (s *contextStore) drop(c *keptContext) {
	if c != nil {
		s.order.Remove(s.contexts[c.name])
		s.bytes -= c.bytes
		delete(s.contexts, c.name)
	}
}

// shallowCopy returns a copy that shares the values of all fields with the original.
func shallowCopy(tc *plannerv1.TaskContext) *plannerv1.TaskContext {
	out := &plannerv1.TaskContext{}
	to := out.ProtoReflect()
	tc.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		to.Set(f, v)
		return true
	})
	return out
}

// withoutLimits returns a context without the fields that belong to a single request: the base, the branch and the remaining
// budget. It shares all other fields with the original.
func withoutLimits(tc *plannerv1.TaskContext) *plannerv1.TaskContext {
	out := shallowCopy(tc)
	out.Base, out.Branch = "", ""
	out.ModelCallsLeft, out.TokensLeft, out.CostNanoUsdLeft = nil, nil, nil
	return out
}
