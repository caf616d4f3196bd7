package bolt

import (
	"context"
	"encoding/binary"

	"google.golang.org/protobuf/proto"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/pack"
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
		return invalid("agent", err)
	}
	k := agentKey(user, id)
	sealed := pack.Seal(k, value)
	return s.c.do(func(b *table, _ *op) (reject, err error) {
		switch {
		case ifRev == 0 && b.Get(k) != nil:
			return journal.ErrExists, nil
		case ifRev != 0:
			if reject := checkRev(b, k, ifRev); reject != nil {
				return reject, nil
			}
		}
		return nil, b.Put(k, sealed)
	})
}

func checkRev(b *table, key []byte, want uint64) error {
	a, err := readAgent(key, b.Get(key))
	if err != nil {
		return err
	}
	if a.GetRev() != want {
		return journal.ErrStale
	}
	return nil
}

func readAgent(key, sealed []byte) (*storagev1.Agent, error) {
	if sealed == nil {
		return nil, journal.ErrNotFound
	}
	v, err := unseal(key, sealed)
	if err != nil {
		return nil, err
	}
	a := &storagev1.Agent{}
	if err := proto.Unmarshal(v, a); err != nil {
		return nil, damaged(name(key), err)
	}
	return a, nil
}

// Agent implements journal.Agents.
func (s *Store) Agent(_ context.Context, user, id string) (a *storagev1.Agent, err error) {
	err = s.view(func(b *table) error {
		k := agentKey(user, id)
		a, err = readAgent(k, b.Get(k))
		return err
	})
	return a, err
}

// ListAgents implements journal.Agents.
func (s *Store) ListAgents(_ context.Context, user, after string, limit int) ([]journal.AgentEntry, error) {
	var all []journal.AgentEntry
	prefix := userPrefix(kindAgent, user)
	err := s.view(func(b *table) error {
		c := b.Cursor()
		for k, v := c.Seek(agentKey(user, after)); hasPrefix(k, prefix) && len(all) < limit; k, v = c.Next() {
			id := string(k[len(prefix):])
			if id <= after {
				continue
			}
			a, err := readAgent(k, v)
			if err != nil {
				return err
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
	k := agentKey(user, id)
	return s.c.do(func(b *table, _ *op) (reject, err error) {
		if b.Get(k) == nil {
			return journal.ErrNotFound, nil
		}
		if ifRev != 0 {
			if reject := checkRev(b, k, ifRev); reject != nil {
				return reject, nil
			}
		}
		return nil, b.Delete(k)
	})
}
