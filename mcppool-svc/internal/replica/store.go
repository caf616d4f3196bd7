package replica

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"pawl.dev/mcppool-svc/internal/store"
)

const (
	// KeepTombstones is how long it is known that something was deleted. A replica that was away for longer may bring back
	// what was deleted meanwhile.
	KeepTombstones = 30 * 24 * time.Hour
	// MaxTombstones bounds them; the oldest make way.
	MaxTombstones = 100_000
	// maxEntries bounds what is taken from others.
	maxEntries = 1_000_000
	// sweepEvery is how often tombstones are looked at.
	sweepEvery = time.Hour
)

// ErrAhead means that an entry is from the future, and was not taken.
var ErrAhead = errors.New("an entry of another replica was not taken")

// Config says how values are replicated.
type Config struct {
	// Buckets are those of values.
	Buckets []string
	// First are those of them where the first write stays, not the last one.
	First []string
	// Local are those of them that no other replica is told of.
	Local []string
	// LowPriority are those of them that no request waits for.
	LowPriority []string
	// Readable reports whether this program can read a value; it keeps what it cannot, and goes on with what it could read before.
	Readable func(bucket, key string, value []byte) bool
	// Written says when a value was written that has no version yet; the zero time where it does not know.
	Written func(bucket string, value []byte) time.Time
	Now     func() time.Time

	maxTombstones int // of tests; MaxTombstones if 0
}

// Place names a value.
type Place struct{ Bucket, Key string }

// Store is a store.Store that knows versions. It is safe for concurrent use.
type Store struct {
	cfg   Config
	inner store.Store
	id    string
	run   string

	observers []func([]Place) // see Observe
	publish   func([]Entry)   // see Publish; may be nil

	mu     sync.Mutex
	clock  clock            // guarded by mu
	index  map[string]*meta // guarded by mu; by place
	feed   []learned        // guarded by mu; in order of seq
	seq    uint64           // guarded by mu; of the last that was learned
	dead   int              // guarded by mu; tombstones
	floor  uint64           // guarded by mu; see self
	seen   time.Time        // guarded by mu; see self
	sweeps time.Time        // guarded by mu; the last one
}

// learned is one item of what this replica learned. It counts as long as the place was not learned again.
type learned struct {
	seq   uint64
	place string
}

// Buckets are those that the underlying store must have for so many of values.
func Buckets(values []string) []string {
	return append(slices.Clone(values), bucketVersions, bucketHeld, bucketSelf)
}

// ID names this replica.
func (s *Store) ID() string { return s.id }

// Observe adds who is told of values that others wrote, when they are durable. It is set before the first is taken in. Who is told
// looks at what is stored now, for it may have been written again.
func (s *Store) Observe(f func([]Place)) { s.observers = append(s.observers, f) }

// Publish sets who tells others of what was written here, before the write returns. It is set before the first write.
func (s *Store) Publish(f func([]Entry)) { s.publish = f }

// Load implements store.Store.
func (s *Store) Load(bucket string, visit func(key string, value []byte) error) error {
	return s.inner.Load(bucket, visit)
}

// Get implements store.Store.
func (s *Store) Get(bucket, key string) ([]byte, error) { return s.inner.Get(bucket, key) }

// Close implements store.Store.
func (s *Store) Close() error { return s.inner.Close() }

// Apply implements store.Store. All changes have one version.
func (s *Store) Apply(changes ...store.Change) error {
	told, err := s.write(changes)
	if err == nil && len(told) > 0 && s.publish != nil {
		s.publish(told)
	}
	return err
}

// write makes changes durable, and returns those that others are to be told of.
func (s *Store) write(changes []store.Change) (told []Entry, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.begin()
	now := s.clock.tick()
	for _, c := range changes {
		e := Entry{Bucket: c.Bucket, Key: c.Key, Value: c.Value, Dead: c.Value == nil, Version: Version{Time: now, Writer: s.id}}
		old := b.meta(e.place())
		switch {
		case e.Dead && (old == nil || old.Dead):
			continue
		case old == nil:
			e.Life = s.floor + 1
		case old.Dead:
			e.Life = old.Life + 1
		case !e.Dead && slices.Contains(s.cfg.First, c.Bucket):
			continue // another replica was first; who writes looks at what is stored
		default:
			e.Life = old.Life
		}
		b.put(&e, false)
		if s.told(c.Bucket) && !slices.Contains(s.cfg.LowPriority, c.Bucket) {
			told = append(told, e)
		}
	}
	if err := b.commit(); err != nil {
		return nil, err
	}
	return told, s.sweep()
}

// told reports whether others are told of a bucket.
func (s *Store) told(bucket string) bool {
	return slices.Contains(s.cfg.Buckets, bucket) && !slices.Contains(s.cfg.Local, bucket)
}

// batch is changes that are made together. The Store's mu is held all the time.
type batch struct {
	s       *Store
	metas   map[string]*meta
	order   []string // of the places
	changes []store.Change
}

func (s *Store) begin() *batch { return &batch{s: s, metas: make(map[string]*meta)} }

// meta is what is known of a place, with what the batch changes.
func (b *batch) meta(place string) *meta {
	if m := b.metas[place]; m != nil {
		return m
	}
	return b.s.index[place]
}

// put adds an entry; held where its value cannot be read here.
func (b *batch) put(e *Entry, held bool) {
	at := e.place()
	old := b.meta(at)
	m := metaOf(e, held)
	if _, again := b.metas[at]; !again {
		b.order = append(b.order, at)
	}
	b.metas[at] = m
	if held {
		b.changes = append(b.changes, store.Change{Bucket: bucketHeld, Key: at, Value: e.Value})
	} else {
		b.changes = append(b.changes, store.Change{Bucket: e.Bucket, Key: e.Key, Value: e.Value})
		if old != nil && old.Held {
			b.changes = append(b.changes, store.Change{Bucket: bucketHeld, Key: at})
		}
	}
	b.changes = append(b.changes, store.Change{Bucket: bucketVersions, Key: at, Value: encode(m)})
}

// commit makes it durable and known.
func (b *batch) commit() error {
	if len(b.changes) == 0 {
		return nil
	}
	if err := b.s.inner.Apply(b.changes...); err != nil {
		return err
	}
	for _, at := range b.order {
		b.s.learn(at, b.metas[at])
	}
	return nil
}

// learn notes what a place has become. Called with mu held.
func (s *Store) learn(at string, m *meta) {
	if old := s.index[at]; old != nil && old.Dead {
		s.dead--
	}
	if m.Dead {
		s.dead++
	}
	s.seq++
	m.seq = s.seq
	s.index[at] = m
	s.feed = append(s.feed, learned{s.seq, at})
	if len(s.feed) > 2*len(s.index)+1024 {
		s.feed = slices.DeleteFunc(s.feed, s.superseded)
	}
}

// superseded reports whether an item of the feed counts no more. Called with mu held.
func (s *Store) superseded(l learned) bool {
	m := s.index[l.place]
	return m == nil || m.seq != l.seq
}

// sweep drops tombstones that are too old or too many. Called with mu held.
func (s *Store) sweep() error {
	now := s.clock.now()
	if s.dead <= s.cfg.maxTombstones && now.Sub(s.sweeps) < sweepEvery {
		return nil
	}
	s.sweeps = now
	type tombstone struct {
		at   string
		time uint64
	}
	var all []tombstone
	for at, m := range s.index {
		if m.Dead {
			all = append(all, tombstone{at, m.Time})
		}
	}
	slices.SortFunc(all, func(a, b tombstone) int { return compareStamps(a.time, b.time) })
	keep := s.cfg.maxTombstones
	if len(all) > keep {
		keep = keep * 9 / 10 // so that it is not done again for each
	}
	var changes []store.Change
	floor := s.floor
	for i, t := range all {
		if m := s.index[t.at]; s.expired(m) || len(all)-i > keep {
			changes = append(changes, store.Change{Bucket: bucketVersions, Key: t.at})
			floor = max(floor, m.Life)
		}
	}
	if len(changes) == 0 {
		return nil
	}
	changes = append(changes, store.Change{Bucket: bucketSelf, Key: keySelf, Value: s.self(floor)})
	if err := s.inner.Apply(changes...); err != nil {
		return fmt.Errorf("forgetting what was deleted long ago: %w", err)
	}
	s.floor = floor
	for _, c := range changes[:len(changes)-1] {
		delete(s.index, c.Key)
		s.dead--
	}
	return nil
}

// self is what is stored of this replica. Called with mu held.
func (s *Store) self(floor uint64) []byte {
	return encode(self{Format: Format, ID: s.id, Floor: floor, Seen: s.seen})
}

// InStep notes that this replica knows what another one knows.
func (s *Store) InStep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.now().UTC()
	if now.Sub(s.seen).Abs() < time.Hour {
		return
	}
	s.seen = now
	_ = s.inner.Apply(store.Change{Bucket: bucketSelf, Key: keySelf, Value: s.self(s.floor)}) // else it is noted an hour later
}

// Away is how long this replica was in step with no other one; 0 if it never was.
func (s *Store) Away() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen.IsZero() {
		return 0
	}
	return s.clock.now().Sub(s.seen)
}

func compareStamps(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// expired reports whether a tombstone counts no more. Called with mu held.
func (s *Store) expired(m *meta) bool {
	return m.Dead && s.clock.now().Sub(timeOf(m.Time)) >= KeepTombstones
}
