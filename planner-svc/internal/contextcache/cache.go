// Package contextcache keeps what requests have told about tasks, so that the next request of a task sends only what is new. What is
// kept is a copy that may be dropped at any time: its sender has the original. The package knows no model, and does not look
// into what it keeps.
package contextcache

import (
	"container/list"
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
)

// Limits bound what is kept. The contexts that were used least recently are dropped first.
type Limits struct {
	Count int // contexts of tasks; 0 or less: nothing is kept
	Bytes int // of all that is kept, estimated
}

// Store keeps contexts by name. It is safe for concurrent use. What it is given and what it returns share their parts, and must not be
// changed.
type Store struct {
	limits Limits

	mu       sync.Mutex
	contexts map[string]*kept // by id
	order    *list.List       // of *kept, the one used last in front
	bytes    int
}

// kept is the context of a task as it has grown. The name of its first n steps is the id, a dot and n.
type kept struct {
	id, user string
	head     *plannerv1.TaskContext    // without history
	history  []*plannerv1.HistoryEntry // append-only
	bytes    int
	element  *list.Element
}

// entryOverhead is about what a step, a tool or a round takes in addition to its texts.
const entryOverhead = 256

// New makes an empty store.
func New(limits Limits) *Store {
	return &Store{limits: limits, contexts: map[string]*kept{}, order: list.New()}
}

// Whole returns the context that a request means: itself, or what its base names followed by the request's history. A base that is not
// kept, or is another user's, is CONTEXT_MISSING.
func (s *Store) Whole(user string, tc *plannerv1.TaskContext) (*plannerv1.TaskContext, error) {
	if tc.GetBase() == "" {
		return tc, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, n := s.find(user, tc.GetBase())
	if c == nil {
		return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_CONTEXT_MISSING,
			"the context that the request continues is no longer kept here; send the context whole, without `base`")
	}
	whole := headOf(c.head)
	whole.ModelCallsLeft, whole.InputTokensLeft, whole.OutputTokensLeft, whole.CostNanoUsdLeft =
		tc.ModelCallsLeft, tc.InputTokensLeft, tc.OutputTokensLeft, tc.CostNanoUsdLeft
	whole.History = append(c.history[:n:n], tc.GetHistory()...)
	return whole, nil
}

// find returns the context of that name and how many of its steps the name stands for; nil if it is not kept for the user. s.mu is held.
func (s *Store) find(user, name string) (*kept, int) {
	id, digits, _ := strings.Cut(name, ".")
	c := s.contexts[id]
	if c == nil || c.user != user {
		return nil, 0
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || n > len(c.history) {
		return nil, 0
	}
	s.order.MoveToFront(c.element)
	return c, n
}

// Keep keeps a whole context and returns its name, "" if it is not kept. base is the name that it was made from, if any: the kept context
// then grows by the steps that are new.
func (s *Store) Keep(user, base string, whole *plannerv1.TaskContext) string {
	history := whole.GetHistory()
	s.mu.Lock()
	defer s.mu.Unlock()
	c, n := s.find(user, base)
	if c != nil && n < len(c.history) { // the request is repeated, or the task went on differently
		if len(c.history) >= len(history) && slices.EqualFunc(c.history[n:len(history)], history[n:], equal) {
			return c.name(len(history))
		}
		c = nil
	}
	if c == nil {
		head := headOf(whole)
		c = &kept{id: rand.Text(), user: user, head: head, bytes: entryOverhead*(1+len(head.Rounds)+len(head.Tools)) + proto.Size(head)}
	}
	bytes := c.bytes
	for _, e := range history[len(c.history):] {
		bytes += entryOverhead + proto.Size(e)
	}
	if s.limits.Count <= 0 || bytes > s.limits.Bytes {
		return ""
	}
	if c.element == nil {
		s.contexts[c.id], c.element, c.bytes = c, s.order.PushFront(c), 0
	}
	s.bytes += bytes - c.bytes
	c.bytes, c.history = bytes, append(c.history, history[len(c.history):]...)
	for s.order.Len() > s.limits.Count || s.bytes > s.limits.Bytes { // the newest fits by itself
		s.drop(s.order.Back().Value.(*kept))
	}
	return c.name(len(history))
}

func equal(a, b *plannerv1.HistoryEntry) bool { return proto.Equal(a, b) }

func (c *kept) name(n int) string { return c.id + "." + strconv.Itoa(n) }

// Forget drops the context of that name, and what it has grown from and to.
func (s *Store) Forget(user, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, _ := s.find(user, name); c != nil {
		s.drop(c)
	}
}

// drop removes a context. s.mu is held.
func (s *Store) drop(c *kept) {
	s.order.Remove(c.element)
	s.bytes -= c.bytes
	delete(s.contexts, c.id)
}

// headOf returns a context without its history and without what belongs to one request alone. It shares the rest with the original.
func headOf(tc *plannerv1.TaskContext) *plannerv1.TaskContext {
	head := &plannerv1.TaskContext{}
	to := head.ProtoReflect()
	tc.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		to.Set(f, v)
		return true
	})
	head.History, head.Base = nil, ""
	head.ModelCallsLeft, head.InputTokensLeft, head.OutputTokensLeft, head.CostNanoUsdLeft = nil, nil, nil, nil
	return head
}
