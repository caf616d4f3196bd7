package api

import (
	"cmp"
	"context"
	"fmt"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/inproc"
	"pawl.dev/services/page"

	"pawl.dev/executor-svc/internal/history"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/view"
)

// taskIDHeader is the gRPC header with the task's id. RunTask sends it before the first event.
const taskIDHeader = "pawl-task-id"

// readBytes bounds the bytes of a task's records that are read at once.
const readBytes = 1 << 20

// stepBytes is about what the records of a short step take.
const stepBytes = 64

// RunTask implements ExecutorService.
func (s *Tasks) RunTask(req *executorv1.RunTaskRequest, stream grpc.ServerStreamingServer[executorv1.ExecutorEvent]) error {
	ctx := stream.Context()
	id, err := s.create(ctx, req.GetTask())
	if err != nil {
		return err
	}
	if err := stream.SendHeader(metadata.Pairs(taskIDHeader, id)); err != nil {
		return err
	}
	stops := func(s executorv1.ExecutorStatus) bool {
		return !req.GetFollow() && s == executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING
	}
	inproc.Share(ctx) // events are never changed, so all watchers can receive the same messages
	return apiError(s.Engine.Watch(ctx, id, req.GetAfterSeq(), stops, stream.Send), taskNotFound(id))
}

// WatchTask implements ExecutorService.
func (s *Tasks) WatchTask(req *executorv1.WatchTaskRequest, stream grpc.ServerStreamingServer[executorv1.ExecutorEvent]) error {
	t, err := s.task(stream.Context(), req.GetId())
	if err != nil {
		return err
	}
	if last := t.Checkpoint.GetLastSeq(); req.GetAfterSeq() > last {
		return invalidField("after_seq", "beyond the newest event",
			"after_seq is %d, but the task's newest event is %d; watch from a seq that you received", req.GetAfterSeq(), last)
	}
	stops := func(executorv1.ExecutorStatus) bool { return req.GetNoFollow() }
	inproc.Share(stream.Context())
	return apiError(s.Engine.Watch(stream.Context(), req.GetId(), req.GetAfterSeq(), stops, stream.Send), taskNotFound(req.GetId()))
}

// GetTask implements ExecutorService.
func (s *Tasks) GetTask(ctx context.Context, req *executorv1.GetTaskRequest) (*executorv1.Task, error) {
	return s.get(ctx, req.GetId())
}

// ListTasks implements ExecutorService.
func (s *Tasks) ListTasks(ctx context.Context, req *executorv1.ListTasksRequest) (*executorv1.ListTasksResponse, error) {
	who, err := identity.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	q := journal.Query{
		User: who.Sub, Limit: int(cmp.Or(req.GetPageSize(), 50)), Statuses: req.GetStatuses(),
		AgentID: req.GetAgentId(), ConversationID: req.GetConversationId(),
	}
	if t := req.GetCreatedAfter(); t != nil {
		q.CreatedAfter = t.AsTime()
	}
	if t := req.GetCreatedBefore(); t != nil {
		q.CreatedBefore = t.AsTime()
	}
	scope := fmt.Sprintf("tasks/%s/%v/%s/%s/%s/%s", who.Sub, q.Statuses, q.AgentID, q.ConversationID, req.GetCreatedAfter(), req.GetCreatedBefore())
	before, err := page.Decode(scope, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	if q.Before = string(before); before != nil && uuid.Validate(q.Before) != nil {
		return nil, badToken()
	}
	found, err := s.Journal.List(ctx, q)
	if err != nil {
		return nil, apiError(err, nil)
	}
	out := &executorv1.ListTasksResponse{}
	for _, t := range found.Tasks {
		out.Tasks = append(out.Tasks, view.Task(t))
	}
	if found.More {
		out.NextPageToken = page.Encode(scope, []byte(found.Tasks[len(found.Tasks)-1].ID))
	}
	return out, nil
}

// ListSteps implements ExecutorService.
func (s *Tasks) ListSteps(ctx context.Context, req *executorv1.ListStepsRequest) (*executorv1.ListStepsResponse, error) {
	t, err := s.task(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	scope, from := "steps/"+t.ID, stepsFrom{seq: 1}
	shown, err := page.Decode(scope, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	if shown != nil {
		if n, err := fmt.Sscanf(string(shown), "%d@%d", &from.ordinal, &from.seq); n != 2 || err != nil || from.seq == 0 {
			return nil, badToken()
		}
	}
	n := int(cmp.Or(req.GetPageSize(), 100))
	log, err := s.steps(ctx, t.ID, from, n)
	if err != nil {
		return nil, err
	}
	out := &executorv1.ListStepsResponse{}
	entries := log.Entries
	if len(entries) > n {
		out.NextPageToken = page.Encode(scope, fmt.Appendf(nil, "%d@%d", entries[n-1].Ordinal, entries[n].FirstSeq))
		entries = entries[:n]
	}
	for _, e := range entries {
		out.Steps = append(out.Steps, view.Step(t, e))
	}
	return out, nil
}

// stepsFrom is where a page of steps begins: after the step with an ordinal, at the seq of a fact.
type stepsFrom struct {
	ordinal uint32
	seq     uint64
}

// steps reads n steps and one more. It reads on until nothing can change the n steps, or to the end.
func (s *Tasks) steps(ctx context.Context, id string, from stepsFrom, n int) (*history.Log, error) {
	log := &history.Log{}
	for after := from.seq - 1; ; {
		rs, err := s.Journal.Records(ctx, id, after, n*stepBytes)
		if err != nil {
			return nil, apiError(err, taskNotFound(id))
		}
		if after == from.seq-1 && len(rs) > 0 {
			log = history.Tail(from.ordinal, rs[0].FirstSeq)
		}
		for _, r := range rs {
			log.Add(r.Record)
			after = r.FirstSeq + uint64(len(r.GetFacts())) - 1
		}
		if len(rs) == 0 || len(log.Entries) > n && log.Settled(n) {
			return log, nil
		}
	}
}

// DeleteTask implements ExecutorService.
func (s *Tasks) DeleteTask(ctx context.Context, req *executorv1.DeleteTaskRequest) (*executorv1.DeleteTaskResponse, error) {
	t, err := s.task(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	if err := s.Journal.Delete(ctx, t.ID); err != nil {
		return nil, apiError(err, taskNotFound(t.ID))
	}
	return &executorv1.DeleteTaskResponse{}, nil
}

// GetStoreInfo implements ExecutorService.
func (s *Tasks) GetStoreInfo(ctx context.Context, _ *executorv1.GetStoreInfoRequest) (*executorv1.StoreInfo, error) {
	who, err := identity.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	if !who.IsOperator() {
		return nil, errs.New(codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED,
			"only an operator may look at the whole journal; list your own tasks with `pawl tasks` or GET /v1/tasks")
	}
	info, err := s.StoreInfo(ctx)
	if err != nil {
		return nil, apiError(err, nil)
	}
	info.RunningTasks = int32(s.Engine.Running())
	return info, nil
}

func badToken() error {
	return invalidField("page_token", "not a token of this list", "page_token is not one of this list; start again without it")
}

// records calls visit for each record of a task, in order.
func (s *Tasks) records(ctx context.Context, id string, visit func(journal.Record)) error {
	for after := uint64(0); ; {
		rs, err := s.Journal.Records(ctx, id, after, readBytes)
		if err != nil {
			return apiError(err, taskNotFound(id))
		}
		if len(rs) == 0 {
			return nil
		}
		for _, r := range rs {
			visit(r)
			after = r.FirstSeq + uint64(len(r.GetFacts())) - 1
		}
	}
}
