package inflight

import (
	"container/list"
	"crypto/sha256"
	"strings"

	"github.com/bits-and-blooms/bloom/v3"

	"pawl.dev/services/errs"
)

// tombstone is what remains of a call whose id must not be called again.
type tombstone byte

const (
	noTombstone tombstone = iota // nothing is known about the id
	denied                       // a client attached before the call arrived; it is refused and never ran here
	unproven                     // a client asked for the call, and it is not known whether it ran
	cancelled                    // the call was cancelled before it arrived; it is refused and never ran here
	acked                        // it ended, and its result was acknowledged
	expired                      // it ended, and its result was not acknowledged in time
	evicted                      // it ended, and its result was dropped for lack of room
)

// outcome returns the outcome that the tombstone proves.
func (t tombstone) outcome() string {
	if t.neverRan() {
		return errs.OutcomeNotExecuted
	}
	return errs.OutcomeUnknown
}

// neverRan reports whether a call with this tombstone never ran here and never will.
func (t tombstone) neverRan() bool { return t == denied || t == cancelled }

// text describes the tombstone for people.
func (t tombstone) text() string {
	switch t {
	case denied:
		return "a client attached to it before it arrived, and was told that it was not executed"
	case unproven:
		return "its outcome is unknown"
	case cancelled:
		return "it was cancelled before it arrived"
	case acked:
		return "it ended, and its result was acknowledged"
	case expired:
		return "it ended too long ago, and its result was forgotten"
	case evicted:
		return "it ended, and its result was forgotten for lack of room"
	default:
		return "it was never seen here"
	}
}

const (
	// filterBits is the number of filter bits per kept tombstone. After ten times the limit of tombstones has been overwritten, one unknown id
	// in forty is mistaken for an overwritten one.
	filterBits = 80
	probes     = 4
)

// tombstones keeps the newest tombstones by id. A Bloom filter holds the ids of overwritten tombstones.
type tombstones struct {
	byID        map[key]tombstone
	ring        []key // in the order of add; the oldest is overwritten
	next        int
	limit       int
	overwritten *bloom.BloomFilter // nil until the first is overwritten
}

func newTombstones(limit int) *tombstones {
	return &tombstones{byID: make(map[key]tombstone), limit: limit}
}

// add sets the tombstone of an id. An id that already has one keeps its place in the order.
func (t *tombstones) add(k key, stone tombstone) {
	if _, known := t.byID[k]; !known {
		if len(t.ring) < t.limit {
			t.ring = append(t.ring, k)
		} else {
			t.overwrite(t.ring[t.next])
			t.ring[t.next] = k
			t.next = (t.next + 1) % t.limit
		}
	}
	t.byID[k] = stone
}

func (t *tombstones) overwrite(k key) {
	if t.overwritten == nil {
		t.overwritten = bloom.New(uint(t.limit)*filterBits, probes)
	}
	t.overwritten.Add(k[:])
	delete(t.byID, k)
}

// mayBeOverwritten reports whether the tombstone of an id may have been overwritten. False is certain.
func (t *tombstones) mayBeOverwritten(k key) bool {
	return t.overwritten != nil && t.overwritten.Test(k[:])
}

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

// key names a user's call or session in constant space.
type key [16]byte

// keyOf is injective up to hash collisions: a user id holds no NUL.
func keyOf(user, id string) key {
	var text [256]byte
	sum := sha256.Sum256(append(append(append(text[:0], user...), 0), id...))
	return key(sum[:])
}

// Hash identifies server, tool and input of a call.
type Hash [sha256.Size]byte

// HashOf returns the contract's request hash; input is JSON text.
func HashOf(server, tool, input string) Hash {
	return sha256.Sum256([]byte(server + "\x00" + tool + "\x00" + input))
}

// unnamedPrefix is the prefix of the call ids that the pool generates. No client can attach to such a call once it has ended.
const unnamedPrefix = "unnamed-"

// Unnamed returns the id of a call for which the client gave no id.
func Unnamed(unique string) string { return unnamedPrefix + unique }

func isUnnamed(id string) bool { return strings.HasPrefix(id, unnamedPrefix) }

// results keeps finished calls until they are acknowledged. Over a bound, it drops the oldest result of the user with the largest share of
// either bound, so that no user evicts another's results.
type results struct {
	maxCount int
	maxBytes int64
	bytes    int64
	byEnd    list.List // of *Call, the oldest first
	users    map[string]userResults
}

// userResults counts the results of one user and their bytes.
type userResults struct {
	count int
	bytes int64
}

// place is the position of a call in results; zero if it is not there.
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
