package view

import (
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

func planPayload(e *executorv1.ExecutorEvent, f *storagev1.Fact) bool {
	switch k := f.GetKind().(type) {
	case *storagev1.Fact_PlanCreated:
		p := k.PlanCreated
		e.Type = executorv1.EventType_EVENT_TYPE_PLAN_CREATED
		e.Payload = &executorv1.ExecutorEvent_PlanCreated{PlanCreated: &executorv1.PlanCreated{
			Plan: plan(p), Dropped: p.GetDropped(), Order: p.GetOrder(), Reason: p.GetReason(), Deadline: timestamp(p.GetDeadline()),
		}}
	case *storagev1.Fact_SubtaskChanged:
		e.Type = executorv1.EventType_EVENT_TYPE_SUBTASK_CHANGED
		e.Payload = &executorv1.ExecutorEvent_SubtaskChanged{SubtaskChanged: &executorv1.SubtaskChanged{
			From: k.SubtaskChanged.GetFrom(), To: k.SubtaskChanged.GetTo(), Summary: k.SubtaskChanged.GetSummary(),
		}}
	case *storagev1.Fact_Thought:
		e.Type = executorv1.EventType_EVENT_TYPE_THOUGHT
		e.Payload = &executorv1.ExecutorEvent_Thought{Thought: &executorv1.Thought{
			ThoughtId: fmt.Sprintf("thought-%d", k.Thought.GetNumber()), Offset: k.Thought.GetOffset(), Text: k.Thought.GetText(),
		}}
	case *storagev1.Fact_Reflection:
		r := k.Reflection
		e.Type = executorv1.EventType_EVENT_TYPE_REFLECTION
		e.Payload = &executorv1.ExecutorEvent_Reflection{Reflection: &executorv1.Reflection{Done: r.GetDone(), Summary: r.GetSummary(), Next: r.GetNext()}}
	case *storagev1.Fact_FileChanged:
		e.Type = executorv1.EventType_EVENT_TYPE_FILE_CHANGED
		e.Payload = &executorv1.ExecutorEvent_FileChanged{FileChanged: fileChange(f, e.GetTime())}
	default:
		return false
	}
	return true
}

func plan(p *storagev1.PlanCreated) *executorv1.Plan {
	out := &executorv1.Plan{MainTask: p.GetMainTask(), Revision: p.GetRevision()}
	for _, s := range p.GetSubtasks() {
		out.Subtasks = append(out.Subtasks, subtask(s))
	}
	return out
}

func subtask(s *storagev1.PlannedSubtask) *executorv1.Subtask {
	return &executorv1.Subtask{
		Id: s.GetId(), Title: s.GetTitle(), Description: s.GetDescription(), Acceptance: s.GetAcceptance(), DependsOn: s.GetDependsOn(), ToolIds: s.GetToolIds(),
	}
}

// FileChanges derives the changes of files that a record holds.
func FileChanges(r *storagev1.Record) (changes []*executorv1.FileChange) {
	for _, f := range r.GetFacts() {
		if f.GetFileChanged() != nil {
			changes = append(changes, fileChange(f, timestamp(r.GetTime())))
		}
	}
	return changes
}

func fileChange(f *storagev1.Fact, at *timestamppb.Timestamp) *executorv1.FileChange {
	c := f.GetFileChanged()
	return &executorv1.FileChange{
		Path: c.GetPath(), Type: c.GetType(), FromPath: c.GetFromPath(), BackupPath: c.GetBackupPath(), Sha256: c.GetSha256(),
		StepId: flow.StepID(f.GetOrdinal()), ToolId: f.GetToolId(), SubtaskId: f.GetSubtaskId(), Time: at,
	}
}

// Plan derives a plan with the states of its subtasks; nil if there is none.
func Plan(log *history.Log) *executorv1.Plan {
	if log.Plan == nil {
		return nil
	}
	out := &executorv1.Plan{MainTask: log.Plan.MainTask, Revision: log.Plan.Revision}
	for _, s := range log.Plan.Subtasks {
		st := subtask(s.PlannedSubtask)
		st.Status, st.Summary, st.Loops = s.Status, s.Summary, s.Loops
		st.StartTime, st.EndTime = timestamp(s.StartTime), timestamp(s.EndTime)
		out.Subtasks = append(out.Subtasks, st)
	}
	return out
}
