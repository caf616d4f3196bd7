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
	return s.c.do(func(t *table, _ *operation) error {
		switch {
		case ifRev == 0 && t.Get(k) != nil:
			return journal.ErrExists
		case ifRev != 0:
			if err := checkRev(t, k, ifRev); err != nil {
				return err
			}
		}
		return put(t, k, value)
	})
}

func checkRev(t *table, key []byte, want uint64) error {
	a, err := readAgent(t, key, t.Get(key))
	if err != nil {
		return err
	}
	if a.GetRev() != want {
		return journal.ErrStale
	}
	return nil
}

func readAgent(t *table, key, stored []byte) (*storagev1.Agent, error) {
	if stored == nil {
		return nil, journal.ErrNotFound
	}
	a := &storagev1.Agent{}
	_, err := readMessage(t, key, stored, a)
	return a, err
}

// Agent implements journal.Agents.
func (s *Store) Agent(_ context.Context, user, id string) (a *storagev1.Agent, err error) {
	err = s.file.view(func(t *table) error {
		k := agentKey(user, id)
		a, err = readAgent(t, k, t.Get(k))
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
			a, err := readAgent(t, c.key, c.value)
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
	return s.c.do(func(t *table, _ *operation) error {
		if t.Get(k) == nil {
			return journal.ErrNotFound
		}
		if ifRev != 0 {
			if err := checkRev(t, k, ifRev); err != nil {
				return err
			}
		}
		t.Delete(k)
		return nil
	})
}
