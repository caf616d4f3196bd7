package replica

import (
	"errors"
	"fmt"
	"slices"
)

// Merge stores entries that other replicas wrote, and returns the number of new ones. Observers have been called when it returns. ErrAhead
// means that entries from the future were skipped and the others stored.
func (s *Store) Merge(entries []Entry) (int, error) {
	fresh, refused, err := s.merge(entries)
	if err != nil {
		return 0, err
	}
	if len(fresh) > 0 {
		for _, f := range s.observers {
			f(fresh)
		}
	}
	return len(fresh), refused
}

// merge returns the places whose value has changed.
func (s *Store) merge(entries []Entry) (fresh []Place, refused, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.begin()
	var last uint64
	for i := range entries {
		e := &entries[i]
		if err := s.clock.ahead(e.Time); err != nil {
			refused = fmt.Errorf("%w (%s): %w", ErrAhead, e.Bucket, err)
			continue
		}
		wins, err := s.wins(b, e)
		if err != nil {
			return nil, nil, err
		}
		if !wins {
			continue
		}
		last = max(last, e.Time)
		held := !e.Dead && s.cfg.Readable != nil && !s.cfg.Readable(e.Bucket, e.Key, e.Value)
		b.put(e, held)
		if !held {
			fresh = append(fresh, Place{e.Bucket, e.Key})
		}
	}
	if len(s.index)+len(b.order) > maxEntries {
		return nil, nil, fmt.Errorf("another replica has more than %d entries; that cannot be", maxEntries)
	}
	if err := b.commit(); err != nil {
		return nil, nil, err
	}
	s.clock.observe(last)
	return fresh, refused, s.sweep()
}

// wins reports whether an entry replaces the stored one.
func (s *Store) wins(b *batch, e *Entry) (bool, error) {
	if e.Dead != (e.Value == nil) || e.Life == 0 {
		return false, errors.New("an entry of another replica is neither there nor deleted")
	}
	if !s.told(e.Bucket) || s.expired(metaOf(e, false)) {
		return false, nil // not for this replica, or too old to matter
	}
	old := b.meta(e.place())
	if old == nil || s.expired(old) {
		return true, nil
	}
	new := rank{e.Version, e.Dead}
	if c := new.compare(old.rank(), slices.Contains(s.cfg.First, e.Bucket)); c != 0 || e.Dead || sumOf(e.Value) == old.Sum {
		return c > 0, nil
	}
	// Two writes of one version: a data folder was copied.
	now, err := s.value(b, e.place(), old)
	return compareValues(e.Value, now) > 0, err
}

// value returns the entry of a place as other replicas receive it.
func (s *Store) value(b *batch, at string, m *meta) ([]byte, error) {
	bucket, key := split(at)
	if m.Held {
		bucket, key = BucketHeld, at
	}
	if b != nil {
		for _, c := range slices.Backward(b.changes) {
			if c.Bucket == bucket && c.Key == key {
				return c.Value, nil
			}
		}
	}
	return s.inner.Get(bucket, key)
}

// Page is a part of a replica's entries.
type Page struct {
	Entries []Entry
	Run     string // the run that Next belongs to
	Next    uint64
	More    bool
}

// pageBytes and pageEntries bound a page; it has at least one entry.
const (
	pageBytes   = 1 << 20
	pageEntries = 1000
)

// Since returns the entries that this replica learned after a position of a run; for another run, all entries.
func (s *Store) Since(run string, after uint64) (Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if run != s.run || after > s.seq {
		after = 0
	}
	page := Page{Run: s.run, Next: after}
	start, _ := slices.BinarySearchFunc(s.feed, after+1, func(l learned, want uint64) int { return compareStamps(l.seq, want) })
	size := 0
	for _, l := range s.feed[start:] {
		m := s.index[l.place]
		bucket, key := split(l.place)
		if s.superseded(l) || !s.told(bucket) || s.expired(m) {
			page.Next = l.seq
			continue
		}
		e := Entry{Bucket: bucket, Key: key, Dead: m.Dead, Version: m.rank().Version}
		if !m.Dead {
			var err error
			if e.Value, err = s.value(nil, l.place, m); err != nil {
				return page, err
			}
		}
		size += len(e.Value) + len(l.place)
		if len(page.Entries) > 0 && (size > pageBytes || len(page.Entries) == pageEntries) {
			page.More = true
			break
		}
		page.Next = l.seq
		page.Entries = append(page.Entries, e)
	}
	return page, nil
}
