package bolt

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/tidwall/btree"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// changes are in the order of keys.
type changes []*entry

func (c changes) find(key []byte) (at int, found bool) {
	return slices.BinarySearchFunc(c, key, func(e *entry, key []byte) int { return bytes.Compare(e.key, key) })
}

func (c changes) putInto(o *overlay) {
	var hint btree.PathHint
	for _, e := range c {
		o.SetHint(e, &hint)
	}
}

// batch is a set of changes that become durable together.
type batch struct {
	changes changes
	// sequence is the number that was given out last.
	sequence, was uint64
	// record is what the log gets.
	record []byte
	memory
}

// memory is asked for in large pieces; what stands in it is not changed any more.
type memory struct {
	arena   []byte // for keys and values
	entries []entry
}

// What a record consists of: a kind, and then a key, and a value behind it, each behind its length; or a number.
const (
	changePut      = 1
	changeDelete   = 2
	changeSequence = 3
)

func (b *batch) put(key, value []byte) error {
	switch {
	case len(key) == 0:
		return bolterrors.ErrKeyRequired
	case len(key) > bbolt.MaxKeySize:
		return bolterrors.ErrKeyTooLarge
	case len(value) > bbolt.MaxValueSize:
		return bolterrors.ErrValueTooLarge
	}
	b.record = append(b.record, changePut)
	b.record = appendSized(appendSized(b.record, key), value)
	b.set(key, b.copy(value), false)
	return nil
}

func (b *batch) delete(key []byte) {
	b.record = appendSized(append(b.record, changeDelete), key)
	b.set(key, nil, true)
}

func (b *batch) set(key, value []byte, deleted bool) {
	at, found := b.changes.find(key)
	if found {
		b.changes[at].value, b.changes[at].deleted = value, deleted
		return
	}
	b.changes = slices.Insert(b.changes, at, b.entry(entry{key: b.copy(key), value: value, deleted: deleted}))
}

func (b *batch) nextSequence() uint64 {
	b.sequence++
	return b.sequence
}

// size is how much the log gets.
func (b *batch) size() int { return len(b.record) }

// end completes the record.
func (b *batch) end() {
	if b.sequence != b.was {
		b.record = binary.AppendUvarint(append(b.record, changeSequence), b.sequence)
	}
}

// arenaSize is what memory for keys and values is asked for at once, entriesAtOnce for how many entries.
const arenaSize, entriesAtOnce = 32 << 10, 64

func (m *memory) copy(data []byte) []byte {
	if m.arena == nil || len(data) > cap(m.arena)-len(m.arena) {
		if len(data) > arenaSize/4 {
			return append(make([]byte, 0, len(data)), data...)
		}
		m.arena = make([]byte, 0, arenaSize)
	}
	at := len(m.arena)
	m.arena = append(m.arena, data...)
	return m.arena[at:len(m.arena):len(m.arena)]
}

func (m *memory) entry(e entry) *entry {
	if len(m.entries) == cap(m.entries) {
		m.entries = make([]entry, 0, entriesAtOnce)
	}
	m.entries = append(m.entries, e)
	return &m.entries[len(m.entries)-1]
}

func appendSized(dst, data []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(data))), data...)
}
