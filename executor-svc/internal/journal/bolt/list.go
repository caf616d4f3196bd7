package bolt

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// scanAtOnce bounds how many entries one read transaction visits, because the file cannot grow while such a transaction is open.
const scanAtOnce = 2000

// List implements journal.Tasks.
func (s *Store) List(ctx context.Context, q journal.Query) (journal.Page, error) {
	prefix := userPrefix(kindUser, q.User)
	if q.ConversationID != "" {
		prefix = conversationPrefix(q.User, q.ConversationID)
	}
	end := append(bytes.Clone(prefix), bytes.Repeat([]byte{0xff}, idSize+1)...)
	if q.Before != "" {
		id, err := parseID(q.Before)
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
		err := s.file.view(func(t *table) (err error) {
			end, err = s.listBefore(t, q, prefix, end, &page)
			return err
		})
		if err != nil {
			return journal.Page{}, err
		}
	}
	return page, nil
}

// listBefore adds tasks whose key is less than end to the page. It returns the next end; nil once the page is complete.
func (s *Store) listBefore(t *table, q journal.Query, prefix, end []byte, page *journal.Page) ([]byte, error) {
	c := t.descend(end)
	for range scanAtOnce {
		if !c.next() || !hasPrefix(c.key, prefix) {
			return nil, nil
		}
		if len(c.key) != len(prefix)+idSize {
			continue
		}
		task, err := s.match(t, q, idOf(c.key))
		if err != nil {
			return nil, err
		}
		if task != nil {
			if len(page.Tasks) == q.Limit {
				page.More = true
				return nil, nil
			}
			page.Tasks = append(page.Tasks, task)
		}
	}
	return bytes.Clone(c.key), nil
}

// match returns a task if it matches the query, else nil.
func (s *Store) match(t *table, q journal.Query, id uuid.UUID) (*journal.Task, error) {
	if len(q.Statuses) > 0 || q.AgentID != "" {
		i, err := readIndex(t, userKey(q.User, id))
		if err != nil || len(q.Statuses) > 0 && !slices.Contains(q.Statuses, i.GetStatus()) || q.AgentID != "" && q.AgentID != i.GetAgentId() {
			return nil, err
		}
	}
	task, err := s.read(t, id)
	if errors.Is(err, journal.ErrNotFound) {
		err = damagedError(name(userKey(q.User, id)), err)
	}
	if err != nil {
		return nil, err
	}
	created := task.Head.GetCreateTime()
	if !q.CreatedAfter.IsZero() && created < q.CreatedAfter.UnixNano() || !q.CreatedBefore.IsZero() && created >= q.CreatedBefore.UnixNano() {
		return nil, nil
	}
	return task, nil
}

func readIndex(t *table, key []byte) (*storagev1.TaskIndex, error) {
	stored := t.Get(key)
	if stored == nil {
		return nil, damagedError(name(key), errMissing)
	}
	i := &storagev1.TaskIndex{}
	_, err := readMessage(t, key, stored, i)
	return i, err
}
