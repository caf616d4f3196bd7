package executor_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/executor-svc/internal/fake"
	"pawl.dev/executor-svc/internal/journal/bolt"
)

// A task with lanes is exported as a whole: the steps of all subtasks, and the events as WatchTask sends them. Retention deletes it as a whole:
// no record or payload is left.
func TestExportAndRetentionWithLanes(t *testing.T) {
	p := fake.Script("read", "read")
	plan := strings.Repeat("a plan that is stored apart from the checkpoint. ", 200)
	p.Subtasks = []*plannerv1.Subtask{
		{Id: "a", Title: "A", Description: plan}, {Id: "b", Title: "B"}, {Id: "c", Title: "C", DependsOn: []string{"a", "b"}},
	}
	r := newRig(t, p)
	req := auto("build")
	req.Flow = "coding"
	events := r.run(req)
	id := events[0].GetTaskId()
	if got := r.task(id).GetStatus(); got != executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS {
		t.Fatalf("the task is %s", got)
	}
	var doc struct{ Task, Steps, Events json.RawMessage }
	var steps []struct{ SubtaskID, Status string }
	var exported []json.RawMessage
	if err := json.Unmarshal(r.export(id), &doc); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(doc.Steps, &steps); err != nil {
		t.Fatal(err)
	}
	of := map[string]int{}
	for _, s := range steps {
		of[s.SubtaskID+" "+s.Status]++
	}
	if got, want := fmt.Sprint(of), "map[a STEP_STATUS_SUCCESS:2 b STEP_STATUS_SUCCESS:2 c STEP_STATUS_SUCCESS:2]"; got != want {
		t.Errorf("exported steps %s, want %s", got, want)
	}
	if err := json.Unmarshal(doc.Events, &exported); err != nil {
		t.Fatal(err)
	}
	if len(exported) != len(events) {
		t.Fatalf("%d events are exported, want %d", len(exported), len(events))
	}
	for i, raw := range exported {
		e := &executorv1.ExecutorEvent{}
		if err := protojson.Unmarshal(raw, e); err != nil || e.GetSeq() != events[i].GetSeq() || e.GetType() != events[i].GetType() || e.GetSubtaskId() != events[i].GetSubtaskId() {
			t.Errorf("exported %s, want %s: %v", raw, events[i], err)
		}
	}

	r.stop()
	store, err := bolt.Open(filepath.Join(r.dir, "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	before, err := store.Info(t.Context())
	if err != nil || before.GetRecords() == 0 || before.GetPayloads() == 0 {
		t.Errorf("the journal holds %v, %v", before, err)
	}
	if n, err := store.Sweep(t.Context(), time.Now(), 10); n != 1 || err != nil {
		t.Fatalf("%d tasks are deleted, %v", n, err)
	}
	after, err := store.Info(t.Context())
	if err != nil || len(after.GetTasks()) != 0 || after.GetRecords() != 0 || after.GetPayloads() != 0 || after.GetBytes()["tasks"] != 0 {
		t.Errorf("the journal still holds %v, %v", after, err)
	}
	if err := store.Check(); err != nil {
		t.Error(err)
	}
}
