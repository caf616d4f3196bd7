package bolt

import (
	"bytes"

	"github.com/tidwall/btree"
	"go.etcd.io/bbolt"
)

// cursor goes through a table in the order of keys, both ways.
type cursor struct {
	base *bbolt.Cursor // nil: only the layers are gone through
	// key and value are where base stands; no key: at neither end is anything left.
	key, value []byte
	layers     []layer
	// at is the key that the cursor stands on.
	at []byte
	// back: all stand on their last key that is not greater than at; else on their first that is not less.
	back bool
}

// layer is where a cursor stands in an overlay or in the changes of a batch.
type layer struct {
	tree    bool
	iter    btree.IterG[*entry]
	changes changes
	no      int // in changes
	at      *entry
}

func (l *layer) seek(pivot *entry) {
	if l.tree {
		l.stand(l.iter.Seek(pivot))
		return
	}
	no, _ := l.changes.find(pivot.key)
	l.standAt(no)
}

func (l *layer) first() {
	if l.tree {
		l.stand(l.iter.First())
	} else {
		l.standAt(0)
	}
}

func (l *layer) last() {
	if l.tree {
		l.stand(l.iter.Last())
	} else {
		l.standAt(len(l.changes) - 1)
	}
}

func (l *layer) next() {
	if l.tree {
		l.stand(l.iter.Next())
	} else {
		l.standAt(l.no + 1)
	}
}

func (l *layer) prev() {
	if l.tree {
		l.stand(l.iter.Prev())
	} else {
		l.standAt(l.no - 1)
	}
}

func (l *layer) stand(found bool) {
	l.at = nil
	if found {
		l.at = l.iter.Item()
	}
}

func (l *layer) standAt(no int) {
	l.no, l.at = no, nil
	if no >= 0 && no < len(l.changes) {
		l.at = l.changes[no]
	}
}

// Seek moves to the first key that is not less.
func (c *cursor) Seek(key []byte) ([]byte, []byte) {
	c.seek(key)
	return c.settle()
}

func (c *cursor) seek(key []byte) {
	c.back = false
	if c.base != nil {
		c.key, c.value = c.base.Seek(key)
	}
	if len(c.layers) == 0 {
		return
	}
	pivot := &entry{key: key}
	for i := range c.layers {
		c.layers[i].seek(pivot)
	}
}

// First moves to the first key.
func (c *cursor) First() ([]byte, []byte) {
	c.back = false
	if c.base != nil {
		c.key, c.value = c.base.First()
	}
	for i := range c.layers {
		c.layers[i].first()
	}
	return c.settle()
}

// Last moves to the last key.
func (c *cursor) Last() ([]byte, []byte) {
	c.back = true
	if c.base != nil {
		c.key, c.value = c.base.Last()
	}
	for i := range c.layers {
		c.layers[i].last()
	}
	return c.settle()
}

// Next moves to the next key. There must be one where the cursor stands.
func (c *cursor) Next() ([]byte, []byte) {
	if c.at == nil {
		return nil, nil
	}
	if c.back {
		c.seek(c.at)
	}
	c.step()
	return c.settle()
}

// Prev moves to the key before. There must be one where the cursor stands.
func (c *cursor) Prev() ([]byte, []byte) {
	if c.at == nil {
		return nil, nil
	}
	if !c.back {
		c.turnBack()
	} else {
		c.step()
	}
	return c.settle()
}

// turnBack moves all from where they stand, which is not before the cursor, to before it.
func (c *cursor) turnBack() {
	c.back = true
	switch {
	case c.base == nil:
	case c.key == nil:
		c.key, c.value = c.base.Last()
	default:
		c.key, c.value = c.base.Prev()
	}
	for i := range c.layers {
		l := &c.layers[i]
		if l.at == nil {
			l.last()
		} else {
			l.prev()
		}
	}
}

// step moves those on that stand where the cursor does.
func (c *cursor) step() {
	if bytes.Equal(c.key, c.at) && c.key != nil {
		if c.back {
			c.key, c.value = c.base.Prev()
		} else {
			c.key, c.value = c.base.Next()
		}
	}
	for i := range c.layers {
		l := &c.layers[i]
		switch {
		case l.at == nil || !bytes.Equal(l.at.key, c.at):
		case c.back:
			l.prev()
		default:
			l.next()
		}
	}
}

// settle finds the next entry that is not deleted, and stands there.
func (c *cursor) settle() ([]byte, []byte) {
	for {
		var top *entry
		c.at = c.key
		for i := range c.layers {
			e := c.layers[i].at
			if e == nil {
				continue
			}
			// A layer hides what is below it.
			if c.at == nil || c.comes(e.key, c.at) || top == nil && bytes.Equal(e.key, c.at) {
				c.at, top = e.key, e
			}
		}
		switch {
		case c.at == nil:
			return nil, nil
		case top == nil:
			return c.key, c.value
		case !top.deleted:
			return top.key, top.value
		}
		c.step()
	}
}

// comes says whether one key comes before another in the direction of the cursor.
func (c *cursor) comes(a, b []byte) bool {
	if c.back {
		return bytes.Compare(a, b) > 0
	}
	return bytes.Compare(a, b) < 0
}
