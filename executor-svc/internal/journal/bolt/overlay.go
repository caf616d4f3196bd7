package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/tidwall/btree"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// overlay holds what is in the log and not yet in the file, in the order of keys. Once others see one it is not changed any
// more: a batch works on a copy, which shares with it what it does not touch.
type overlay = btree.BTreeG[*entry]

// entry is what stands under a key since.
type entry struct {
	key, value []byte
	deleted    bool
}

// degree is small, since each batch copies the nodes that it changes.
const degree = 16

func newOverlay() *overlay {
	less := func(a, b *entry) bool { return bytes.Compare(a.key, b.key) < 0 }
	return btree.NewBTreeGOptions(less, btree.Options{Degree: degree, NoLocks: true})
}

// batch is a set of changes that become durable together.
type batch struct {
	// overlay is the one that there is, with the changes.
	overlay *overlay
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
	b.overlay.Set(b.entry(entry{key: b.copy(key), value: b.copy(value)}))
	return nil
}

func (b *batch) delete(key []byte) {
	b.record = appendSized(append(b.record, changeDelete), key)
	b.overlay.Set(b.entry(entry{key: b.copy(key), deleted: true}))
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
	if len(data) > cap(m.arena)-len(m.arena) {
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

var errRecord = errors.New("a record of the log is not one of a journal")

// replay makes the changes of a record again. Doing so twice is the same as once.
func replay(record []byte, b *batch) error {
	for len(record) > 0 {
		kind := record[0]
		n, size := binary.Uvarint(record[1:])
		if size <= 0 {
			return errRecord
		}
		record = record[1+size:]
		if kind == changeSequence {
			b.sequence = n
			continue
		}
		if n > uint64(len(record)) {
			return errRecord
		}
		key := record[:n]
		record = record[n:]
		switch kind {
		case changeDelete:
			b.overlay.Set(&entry{key: key, deleted: true})
		case changePut:
			n, size := binary.Uvarint(record)
			if size <= 0 || n > uint64(len(record)-size) {
				return errRecord
			}
			b.overlay.Set(&entry{key: key, value: record[size : size+int(n)]})
			record = record[size+int(n):]
		default:
			return errRecord
		}
	}
	return nil
}
