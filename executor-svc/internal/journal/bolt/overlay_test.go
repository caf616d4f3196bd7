package bolt

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/bbolt"
	"pgregory.net/rapid"
)

// layered is a table of a file, two overlays and a batch, and the map that it must look like.
type layered struct {
	t    *table
	want map[string]string
	keys []string
}

func (l *layered) draw(rt *rapid.T, b *bbolt.Bucket) {
	key := rapid.StringMatching(`[abc]{1,3}`)
	l.want = map[string]string{}
	for i := range rapid.IntRange(0, 12).Draw(rt, "in the file") {
		k := key.Draw(rt, "key")
		if err := b.Put([]byte(k), []byte{byte(i)}); err != nil {
			rt.Fatal(err)
		}
		l.want[k] = string([]byte{byte(i)})
	}
	l.t = &table{base: b}
	for n := range 3 {
		changes := &batch{overlay: newOverlay()}
		for i := range rapid.IntRange(0, 8).Draw(rt, "changes") {
			k, v := key.Draw(rt, "key"), []byte{byte(100*n + 100 + i)}
			if rapid.Bool().Draw(rt, "delete") {
				changes.delete([]byte(k))
				delete(l.want, k)
				continue
			}
			if err := changes.put([]byte(k), v); err != nil {
				rt.Fatal(err)
			}
			l.want[k] = string(v)
		}
		l.t.layers = append([]*overlay{changes.overlay}, l.t.layers...)
		l.t.batch = changes
	}
	l.keys = slices.Sorted(maps.Keys(l.want))
}

// A cursor over a file and the overlays that hide parts of it returns the visible entries in order, from any key, in both
// directions, also those that were deleted and written again.
func TestCursorOverLayers(t *testing.T) {
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "x.db"), 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rapid.Check(t, func(rt *rapid.T) {
		tx, err := db.Begin(true)
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		b, err := tx.CreateBucket([]byte("x"))
		if err != nil {
			rt.Fatal(err)
		}
		l := &layered{}
		l.draw(rt, b)
		for _, k := range []string{"a", "b", "c", "ab", "abc", "cc"} {
			if got := l.t.Get([]byte(k)); string(got) != l.want[k] || (got == nil) != (l.want[k] == "") {
				rt.Fatalf("Get(%s) is %v, want %v", k, got, []byte(l.want[k]))
			}
		}
		from := rapid.StringMatching(`[abcd]{0,3}`).Draw(rt, "from")
		at, _ := slices.BinarySearch(l.keys, from)
		below := slices.Clone(l.keys[:at])
		slices.Reverse(below)
		l.compare(rt, l.t.ascend([]byte(from)), "from "+from, l.keys[at:])
		l.compare(rt, l.t.descend([]byte(from)), "before "+from, below)
	})
}

func (l *layered) compare(rt *rapid.T, c *cursor, what string, want []string) {
	var got []string
	for c.next() {
		got = append(got, string(c.key))
		if string(c.value) != l.want[string(c.key)] {
			rt.Fatalf("%s: %s is %v, want %v", what, c.key, c.value, []byte(l.want[string(c.key)]))
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		rt.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// A change that bbolt would refuse is refused before it is in the log, from where it could never be applied.
func TestBatchRefusesWhatTheFileRefuses(t *testing.T) {
	b := &batch{overlay: newOverlay()}
	for name, key := range map[string][]byte{"no key": nil, "too large a key": make([]byte, bbolt.MaxKeySize+1)} {
		if err := b.put(key, []byte("x")); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if err := b.put(make([]byte, bbolt.MaxKeySize), nil); err != nil {
		t.Error(err)
	}
}

// A record gives back the changes that were put into it. Reading any bytes as a record neither panics nor changes them.
func FuzzRecord(f *testing.F) {
	b := &batch{overlay: newOverlay()}
	if err := b.put([]byte("key"), []byte("value")); err != nil {
		f.Fatal(err)
	}
	b.delete([]byte("other"))
	b.record = append(b.record, entrySequence, 1)
	f.Add(b.record)
	f.Add(b.record[:len(b.record)-3])
	f.Add([]byte{entryPut, 1, 'k', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{9, 1, 'k'})
	into, sequence := newOverlay(), uint64(0)
	if err := replay(b.record, into, &sequence); err != nil || sequence != 1 || into.Len() != 2 {
		f.Fatalf("%v, %d, %d", err, sequence, into.Len())
	}
	if c, ok := into.Get(&change{key: []byte("key")}); !ok || string(c.value) != "value" {
		f.Fatal("the value is another one")
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		into, sequence := newOverlay(), uint64(0)
		before := bytes.Clone(record)
		_ = replay(record, into, &sequence)
		if !bytes.Equal(before, record) {
			t.Error("reading a record changed it")
		}
	})
}
