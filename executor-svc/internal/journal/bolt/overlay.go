package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"sync/atomic"

	"github.com/tidwall/btree"
)

// overlay holds what is in the log and not yet in the file, in the order of keys.
type overlay = btree.BTreeG[*entry]

// entry is what stands under a key since. It is not changed any more once it is in an overlay.
type entry struct {
	key, value []byte
	deleted    bool
}

// degree is small, since nodes are copied that are changed while somebody reads.
const degree = 16

func newOverlay() *overlay {
	less := func(a, b *entry) bool { return bytes.Compare(a.key, b.key) < 0 }
	return btree.NewBTreeGOptions(less, btree.Options{Degree: degree, NoLocks: true})
}

// growing is an overlay that takes changes.
type growing struct {
	*overlay
	readers atomic.Int32
}

// with returns the overlay with changes: the same one where nobody reads it, else a copy, which shares with it what they do
// not touch.
func (g *growing) with(c changes) *growing {
	if g.readers.Load() > 0 {
		g = &growing{overlay: g.Copy()}
	}
	c.putInto(g.overlay)
	return g
}

// content is an overlay and the number that was given out last.
type content struct {
	*overlay
	sequence uint64
}

var errRecord = errors.New("a record of the log is not one of a journal")

// replay makes the changes of a record again. Doing so twice is the same as once.
func replay(record []byte, into *content) error {
	for len(record) > 0 {
		kind := record[0]
		n, size := binary.Uvarint(record[1:])
		if size <= 0 {
			return errRecord
		}
		record = record[1+size:]
		if kind == changeSequence {
			into.sequence = n
			continue
		}
		if n > uint64(len(record)) {
			return errRecord
		}
		key := record[:n]
		record = record[n:]
		switch kind {
		case changeDelete:
			into.Set(&entry{key: key, deleted: true})
		case changePut:
			n, size := binary.Uvarint(record)
			if size <= 0 || n > uint64(len(record)-size) {
				return errRecord
			}
			into.Set(&entry{key: key, value: record[size : size+int(n)]})
			record = record[size+int(n):]
		default:
			return errRecord
		}
	}
	return nil
}
