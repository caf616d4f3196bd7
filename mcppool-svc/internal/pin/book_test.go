package pin

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/mcppool-svc/internal/store"
)

func open(t *testing.T, st store.Store) *Book {
	t.Helper()
	b, err := Open(st, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newStore(t *testing.T) store.Store {
	t.Helper()
	st, err := store.Open("", Buckets()...)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// tools makes a catalog of `name=description`.
func tools(t *testing.T, defs ...string) *catalog.Catalog {
	t.Helper()
	var raw []json.RawMessage
	for _, d := range defs {
		name, description, _ := strings.Cut(d, "=")
		raw = append(raw, json.RawMessage(fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{}}`, name, description)))
	}
	c, err := catalog.Read(raw)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// held reviews a catalog and returns the names of the tools that are held.
func held(t *testing.T, b *Book, s *registry.Server, c *catalog.Catalog) string {
	t.Helper()
	r, err := b.Review(s, c)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, tool := range c.Tools {
		if r.Holds(tool.Name) {
			list = append(list, tool.Name)
		}
	}
	if len(list) != r.Held() {
		t.Errorf("%d are held, Held says %d", len(list), r.Held())
	}
	return strings.Join(list, " ")
}

func TestReview(t *testing.T) {
	stdio := &registry.Stdio{Command: "x"}
	for _, tt := range []struct {
		name    string
		server  registry.Server
		catalog []string
		want    string
	}{
		{"the same", registry.Server{UID: "u", Stdio: stdio}, []string{"a=1", "b=1"}, ""},
		{"fewer", registry.Server{UID: "u", Stdio: stdio}, []string{"b=1"}, ""},
		{"changed and new", registry.Server{UID: "u", Stdio: stdio}, []string{"a=2", "b=1", "c=1"}, "a c"},
		{"new ones allowed", registry.Server{UID: "u", Stdio: stdio, Pinning: registry.PinAllowNew}, []string{"a=2", "b=1", "c=1"}, "a"},
		{"trusted", registry.Server{UID: "u", Stdio: stdio, Pinning: registry.PinNothing}, []string{"a=2", "c=1"}, ""},
		{"another key", registry.Server{UID: "u", Stdio: &registry.Stdio{Command: "x", Env: map[string]string{"KEY": "2"}}}, []string{"a=2"}, "a"},
		{"another command", registry.Server{UID: "u", Stdio: &registry.Stdio{Command: "y"}}, []string{"a=2"}, ""},
		{"other arguments", registry.Server{UID: "u", Stdio: &registry.Stdio{Command: "x", Args: []string{"y"}}}, []string{"a=2"}, ""},
		{"registered again", registry.Server{UID: "v", Stdio: stdio}, []string{"a=2"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := newStore(t)
			first := &registry.Server{UID: "u", Stdio: stdio}
			if got := held(t, open(t, st), first, tools(t, "a=1", "b=1")); got != "" {
				t.Fatalf("on first use: %s", got)
			}
			// A Book of another process, which knows only what is stored.
			b := open(t, st)
			for range 2 {
				if got := held(t, b, &tt.server, tools(t, tt.catalog...)); got != tt.want {
					t.Errorf("held: %q, want %q", got, tt.want)
				}
			}
		})
	}
}

// A configured server keeps its pins if settings change that do not make it another server.
func TestConfiguredServersKeepTheirPins(t *testing.T) {
	b := open(t, newStore(t))
	s := &registry.Server{UID: "config:1", ID: "a", FromConfig: true, HTTP: &registry.HTTP{URL: "https://a.example"}}
	held(t, b, s, tools(t, "a=1"))
	s = &registry.Server{UID: "config:2", ID: "a", FromConfig: true, HTTP: &registry.HTTP{URL: "https://a.example", Headers: map[string]string{"X-Key": "2"}}}
	if got := held(t, b, s, tools(t, "a=2")); got != "a" {
		t.Errorf("held: %q", got)
	}
}

func TestEmptyListIsNoFirstUse(t *testing.T) {
	b, s := open(t, newStore(t)), &registry.Server{UID: "u", Stdio: &registry.Stdio{}}
	held(t, b, s, tools(t))
	if got := held(t, b, s, tools(t, "a=1")); got != "" {
		t.Errorf("held: %q", got)
	}
}

func TestApproveAndForget(t *testing.T) {
	st := newStore(t)
	b, s := open(t, st), &registry.Server{UID: "u", Stdio: &registry.Stdio{}}
	held(t, b, s, tools(t, "a=1", "b=1"))
	second, third := tools(t, "a=2", "b=1"), tools(t, "a=3", "b=1")
	held(t, b, s, second)
	if err := b.Approve(s, second.Find("a"), "op"); err != nil {
		t.Fatal(err)
	}
	for _, b := range []*Book{b, open(t, st)} {
		if got := held(t, b, s, second) + "," + held(t, b, s, third); got != ",a" {
			t.Errorf("held: %q", got)
		}
	}
	r, known, err := b.Approved(s, "a")
	if err != nil || !known || r.By != "op" || r.Definition != second.Find("a").Raw {
		t.Errorf("approved: %+v, %v, %v", r, known, err)
	}
	if err := b.Forget(s.Origin()); err != nil {
		t.Fatal(err)
	}
	for _, b := range []*Book{b, open(t, st)} {
		if got := held(t, b, s, third); got != "" {
			t.Errorf("held after Forget: %q", got)
		}
	}
}

// New tools are held once there are maxPins pins, even if new tools are allowed.
func TestPinsAreBounded(t *testing.T) {
	b, s := open(t, newStore(t)), &registry.Server{UID: "u", Stdio: &registry.Stdio{}, Pinning: registry.PinAllowNew}
	const batch = 8_000
	for round := range 4 {
		defs := make([]string, batch)
		for i := range defs {
			defs[i] = fmt.Sprintf("t%d=1", round*batch+i)
		}
		r, err := b.Review(s, tools(t, defs...))
		want := max(0, min(batch, (round+1)*batch-maxPins))
		if err != nil || r.Held() != want {
			t.Fatalf("round %d: %d held, want %d, %v", round, r.Held(), want, err)
		}
	}
	if n := len(b.server(s.Origin()).valid); n != maxPins {
		t.Errorf("%d pins", n)
	}
}

// brokenStore cannot write.
type brokenStore struct{ store.Store }

func (brokenStore) Apply(...store.Change) error { return errors.New("disk full") }

func TestPinsThatCannotBeStored(t *testing.T) {
	b, s := open(t, brokenStore{newStore(t)}), &registry.Server{UID: "u", Stdio: &registry.Stdio{}}
	for range 2 {
		if _, err := b.Review(s, tools(t, "a=1")); !errors.Is(err, ErrStorage) {
			t.Errorf("Review: %v", err)
		}
	}
	if err := b.Approve(s, tools(t, "a=1").Find("a"), "op"); !errors.Is(err, ErrStorage) {
		t.Errorf("Approve: %v", err)
	}
}

// unreadable fails at reading one bucket's values, once it is broken.
type unreadable struct {
	store.Store
	bucket string
	broken bool
}

func (u *unreadable) Get(bucket, key string) ([]byte, error) {
	if u.broken && bucket == u.bucket {
		return nil, errors.New("bad sector")
	}
	return u.Store.Get(bucket, key)
}

// A pin that cannot be read is an error: else a changed definition would be accepted as a new one.
func TestPinsThatCannotBeRead(t *testing.T) {
	for _, bucket := range Buckets() {
		t.Run(bucket, func(t *testing.T) {
			st, s := &unreadable{Store: newStore(t), bucket: bucket}, &registry.Server{UID: "u", Stdio: &registry.Stdio{}}
			if got := held(t, open(t, st), s, tools(t, "a=1")); got != "" {
				t.Fatalf("held %s", got)
			}
			b := open(t, st)
			st.broken = true
			if _, err := Open(st, time.Now); !errors.Is(err, ErrStorage) {
				t.Errorf("Open: %v", err)
			}
			if r, err := b.Review(&registry.Server{UID: "new", Stdio: &registry.Stdio{}}, tools(t, "a=1")); !errors.Is(err, ErrStorage) {
				t.Errorf("Review: %v, %v", r, err)
			}
			if err := b.Approve(s, tools(t, "a=2").Find("a"), "op"); !errors.Is(err, ErrStorage) {
				t.Errorf("Approve: %v", err)
			}
			if r, known, err := b.Approved(s, "a"); bucket == bucketApproved && !errors.Is(err, ErrStorage) {
				t.Errorf("Approved: %v, %v, %v", r, known, err)
			}
		})
	}
}

func TestUnknownFormatIsRefused(t *testing.T) {
	for stored, want := range map[string]string{`{"v":2}`: "newer version", `{}`: "no format version"} {
		st := newStore(t)
		if err := st.Apply(store.Change{Bucket: bucketSeen, Key: "o\x00a", Value: []byte(stored)}); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(st, time.Now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error = %v, want one with %q", stored, err, want)
		}
	}
}

func TestDiff(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 40) + "%s" + strings.Repeat("}", 40)
	for _, tt := range []struct {
		before, after string
		want          []string
	}{
		{`{"a":1, "b":[1,2]}`, `{"b":[1,2],"a":1}`, nil},
		{`{"a":{"b":1},"d~/":1}`, `{"a":{"b":2,"c":1},"d~/":2}`, []string{"/a/b", "/a/c", "/d~0~1"}},
		{`{"a":[1,2,3]}`, `{"a":[1,5,3]}`, []string{"/a/1"}},
		{`{"a":[1]}`, `{"a":[1,2]}`, []string{"/a"}},
		{`{"a":9007199254740993}`, `{"a":9007199254740992}`, []string{"/a"}},
		{``, `{}`, []string{""}},
		{`null`, ``, []string{""}},
		{fmt.Sprintf(deep, "1"), fmt.Sprintf(deep, "2"), []string{strings.Repeat("/a", maxDepth)}},
	} {
		if diff := cmp.Diff(tt.want, Diff(tt.before, tt.after)); diff != "" {
			t.Errorf("%s, %s: %s", tt.before, tt.after, diff)
		}
	}
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf(`"k%d":1`, i))
	}
	if n := len(Diff("{}", "{"+strings.Join(many, ",")+"}")); n != maxPlaces {
		t.Errorf("%d places", n)
	}
}
