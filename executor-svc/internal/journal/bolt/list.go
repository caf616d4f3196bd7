package bolt

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// scanAtOnce bounds what one transaction reads of a long index: a file cannot grow while one is open.
const scanAtOnce = 2000

// List implements journal.Tasks.
func (s *Store) List(ctx context.Context, q journal.Query) (journal.Page, error) {
	prefix := userPrefix(kindUser, q.User)
	if q.ConversationID != "" {
		prefix = conversationPrefix(q.User, q.ConversationID)
	}
	end := append(bytes.Clone(prefix), bytes.Repeat([]byte{0xff}, idSize+1)...)
	if q.Before != "" {
		id, err := rawID(q.Before)
		if err != nil {
			return journal.Page{}, err
		}
		end = append(bytes.Clone(prefix), id[:]...)
	}
	var page journal.Page
	for end != nil {
		if err := ctx.Err(); err != nil {
			return journal.Page{}, err
		}
		err := s.view(func(b *table) (err error) {
			end, err = s.listBefore(b, q, prefix, end, &page)
			return err
		})
		if err != nil {
			return journal.Page{}, err
		}
	}
	return page, nil
}

// listBefore adds tasks whose key is less than end, and returns where to go on; nil where the page is done.
func (s *Store) listBefore(b *table, q journal.Query, prefix, end []byte, page *journal.Page) ([]byte, error) {
	c := b.Cursor()
	k := lastBefore(c, end)
	for range scanAtOnce {
		if !hasPrefix(k, prefix) {
			return nil, nil
		}
		if len(k) == len(prefix)+idSize {
			t, err := s.fitting(b, q, idOf(k))
			if err != nil {
				return nil, err
			}
			if t != nil {
				if len(page.Tasks) == q.Limit {
					page.More = true
					return nil, nil
				}
				page.Tasks = append(page.Tasks, t)
			}
		}
		end = k
		k, _ = c.Prev()
	}
	return bytes.Clone(end), nil
}

// lastBefore moves to the last key that is less than end.
func lastBefore(c *cursor, end []byte) []byte {
	if k, _ := c.Seek(end); k == nil {
		k, _ = c.Last()
		return k
	}
	k, _ := c.Prev()
	return k
}

// fitting returns a task that the query asks for; nil where it does not.
func (s *Store) fitting(b *table, q journal.Query, id uuid.UUID) (*journal.Task, error) {
	fits, err := indexFits(b, q, id)
	if !fits || err != nil {
		return nil, err
	}
	t, err := s.read(b, id)
	if errors.Is(err, journal.ErrNotFound) {
		err = damaged(name(userKey(q.User, id)), err)
	}
	if err != nil || !timeFits(q, t.Head.GetCreateTime()) {
		return nil, err
	}
	return t, nil
}

func indexFits(b *table, q journal.Query, id uuid.UUID) (bool, error) {
	if len(q.Statuses) == 0 && q.AgentID == "" {
		return true, nil
	}
	i, err := readIndex(b, userKey(q.User, id))
	if err != nil {
		return false, err
	}
	return (len(q.Statuses) == 0 || slices.Contains(q.Statuses, i.GetStatus())) &&
		(q.AgentID == "" || q.AgentID == i.GetAgentId()), nil
}

func readIndex(b *table, key []byte) (*storagev1.TaskIndex, error) {
	v, err := get(b, key)
	if err == nil && b.Get(key) == nil {
		err = damaged(name(key), errMissing)
	}
	if err != nil {
		return nil, err
	}
	i := &storagev1.TaskIndex{}
	if err := proto.Unmarshal(v, i); err != nil {
		return nil, damaged(name(key), err)
	}
	return i, nil
}

func timeFits(q journal.Query, created int64) bool {
	return (q.CreatedAfter.IsZero() || created >= q.CreatedAfter.UnixNano()) &&
		(q.CreatedBefore.IsZero() || created < q.CreatedBefore.UnixNano())
}
