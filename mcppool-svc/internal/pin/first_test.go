package pin

import (
	"slices"
	"testing"
	"time"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/mcppool-svc/internal/replica"
	"pawl.dev/mcppool-svc/internal/store"
)

// pool is a replica's pins and their store.
type pool struct {
	*Book
	store *replica.Store
	file  store.Store
}

func newPool(t *testing.T, now func() time.Time) *pool {
	t.Helper()
	file, err := store.Open("", replica.Buckets(Buckets())...)
	if err != nil {
		t.Fatal(err)
	}
	p := &pool{file: file}
	p.reopen(t, now)
	return p
}

// reopen starts the replica again with what is stored.
func (p *pool) reopen(t *testing.T, now func() time.Time) {
	t.Helper()
	st, err := replica.Open(p.file, replica.Config{Buckets: Buckets(), First: First(), Now: now})
	if err != nil {
		t.Fatal(err)
	}
	p.store, p.Book = st, nil
	if p.Book, err = Open(st, now); err != nil {
		t.Fatal(err)
	}
	st.Observe(func(places []replica.Place) {
		if err := p.ApplyRemote(places); err != nil {
			t.Error(err)
		}
	})
}

// meet exchanges all entries of two replicas.
func meet(t *testing.T, a, b *pool) {
	t.Helper()
	for _, way := range [][2]*pool{{a, b}, {b, a}} {
		page, err := way[0].store.Since("", 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := way[1].store.Merge(page.Entries); err != nil {
			t.Fatal(err)
		}
	}
}

// ticking returns a clock that advances by a second at each call; replicas share it.
func ticking() func() time.Time {
	at := time.Unix(1_000_000, 0)
	return func() time.Time { at = at.Add(time.Second); return at }
}

// TestFirstUseElsewhereReleasesNothing: a new replica that reaches no other one pins all tools at its first listing. Once connected, that
// releases no tool that others hold.
func TestFirstUseElsewhereReleasesNothing(t *testing.T) {
	s := &registry.Server{UID: "u", Stdio: &registry.Stdio{Command: "x"}}
	allowing := &registry.Server{UID: "u", Stdio: s.Stdio, Pinning: registry.PinAllowNew}
	good, both := tools(t, "good=1"), tools(t, "evil=1", "good=1")
	for name, begin := range map[string]func(a *Book) error{
		"reviewed": func(a *Book) error { _, err := a.Review(s, good); return err },
		"approved": func(a *Book) error { return a.Approve(s, good.Find("good"), "op") },
	} {
		t.Run(name, func(t *testing.T) {
			now := ticking()
			a := newPool(t, now)
			if err := begin(a.Book); err != nil {
				t.Fatal(err)
			}
			if got := held(t, a.Book, s, both); got != "evil" {
				t.Fatalf("the first replica holds %q", got)
			}
			b := newPool(t, now)
			if got := held(t, b.Book, s, both); got != "" {
				t.Fatalf("the new replica holds %q", got)
			}
			meet(t, a, b)
			for range 2 {
				for _, p := range []*pool{a, b} {
					if got := held(t, p.Book, s, both); got != "evil" {
						t.Errorf("held after they met: %q", got)
					}
					if _, known, err := p.Approved(s, "evil"); known || err != nil {
						t.Errorf("approved: %v, %v", known, err)
					}
					if got := held(t, p.Book, allowing, tools(t, "evil=1", "good=1", "more=1")); got != "" {
						t.Errorf("new ones allowed, held: %q", got)
					}
					if got := held(t, p.Book, allowing, tools(t, "evil=2", "good=1")); got != "evil" {
						t.Errorf("new ones allowed, held of what changed: %q", got)
					}
					p.reopen(t, now)
				}
			}
			if err := b.Approve(s, both.Find("evil"), "op"); err != nil {
				t.Fatal(err)
			}
			meet(t, a, b)
			if got := held(t, a.Book, s, both) + held(t, b.Book, s, both); got != "" {
				t.Errorf("held after the approval: %q", got)
			}
		})
	}
}

// TestFirstUseAtOnce: replicas that first list the same tools agree, and a tool that either pins later is pinned at both.
func TestFirstUseAtOnce(t *testing.T) {
	s := &registry.Server{UID: "u", Stdio: &registry.Stdio{Command: "x"}, Pinning: registry.PinAllowNew}
	now := ticking()
	a, b := newPool(t, now), newPool(t, now)
	c := tools(t, "one=1", "two=1")
	for _, p := range []*pool{a, b} {
		held(t, p.Book, s, c)
	}
	held(t, b.Book, s, tools(t, "three=1"))
	meet(t, a, b)
	strict := &registry.Server{UID: "u", Stdio: s.Stdio}
	for _, p := range []*pool{a, b} {
		if got := held(t, p.Book, strict, tools(t, "four=1", "one=1", "three=1", "two=1")); got != "four" {
			t.Errorf("held: %q", got)
		}
	}
	if err := a.Forget(s.Origin()); err != nil {
		t.Fatal(err)
	}
	meet(t, a, b)
	left := 0
	for _, bucket := range Buckets() {
		if err := b.file.Load(bucket, func(string, []byte) error { left++; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if got := held(t, b.Book, strict, tools(t, "one=2")); got != "" || left != 0 {
		t.Errorf("held after Forget: %q, and %d entries are left", got, left)
	}
}

// TestNoToolIsTheFirstReview: a tool named firstName is held, and does not overwrite the record of the first review.
func TestNoToolIsTheFirstReview(t *testing.T) {
	st := newStore(t)
	s := &registry.Server{UID: "u", Stdio: &registry.Stdio{Command: "x"}, Pinning: registry.PinAllowNew}
	c := tools(t, "a=1")
	c.Tools = slices.Insert(c.Tools, 0, &catalog.Tool{Name: firstName, Hash: c.Tools[0].Hash, Raw: c.Tools[0].Raw})
	for range 2 {
		b := open(t, st)
		if got := held(t, b, s, c); got != firstName {
			t.Errorf("held: %q", got)
		}
		if r, known, err := b.get(bucketSeen, s.Origin()+"\x00"+firstName); r.Hash != "" || !known || err != nil {
			t.Errorf("the first review: %+v, %v, %v", r, known, err)
		}
	}
}
