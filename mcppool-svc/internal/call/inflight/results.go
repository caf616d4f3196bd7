package inflight

import "container/list"

// results keeps finished calls until they are acknowledged. If there are too many, the user who fills the larger part of a bound
// loses the oldest, so that no user evicts another's.
type results struct {
	maxCount int
	maxBytes int64
	bytes    int64
	byEnd    list.List // of *Call, the oldest first
	users    map[string]userResults
}

// userResults are the number and size of the results of one user.
type userResults struct {
	count int
	bytes int64
}

// place is where results keeps a call; zero if it does not.
type place struct {
	element *list.Element
	size    int64
}

func newResults(maxCount int, maxBytes int64) *results {
	return &results{maxCount: maxCount, maxBytes: maxBytes, users: make(map[string]userResults)}
}

func (r *results) len() int { return r.byEnd.Len() }

// oldest returns the call that ended first, or nil.
func (r *results) oldest() *Call {
	if front := r.byEnd.Front(); front != nil {
		return front.Value.(*Call)
	}
	return nil
}

func (r *results) add(c *Call, size int64) {
	c.place = place{r.byEnd.PushBack(c), size}
	r.count(c.user, 1, size)
}

func (r *results) remove(c *Call) {
	if c.place.element != nil {
		r.byEnd.Remove(c.place.element)
		r.count(c.user, -1, -c.place.size)
		c.place = place{}
	}
}

func (r *results) count(user string, n int, bytes int64) {
	u := r.users[user]
	u.count, u.bytes, r.bytes = u.count+n, u.bytes+bytes, r.bytes+bytes
	if r.users[user] = u; u.count == 0 {
		delete(r.users, user)
	}
}

// excess returns a call to remove, or nil if the bounds are kept.
func (r *results) excess() *Call {
	if r.byEnd.Len() <= r.maxCount && r.bytes <= r.maxBytes {
		return nil
	}
	var largest string
	var most float64
	for user, u := range r.users {
		if share := max(float64(u.count)/float64(r.maxCount), float64(u.bytes)/float64(r.maxBytes)); share > most {
			largest, most = user, share
		}
	}
	e := r.byEnd.Front()
	for e.Value.(*Call).user != largest {
		e = e.Next()
	}
	return e.Value.(*Call)
}
