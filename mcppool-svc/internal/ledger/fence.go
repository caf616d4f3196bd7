package ledger

import "container/list"

// fence knows the newest owner of each session, of the sessions heard of last.
type fence struct {
	limit  int
	order  *list.List // of *owner, the one heard of last in front
	owners map[key]*list.Element
}

type owner struct {
	session key
	epoch   uint64
}

func newFence(limit int) *fence {
	return &fence{limit: limit, order: list.New(), owners: make(map[key]*list.Element)}
}

// pass says whether an owner is the newest one seen, and remembers it. No session, or nobody who counts, always passes.
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
