package bolt

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal/pack"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// migrateAtOnce is how many entries one transaction brings up to the schema.
const migrateAtOnce = 1000

// keyMigrated holds the last key that was brought up to the schema: a migration that was cut off goes on behind it.
var keyMigrated = []byte("mmigrated")

// migrate brings a file up to the schema. Of schema 1, values got checksums, checkpoints a state in front and notes of their
// own, and there are indexes by time; of schema 2, the file has a log in front of it.
func migrate(f *file, from uint64) error {
	for done := from >= 2; !done; {
		err := f.direct(func(b *bbolt.Bucket) (err error) {
			done, err = migrateSome(&table{base: b})
			return err
		}, f.commit)
		if err != nil {
			return err
		}
	}
	return f.direct(func(b *bbolt.Bucket) error {
		return errors.Join(newLogState().put(b), b.Put(keySchema, numberBytes(schemaVersion)))
	}, f.commit)
}

func migrateSome(b *table) (done bool, err error) {
	keys, values := nextEntries(b)
	for i, k := range keys {
		if err := migrateEntry(b, k, values[i]); err != nil {
			return false, err
		}
	}
	if len(keys) == migrateAtOnce {
		return false, b.Put(keyMigrated, keys[len(keys)-1])
	}
	if err := b.Delete(keyMigrated); err != nil {
		return false, err
	}
	return true, b.Put(keySchema, numberBytes(2))
}

// nextEntries copies the entries of schema 1 behind those that were migrated; the bucket changes under a cursor.
func nextEntries(b *table) (keys, values [][]byte) {
	c := b.Cursor()
	k, v := c.First()
	if last := b.Get(keyMigrated); last != nil {
		if k, v = c.Seek(last); bytes.Equal(k, last) {
			k, v = c.Next()
		}
	}
	for ; k != nil && len(keys) < migrateAtOnce; k, v = c.Next() {
		if ofFirstSchema(k) {
			keys, values = append(keys, bytes.Clone(k)), append(values, bytes.Clone(v))
		}
	}
	return keys, values
}

// ofFirstSchema says whether an entry is one that schema 1 had: others are made while it is migrated.
func ofFirstSchema(k []byte) bool {
	switch k[0] {
	case kindTask:
		return len(k) >= idSize+2 && k[idSize+1] <= partCommand
	case kindDue, kindUser, kindRequest, kindAgent:
		return true
	}
	return false
}

func migrateEntry(b *table, k, v []byte) error {
	switch {
	case k[0] == kindTask && len(k) == idSize+2 && k[idSize+1] == partCheckpoint:
		return migrateCheckpoint(b, k, v)
	case k[0] == kindDue:
		return migrateDue(b, k)
	case k[0] == kindUser:
		i := &storagev1.TaskIndex{}
		if err := proto.Unmarshal(v, i); err != nil {
			return damaged(name(k), err)
		}
		i.ConversationId = ""
		wire, err := proto.Marshal(i)
		if err != nil {
			return damaged(name(k), err)
		}
		return b.Put(k, pack.Seal(k, wire))
	}
	return b.Put(k, pack.Seal(k, v))
}

func migrateCheckpoint(b *table, k, v []byte) error {
	id := taskOf(k)
	c := &storagev1.Checkpoint{}
	if len(v) < 8 {
		return damaged(name(k), "it is too short")
	}
	if err := proto.Unmarshal(v[8:], c); err != nil {
		return damaged(name(k), err)
	}
	for _, s := range c.GetActiveSteps() {
		hashApproved(s)
	}
	user, err := ownerOf(b, id)
	if err != nil {
		return err
	}
	w := &write{id: id, user: user}
	w.state = pack.State{Rev: c.GetRev(), Status: c.GetStatus(), LastSeq: c.GetLastSeq(), Deadline: dueTime(c, firstDeadline(c), nil)}
	if err := w.checkpoint.Pack(c, w.state.Deadline, &facts{}); err != nil {
		return damaged(name(k), err)
	}
	w.addPayloads(w.checkpoint.Payloads)
	if err := b.Put(k, pack.Seal(k, w.checkpoint.Hot)); err != nil {
		return err
	}
	if len(w.checkpoint.Notes) > 0 {
		n := taskKey(id, partNotes)
		if err := b.Put(n, pack.Seal(n, w.checkpoint.Notes)); err != nil {
			return err
		}
	}
	if err := putPayloads(b, id, w.payloads); err != nil {
		return err
	}
	return w.moveTime(b, nil)
}

// ownerOf reads whose a task is. Its head is migrated before its checkpoint.
func ownerOf(b *table, id uuid.UUID) (string, error) {
	head, err := readHead(b, id)
	return head.GetUserSub(), err
}

// fieldApprovedInput held the exact input that a person approved, of which schema 2 keeps the hash.
const fieldApprovedInput = 14

func hashApproved(s *storagev1.ActiveStep) {
	for rest := []byte(s.ProtoReflect().GetUnknown()); len(rest) > 0; {
		num, typ, n := protowire.ConsumeField(rest)
		if n < 0 {
			return
		}
		if num == fieldApprovedInput && typ == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(rest)
			input, _ := protowire.ConsumeBytes(rest[tag:])
			sum := sha256.Sum256(input)
			s.ApprovedHash = sum[:]
		}
		rest = rest[n:]
	}
	s.ProtoReflect().SetUnknown(nil)
}

func firstDeadline(c *storagev1.Checkpoint) (t time.Time) {
	for _, w := range c.GetWaits() {
		if d := w.GetDeadline(); d != 0 && (t.IsZero() || d < t.UnixNano()) {
			t = time.Unix(0, d)
		}
	}
	return t
}

// migrateDue makes the entry of a task that was runnable. Its checkpoint may be migrated already or not.
func migrateDue(b *table, k []byte) error {
	if len(k) != 1+idSize {
		return damaged(name(k), "its key has a wrong size")
	}
	id := idOf(k)
	e := &dueEntry{change: change{id: id}}
	// Keys of due tasks sort before those of tasks: this one is as it was.
	c, head := &storagev1.Checkpoint{}, &storagev1.TaskHead{}
	v := b.Get(taskKey(id, partCheckpoint))
	if len(v) < 8 {
		return damaged(name(taskKey(id, partCheckpoint)), errMissing)
	}
	if err := proto.Unmarshal(v[8:], c); err != nil {
		return damaged(name(taskKey(id, partCheckpoint)), err)
	}
	if err := proto.Unmarshal(b.Get(taskKey(id, partHead)), head); err != nil {
		return damaged(name(taskKey(id, partHead)), err)
	}
	e.user, e.runs, e.commands = head.GetUserSub(), active(c.GetStatus()), hasCommands(b, id)
	var err error
	if e.no, err = b.NextSequence(); err != nil {
		return err
	}
	if state.Ended(c.GetStatus()) && !e.commands || c.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_UNSPECIFIED {
		return b.Delete(k)
	}
	return b.Put(k, pack.Seal(k, e.encode()))
}
