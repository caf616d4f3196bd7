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
	// KeepTombstones is how long a deletion is remembered. A replica that was away for longer may bring back
	// deleted entries.
	KeepTombstones = 30 * 24 * time.Hour
	// MaxTombstones bounds their number; the oldest are dropped first.
	MaxTombstones = 100_000
	// maxEntries bounds the entries accepted from others.
	maxEntries = 1_000_000
	// sweepEvery is the interval of removing old tombstones.
	sweepEvery = time.Hour
)

// ErrAhead means that an entry is from the future and was not stored.
var ErrAhead = errors.New("an entry of another replica was not taken")

// Config configures the replication of values.
type Config struct {
	// Buckets are the buckets of values.
	Buckets []string
	// First are the buckets in which the first write wins, not the last.
	First []string
	// Local are the buckets that are not replicated.
	Local []string
	// LowPriority are the buckets whose replication no request waits for.
	LowPriority []string
	// Readable reports whether this program can read a value. An unreadable one is kept aside, and the last readable one stays in use.
	Readable func(bucket, key string, value []byte) bool
	// Written returns when a value without a version was written; the zero time if unknown.
	Written func(bucket string, value []byte) time.Time
	Now     func() time.Time

	maxTombstones int // for tests; MaxTombstones if 0
}

// Place is the bucket and key of a value.
type Place struct{ Bucket, Key string }

// Store is a store.Store with versions. It is safe for concurrent use.
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

// learned is an item of the feed. It is superseded when its place is learned again.
type learned struct {
	seq   uint64
	place string
}

// Buckets returns the buckets that the underlying store needs for these buckets of values.
func Buckets(values []string) []string {
	return append(slices.Clone(values), bucketVersions, BucketHeld, bucketSelf)
}

// ID identifies this replica.
func (s *Store) ID() string { return s.id }

// Observe adds an observer that is called when values of other replicas are durable. Call it before the first Merge. An observer reads the
// stored value, which may have changed again.
func (s *Store) Observe(f func([]Place)) { s.observers = append(s.observers, f) }

// Publish sets the function that sends local writes to others before the write returns. Call it before the first write.
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

// write makes changes durable, and returns those to send to others.
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
			continue // another replica was first; the writer reads the stored value
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

// told reports whether a bucket is replicated.
func (s *Store) told(bucket string) bool {
	return slices.Contains(s.cfg.Buckets, bucket) && !slices.Contains(s.cfg.Local, bucket)
}

// batch is a set of changes that are made together. The Store's mu is held throughout.
type batch struct {
	s       *Store
	metas   map[string]*meta
	order   []string // of the places
	changes []store.Change
}

func (s *Store) begin() *batch { return &batch{s: s, metas: make(map[string]*meta)} }

// meta returns the version of a place, including the batch's changes.
func (b *batch) meta(place string) *meta {
	if m := b.metas[place]; m != nil {
		return m
	}
	return b.s.index[place]
}

// put adds an entry; as a held one if its value cannot be read here.
func (b *batch) put(e *Entry, held bool) {
	at := e.place()
	old := b.meta(at)
	m := metaOf(e, held)
	if _, again := b.metas[at]; !again {
		b.order = append(b.order, at)
	}
	b.metas[at] = m
	if held {
		b.changes = append(b.changes, store.Change{Bucket: BucketHeld, Key: at, Value: e.Value})
	} else {
		b.changes = append(b.changes, store.Change{Bucket: e.Bucket, Key: e.Key, Value: e.Value})
		if old != nil && old.Held {
			b.changes = append(b.changes, store.Change{Bucket: BucketHeld, Key: at})
		}
	}
	b.changes = append(b.changes, store.Change{Bucket: bucketVersions, Key: at, Value: encode(m)})
}

// commit makes the batch durable and adds it to the feed.
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

// learn adds a place's new version to the feed. Called with mu held.
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

// superseded reports whether a later item of the feed replaces this one. Called with mu held.
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
		keep = keep * 9 / 10 // so that not every deletion sweeps
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

// self returns the stored form of this replica's identity. Called with mu held.
func (s *Store) self(floor uint64) []byte {
	return encode(self{Format: Format, ID: s.id, Floor: floor, Seen: s.seen})
}

// InStep records that this replica has all entries of another one.
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

// Away returns how long this replica has not been in step with any other; 0 if it never was.
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

// expired reports whether a tombstone may be dropped. Called with mu held.
func (s *Store) expired(m *meta) bool {
	return m.Dead && s.clock.now().Sub(timeOf(m.Time)) >= KeepTombstones
}
