package bolt

import (
	"errors"

	"go.etcd.io/bbolt"
)

// table is the journal's entries as one reader or one batch sees them: those of the file, under those that are in the log
// and not applied to it yet.
type table struct {
	base *bbolt.Bucket
	// layers hide what is below them; the newest is the first.
	layers []*overlay
	// batch takes changes. Where there is none they go to the file, where that may be written.
	batch *batch
	pivot entry
}

var errReadOnly = errors.New("this transaction is for reading")

// Get returns the value of a key; nil where there is none. It is valid as long as the table is.
func (t *table) Get(key []byte) []byte {
	for _, layer := range t.layers {
		t.pivot.key = key
		if e, ok := layer.Get(&t.pivot); ok {
			if e.deleted {
				return nil
			}
			return e.value
		}
	}
	return t.base.Get(key)
}

// Put stores a value. A batch copies it; else it must stay as it is until the file is written.
func (t *table) Put(key, value []byte) error {
	if t.batch != nil {
		return t.batch.put(key, value)
	}
	if len(t.layers) > 0 {
		return errReadOnly
	}
	return t.base.Put(key, value)
}

// Delete removes a key, where it is there.
func (t *table) Delete(key []byte) error {
	if t.batch != nil {
		t.batch.delete(key)
		return nil
	}
	if len(t.layers) > 0 {
		return errReadOnly
	}
	return t.base.Delete(key)
}

// NextSequence returns a number that is greater than all before it, also across restarts.
func (t *table) NextSequence() (uint64, error) {
	if t.batch != nil {
		return t.batch.nextSequence(), nil
	}
	return t.base.NextSequence()
}

// Cursor returns one that is nowhere yet. What changes later makes it invalid.
func (t *table) Cursor() *cursor {
	c := &cursor{base: t.base.Cursor(), layers: make([]layer, len(t.layers))}
	for i, o := range t.layers {
		c.layers[i].iter = o.Iter()
	}
	return c
}
