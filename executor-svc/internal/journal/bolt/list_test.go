package bolt_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
	"pawl.dev/executor-svc/internal/journal/journaltest"
)

// A file of schema version 7 is indexed when it is opened.
func TestOlderFileIsIndexed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	s := open(t, path)
	n := journaltest.NewTask("ann")
	n.Head.AgentId = "x"
	if _, _, err := s.Create(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	bolt.Downgrade(t, path, n.ID, "ann", n.Checkpoint.GetStatus(), "x")
	if problems, err := bolt.CheckFile(path); err != nil || len(problems) == 0 {
		t.Fatalf("problems of the older file: %v, %v", problems, err)
	}
	s = open(t, path)
	for _, q := range []journal.Query{{}, {AgentID: "x"}, {Statuses: []executorv1.ExecutorStatus{n.Checkpoint.GetStatus()}}} {
		q.User, q.Limit = "ann", 10
		if p, err := s.List(t.Context(), q); err != nil || len(p.Tasks) != 1 || p.Tasks[0].ID != n.ID {
			t.Errorf("%+v: %v, %v", q, p.Tasks, err)
		}
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// BenchmarkList lists a page of 50 of many tasks of a user by each filter. One task in a thousand waits, belongs to agent `rare` and conversation `rare`.
// PAWL_LIST_TASKS is the number of tasks.
func BenchmarkList(b *testing.B) {
	count, err := strconv.Atoi(os.Getenv("PAWL_LIST_TASKS"))
	if err != nil {
		count = 10_000
	}
	s, err := bolt.Open(filepath.Join(b.TempDir(), "journal.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	const waiting, success = executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING, executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS
	first := time.UnixMilli(1_800_000_000_000)
	creators := make(chan int)
	failed := make(chan error)
	for range 64 {
		go func() {
			for i := range creators {
				n := journaltest.NewTaskAt("ann", first.Add(time.Duration(i)*time.Second))
				n.Head.AgentId, n.Head.ConversationId, n.Checkpoint.Status = "usual", "usual", success
				if i%1000 == 0 {
					n.Head.AgentId, n.Head.ConversationId, n.Checkpoint.Status = "rare", "rare", waiting
				}
				if _, _, err := s.Create(b.Context(), n); err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	for i := range count {
		creators <- i
	}
	close(creators)
	for range 64 {
		if err := <-failed; err != nil {
			b.Fatal(err)
		}
	}
	for name, q := range map[string]journal.Query{
		"all": {}, "status": {Statuses: []executorv1.ExecutorStatus{waiting}}, "agent": {AgentID: "rare"}, "conversation": {ConversationID: "rare"},
		"before":      {CreatedBefore: first.Add(time.Duration(count/10) * time.Second)},
		"after":       {CreatedAfter: first.Add(time.Duration(count-100) * time.Second)},
		"usual, rare": {AgentID: "usual", Statuses: []executorv1.ExecutorStatus{success}, ConversationID: "rare"},
	} {
		q.User, q.Limit = "ann", 50
		b.Run(fmt.Sprintf("%d/%s", count, name), func(b *testing.B) {
			for b.Loop() {
				if _, err := s.List(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
