package bolt_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
	"pawl.dev/executor-svc/internal/journal/journaltest"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// oldFile copies the journal that schema 1 wrote: tasks that are done, wait for an approval and for parameters, failed and
// were cancelled, and an agent.
func oldFile(t *testing.T) string { return fileOf(t, 1) }

// fileOf copies a journal of an older schema, with the same tasks.
func fileOf(t *testing.T, schema int) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", fmt.Sprintf("journal-v%d.db", schema)))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "journal.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Files of older versions stay readable, and become ones that older programs refuse: they know nothing of the log.
func TestOldFileIsMigrated(t *testing.T) {
	for schema := 1; schema <= 2; schema++ {
		t.Run(fmt.Sprint(schema), func(t *testing.T) { checkMigrated(t, fileOf(t, schema)) })
	}
}

func checkMigrated(t *testing.T, path string) {
	t.Helper()
	if i, err := bolt.FileInfo(t.Context(), path); err != nil || i.Tasks["SUCCESS"] != 1 || i.Schema >= 3 {
		t.Errorf("before: %+v, %v", i, err)
	}
	s := open(t, path)
	if i, err := s.Info(t.Context()); err != nil || i.Tasks["SUCCESS"] != 1 || i.Schema != 3 {
		t.Errorf("after: %+v, %v", i, err)
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	checkOldTasks(t, s)
	if a, err := s.Agent(t.Context(), "local", "reader"); err != nil || a.GetDescription() != "Reads" {
		t.Errorf("agent %v, %v", a, err)
	}
	done, err := s.FindRequest(t.Context(), "local", "r1")
	if err != nil || done.Head.GetConversationId() != "c1" {
		t.Errorf("by its request: %v, %v", done, err)
	}
	p, err := s.List(t.Context(), journal.Query{User: "local", Limit: 9, ConversationID: "c1", Statuses: []executorv1.ExecutorStatus{executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS}})
	if err != nil || len(p.Tasks) != 1 {
		t.Errorf("by its conversation: %v, %v", p.Tasks, err)
	}
	// Nothing is due but what is asked of them now; what has ended can be swept.
	c, err := s.Claim(t.Context(), journal.ClaimRequest{Slots: 9, Max: 9})
	if err != nil || len(c.Claims) != 0 {
		t.Errorf("due: %v, %v", c, err)
	}
	if n, err := s.Sweep(t.Context(), time.Now(), 100); err != nil || n != 3 {
		t.Errorf("%d tasks were swept, %v; want those that ended", n, err)
	}
}

func checkOldTasks(t *testing.T, s *bolt.Store) {
	t.Helper()
	p, err := s.List(t.Context(), journal.Query{User: "local", Limit: 9})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, task := range p.Tasks {
		rs, err := s.Records(t.Context(), task.ID, 0, 1<<20)
		if err != nil {
			t.Error(err)
		}
		facts := 0
		for _, r := range rs {
			facts += len(r.GetFacts())
		}
		if uint64(facts) != task.Checkpoint.GetLastSeq() {
			t.Errorf("%s: %d facts, the last seq is %d", task.Head.GetGoal(), facts, task.Checkpoint.GetLastSeq())
		}
		waits := []string{}
		for _, w := range task.Checkpoint.GetWaits() {
			waits = append(waits, strings.TrimPrefix(w.GetKind().String(), "WAIT_KIND_"))
		}
		status := strings.TrimPrefix(task.Checkpoint.GetStatus().String(), "EXECUTOR_STATUS_")
		got = append(got, fmt.Sprint(task.Head.GetGoal(), " ", status, " ", waits, " ", len(task.Checkpoint.GetActiveSteps())))
	}
	want := []string{"Failed ERROR [] 0", "Cancelled CANCELLED [] 0", "Params WAITING [PARAMS] 1", "Approval WAITING [APPROVAL] 1", "Read twice SUCCESS [] 0"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A task of version 1 goes on.
func TestOldTaskGoesOn(t *testing.T) {
	path := oldFile(t)
	s := open(t, path)
	p, err := s.List(t.Context(), journal.Query{User: "local", Limit: 9, Statuses: []executorv1.ExecutorStatus{executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING}})
	if err != nil || len(p.Tasks) != 2 {
		t.Fatal(p, err)
	}
	task := p.Tasks[0]
	no, err := s.Send(t.Context(), task.ID, &storagev1.Command{Id: "c"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Claim(t.Context(), journal.ClaimRequest{Slots: 1, Max: 1})
	if err != nil || len(c.Claims) != 1 {
		t.Fatal(c, err)
	}
	cp := task.Checkpoint
	cp.Rev++
	cp.LastSeq++
	r := &storagev1.Record{Facts: []*storagev1.Fact{{Kind: &storagev1.Fact_FlowCancel{FlowCancel: "no"}}}}
	if err := s.Commit(t.Context(), journal.Transition{TaskID: task.ID, Epoch: c.Claims[0].Epoch, Head: task.Head, Checkpoint: cp, Record: r, Folded: []uint64{no}}); err != nil {
		t.Error(err)
	}
}

// A migration that was cut off goes on where it was, in a file with more entries than one transaction takes.
func TestMigrationIsResumed(t *testing.T) {
	path := oldFile(t)
	multiply(t, path, 300)
	for range 3 {
		if done, err := bolt.MigrateSome(path); done || err != nil {
			t.Fatal(done, err)
		}
	}
	s, err := bolt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	p, err := s.List(t.Context(), journal.Query{User: "local", Limit: 2000})
	if err != nil || len(p.Tasks) != 5*301 {
		t.Errorf("%d tasks, %v; want %d", len(p.Tasks), err, 5*301)
	}
}

// multiply gives each task copies, by changing a byte pair of their ids in all keys and values.
func multiply(t *testing.T, path string, times int) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("pawl"))
		var ids [][]byte
		var keys, values [][]byte
		c := b.Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			if k[0] == 't' && len(k) == 18 && k[17] == 0 {
				ids = append(ids, bytes.Clone(k[1:17]))
			}
			if k[0] == 't' || k[0] == 'u' || k[0] == 'c' {
				keys, values = append(keys, bytes.Clone(k)), append(values, bytes.Clone(v))
			}
		}
		for n := 1; n <= times; n++ {
			for i, k := range keys {
				k = bytes.Clone(k)
				for _, id := range ids {
					other := bytes.Clone(id)
					other[14], other[15] = byte(n>>8), byte(n)^id[15]
					k = bytes.ReplaceAll(k, id, other)
				}
				if err := b.Put(k, values[i]); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What a person approved in version 1 stays approved: its hash is kept instead.
func TestApprovedInputBecomesItsHash(t *testing.T) {
	path := oldFile(t)
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := journaltest.NewTask("local")
	err = db.Update(func(tx *bbolt.Tx) error { return putOld(tx.Bucket([]byte("pawl")), n, "the approved input") })
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	got, err := s.Peek(t.Context(), n.ID)
	want := sha256.Sum256([]byte("the approved input"))
	if err != nil || !bytes.Equal(got.Checkpoint.GetActiveSteps()[0].GetApprovedHash(), want[:]) {
		t.Errorf("%v, %v", got, err)
	}
	if c, err := s.Claim(t.Context(), journal.ClaimRequest{Slots: 9, Max: 9}); err != nil || len(c.Claims) != 1 || c.Claims[0].TaskID != n.ID {
		t.Errorf("due: %v, %v; want the task that was running", c, err)
	}
}

// putOld writes a running task as version 1 did.
func putOld(b *bbolt.Bucket, n journal.NewTask, approved string) error {
	id := uuid.MustParse(n.ID)
	step := &storagev1.ActiveStep{Ordinal: 1, InputJson: approved}
	step.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 14, protowire.BytesType), approved))
	n.Checkpoint.ActiveSteps = []*storagev1.ActiveStep{step}
	var all error
	put := func(key []byte, prefix []byte, m proto.Message) {
		v, err := (proto.MarshalOptions{}).MarshalAppend(prefix, m)
		all = errors.Join(all, err, b.Put(key, v))
	}
	part := func(p ...byte) []byte { return append(append([]byte{'t'}, id[:]...), p...) }
	put(part(0), nil, n.Head)
	put(part(1), []byte{0, 0, 0, 0, 0, 0, 0, 1}, n.Checkpoint)
	put(part(2, 0, 0, 0, 0, 0, 0, 0, 1), nil, n.Records[0].Record)
	put(append([]byte("ulocal\x00"), id[:]...), nil, &storagev1.TaskIndex{Status: n.Checkpoint.GetStatus()})
	return errors.Join(all, b.Put(append([]byte{'a'}, id[:]...), []byte{1}))
}
