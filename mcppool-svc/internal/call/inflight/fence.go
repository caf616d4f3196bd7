package inflight

import "container/list"

// fence keeps the newest epoch of each session's owner, for the sessions used last.
type fence struct {
	limit  int
	order  *list.List // of *owner, the one used last in front
	owners map[key]*list.Element
}

type owner struct {
	session key
	epoch   uint64
}

func newFence(limit int) *fence {
	return &fence{limit: limit, order: list.New(), owners: make(map[key]*list.Element)}
}

// pass reports whether an owner is the newest one seen, and remembers it. A call without a session always passes.
func (f *fence) pass(user, session string, epoch uint64) bool {
	if session == "" {
		return true
	}
	k := keyOf(user, session)
	el, known := f.owners[k]
	switch {
	case known:
		o := el.Value.(*owner)
		if epoch < o.epoch {
			return false
		}
		o.epoch = epoch
		f.order.MoveToFront(el)
	case epoch > 0:
		f.owners[k] = f.order.PushFront(&owner{k, epoch})
		if f.order.Len() > f.limit {
			delete(f.owners, f.order.Remove(f.order.Back()).(*owner).session)
		}
	}
	return true
}
