package bolt

import (
	"context"

	"google.golang.org/protobuf/proto"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// PutAgent implements journal.Agents.
func (s *Store) PutAgent(ctx context.Context, user, id string, a *storagev1.Agent, ifRev uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	value, err := proto.Marshal(a)
	if err != nil {
		return invalidError("agent", err)
	}
	k := agentKey(user, id)
	return s.c.do(func(t *table, _ *operation) (rejection, err error) {
		switch {
		case ifRev == 0 && t.Get(k) != nil:
			return journal.ErrExists, nil
		case ifRev != 0:
			if rejection := checkRev(t, k, ifRev); rejection != nil {
				return rejection, nil
			}
		}
		return nil, put(t, k, value)
	})
}

func checkRev(t *table, key []byte, want uint64) error {
	a, err := readAgent(key, t.Get(key))
	if err != nil {
		return err
	}
	if a.GetRev() != want {
		return journal.ErrStale
	}
	return nil
}

func readAgent(key, stored []byte) (*storagev1.Agent, error) {
	if stored == nil {
		return nil, journal.ErrNotFound
	}
	v, err := verifyChecksum(key, stored)
	if err != nil {
		return nil, err
	}
	a := &storagev1.Agent{}
	if err := proto.Unmarshal(v, a); err != nil {
		return nil, damagedError(name(key), err)
	}
	return a, nil
}

// Agent implements journal.Agents.
func (s *Store) Agent(_ context.Context, user, id string) (a *storagev1.Agent, err error) {
	err = s.file.view(func(t *table) error {
		k := agentKey(user, id)
		a, err = readAgent(k, t.Get(k))
		return err
	})
	return a, err
}

// ListAgents implements journal.Agents.
func (s *Store) ListAgents(_ context.Context, user, after string, limit int) ([]journal.AgentEntry, error) {
	var all []journal.AgentEntry
	prefix := userPrefix(kindAgent, user)
	err := s.file.view(func(t *table) error {
		for c := t.ascend(agentKey(user, after)); len(all) < limit && c.next() && hasPrefix(c.key, prefix); {
			id := string(c.key[len(prefix):])
			if id <= after {
				continue
			}
			a, err := readAgent(c.key, c.value)
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
	return s.c.do(func(t *table, _ *operation) (rejection, err error) {
		if t.Get(k) == nil {
			return journal.ErrNotFound, nil
		}
		if ifRev != 0 {
			if rejection := checkRev(t, k, ifRev); rejection != nil {
				return rejection, nil
			}
		}
		return nil, t.Delete(k)
	})
}
