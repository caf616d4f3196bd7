package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"

	"github.com/tidwall/btree"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// overlay holds changes that are in the log and not yet in the file, ordered by key. It is immutable once readers see it: a batch
// changes a copy, which shares all nodes that the batch does not touch.
type overlay = btree.BTreeG[*change]

// change is the newest value of a key, or its deletion.
type change struct {
	key, value []byte
	deleted    bool
}

func newOverlay() *overlay {
	less := func(a, b *change) bool { return bytes.Compare(a.key, b.key) < 0 }
	// A small degree, because each batch copies the nodes that it changes.
	return btree.NewBTreeGOptions(less, btree.Options{Degree: 16, NoLocks: true})
}

// batch is a set of changes that become durable together as one record of the log.
type batch struct {
	overlay *overlay
	// record holds the changes as the log stores them.
	record []byte
	// sequence is the newest number of NextSequence.
	sequence uint64
	// sweeping is how long deletions of old tasks and topics have taken.
	sweeping time.Duration
}

// The kinds of entries of a record. The kind is followed by the key and the value (put), the key (delete) or a number (sequence). Keys and
// values are preceded by their length.
const (
	entryPut      = 1
	entryDelete   = 2
	entrySequence = 3
)

func (b *batch) put(key, value []byte) error {
	// A change that bbolt would refuse must not get into the log, because it could never be applied.
	switch {
	case len(key) == 0:
		return bolterrors.ErrKeyRequired
	case len(key) > bbolt.MaxKeySize:
		return bolterrors.ErrKeyTooLarge
	case len(value) > bbolt.MaxValueSize:
		return bolterrors.ErrValueTooLarge
	}
	b.record = appendSized(appendSized(append(b.record, entryPut), key), value)
	b.overlay.Set(&change{key: key, value: value})
	return nil
}

func (b *batch) delete(key []byte) {
	b.record = appendSized(append(b.record, entryDelete), key)
	b.overlay.Set(&change{key: key, deleted: true})
}

// appendSized appends the length of data, then data.
func appendSized(record, data []byte) []byte {
	return append(binary.AppendUvarint(record, uint64(len(data))), data...)
}

var errRecord = errors.New("a record of the log cannot be decoded")

// replay applies the changes of a record to an overlay. Repeating it has no further effect. The overlay shares memory with the record.
func replay(record []byte, into *overlay, sequence *uint64) error {
	r := reader{rest: record}
	for len(r.rest) > 0 && !r.short {
		kind := r.bytes(1)[0]
		n := r.uvarint()
		if kind == entrySequence {
			*sequence = n
			continue
		}
		c := &change{key: r.sized(n), deleted: kind == entryDelete}
		switch kind {
		case entryPut:
			c.value = r.sized(r.uvarint())
		case entryDelete:
		default:
			return errRecord
		}
		if !r.short {
			into.Set(c)
		}
	}
	if r.short {
		return errRecord
	}
	return nil
}

func (r *reader) sized(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.short = true
		return nil
	}
	return r.bytes(int(n))
}

// table shows the journal's entries to one reader or one batch. Entries of the overlays hide those of the file.
type table struct {
	base *bbolt.Bucket
	// layers are the overlays, the newest first; each hides the layers after it.
	layers []*overlay
	// batch takes changes, and its overlay is the newest layer; nil for a reader.
	batch *batch
	// sought is memory for the argument of Get in the layers.
	sought change
}

// Get returns the value of a key, or nil. The value is valid as long as the table.
func (t *table) Get(key []byte) []byte {
	t.sought.key = key
	for _, layer := range t.layers {
		if c, ok := layer.Get(&t.sought); ok {
			return c.value
		}
	}
	return t.base.Get(key)
}

// Put stores a value. It keeps key and value, which must not change afterwards. Put, Delete and NextSequence need a batch.
func (t *table) Put(key, value []byte) error { return t.batch.put(key, value) }

// Delete removes a key if it exists. It keeps the key, which must not change afterwards.
func (t *table) Delete(key []byte) { t.batch.delete(key) }

// NextSequence returns a number greater than all before it, also across restarts.
func (t *table) NextSequence() uint64 {
	t.batch.sequence++
	return t.batch.sequence
}

// cursor iterates over a table in one direction. A change of the table makes it invalid.
type cursor struct {
	// key and value are the current entry, after next returned true.
	key, value []byte

	descending bool
	// base is the file's cursor; baseKey and baseValue are its entry; at the end baseKey is nil.
	base               *bbolt.Cursor
	baseKey, baseValue []byte
	layers             []layerCursor // newest first
}

// layerCursor is a cursor of an overlay; at the end change is nil.
type layerCursor struct {
	iter   btree.IterG[*change]
	change *change
}

func (l *layerCursor) set(found bool) {
	l.change = nil
	if found {
		l.change = l.iter.Item()
	}
}

// ascend returns a cursor over the keys that are not less than from, in ascending order.
func (t *table) ascend(from []byte) *cursor {
	c := &cursor{base: t.base.Cursor(), layers: make([]layerCursor, len(t.layers))}
	c.baseKey, c.baseValue = c.base.Seek(from)
	for i, layer := range t.layers {
		l := &c.layers[i]
		l.iter = layer.Iter()
		l.set(l.iter.Seek(&change{key: from}))
	}
	return c
}

// descend returns a cursor over the keys that are less than before, in descending order.
func (t *table) descend(before []byte) *cursor {
	c := &cursor{descending: true, base: t.base.Cursor(), layers: make([]layerCursor, len(t.layers))}
	if k, _ := c.base.Seek(before); k == nil {
		c.baseKey, c.baseValue = c.base.Last()
	} else {
		c.baseKey, c.baseValue = c.base.Prev()
	}
	for i, layer := range t.layers {
		l := &c.layers[i]
		l.iter = layer.Iter()
		if l.iter.Seek(&change{key: before}) {
			l.set(l.iter.Prev())
		} else {
			l.set(l.iter.Last())
		}
	}
	return c
}

// next moves to the next entry that is not deleted, and reports whether there is one.
func (c *cursor) next() bool {
	for {
		c.key, c.value = c.baseKey, c.baseValue
		deleted := false
		for i := len(c.layers) - 1; i >= 0; i-- { // the newest layer last, so that it decides
			l := c.layers[i].change
			if l != nil && (c.key == nil || c.descending && bytes.Compare(l.key, c.key) >= 0 || !c.descending && bytes.Compare(l.key, c.key) <= 0) {
				c.key, c.value, deleted = l.key, l.value, l.deleted
			}
		}
		if c.key == nil {
			return false
		}
		c.skip(c.key)
		if !deleted {
			return true
		}
	}
}

// skip moves the file's cursor and the layers past a key.
func (c *cursor) skip(key []byte) {
	if bytes.Equal(c.baseKey, key) && c.baseKey != nil {
		if c.descending {
			c.baseKey, c.baseValue = c.base.Prev()
		} else {
			c.baseKey, c.baseValue = c.base.Next()
		}
	}
	for i := range c.layers {
		l := &c.layers[i]
		switch {
		case l.change == nil || !bytes.Equal(l.change.key, key):
		case c.descending:
			l.set(l.iter.Prev())
		default:
			l.set(l.iter.Next())
		}
	}
}
