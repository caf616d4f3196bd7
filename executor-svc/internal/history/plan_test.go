package history_test

import (
	"strings"
	"testing"

	"pawl.dev/executor-svc/internal/history"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// D7: a revision's order holds for the subtasks that have not started; those that have, come first.
func TestPlanOrder(t *testing.T) {
	var log history.Log
	plan := func(p *storagev1.PlanCreated, ids ...string) {
		for _, id := range ids {
			p.Subtasks = append(p.Subtasks, &storagev1.PlannedSubtask{Id: id})
		}
		log.Add(&storagev1.Record{Facts: []*storagev1.Fact{{Kind: &storagev1.Fact_PlanCreated{PlanCreated: p}}}})
	}
	plan(&storagev1.PlanCreated{MainTask: "all", Revision: 1}, "x", "a", "y", "b", "z")
	plan(&storagev1.PlanCreated{Revision: 2, Order: []string{"new", "z", "y", "x"}}, "new")
	var got []string
	for _, s := range log.Plan.Subtasks {
		got = append(got, s.GetId())
	}
	if strings.Join(got, " ") != "a b new z y x" {
		t.Errorf("%v", got)
	}
}

// The next thought of a subtask is told why its plan change was not applied.
func TestNoteOfAPlanChange(t *testing.T) {
	var log history.Log
	add := func(f *storagev1.Fact) string {
		f.SubtaskId = "a"
		if f.GetPlanCreated() != nil {
			f.SubtaskId = ""
		}
		log.Add(&storagev1.Record{Facts: []*storagev1.Fact{f}})
		return log.Plan.Subtask("a").Note
	}
	add(&storagev1.Fact{Kind: &storagev1.Fact_PlanCreated{PlanCreated: &storagev1.PlanCreated{MainTask: "m", Subtasks: []*storagev1.PlannedSubtask{{Id: "a"}}}}})
	note := &storagev1.Fact{Kind: &storagev1.Fact_StatusChanged{StatusChanged: &storagev1.StatusChanged{Reason: "the plan was not changed"}}}
	if got := add(note); got != "the plan was not changed" {
		t.Errorf("note %q", got)
	}
	if got := add(&storagev1.Fact{Kind: &storagev1.Fact_Reflection{Reflection: &storagev1.Reflection{}}}); got != "" {
		t.Errorf("after the next reflection: %q", got)
	}
}
