package replica

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pawl.dev/mcppool-svc/internal/store"
)

var buckets = []string{"last", "first", "local"}

// clockOf is a time that a test moves.
type clockOf struct{ t time.Time }

func (c *clockOf) now() time.Time { return c.t }

type fataler interface {
	Helper()
	Fatal(args ...any)
}

func open(t fataler, dir string, now func() time.Time, edit func(*Config)) *Store {
	t.Helper()
	inner, err := store.Open(dir, Buckets(buckets)...)
	if err != nil {
		t.Fatal(err)
	}
	return reopen(t, inner, now, edit)
}

func reopen(t fataler, inner store.Store, now func() time.Time, edit func(*Config)) *Store {
	t.Helper()
	cfg := Config{Buckets: buckets, First: []string{"first"}, Local: []string{"local"}, Now: now}
	if edit != nil {
		edit(&cfg)
	}
	s, err := Open(inner, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func values(t fataler, s store.Store, bucket string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := s.Load(bucket, func(key string, value []byte) error {
		all[key] = string(value)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// known is all that a replica tells others.
func known(t fataler, s *Store) []Entry {
	t.Helper()
	var all []Entry
	for run, after := "", uint64(0); ; {
		p, err := s.Since(run, after)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p.Entries...)
		if run, after = p.Run, p.Next; !p.More {
			return all
		}
	}
}

func put(t fataler, s *Store, bucket, key, value string) {
	t.Helper()
	c := store.Change{Bucket: bucket, Key: key}
	if value != "" {
		c.Value = []byte(value)
	}
	if err := s.Apply(c); err != nil {
		t.Fatal(err)
	}
}

func merge(t fataler, to, from *Store) {
	t.Helper()
	if _, err := to.Merge(known(t, from)); err != nil {
		t.Fatal(err)
	}
}

// TestConverges: whatever is written where, with clocks that differ, and in whatever order and however often it arrives, all replicas
// end with the same; also those that were empty.
func TestConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		var clocks []*clockOf
		var all []*Store
		for i := range 3 {
			c := &clockOf{base.Add(time.Duration(i*7) * time.Second)}
			clocks = append(clocks, c)
			all = append(all, open(t, "", c.now, nil))
		}
		steps := rapid.IntRange(1, 40).Draw(t, "steps")
		for i := range steps {
			at := rapid.IntRange(0, 2).Draw(t, "replica")
			clocks[at].t = clocks[at].t.Add(time.Duration(rapid.IntRange(-2, 3).Draw(t, "ms")) * time.Millisecond)
			key := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")
			bucket := rapid.SampledFrom([]string{"last", "first"}).Draw(t, "bucket")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				put(t, all[at], bucket, key, "")
			case 1, 2:
				put(t, all[at], bucket, key, fmt.Sprint(i))
			default:
				from := rapid.IntRange(0, 2).Draw(t, "from")
				some := rapid.Permutation(known(t, all[from])).Draw(t, "order")
				if _, err := all[at].Merge(some[:rapid.IntRange(0, len(some)).Draw(t, "arrive")]); err != nil {
					t.Fatal(err)
				}
			}
		}
		all = append(all, open(t, "", (&clockOf{base}).now, nil))
		for range 2 {
			for _, to := range all {
				for _, from := range all {
					merge(t, to, from)
				}
			}
		}
		for _, bucket := range []string{"last", "first"} {
			for i, s := range all[1:] {
				if diff := cmp.Diff(values(t, all[0], bucket), values(t, s, bucket)); diff != "" {
					t.Fatalf("%s: replica %d differs: %s", bucket, i+1, diff)
				}
			}
		}
	})
}

// TestOrderIsTotal: of any three writes of a key, no one beats another one that beats a third that beats it.
func TestOrderIsTotal(t *testing.T) {
	draw := rapid.Custom(func(t *rapid.T) rank {
		return rank{Version{
			Life: rapid.Uint64Range(1, 2).Draw(t, "life"), Time: rapid.Uint64Range(1, 3).Draw(t, "time"),
			Writer: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "writer"),
		}, rapid.Bool().Draw(t, "dead")}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, c, first := draw.Draw(t, "a"), draw.Draw(t, "b"), draw.Draw(t, "c"), rapid.Bool().Draw(t, "first")
		if a.compare(b, first) != -b.compare(a, first) || (a.compare(b, first) == 0) != (a == b) {
			t.Fatalf("%v and %v", a, b)
		}
		if a.compare(b, first) > 0 && b.compare(c, first) > 0 && a.compare(c, first) <= 0 {
			t.Fatalf("%v, %v, %v", a, b, c)
		}
	})
}

// pair is two replicas that know of each other's writes only when a test says so.
func pair(t *testing.T) (c *clockOf, a, b *Store) {
	t.Helper()
	c = &clockOf{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	return c, open(t, "", c.now, nil), open(t, "", c.now, nil)
}

func TestWhoWins(t *testing.T) {
	both := func(t *testing.T, a, b *Store, bucket string, want map[string]string) {
		t.Helper()
		merge(t, a, b)
		merge(t, b, a)
		for _, s := range []*Store{a, b} {
			if diff := cmp.Diff(want, values(t, s, bucket)); diff != "" {
				t.Error(diff)
			}
		}
	}
	t.Run("the later write", func(t *testing.T) {
		c, a, b := pair(t)
		put(t, b, "last", "k", "old")
		c.t = c.t.Add(time.Second)
		put(t, a, "last", "k", "new")
		both(t, a, b, "last", map[string]string{"k": "new"})
	})
	t.Run("the first write, where that is to stay", func(t *testing.T) {
		c, a, b := pair(t)
		put(t, b, "first", "k", "old")
		c.t = c.t.Add(time.Second)
		put(t, a, "first", "k", "new")
		both(t, a, b, "first", map[string]string{"k": "old"})
		put(t, a, "first", "k", "newer")
		both(t, a, b, "first", map[string]string{"k": "old"})
		put(t, a, "first", "k", "")
		put(t, a, "first", "k", "again")
		both(t, a, b, "first", map[string]string{"k": "again"})
	})
	t.Run("a deletion, over a change that did not know of it", func(t *testing.T) {
		c, a, b := pair(t)
		put(t, a, "last", "k", "1")
		merge(t, b, a)
		put(t, a, "last", "k", "")
		c.t = c.t.Add(time.Second)
		put(t, b, "last", "k", "2")
		both(t, a, b, "last", map[string]string{})
		put(t, b, "last", "k", "3") // and a replica that knows of it can begin again
		both(t, a, b, "last", map[string]string{"k": "3"})
	})
	t.Run("what happened after it was heard of, also by a clock that is behind", func(t *testing.T) {
		c, a, b := pair(t)
		c.t = c.t.Add(time.Minute)
		put(t, a, "last", "k", "1")
		merge(t, b, a)
		c.t = c.t.Add(-time.Minute)
		put(t, b, "last", "k", "2")
		both(t, a, b, "last", map[string]string{"k": "2"})
	})
	t.Run("what is local stays local", func(t *testing.T) {
		_, a, b := pair(t)
		put(t, a, "local", "k", "1")
		both(t, b, b, "local", map[string]string{})
		merge(t, b, a)
		if _, err := b.Merge([]Entry{{Bucket: "local", Key: "k", Value: []byte("x"), Version: Version{1, 1, "z"}}}); err != nil || len(values(t, b, "local")) != 0 {
			t.Errorf("taken from outside: %v, %v", values(t, b, "local"), err)
		}
	})
}

// TestSameVersionTwice: two copies of one data folder write at the same moment; they agree all the same.
func TestSameVersionTwice(t *testing.T) {
	c, a, b := pair(t)
	b.id = a.id
	put(t, a, "last", "k", "1")
	put(t, b, "last", "k", "2")
	_ = c
	merge(t, a, b)
	merge(t, b, a)
	if diff := cmp.Diff(values(t, a, "last"), values(t, b, "last")); diff != "" {
		t.Error(diff)
	}
}

// TestTombstonesEnd: they are kept for 30 days, and so many of them; what is created then is not taken for what was deleted.
func TestTombstonesEnd(t *testing.T) {
	c, a, b := pair(t)
	put(t, a, "last", "k", "1")
	put(t, a, "last", "k", "")
	c.t = c.t.Add(KeepTombstones - time.Minute)
	put(t, a, "last", "other", "1")
	if n := len(known(t, a)); n != 2 || a.dead != 1 {
		t.Errorf("%d entries, %d tombstones", n, a.dead)
	}
	merge(t, b, a)
	c.t = c.t.Add(time.Hour)
	put(t, a, "last", "other", "2")
	if n := len(known(t, a)); n != 1 || a.dead != 0 || len(values(t, a, bucketVersions)) != 1 {
		t.Errorf("%d entries, %d tombstones, %v", n, a.dead, values(t, a, bucketVersions))
	}
	put(t, a, "last", "k", "2")
	b.index[place("last", "k")].Time = stampOf(c.t) // who drops it later
	merge(t, b, a)
	if got := values(t, b, "last")["k"]; got != "2" {
		t.Errorf("the entry created again is %q", got)
	}
	a = open(t, "", c.now, func(cfg *Config) { cfg.maxTombstones = 100 })
	changes := make([]store.Change, 101)
	for i := range changes {
		changes[i] = store.Change{Bucket: "last", Key: fmt.Sprint(i), Value: []byte("x")}
	}
	if err := a.Apply(changes...); err != nil {
		t.Fatal(err)
	}
	for i := range changes {
		changes[i].Value = nil
	}
	if err := a.Apply(changes...); err != nil {
		t.Fatal(err)
	}
	if a.dead != 90 || len(a.index) != 90 {
		t.Errorf("%d tombstones", a.dead)
	}
}

// TestClockThatIsWrong: what is from the future is not taken, and the rest is; a replica whose clock was set right again gives what
// it wrote meanwhile the time of its next start.
func TestClockThatIsWrong(t *testing.T) {
	now := &clockOf{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	dir := t.TempDir()
	wrong := &clockOf{now.t}
	a, b := open(t, dir, wrong.now, nil), open(t, "", now.now, nil)
	put(t, a, "last", "before", "1")
	wrong.t = wrong.t.Add(3 * time.Hour)
	put(t, a, "last", "after", "1")
	if _, err := b.Merge(known(t, a)); !errors.Is(err, ErrAhead) || !strings.Contains(err.Error(), "3h0m0s in the future") {
		t.Errorf("error = %v", err)
	}
	if diff := cmp.Diff(map[string]string{"before": "1"}, values(t, b, "last")); diff != "" {
		t.Error(diff)
	}
	if stamp := b.clock.tick(); timeOf(stamp).Sub(now.t) > time.Second {
		t.Errorf("the clock was carried away to %v", timeOf(stamp))
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a = open(t, dir, now.now, nil)
	defer func() { _ = a.Close() }()
	merge(t, b, a)
	if diff := cmp.Diff(values(t, a, "last"), values(t, b, "last")); diff != "" {
		t.Error(diff)
	}
}

// TestUpgrade: a file of before there were versions is brought up to it, with the times that its values name; and what an older
// program writes to it later is noticed.
func TestUpgrade(t *testing.T) {
	dir := t.TempDir()
	old, err := store.Open(dir, buckets...)
	if err != nil {
		t.Fatal(err)
	}
	err = old.Apply(store.Change{Bucket: "last", Key: "a", Value: []byte("1")}, store.Change{Bucket: "last", Key: "b", Value: []byte("1")})
	if err != nil {
		t.Fatal(err)
	}
	now := &clockOf{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	said := now.t.Add(-time.Hour)
	dated := func(c *Config) { c.Written = func(string, []byte) time.Time { return said } }
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	a := open(t, dir, now.now, dated)
	id := a.ID()
	if !strings.Contains(values(t, a, bucketSelf)[keySelf], `"v":2`) {
		t.Errorf("the format is %v", values(t, a, bucketSelf))
	}
	for _, e := range known(t, a) {
		if !timeOf(e.Time).Equal(said) || e.Life != 1 || e.Writer != id {
			t.Errorf("entry %+v", e)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}

	if old, err = store.Open(dir, buckets...); err != nil {
		t.Fatal(err)
	}
	now.t = now.t.Add(time.Hour)
	if err := old.Apply(store.Change{Bucket: "last", Key: "a", Value: []byte("2")}, store.Change{Bucket: "last", Key: "b"}); err != nil {
		t.Fatal(err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	a = open(t, dir, now.now, dated)
	defer func() { _ = a.Close() }()
	if a.ID() != id {
		t.Error("it has another name")
	}
	b := open(t, "", now.now, nil)
	if _, err := b.Merge([]Entry{{Bucket: "last", Key: "b", Value: []byte("1"), Version: Version{1, stampOf(said), id}}}); err != nil {
		t.Fatal(err)
	}
	merge(t, b, a)
	if diff := cmp.Diff(map[string]string{"a": "2"}, values(t, b, "last")); diff != "" {
		t.Error(diff)
	}
}

func TestNewerFormatIsRefused(t *testing.T) {
	dir := t.TempDir()
	inner, err := store.Open(dir, Buckets(buckets)...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = inner.Close() }()
	if err := inner.Apply(store.Change{Bucket: bucketSelf, Key: keySelf, Value: []byte(`{"v":3,"id":"x"}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(inner, Config{Buckets: buckets, Now: time.Now}); err == nil || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("error = %v", err)
	}
}

// TestWhatCannotBeRead is kept and passed on; until a program comes that can, what there was before counts.
func TestWhatCannotBeRead(t *testing.T) {
	now := &clockOf{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	dir := t.TempDir()
	limited := func(c *Config) {
		c.Readable = func(_, _ string, v []byte) bool { return !strings.HasPrefix(string(v), "new") }
	}
	a, b, c := open(t, "", now.now, nil), open(t, dir, now.now, limited), open(t, "", now.now, nil)
	var told []Place
	b.Observe(func(p []Place) { told = append(told, p...) })
	put(t, a, "last", "k", "1")
	merge(t, b, a)
	put(t, a, "last", "k", "new")
	merge(t, b, a)
	if diff := cmp.Diff([]Place{{"last", "k"}}, told); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"k": "1"}, values(t, b, "last")); diff != "" {
		t.Error(diff)
	}
	merge(t, c, b)
	if diff := cmp.Diff(map[string]string{"k": "new"}, values(t, c, "last")); diff != "" {
		t.Errorf("passed on: %s", diff)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if b = open(t, dir, now.now, limited); values(t, b, "last")["k"] != "1" {
		t.Error("a restart lost what there was before")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if b = open(t, dir, now.now, nil); values(t, b, "last")["k"] != "new" || len(values(t, b, BucketHeld)) != 0 {
		t.Errorf("a newer program has %v", values(t, b, "last"))
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestPages: each is bounded, and who asks again gets what is new alone; of another run, everything.
func TestPages(t *testing.T) {
	now := &clockOf{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	dir := t.TempDir()
	s := open(t, dir, now.now, nil)
	var changes []store.Change
	for i := range pageEntries + 5 {
		changes = append(changes, store.Change{Bucket: "last", Key: fmt.Sprintf("%05d", i), Value: []byte("x")})
	}
	big := make([]byte, pageBytes/2+1)
	changes = append(changes, store.Change{Bucket: "last", Key: "big1", Value: big}, store.Change{Bucket: "last", Key: "big2", Value: big})
	if err := s.Apply(changes...); err != nil {
		t.Fatal(err)
	}
	var sizes []int
	p := Page{More: true}
	for p.More {
		var err error
		if p, err = s.Since(p.Run, p.Next); err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(p.Entries))
	}
	if diff := cmp.Diff([]int{pageEntries, 6, 1}, sizes); diff != "" {
		t.Error(diff)
	}
	put(t, s, "last", "00000", "y")
	if p, err := s.Since(p.Run, p.Next); err != nil || len(p.Entries) != 1 || string(p.Entries[0].Value) != "y" {
		t.Errorf("what is new: %v, %v", p.Entries, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, now.now, nil)
	defer func() { _ = s.Close() }()
	if p, err := s.Since(p.Run, p.Next); err != nil || len(p.Entries) != pageEntries {
		t.Errorf("after a restart: %d, %v", len(p.Entries), err)
	}
}

// TestPublished: who tells others gets what was written, once it is durable, and nothing that is of low priority or local.
func TestPublished(t *testing.T) {
	s := open(t, "", time.Now, func(c *Config) { c.LowPriority = []string{"first"} })
	told := map[string]string{}
	s.Publish(func(all []Entry) {
		for _, e := range all {
			told[e.Bucket+"/"+e.Key] = values(t, s, e.Bucket)[e.Key]
		}
	})
	put(t, s, "last", "k", "1")
	put(t, s, "first", "k", "1")
	put(t, s, "local", "k", "1")
	if got := slices.Sorted(maps.Keys(told)); !slices.Equal(got, []string{"last/k"}) || told["last/k"] != "1" {
		t.Errorf("told %v", told)
	}
}

// TestNonsenseIsRefused: an entry that cannot be changes nothing.
func TestNonsenseIsRefused(t *testing.T) {
	s := open(t, "", time.Now, nil)
	for _, e := range []Entry{
		{Bucket: "last", Key: "k", Dead: true, Value: []byte("x"), Version: Version{1, 1, "a"}},
		{Bucket: "last", Key: "k", Version: Version{1, 1, "a"}},
		{Bucket: "last", Key: "k", Value: []byte("x")},
	} {
		if _, err := s.Merge([]Entry{{Bucket: "last", Key: "good", Value: []byte("x"), Version: Version{1, 1, "a"}}, e}); err == nil || len(s.index) != 0 {
			t.Errorf("%+v: %v, %d entries", e, err, len(s.index))
		}
	}
	if n, err := s.Merge([]Entry{{Bucket: bucketSelf, Key: keySelf, Value: []byte("x"), Version: Version{1, 1, "a"}}}); n != 0 || err != nil {
		t.Errorf("its own name: %d, %v", n, err)
	}
}
