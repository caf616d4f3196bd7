package ledger

import "pawl.dev/services/errs"

// fate is what became of a call that is known by its id alone.
type fate byte

const (
	unknown   fate = iota // nothing is known of it
	denied                // it was asked for before it came, and is refused from then on: it never ran here
	unproven              // the same, but it may have run, and have been forgotten since
	cancelled             // it was given up before it came, and is refused from then on: it never ran here
	acked                 // it ended, and what it came to is kept elsewhere
	expired               // it ended, and nobody asked for too long
	evicted               // it ended, and there was no room
)

// outcome is what is known of the effect.
func (f fate) outcome() string {
	if f.neverRan() {
		return errs.OutcomeNotExecuted
	}
	return errs.OutcomeUnknown
}

// neverRan says whether a call of this fate never ran here, and never will.
func (f fate) neverRan() bool { return f == denied || f == cancelled }

// story is the fate for people.
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

// graveyard keeps fates, the newest ones by id, those before in a filter.
type graveyard struct {
	fates map[key]fate
	ring  []key // in order of burial; overwritten from the oldest on
	next  int
	limit int
	past  *filter
}

func newGraveyard(limit int) *graveyard {
	return &graveyard{fates: make(map[key]fate), limit: limit, past: newFilter(limit)}
}

// bury keeps a fate; an id that has one keeps its place.
func (g *graveyard) bury(k key, f fate) {
	if _, known := g.fates[k]; !known {
		if len(g.ring) < g.limit {
			g.ring = append(g.ring, k)
		} else {
			g.past.add(g.ring[g.next])
			delete(g.fates, g.ring[g.next])
			g.ring[g.next] = k
			g.next = (g.next + 1) % g.limit
		}
	}
	g.fates[k] = f
}

// never says whether it is certain that an id without a fate never had one.
func (g *graveyard) never(k key) bool { return !g.past.has(k) }
