package inflight

import "container/list"

// results keeps finished calls until they are acknowledged. If there are too many, the user who fills the larger part of a bound
// loses the oldest, so that no user evicts another's.
type results struct {
	maxCount int
	maxBytes int64
	bytes    int64
	byEnd    list.List // of *Call, the oldest first
	users    map[string]*userResults
}

// userResults are the results of one user.
type userResults struct {
	byEnd list.List // of *Call, the oldest first
	bytes int64
}

// place is where results keeps a call; zero if it does not.
type place struct {
	inAll, inUser *list.Element
	size          int64
}

func newResults(maxCount int, maxBytes int64) *results {
	return &results{maxCount: maxCount, maxBytes: maxBytes, users: make(map[string]*userResults)}
}

func (r *results) len() int { return r.byEnd.Len() }

// oldest returns the call that ended first, or nil.
func (r *results) oldest() *Call { return first(&r.byEnd) }

func first(l *list.List) *Call {
	if front := l.Front(); front != nil {
		return front.Value.(*Call)
	}
	return nil
}

func (r *results) add(c *Call, size int64) {
	u := r.users[c.user]
	if u == nil {
		u = &userResults{}
		r.users[c.user] = u
	}
	c.place = place{r.byEnd.PushBack(c), u.byEnd.PushBack(c), size}
	r.bytes += size
	u.bytes += size
}

func (r *results) remove(c *Call) {
	if c.place.inAll == nil {
		return
	}
	u := r.users[c.user]
	r.byEnd.Remove(c.place.inAll)
	u.byEnd.Remove(c.place.inUser)
	r.bytes -= c.place.size
	u.bytes -= c.place.size
	if u.byEnd.Len() == 0 {
		delete(r.users, c.user)
	}
	c.place = place{}
}

// excess returns a call to remove, or nil if the bounds are kept.
func (r *results) excess() *Call {
	if r.byEnd.Len() <= r.maxCount && r.bytes <= r.maxBytes {
		return nil
	}
	var largest *userResults
	var most float64
	for _, u := range r.users {
		share := max(float64(u.byEnd.Len())/float64(r.maxCount), float64(u.bytes)/float64(r.maxBytes))
		if share > most {
			largest, most = u, share
		}
	}
	return first(&largest.byEnd)
}
