package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

func numberBytes(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// PutAgent implements journal.Agents.
func (s *Store) PutAgent(ctx context.Context, user, id string, a *storagev1.Agent, ifRev uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	value, err := proto.Marshal(a)
	if err != nil {
		return fmt.Errorf("encoding the agent: %w", err)
	}
	return s.c.do(func(b *bbolt.Bucket) (reject, err error) {
		old := b.Get(agentKey(user, id))
		switch {
		case ifRev == 0 && old != nil:
			return journal.ErrExists, nil
		case ifRev != 0:
			if reject := checkRev(old, ifRev); reject != nil {
				return reject, nil
			}
		}
		return nil, b.Put(agentKey(user, id), value)
	})
}

func checkRev(stored []byte, want uint64) error {
	if stored == nil {
		return journal.ErrNotFound
	}
	a := &storagev1.Agent{}
	if err := proto.Unmarshal(stored, a); err != nil {
		return fmt.Errorf("the agent is damaged: %w", err)
	}
	if a.GetRev() != want {
		return journal.ErrStale
	}
	return nil
}

// Agent implements journal.Agents.
func (s *Store) Agent(_ context.Context, user, id string) (*storagev1.Agent, error) {
	a := &storagev1.Agent{}
	err := s.view(func(b *bbolt.Bucket) error {
		v := b.Get(agentKey(user, id))
		if v == nil {
			return journal.ErrNotFound
		}
		return proto.Unmarshal(v, a)
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// ListAgents implements journal.Agents.
func (s *Store) ListAgents(_ context.Context, user, after string, limit int) ([]journal.AgentEntry, error) {
	var all []journal.AgentEntry
	prefix := userPrefix('g', user)
	err := s.view(func(b *bbolt.Bucket) error {
		c := b.Cursor()
		for k, v := c.Seek(agentKey(user, after)); k != nil && bytes.HasPrefix(k, prefix) && len(all) < limit; k, v = c.Next() {
			id := string(k[len(prefix):])
			if id <= after {
				continue
			}
			a := &storagev1.Agent{}
			if err := proto.Unmarshal(v, a); err != nil {
				return fmt.Errorf("agent %s is damaged: %w", id, err)
			}
			all = append(all, journal.AgentEntry{ID: id, Agent: a})
		}
		return nil
	})
	return all, err
}

// DeleteAgent implements journal.Agents.
func (s *Store) DeleteAgent(ctx context.Context, user, id string, ifRev uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.c.do(func(b *bbolt.Bucket) (reject, err error) {
		old := b.Get(agentKey(user, id))
		if old == nil {
			return journal.ErrNotFound, nil
		}
		if ifRev != 0 {
			if reject := checkRev(old, ifRev); reject != nil {
				return reject, nil
			}
		}
		return nil, b.Delete(agentKey(user, id))
	})
}
