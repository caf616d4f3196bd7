package inflight

import (
	"encoding/binary"

	"pawl.dev/services/errs"
)

// fate is what is known about a call of which only the id is kept.
type fate byte

const (
	unknown   fate = iota // nothing is known about the id
	denied                // a client asked for it before it arrived; it is refused and never ran here
	unproven              // the same, but it may have run and have been forgotten since
	cancelled             // it was cancelled before it arrived; it is refused and never ran here
	acked                 // it ended, and its result was acknowledged
	expired               // it ended, and its result was not acknowledged in time
	evicted               // it ended, and its result was dropped for lack of room
)

// outcome is what is known about the effect.
func (f fate) outcome() string {
	if f.neverRan() {
		return errs.OutcomeNotExecuted
	}
	return errs.OutcomeUnknown
}

// neverRan reports whether a call with this fate never ran here and never will.
func (f fate) neverRan() bool { return f == denied || f == cancelled }

// story describes the fate for people.
func (f fate) story() string {
	switch f {
	case denied:
		return "it was asked after before it came, and found not executed"
	case unproven:
		return "it was asked after before it came, and not found"
	case cancelled:
		return "it was cancelled before it came"
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

// tombstones keep the fates of calls: the newest by id, earlier ones in a Bloom filter.
type tombstones struct {
	fates map[key]fate
	ring  []key // in the order of add; the oldest is overwritten
	next  int
	limit int
	past  filter
}

func newTombstones(limit int) *tombstones {
	return &tombstones{fates: make(map[key]fate), limit: limit, past: filter{words: uint64(limit)*filterBits/64 + 1}}
}

// add keeps a fate. An id that has one keeps its place in the order.
func (t *tombstones) add(k key, f fate) {
	if _, known := t.fates[k]; !known {
		if len(t.ring) < t.limit {
			t.ring = append(t.ring, k)
		} else {
			t.past.add(t.ring[t.next])
			delete(t.fates, t.ring[t.next])
			t.ring[t.next] = k
			t.next = (t.next + 1) % t.limit
		}
	}
	t.fates[k] = f
}

// never reports whether an id without a fate certainly never had one.
func (t *tombstones) never(k key) bool { return !t.past.has(k) }

const (
	// filterBits is the number of bits for each tombstone that is kept: ten times as many overwritten ones fit in before one
	// unknown id in forty is taken for one of them.
	filterBits = 80
	probes     = 4
)

// filter remembers in constant space which ids were overwritten (B. H. Bloom, "Space/time trade-offs in hash coding with allowable
// errors", 1970): an id that it does not have was never added. Its keys are hashes already.
type filter struct {
	words uint64
	bits  []uint64 // nil until the first add
}

func (f *filter) add(k key) {
	if f.bits == nil {
		f.bits = make([]uint64, f.words)
	}
	for i := range probes {
		word, bit := f.at(k, i)
		f.bits[word] |= bit
	}
}

// has may return true for a key that was never added, never false for one that was.
func (f *filter) has(k key) bool {
	if f.bits == nil {
		return false
	}
	for i := range probes {
		if word, bit := f.at(k, i); f.bits[word]&bit == 0 {
			return false
		}
	}
	return true
}

// at derives the probes from two halves of the key (A. Kirsch, M. Mitzenmacher, "Less hashing, same performance", 2006).
func (f *filter) at(k key, i int) (word uint64, bit uint64) {
	a, b := binary.LittleEndian.Uint64(k[:8]), binary.LittleEndian.Uint64(k[8:])|1
	n := (a + uint64(i)*b) % (f.words * 64)
	return n / 64, 1 << (n % 64)
}
