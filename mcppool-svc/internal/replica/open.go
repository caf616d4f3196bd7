package replica

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"pawl.dev/mcppool-svc/internal/store"
)

// Open reads the versions of a store's values and assigns versions to values without one, which an older program wrote.
func Open(inner store.Store, cfg Config) (*Store, error) {
	if cfg.maxTombstones == 0 {
		cfg.maxTombstones = MaxTombstones
	}
	s := &Store{cfg: cfg, inner: inner, clock: clock{now: cfg.Now}, index: make(map[string]*meta)}
	run, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("naming a run of the replica: %w", err)
	}
	s.run = run.String()
	s.mu.Lock()
	defer s.mu.Unlock()
	migrate, err := s.introduce()
	if err == nil {
		err = s.readVersions()
	}
	if err == nil {
		err = s.reconcile(migrate)
	}
	if err == nil {
		err = s.sweep()
	}
	if err != nil {
		return nil, fmt.Errorf("reading the versions of what is stored: %w", err)
	}
	return s, nil
}

// introduce reads or creates this replica's identity. It reports whether the file is older than versions.
func (s *Store) introduce() (migrate bool, err error) {
	raw, err := s.inner.Get(bucketSelf, keySelf)
	if err != nil {
		return false, err
	}
	if raw != nil {
		me, err := decodeSelf(raw)
		s.id, s.floor, s.seen = me.ID, me.Floor, me.Seen
		return false, err
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return false, fmt.Errorf("naming the replica: %w", err)
	}
	s.id = id.String()
	return true, nil
}

func (s *Store) readVersions() error {
	return s.inner.Load(bucketVersions, func(at string, value []byte) error {
		m := &meta{}
		if err := json.Unmarshal(value, m); err != nil {
			return fmt.Errorf("entry %q: %w", at, err)
		}
		s.learn(at, m)
		if s.clock.ahead(m.Time) == nil {
			s.clock.observe(m.Time)
		}
		return nil
	})
}

// reconcile makes values and versions consistent. Times far in the future, from a clock that was wrong, become the present: no other
// replica accepted them.
func (s *Store) reconcile(migrate bool) error {
	b, now := s.begin(), s.clock.tick()
	there := make(map[string]bool)
	for _, bucket := range s.cfg.Buckets {
		err := s.inner.Load(bucket, func(key string, value []byte) error {
			there[place(bucket, key)] = true
			s.restamp(b, bucket, key, slices.Clone(value), now, migrate)
			return nil
		})
		if err != nil {
			return err
		}
	}
	err := s.inner.Load(BucketHeld, func(at string, value []byte) error {
		bucket, key := split(at)
		m := s.index[at]
		if m != nil && m.Held && s.readable(bucket, key, value) {
			b.put(&Entry{Bucket: bucket, Key: key, Value: slices.Clone(value), Version: m.rank().Version}, false)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for at, m := range s.index {
		if bucket, key := split(at); !m.Dead && !m.Held && !there[at] {
			b.put(&Entry{Bucket: bucket, Key: key, Dead: true, Version: Version{m.Life, now, s.id}}, false)
		}
	}
	if migrate {
		b.changes = append(b.changes, store.Change{Bucket: bucketSelf, Key: keySelf, Value: s.self(0)})
	}
	return b.commit()
}

func (s *Store) readable(bucket, key string, value []byte) bool {
	return s.cfg.Readable == nil || s.cfg.Readable(bucket, key, value)
}

// restamp assigns a version to a value without a matching one.
func (s *Store) restamp(b *batch, bucket, key string, value []byte, now uint64, migrate bool) {
	m := s.index[place(bucket, key)]
	if m != nil && (m.Held || !m.Dead && m.Sum == sumOf(value) && s.clock.ahead(m.Time) == nil) {
		return
	}
	e := &Entry{Bucket: bucket, Key: key, Value: value, Version: Version{Life: s.floor + 1, Time: now, Writer: s.id}}
	switch {
	case m != nil && m.Dead:
		e.Life = m.Life + 1
	case m != nil:
		e.Life = m.Life
	case migrate && s.cfg.Written != nil:
		if t := s.cfg.Written(bucket, value); !t.IsZero() && t.Before(timeOf(now).Add(time.Millisecond)) {
			e.Time = stampOf(t)
		}
	}
	b.put(e, false)
}
