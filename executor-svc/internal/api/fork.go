package api

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/engine"
	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/flow/step"
	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// ForkTask implements ExecutorService.
func (s *Tasks) ForkTask(ctx context.Context, req *executorv1.ForkTaskRequest) (*executorv1.Task, error) {
	t, err := s.task(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	hash, err := requestHash(req)
	if err != nil {
		return nil, err
	}
	user := t.Head.GetUserSub()
	id, err := s.repeated(ctx, user, req.GetRequestId(), hash)
	if err != nil {
		return nil, err
	}
	if id == "" {
		if id, err = s.fork(ctx, t, req, hash); err != nil {
			return nil, err
		}
	}
	return s.get(ctx, id)
}

func (s *Tasks) fork(ctx context.Context, t *journal.Task, req *executorv1.ForkTaskRequest, hash []byte) (string, error) {
	var records []*storagev1.Record
	if err := s.records(ctx, t.ID, func(r journal.Record) { records = append(records, r.Record) }); err != nil {
		return "", err
	}
	seq := req.GetSeq()
	if seq == 0 {
		seq = newestEnd(t.Checkpoint.GetStatus(), records)
	} else if !slices.ContainsFunc(step.Ends(records), func(e step.End) bool { return e.Seq == seq }) {
		return "", invalidField("seq", "no step ends there",
			"no step ended at event %d; choose the STEP_OUTPUT or STEP_ERROR event of a step's last attempt, or omit seq to fork after the last step "+
				"that did not fail", seq)
	}
	f, err := checkFlow(s.Flows, t.Head.GetFlow())
	if err != nil {
		return "", err
	}
	kept := firstFacts(records, seq)
	now := time.Now().UnixNano()
	head, user := proto.CloneOf(t.Head), t.Head.GetUserSub()
	head.Chat = nil // the message has its answer; a second one would come from nowhere
	if err := f.Accepts(head); err != nil {
		return "", err
	}
	head.TraceParent = engine.TraceParent(ctx)
	head.RequestId, head.RequestHash, head.CreateTime = req.GetRequestId(), hash, now
	if req.GetGoal() != "" {
		head.Goal = req.GetGoal()
	}
	if timeout := req.GetWaitTimeout(); timeout != nil {
		head.WaitTimeout = int64(timeout.AsDuration())
	}
	if b := req.GetBudget(); b != nil {
		agent, err := s.agent(ctx, head.GetUserSub(), head.GetAgentId())
		if errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_AGENT_NOT_FOUND {
			agent, err = &storagev1.Agent{}, nil // the agent was deleted, so it sets no limits
		}
		if err != nil {
			return "", err
		}
		l := s.limits(agent, b)
		head.Limits.MaxToolCalls, head.Limits.MaxModelCalls = l.GetMaxToolCalls(), l.GetMaxModelCalls()
		head.Limits.MaxTokens, head.Limits.MaxRunTime, head.Limits.MaxCostNanoUsd = l.GetMaxTokens(), l.GetMaxRunTime(), l.GetMaxCostNanoUsd()
	}
	checkpoint, fact := f.Fork(flow.Fork{From: t.ID, Seq: seq, Records: records, Kept: kept})
	head.Limits.MaxFailedSteps = failedLimit(t.Head, records, checkpoint)
	head.Forks = append(head.Forks, &storagev1.Fork{TaskId: t.ID, Seq: seq})
	checkpoint.UpdateTime = now
	kept = append(kept, &storagev1.Record{Time: now, Usage: checkpoint.GetUsage(), Facts: []*storagev1.Fact{fact}})
	id, err := s.Engine.Create(ctx, journal.NewTask{
		ID: journal.NewID(now), Head: head, Checkpoint: checkpoint, Records: numbered(kept), Admission: s.admission(user),
	})
	return id, apiError(err, nil)
}

// numbered returns the records with their first seqs.
func numbered(records []*storagev1.Record) (all []journal.Record) {
	next := uint64(1)
	for _, r := range records {
		all = append(all, journal.Record{FirstSeq: next, Record: r})
		next += uint64(len(r.GetFacts()))
	}
	return all
}

// failedLimit returns the fork's limit of failed steps: as many as for a new task, plus the failed steps that the fork keeps.
func failedLimit(from *storagev1.TaskHead, records []*storagev1.Record, c *storagev1.Checkpoint) uint32 {
	limit, inherited := from.GetLimits().GetMaxFailedSteps(), uint32(0)
	if n := len(from.GetForks()); n > 0 { // the forked task is a fork too, so its limit was raised by the steps that it kept
		inherited = step.CountFailedSteps(firstFacts(records, from.GetForks()[n-1].GetSeq()))
	}
	return limit - min(limit, inherited) + c.GetErrorCount()
}

// newestEnd returns the default seq of a fork: the end of the newest step. If the task did not succeed, it is the end of the newest step
// that did not fail, before the first subtask failed, or the task's creation, so that the fork repeats what failed.
func newestEnd(status executorv1.ExecutorStatus, records []*storagev1.Record) uint64 {
	success := status == executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS
	failed := firstFailedSubtask(records)
	at := uint64(1) // the task's creation
	for _, end := range step.Ends(records) {
		if success || !end.Failed && (failed == 0 || end.Seq < failed) {
			at = end.Seq
		}
	}
	return at
}

// firstFailedSubtask returns the seq of the fact that records the first failure of a subtask; 0 if none failed.
func firstFailedSubtask(records []*storagev1.Record) (seq uint64) {
	for _, r := range records {
		for _, f := range r.GetFacts() {
			seq++
			if f.GetSubtaskChanged().GetTo() == executorv1.SubtaskStatus_SUBTASK_STATUS_FAILED {
				return seq
			}
		}
	}
	return 0
}

// firstFacts returns the records of the first n facts; the last record may be cut.
func firstFacts(records []*storagev1.Record, n uint64) (kept []*storagev1.Record) {
	for _, r := range records {
		if n == 0 {
			break
		}
		facts := r.GetFacts()[:min(uint64(len(r.GetFacts())), n)]
		kept = append(kept, &storagev1.Record{Time: r.GetTime(), Usage: r.GetUsage(), Facts: facts})
		n -= uint64(len(facts))
	}
	return kept
}
