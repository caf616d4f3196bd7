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

// layered is a table of a file, two overlays and a batch, and the plain map that it must look like.
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
		o := &batch{}
		for i := range rapid.IntRange(0, 8).Draw(rt, "changes") {
			k, v := key.Draw(rt, "key"), []byte{byte(100*n + 100 + i)}
			if rapid.Bool().Draw(rt, "delete") {
				o.delete([]byte(k))
				delete(l.want, k)
				continue
			}
			if err := o.put([]byte(k), v); err != nil {
				rt.Fatal(err)
			}
			l.want[k] = string(v)
		}
		if n == 2 {
			l.t.batch = o
			break
		}
		under := newOverlay()
		o.changes.putInto(under)
		l.t.layers = append([]*overlay{under}, l.t.layers...)
	}
	l.keys = slices.Sorted(maps.Keys(l.want))
}

// A cursor over a file and what hides parts of it goes the way of a sorted list, in any direction from anywhere; also over
// what was deleted and written again.
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
		l.walk(rt)
	})
}

func (l *layered) walk(rt *rapid.T) {
	c, at := l.t.Cursor(), -1
	for range 30 {
		var k, v []byte
		var what string
		step := rapid.IntRange(0, 9).Draw(rt, "step")
		if at < 0 || at >= len(l.keys) {
			step %= 3 // there is nothing to go on from
		}
		switch {
		case step == 0:
			what, at = "First", 0
			k, v = c.First()
		case step == 1:
			what, at = "Last", len(l.keys)-1
			k, v = c.Last()
		case step == 2:
			to := rapid.StringMatching(`[abcd]{1,3}`).Draw(rt, "to")
			what = fmt.Sprint("Seek ", to)
			at, _ = slices.BinarySearch(l.keys, to)
			k, v = c.Seek([]byte(to))
		case step < 6:
			what = "Next"
			at++
			k, v = c.Next()
		default:
			what = "Prev"
			at--
			k, v = c.Prev()
		}
		if at < 0 || at >= len(l.keys) {
			if k != nil {
				rt.Fatalf("%s: %s, want the end of %v", what, k, l.keys)
			}
			continue
		}
		if string(k) != l.keys[at] || string(v) != l.want[l.keys[at]] {
			rt.Fatalf("%s: %s %v, want %s %v of %v", what, k, v, l.keys[at], []byte(l.want[l.keys[at]]), l.keys)
		}
	}
}

// What cannot be stored in the file is refused before it is in the log, where it could never be applied.
func TestWhatTheFileRefuses(t *testing.T) {
	b := &batch{}
	for name, key := range map[string][]byte{"no key": nil, "too large a key": make([]byte, bbolt.MaxKeySize+1)} {
		if err := b.put(key, []byte("x")); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if err := b.put(make([]byte, bbolt.MaxKeySize), nil); err != nil {
		t.Error(err)
	}
}

// What a record holds is what was put into it, and nothing makes reading one fail in another way than with an error.
func FuzzRecord(f *testing.F) {
	b := &batch{}
	if err := b.put([]byte("key"), []byte("value")); err != nil {
		f.Fatal(err)
	}
	b.delete([]byte("other"))
	b.nextSequence()
	b.end()
	f.Add(b.record)
	f.Add(b.record[:len(b.record)-3])
	f.Add([]byte{changePut, 1, 'k', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	into := &content{overlay: newOverlay()}
	if err := replay(b.record, into); err != nil || into.sequence != 1 || into.Len() != 2 {
		f.Fatalf("%v, %+v", err, into)
	}
	if e, ok := into.Get(&entry{key: []byte("key")}); !ok || string(e.value) != "value" {
		f.Fatal("the value is another one")
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		into := &content{overlay: newOverlay()}
		before := bytes.Clone(record)
		_ = replay(record, into)
		if !bytes.Equal(before, record) {
			t.Error("reading a record changed it")
		}
	})
}
