package bolt

import (
	"errors"
	"testing"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// FailCommits makes changes fail as fail says, from now on; nil ends that. fail may return an error before it calls commit,
// when nothing was written, or after it.
func (s *Store) FailCommits(fail func(commit func() error) error) {
	s.file.writing.Lock()
	defer s.file.writing.Unlock()
	s.file.syncLog = func(append func() error) error { return append() }
	if fail != nil {
		s.file.syncLog = fail
	}
}

// FailApplying makes applying the log to the file fail as fail says, from now on; nil ends that.
func (s *Store) FailApplying(fail func(commit func() error) error) {
	s.file.applying.Lock()
	defer s.file.applying.Unlock()
	s.file.commitFile = (*bbolt.Tx).Commit
	if fail != nil {
		s.file.commitFile = func(tx *bbolt.Tx) error { return fail(tx.Commit) }
	}
}

// Apply applies the log to the file.
func (s *Store) Apply() error { return s.file.apply() }

// Logged returns the number of the newest record of the log.
func (s *Store) Logged() int {
	s.file.writing.Lock()
	defer s.file.writing.Unlock()
	return int(s.file.log.Last())
}

// CompactBy is Compact; it makes each change of the disk by a call of do.
func CompactBy(path string, do func(change func() error) error) error {
	_, _, err := compact(path, do)
	return err
}

// ErrSync is the answer after a failed sync.
var ErrSync = errSync

// BytesOfTask returns how many bytes of keys and values the newest commit of a task wrote: the checkpoint, and the record
// that holds a seq.
func (s *Store) BytesOfTask(t testing.TB, id string, seq uint64) (size int) {
	err := s.file.view(func(b *table) error {
		u := uuid.MustParse(id)
		for _, k := range [][]byte{taskKey(u, partCheckpoint), firstRecordKey(b, taskKey(u, partRecord), seq-1)} {
			size += len(k) + len(b.Get(k))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// DB returns the bbolt file.
func (s *Store) DB() *bbolt.DB { return s.file.db }

// KeysOf returns one key of each kind that a task with a command has.
func KeysOf(task, user, request string) [][]byte {
	id := uuid.MustParse(task)
	return [][]byte{
		taskKey(id, partHead), taskKey(id, partCheckpoint), numberedKey(id, partRecord, 1),
		numberedKey(id, partCommand, 2), dueKey(id), requestKey(user, request), windowKey(kindWindow, user, 0),
		timedKey(kindDeadline, 5, id),
	}
}

// KeysOfTopic returns one key of each kind that a topic with a message and a summary of agent x to its seq 1 has, and which has a value.
func KeysOfTopic(topic, user, request, message string) [][]byte {
	id := uuid.MustParse(topic)
	return [][]byte{
		topicKey(id, partSettings), topicKey(id, partState), at(topicKey(id, partFacts), 1), messageIDKey(id, message), at(summaryPrefix(id, "x"), 1),
		topicRequestKey(user, request), outgoingKey(2),
	}
}

// WithChecksum adds the checksum that matches.
func WithChecksum(key, value []byte) []byte { return withChecksum(key, append([]byte(nil), value...)) }

// ReloadDue reads what is due as opening does.
func (s *Store) ReloadDue() error { return s.file.view(newDue(0).load) }

// Usage returns the bytes of each user's tasks as they are counted, and as they are stored.
func (s *Store) Usage(t testing.TB) (counted, stored map[string]int64) {
	stored, err := s.scanUsage()
	if err != nil {
		t.Fatal(err)
	}
	return s.usage.bytes, stored
}

// Downgrade makes the closed file of a task one of schema version 7, whose only index of statuses and agents is the value of the index of users.
func Downgrade(t testing.TB, path, task, user string, status executorv1.ExecutorStatus, agent string) {
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	id := uuid.MustParse(task)
	err = db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucket)
		value, err := proto.Marshal(&storagev1.TaskIndex{Status: status, AgentId: agent})
		return errors.Join(err, b.Put(userKey(user, id), withChecksum(userKey(user, id), value)), b.Delete(statusKey(user, status, id)),
			b.Delete(append(agentTasksPrefix(user, agent), id[:]...)), b.Put(keySchema, numberBytes(7)), b.Delete(keyCounts))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}
