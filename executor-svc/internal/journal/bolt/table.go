package bolt

import (
	"errors"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"
)

// table is the journal's entries as one reader or one batch sees them: those of the file, under those that are in the log
// and not applied to it yet.
type table struct {
	// base is nil until something is asked of it, where there is a snapshot.
	base *bbolt.Bucket
	from *snapshot
	// layers hide what is below them; the newest is the first.
	layers []*overlay
	both   [2]*overlay // memory for layers
	// batch takes changes, and hides what is below it. Where there is none they go to the file, where that may be written.
	batch *batch
	pivot entry
	head  [1 + idSize + 1]byte
}

var errReadOnly = errors.New("this transaction is for reading")

// Get returns the value of a key; nil where there is none. It is valid as long as the table is.
func (t *table) Get(key []byte) []byte {
	if e := t.inLayers(key); e != nil {
		return e.value
	}
	if len(key) > 1+idSize && key[0] == kindTask && t.whole(taskOf(key)) {
		return nil
	}
	return t.file().Get(key)
}

// inLayers returns what hides the file's entry; nil where nothing does. What was deleted has no value.
func (t *table) inLayers(key []byte) *entry {
	if t.batch != nil {
		if at, found := t.batch.changes.find(key); found {
			return t.batch.changes[at]
		}
	}
	t.pivot.key = key
	for _, layer := range t.layers {
		if e, ok := layer.Get(&t.pivot); ok {
			return e
		}
	}
	return nil
}

// whole says that all of a task is in the layers, since it was created there: nothing of it need be looked for in the file.
func (t *table) whole(id uuid.UUID) bool {
	if len(t.layers) == 0 && t.batch == nil {
		return false
	}
	e := t.inLayers(append(taskPrefix(t.head[:0], id), partHead))
	return e != nil && !e.deleted
}

// file returns what is below the layers.
func (t *table) file() *bbolt.Bucket {
	if t.base == nil {
		t.base = t.from.open()
	}
	return t.base
}

// Put stores a value. A batch copies it; else it must stay as it is until the file is written.
func (t *table) Put(key, value []byte) error {
	if t.batch != nil {
		return t.batch.put(key, value)
	}
	if len(t.layers) > 0 {
		return errReadOnly
	}
	return t.file().Put(key, value)
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
	return t.file().Delete(key)
}

// NextSequence returns a number that is greater than all before it, also across restarts.
func (t *table) NextSequence() (uint64, error) {
	if t.batch != nil {
		return t.batch.nextSequence(), nil
	}
	return t.file().NextSequence()
}

// Cursor returns one that is nowhere yet. What changes later makes it invalid.
func (t *table) Cursor() *cursor {
	c := t.layerCursor()
	c.base = t.file().Cursor()
	return c
}

// taskCursor returns one for the entries of a task; what it finds elsewhere means nothing.
func (t *table) taskCursor(id uuid.UUID) *cursor {
	if t.whole(id) {
		return t.layerCursor()
	}
	return t.Cursor()
}

func (t *table) layerCursor() *cursor {
	c := &cursor{layers: make([]layer, 0, len(t.layers)+1)}
	if t.batch != nil {
		c.layers = append(c.layers, layer{changes: t.batch.changes})
	}
	for _, o := range t.layers {
		c.layers = append(c.layers, layer{iter: o.Iter(), tree: true})
	}
	return c
}
