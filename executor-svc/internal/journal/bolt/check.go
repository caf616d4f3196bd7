package bolt

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// maxProblems bounds how many problems a check reports.
const maxProblems = 1000

// Problem is a defect in a journal's file.
type Problem struct {
	// Where names the entry, or the file.
	Where string `json:"where"`
	// What describes the defect.
	What string `json:"what"`
}

func (p Problem) String() string { return p.Where + ": " + p.What }

// Check reads the whole journal and returns its defects; for tests. The log is not applied meanwhile, because bbolt's check
// would report pages that a running transaction frees.
func (s *Store) Check() error {
	s.file.applying.Lock()
	defer s.file.applying.Unlock()
	problems, err := checkFile(s.file)
	err = errors.Join(err, s.file.view(checkCounts))
	for _, p := range problems {
		err = errors.Join(err, fmt.Errorf("%s: %s", p.Where, p.What))
	}
	return err
}

// checkCounts compares the stored counts with the entries.
func checkCounts(t *table) error {
	stored, found := countsOf(t), countAll(t)
	if !proto.Equal(stored.StoreInfo, found.StoreInfo) {
		return fmt.Errorf("the counts are %v, want %v", stored, found)
	}
	return nil
}

// CheckFile reads a journal that no process has open, including its log, and returns its defects.
func CheckFile(path string) ([]Problem, error) {
	f, torn, err := openToRead(path)
	if err != nil {
		return nil, err
	}
	problems, err := checkFile(f)
	for _, suspect := range []error{metaProblem(path), torn} {
		if suspect != nil {
			problems = append(problems, Problem{Where: "the file", What: suspect.Error()})
		}
	}
	return problems, errors.Join(err, f.db.Close())
}

func checkFile(f *file) ([]Problem, error) {
	c := &checker{}
	err := f.read("the file", func(t *table) error {
		c.t = t
		err := c.all()
		if err == nil && len(c.problems) == 0 {
			// Only if all entries could be read, because bbolt checks in a goroutine whose faults cannot be recovered.
			for e := range t.base.Tx().Check() {
				c.add("the file", e)
			}
		}
		return err
	})
	if errors.Is(err, journal.ErrDamaged) {
		c.add("the file", err)
		err = nil
	}
	return c.problems, err
}

// checker checks each entry, and that its related entries exist.
type checker struct {
	t        *table
	problems []Problem
}

// add records a problem. It leaves out what Where says already.
func (c *checker) add(where string, what any) {
	if len(c.problems) < maxProblems {
		text := strings.TrimPrefix(fmt.Sprint(what), where+": ")
		c.problems = append(c.problems, Problem{Where: where, What: text})
	}
}

// expect records err if it is not nil, else problem if ok is false.
func (c *checker) expect(key []byte, ok bool, problem string, err error) {
	switch {
	case err != nil:
		c.add(name(key), err)
	case !ok:
		c.add(name(key), problem)
	}
}

func (c *checker) all() error {
	var last []byte
	for cursor := c.t.ascend(nil); cursor.next(); {
		k, v := cursor.key, cursor.value
		if last != nil && bytes.Compare(last, k) >= 0 {
			return damagedError(name(k), "keys are not in order")
		}
		last = k
		if err := faultsAsErrors(name(k), func() error { c.entry(k, v); return nil }); err != nil {
			c.add(name(k), err)
		}
	}
	return nil
}

func (c *checker) entry(k, v []byte) {
	switch k[0] {
	case kindTask:
		c.taskEntry(k, v)
		return
	case kindTopic:
		c.topicEntry(k, v)
		return
	}
	hasChecksum := true
	switch k[0] {
	case kindUser, kindStatus, kindAgentTask, kindConversation, kindReference, kindTopicUser, kindArchived:
		hasChecksum = false
	case kindMeta:
		hasChecksum = !bytes.Equal(k, keySchema)
	case kindDue, kindDeadline, kindEnded, kindRequest, kindWindow, kindPostWindow, kindPayload, kindLarge, kindChunk, kindAgent, kindTopicRequest, kindOutgoing,
		kindWebhook, kindPending, kindFailed:
	default:
		c.add(name(k), "no such kind of entry exists")
		return
	}
	var err error
	if hasChecksum {
		if v, err = verifyChecksum(k, v); err != nil {
			c.add(name(k), err)
			return
		}
	}
	switch k[0] {
	case kindTopicUser, kindArchived, kindTopicRequest, kindOutgoing:
		c.topicIndex(k, v)
	case kindWebhook, kindPending, kindFailed:
		c.webhookEntry(k)
	default:
		c.index(k, v)
	}
}

// index checks that an entry outside a task's own keys matches the task.
func (c *checker) index(k, v []byte) {
	switch k[0] {
	case kindDue, kindDeadline, kindEnded, kindUser, kindStatus, kindAgentTask, kindConversation:
		if len(k) < 1+idSize {
			c.add(name(k), "its key is too short")
			return
		}
		want, err := entriesOf(c.t, idOf(k))
		c.expect(k, want[string(k)], "the entry does not match the task", err)
	case kindRequest:
		if len(v) != idSize {
			c.add(name(k), "it is not a task id")
			return
		}
		want, err := entriesOf(c.t, uuid.UUID(v))
		c.expect(k, want[string(k)], "the task was created by another request", err)
	case kindPayload:
		sum := hash{}
		copy(sum[:], k[1:])
		c.expect(k, len(k) == 1+len(sum) && sha256.Sum256(v) == sum, "its content does not match its hash", nil)
		c.expect(k, isReferenced(c.t, sum), "nothing refers to it", nil)
	case kindLarge: // until the next opening no task may refer to it
		if len(k) != 1+len(hash{}) || len(v) != 8 {
			c.add(name(k), "it is not a size")
			return
		}
		if sum := hash(k[1:]); isReferenced(c.t, sum) {
			_, err := c.t.appendPayload(nil, sum)
			c.expect(k, true, "", err)
		}
	case kindChunk:
		c.expect(k, len(k) == 1+len(hash{})+4 && has(c.t, largeKey(hash(k[1:1+len(hash{})]))), "its payload is missing", nil)
	case kindReference:
		if len(k) != 1+len(hash{})+idSize {
			c.add(name(k), "its key has the wrong size")
			return
		}
		sum := hash(k[1 : 1+len(hash{})])
		c.expect(k, refersTo(c.t, idOf(k), sum), "no task or topic refers to it", nil)
		c.expect(k, hasPayload(c.t, sum), "the payload is missing", nil)
	case kindAgent:
		_, err := readAgent(c.t, k, c.t.Get(k))
		c.expect(k, true, "", err)
	}
}

// webhookEntry checks a webhook or a delivery.
func (c *checker) webhookEntry(k []byte) {
	if k[0] == kindWebhook {
		_, err := readWebhook(c.t, k)
		c.expect(k, len(k) >= idSize+2, "its key is too short", err)
		return
	}
	_, err := readMessage(c.t, k, c.t.Get(k), &storagev1.Delivery{})
	c.expect(k, len(k) == 1+idSize+8, "its key has the wrong size", err)
}

// has reports whether a key exists, even without a value.
func has(t *table, key []byte) bool {
	c := t.ascend(key)
	return c.next() && bytes.Equal(c.key, key)
}

// refersTo reports whether a task or topic refers to a payload.
func refersTo(t *table, id uuid.UUID, sum hash) bool {
	return has(t, ownPayloadKey(kindTask, id, sum)) || has(t, ownPayloadKey(kindTopic, id, sum))
}

// entriesOf returns the index keys that a task must have.
func entriesOf(t *table, id uuid.UUID) (map[string]bool, error) {
	head, err := readHead(t, id)
	if err != nil {
		return nil, err
	}
	st, err := storedState(t, taskKey(id, partCheckpoint))
	if err != nil {
		return nil, err
	}
	want := map[string]bool{}
	for _, k := range indexKeys(id, head, &st) {
		want[string(k)] = true
	}
	if isActive(st.status) || hasCommands(t, id) {
		want[string(dueKey(id))] = true
	}
	return want, nil
}

func (c *checker) taskEntry(k, v []byte) {
	if len(k) < idSize+2 {
		c.add(name(k), "its key is too short")
		return
	}
	id := ownerOf(k)
	switch part := k[idSize+1]; part {
	case partHead:
		c.task(id)
	case partPayload:
		c.ownPayload(k)
	case partCheckpoint, partRecord, partCommand:
		c.expect(k, c.t.Get(taskKey(id, partHead)) != nil, "its task is missing", nil)
		value, err := verifyChecksum(k, v)
		if err == nil && part == partCheckpoint {
			_, value, err = readState(value)
		}
		c.cuts(k, value, err)
	default:
		c.add(name(k), "a task has no such part")
	}
}

// ownPayload checks the reference of a task or topic to a payload.
func (c *checker) ownPayload(k []byte) {
	sum := hash{}
	copy(sum[:], k[idSize+2:])
	c.expect(k, has(c.t, referenceKey(sum, ownerOf(k))), "the payload has no reference back", nil)
	c.expect(k, hasPayload(c.t, sum), "the payload is missing", nil)
}

// cuts checks that a task or topic refers to the payloads of one of its messages.
func (c *checker) cuts(k, value []byte, err error) {
	var cuts []cut
	if err == nil {
		cuts, _, err = readCuts(value)
	}
	for _, cut := range cuts {
		c.expect(k, has(c.t, ownPayloadKey(k[0], ownerOf(k), cut.sum)), "there is no reference to its payload", nil)
	}
	c.expect(k, true, "", err)
}

// task checks a task as a whole: its indexes, commands and records.
func (c *checker) task(id uuid.UUID) {
	k := taskKey(id, partHead)
	t, err := readTask(c.t, id)
	if err != nil {
		c.add(name(k), err)
		return
	}
	want, err := entriesOf(c.t, id)
	c.expect(k, true, "", err)
	for key := range want {
		c.expect([]byte(key), has(c.t, []byte(key)), "it is missing", nil)
	}
	if !state.Ended(t.Checkpoint.GetStatus()) || hasCommands(c.t, id) {
		e, err := storedDue(c.t, id)
		c.expect(k, e.runs == isActive(t.Checkpoint.GetStatus()) && e.commands == hasCommands(c.t, id), "the index of due tasks differs from the task", err)
	}
	_, err = commands(c.t, id)
	c.expect(k, true, "", err)
	c.records(id, t.Checkpoint)
}

func (c *checker) records(id uuid.UUID, cp *storagev1.Checkpoint) {
	for after := uint64(0); ; {
		rs, err := readRecords(c.t, id, after, 1<<20)
		if err != nil {
			c.add("records of task "+id.String(), err)
			return
		}
		if len(rs) == 0 {
			if after != cp.GetLastSeq() {
				c.add("records of task "+id.String(), fmt.Sprintf("they end at seq %d, not at %d", after, cp.GetLastSeq()))
			}
			return
		}
		last := rs[len(rs)-1]
		after = last.FirstSeq + uint64(len(last.GetFacts())) - 1
	}
}
