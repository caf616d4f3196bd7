package api

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
)

func store() *contextStore { return newContextStore(100, 1<<20) }

func task(id string, done ...string) *plannerv1.TaskContext {
	tc := &plannerv1.TaskContext{TaskId: id, Goal: "g", Tools: []*commonv1.Tool{{Id: "a/b"}}}
	tc.History = entries(done...)
	return tc
}

func entries(done ...string) []*plannerv1.HistoryEntry {
	var all []*plannerv1.HistoryEntry
	for i, d := range done {
		all = append(all, &plannerv1.HistoryEntry{StepId: fmt.Sprintf("step-%d", i+1), OutputJson: d})
	}
	return all
}

func keep(t testing.TB, s *contextStore, user, base string, tc *plannerv1.TaskContext) string {
	t.Helper()
	return s.keep(user, base, tc)
}

// goOn does what a planner does with a request: it makes the context whole, and keeps it.
func goOn(t testing.TB, s *contextStore, user, base string, more ...*plannerv1.HistoryEntry) string {
	t.Helper()
	whole, err := s.complete(user, &plannerv1.TaskContext{Base: base, History: more})
	if err != nil {
		t.Fatal(err)
	}
	return keep(t, s, user, base, whole)
}

func missing(t testing.TB, s *contextStore, user, base string) {
	t.Helper()
	_, err := s.complete(user, &plannerv1.TaskContext{Base: base})
	if e := errs.From(err); e == nil || e.Code != codes.FailedPrecondition || e.Reason != commonv1.ErrorReason_ERROR_REASON_CONTEXT_MISSING {
		t.Errorf("the base %.8s of %s: %v", base, user, err)
	}
}

func isWhole(t testing.TB, s *contextStore, user, base string, want *plannerv1.TaskContext) {
	t.Helper()
	got, err := s.complete(user, &plannerv1.TaskContext{Base: base})
	if d := cmp.Diff(want, got, protocmp.Transform()); err != nil || d != "" {
		t.Errorf("the base %.8s: %v %s", base, err, d)
	}
}

// count checks the totals and returns how many contexts are kept.
func count(t testing.TB, s *contextStore) int {
	t.Helper()
	bytes := 0
	for e := s.order.Front(); e != nil; e = e.Next() {
		c := e.Value.(*keptContext)
		bytes += c.bytes
		if s.contexts[c.name] != e {
			t.Errorf("the context %s is not found by its name", c.name)
		}
	}
	if bytes != s.bytes || s.order.Len() != len(s.contexts) || bytes > s.maxBytes || s.order.Len() > s.maxCount {
		t.Errorf("%d contexts with %d bytes; the store counts %d and %d", s.order.Len(), bytes, len(s.contexts), s.bytes)
	}
	return s.order.Len()
}

// A task takes one context, also while it goes on; two tasks that begin in the same way take two.
func TestATaskTakesOneContext(t *testing.T) {
	s := store()
	zero, other := keep(t, s, "u", "", task("t")), keep(t, s, "u", "", task("t"))
	history := entries("1", "2", "3")
	one := goOn(t, s, "u", zero, history[0])
	isWhole(t, s, "u", one, task("t", "1"))
	three := goOn(t, s, "u", one, history[1:]...)
	isWhole(t, s, "u", three, task("t", "1", "2", "3"))
	for _, before := range []string{zero, one} {
		missing(t, s, "u", before)
	}
	isWhole(t, s, "u", other, task("t"))
	if n := count(t, s); n != 2 {
		t.Errorf("two tasks take %d contexts", n)
	}
}

// What belongs to one request is not kept, and everything else is.
func TestEveryFieldIsKept(t *testing.T) {
	full := task("t", "1")
	fields := full.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		switch f := fields.Get(i); {
		case f.IsList() && f.Kind() == protoreflect.MessageKind:
			list := full.ProtoReflect().Mutable(f).List()
			list.Append(list.NewElement())
		case f.Kind() == protoreflect.StringKind:
			full.ProtoReflect().Set(f, protoreflect.ValueOfString("x "+string(f.Name())))
		case f.Kind() == protoreflect.EnumKind:
			full.ProtoReflect().Set(f, protoreflect.ValueOfEnum(1))
		case f.Kind() == protoreflect.Uint32Kind:
			full.ProtoReflect().Set(f, protoreflect.ValueOfUint32(7))
		case f.Kind() == protoreflect.Uint64Kind:
			full.ProtoReflect().Set(f, protoreflect.ValueOfUint64(7))
		case f.Kind() == protoreflect.MessageKind:
			full.ProtoReflect().Mutable(f).Message()
		default:
			t.Fatalf("this test does not know how to fill %s", f.Name())
		}
	}
	s := store()
	n := keep(t, s, "u", "", full)
	want := proto.CloneOf(full)
	want.Base, want.Branch = "", ""
	want.ModelCallsLeft, want.TokensLeft, want.CostNanoUsdLeft = nil, nil, nil
	isWhole(t, s, "u", n, want)
	limits := &plannerv1.TaskContext{ModelCallsLeft: proto.Uint32(3), TokensLeft: proto.Uint64(4), CostNanoUsdLeft: proto.Uint64(0), Branch: "p2.1"}
	proto.Merge(want, limits)
	got, err := s.complete("u", &plannerv1.TaskContext{Base: n, Goal: "not read", ModelCallsLeft: limits.ModelCallsLeft,
		TokensLeft: limits.TokensLeft, CostNanoUsdLeft: limits.CostNanoUsdLeft, Branch: limits.Branch})
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" || err != nil {
		t.Errorf("%v %s", err, d)
	}
	want.ModelCallsLeft, want.TokensLeft, want.CostNanoUsdLeft, want.Branch = nil, nil, nil, ""
	isWhole(t, s, "u", keep(t, s, "u", n, got), want)
}

func TestWhatIsNotKept(t *testing.T) {
	s := store()
	n := keep(t, s, "u", "", task("t"))
	missing(t, s, "other", n)
	if keep(t, s, "other", "", task("t")) == n {
		t.Error("two users have one name")
	}
	for _, base := range []string{"x", strings.Repeat("0", 64), n[:10], n + "5"} {
		missing(t, s, "u", base)
	}
	whole := task("t")
	if got, err := s.complete("u", whole); got != whole || err != nil {
		t.Errorf("without a base: %v %v", got, err)
	}
	restarted := store()
	missing(t, restarted, "u", n)
	if n := keep(t, newContextStore(-1, 1<<20), "u", "", task("t")); n != "" {
		t.Error("it is kept where nothing shall be")
	}
}

func TestTheLeastRecentlyUsedAreDropped(t *testing.T) {
	s := newContextStore(2, 1<<20)
	a, b := keep(t, s, "u", "", task("a")), keep(t, s, "u", "", task("b"))
	a1 := goOn(t, s, "u", a, entries("1")...)
	c := keep(t, s, "u", "", task("c"))
	missing(t, s, "u", b)
	for _, n := range []string{a1, c} {
		if _, err := s.complete("u", &plannerv1.TaskContext{Base: n}); err != nil {
			t.Error(err)
		}
	}
	count(t, s)

	s = newContextStore(100, 10_000)
	a, b = keep(t, s, "u", "", task("a")), keep(t, s, "u", "", task("b"))
	if n := goOn(t, s, "u", b, entries(strings.Repeat("x", 20_000))...); n != "" {
		t.Error("what is larger than the bound is kept")
	}
	isWhole(t, s, "u", b, task("b"))
	big := strings.Repeat("x", 9_100)
	b1 := goOn(t, s, "u", b, entries(big)...)
	missing(t, s, "u", a)
	isWhole(t, s, "u", b1, task("b", big))
	if n := count(t, s); n != 1 {
		t.Errorf("%d contexts", n)
	}
	if n := goOn(t, s, "u", b1, entries("", big)[1]); n != "" {
		t.Error("a task that outgrows the bound is kept")
	}
}

func TestForget(t *testing.T) {
	s := store()
	a, b := keep(t, s, "u", "", task("a")), keep(t, s, "u", "", task("b"))
	a1 := goOn(t, s, "u", a, entries("1")...)
	for _, other := range []string{"", "no name", b} {
		s.forget("v", other)
	}
	isWhole(t, s, "u", a1, task("a", "1"))
	s.forget("u", a1)
	missing(t, s, "u", a1)
	isWhole(t, s, "u", b, task("b"))
	if n := count(t, s); n != 1 {
		t.Errorf("%d contexts", n)
	}
}

// Whatever is asked in whatever order, a name gives its context or nothing.
func TestNamesNeverLie(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newContextStore(rapid.IntRange(1, 4).Draw(rt, "count"), rapid.IntRange(500, 5000).Draw(rt, "bytes"))
		told := map[string]*plannerv1.TaskContext{}
		users := map[string]string{}
		names := []string{""}
		for range rapid.IntRange(1, 40).Draw(rt, "requests") {
			if rapid.IntRange(0, 5).Draw(rt, "forget") == 0 {
				s.forget("u", rapid.SampledFrom(names).Draw(rt, "forgotten"))
				count(t, s)
			}
			base := rapid.SampledFrom(names).Draw(rt, "base")
			user := rapid.SampledFrom([]string{"u", "v"}).Draw(rt, "user")
			tc := task(rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "task"), rapid.SliceOfN(rapid.SampledFrom([]string{"1", "2"}), 0, 3).Draw(rt, "history")...)
			if base != "" {
				tc = &plannerv1.TaskContext{Base: base, History: tc.GetHistory()}
			}
			whole, err := s.complete(user, tc)
			if err != nil {
				continue
			}
			if base != "" {
				want := proto.CloneOf(told[base])
				want.History = append(want.History, tc.GetHistory()...)
				if !proto.Equal(want, whole) || users[base] != user {
					rt.Fatalf("the base %.8s of %s, asked for by %s, is %v; it should be %v", base, users[base], user, whole, want)
				}
			}
			n := keep(t, s, user, base, whole)
			if count(t, s); n == "" {
				continue
			}
			if known := told[n]; known != nil && !proto.Equal(known, whole) {
				rt.Fatalf("the name %.8s is given to two contexts", n)
			}
			told[n], users[n] = proto.CloneOf(whole), user
			names = append(names, n)
		}
	})
}

// Several tasks at once, each asked for by several goroutines that repeat each other.
func TestAtOnce(t *testing.T) {
	s := newContextStore(3, 1<<20)
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			id := fmt.Sprint("t", i%4)
			var done []string
			base := ""
			for range 30 {
				sent := task(id, done...)
				tc := &plannerv1.TaskContext{Base: base}
				if len(done) > 0 {
					tc.History = sent.GetHistory()[len(done)-1:]
				}
				if base == "" {
					tc = sent
				}
				whole, err := s.complete("u", tc)
				if err != nil {
					missing(t, s, "u", strings.Repeat("0", 64))
					whole, base = sent, ""
				}
				if d := cmp.Diff(sent, whole, protocmp.Transform()); d != "" {
					t.Error(d)
				}
				base = keep(t, s, "u", base, whole)
				done = append(done, fmt.Sprint(len(done)))
			}
		})
	}
	all.Wait()
	count(t, s)
}
