package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/google/uuid"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
)

// scanAtOnce bounds how many entries one read transaction visits, because the file cannot grow while such a transaction is open.
const scanAtOnce = 2000

// List implements journal.Tasks. Each filter is a set of ids in the order of time; the page has the ids that all sets contain.
func (s *Store) List(ctx context.Context, q journal.Query) (journal.Page, error) {
	bound, err := firstBound(q)
	if err != nil {
		return journal.Page{}, err
	}
	var page journal.Page
	for sets := setsOf(q); bound != nil; {
		if err := ctx.Err(); err != nil {
			return journal.Page{}, err
		}
		err := s.file.view(func(t *table) (err error) {
			bound, err = s.listBelow(t, q, sets, bound, &page)
			return err
		})
		if err != nil {
			return journal.Page{}, err
		}
	}
	return page, nil
}

// firstBound returns what the ids of the page are less than.
func firstBound(q journal.Query) ([]byte, error) {
	bound := bytes.Repeat([]byte{0xff}, idSize+1)
	if q.Before != "" {
		id, err := parseID(q.Before)
		if err != nil {
			return nil, err
		}
		bound = id[:]
	}
	if !q.CreatedBefore.IsZero() {
		if before := firstIDAt(q.CreatedBefore.Add(time.Millisecond - 1)); bytes.Compare(before, bound) < 0 {
			bound = before
		}
	}
	return bound, nil
}

// firstIDAt returns the bytes with which ids of UUID version 7 begin at a time; ids of later times are greater.
func firstIDAt(t time.Time) []byte {
	millis := min(max(t.UnixMilli(), 0), 1<<48-1)
	return binary.BigEndian.AppendUint64(nil, uint64(millis))[2:]
}

// idSet is the ids in several indexes, by the prefixes of their keys.
type idSet [][]byte

// setsOf returns the sets of a query.
func setsOf(q journal.Query) (sets []idSet) {
	if q.ConversationID != "" {
		sets = append(sets, idSet{conversationPrefix(q.User, q.ConversationID)})
	}
	if q.AgentID != "" {
		sets = append(sets, idSet{agentTasksPrefix(q.User, q.AgentID)})
	}
	if len(q.Statuses) > 0 {
		var of idSet
		for _, status := range q.Statuses {
			of = append(of, statusPrefix(q.User, status))
		}
		sets = append(sets, of)
	}
	if len(sets) == 0 {
		sets = append(sets, idSet{userPrefix(kindUser, q.User)})
	}
	return sets
}

// below returns the greatest id of the set that is less than the bound; nil if there is none.
func (s idSet) below(t *table, bound []byte) (found []byte) {
	for _, prefix := range s {
		for c := t.descend(append(bytes.Clone(prefix), bound...)); c.next() && hasPrefix(c.key, prefix); {
			if id := c.key[len(prefix):]; len(id) == idSize { // else it is of another conversation
				if bytes.Compare(id, found) > 0 {
					found = id
				}
				break
			}
		}
	}
	return found
}

// lowest returns the lowest of the sets' greatest ids below the bound, and whether all have it; nil if a set has none. No id that is greater is in all sets.
func lowest(t *table, sets []idSet, bound []byte) (id []byte, inAll bool) {
	inAll = true
	for i, set := range sets {
		found := set.below(t, bound)
		switch order := bytes.Compare(found, id); {
		case found == nil:
			return nil, false
		case i == 0:
			id = found
		case order != 0:
			inAll = false
			if order < 0 {
				id = found
			}
		}
	}
	return id, inAll
}

// listBelow adds tasks whose ids are less than the bound to the page. It returns the next bound; nil once the page is complete.
func (s *Store) listBelow(t *table, q journal.Query, sets []idSet, bound []byte, page *journal.Page) ([]byte, error) {
	var oldest []byte
	if !q.CreatedAfter.IsZero() {
		oldest = firstIDAt(q.CreatedAfter)
	}
	for range scanAtOnce {
		id, inAll := lowest(t, sets, bound)
		if id == nil || bytes.Compare(id, oldest) < 0 {
			return nil, nil
		}
		if bound = id; !inAll {
			bound = append(bytes.Clone(id), 0) // the id itself may be in all sets
			continue
		}
		task, err := s.read(t, uuid.UUID(id))
		if errors.Is(err, journal.ErrNotFound) {
			err = damagedError(name(userKey(q.User, uuid.UUID(id))), err)
		}
		switch {
		case err != nil:
			return nil, err
		case !createdWithin(q, task.Head.GetCreateTime()):
		case len(page.Tasks) == q.Limit:
			page.More = true
			return nil, nil
		default:
			page.Tasks = append(page.Tasks, task)
		}
	}
	return bytes.Clone(bound), nil
}

// createdWithin reports whether a time of creation is within the query's bounds. The ids tell it only to the millisecond.
func createdWithin(q journal.Query, created int64) bool {
	return (q.CreatedAfter.IsZero() || created >= q.CreatedAfter.UnixNano()) && (q.CreatedBefore.IsZero() || created < q.CreatedBefore.UnixNano())
}

func statusPrefix(user string, status executorv1.ExecutorStatus) []byte {
	return append(userPrefix(kindStatus, user), byte(status))
}

func agentTasksPrefix(user, agent string) []byte {
	return append(append(userPrefix(kindAgentTask, user), agent...), 0)
}

func statusKey(user string, status executorv1.ExecutorStatus, id uuid.UUID) []byte {
	return append(statusPrefix(user, status), id[:]...)
}
