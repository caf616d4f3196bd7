package feed

import "sync"

// Event is an event of a task or topic.
type Event interface{ GetSeq() uint64 }

// Record is a record of the journal. Its events are derived once for all watchers.
type Record[E Event] struct {
	First, Last uint64 // seqs
	Size        int    // bytes

	once   sync.Once
	derive func() []E
	events []E
}

// NewRecord returns a record of so many facts, the first of which has the seq first.
func NewRecord[E Event](first uint64, facts, size int, derive func() []E) *Record[E] {
	return &Record[E]{First: first, Last: first + uint64(facts) - 1, Size: size, derive: derive}
}

// Events returns the events, which must not be changed.
func (r *Record[E]) Events() []E {
	r.once.Do(func() { r.events, r.derive = r.derive(), nil })
	return r.events
}

// Tail is the newest records of a feed, without a gap.
type Tail[E Event] struct {
	records []*Record[E]
	size    int
}

// Add adds the next record, and drops the oldest ones beyond the bounds. It keeps the newest `least` records whatever their size.
func (t *Tail[E]) Add(r *Record[E], maxRecords, maxBytes, least int) {
	t.records = append(t.records, r)
	t.size += r.Size
	for len(t.records) > maxRecords || t.size > maxBytes && len(t.records) > least {
		t.size -= t.records[0].Size
		t.records = t.records[1:]
	}
}

// After returns the records with facts after a seq; complete is false if older ones than the tail has are among them. The tail has a fact after seq.
func (t *Tail[E]) After(seq uint64) (records []*Record[E], complete bool) {
	if len(t.records) == 0 || t.records[0].First > seq+1 {
		return nil, false
	}
	unseen := len(t.records) - 1
	for unseen > 0 && t.records[unseen-1].Last > seq {
		unseen--
	}
	return t.records[unseen:len(t.records):len(t.records)], true
}
