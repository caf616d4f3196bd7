package clitest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
)

// Executor is a fake executor. It keeps tasks in memory, and the test's functions play their events.
type Executor struct {
	executorv1.UnimplementedExecutorServiceServer

	// OnAdmit may refuse a call that would start a task.
	OnAdmit func() error
	// OnCreate, OnResume, OnPause and OnCancel play the task's next events; they may be nil.
	OnCreate func(*Tape, *executorv1.CreateTaskRequest)
	OnResume func(*Tape, *executorv1.ResumeTaskRequest) error
	OnPause  func(*Tape, *executorv1.PauseTaskRequest)
	OnCancel func(*Tape, *executorv1.CancelTaskRequest)
	// OnWatch may fail a watch before it begins (seq 0) or after the event with number seq.
	OnWatch func(id string, seq uint64) error

	mu      sync.Mutex // guards the fields below
	tapes   []*Tape
	Created []*executorv1.CreateTaskRequest
	Resumed []*executorv1.ResumeTaskRequest
	Forked  []*executorv1.ForkTaskRequest
}

// Tape is one task and its events.
type Tape struct {
	e       *Executor
	task    *executorv1.Task
	request *executorv1.CreateTaskRequest // nil unless CreateTask added the task
	result  executorv1.TaskResult
	events  []*executorv1.ExecutorEvent
	more    chan struct{} // closed and replaced with each event
}

// NewExecutor returns an Executor without tasks.
func NewExecutor() *Executor { return &Executor{} }

// ID returns the id of the n-th task, from 1.
func ID(n int) string { return fmt.Sprintf("01920000-0000-7000-8000-%012x", 0xa0000000+n) }

// Add adds a task.
func (e *Executor) Add(goal string) *Tape {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.add(&executorv1.Task{Goal: goal})
}

func (e *Executor) add(task *executorv1.Task) *Tape {
	task.Id = ID(len(e.tapes) + 1)
	task.Status = executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING
	task.CreateTime = timestamppb.New(Epoch)
	t := &Tape{e: e, task: task, more: make(chan struct{})}
	e.tapes = append(e.tapes, t)
	return t
}

// Update changes the task.
func (t *Tape) Update(change func(*executorv1.Task)) *Tape {
	t.e.mu.Lock()
	defer t.e.mu.Unlock()
	change(t.task)
	return t
}

// ID returns the task's id.
func (t *Tape) ID() string { return t.task.GetId() }

// Play appends events and updates the task accordingly.
func (t *Tape) Play(events ...*executorv1.ExecutorEvent) *Tape {
	t.e.mu.Lock()
	defer t.e.mu.Unlock()
	for _, ev := range events {
		ev = proto.CloneOf(ev)
		ev.TaskId, ev.Seq = t.task.GetId(), uint64(len(t.events)+1)
		if ev.GetTime() == nil {
			ev.Time = timestamppb.New(timeOf(ev.GetSeq()))
		}
		t.events = append(t.events, ev)
		t.task.LastSeq = ev.GetSeq()
		t.apply(ev)
	}
	close(t.more)
	t.more = make(chan struct{})
	return t
}

func (t *Tape) apply(ev *executorv1.ExecutorEvent) {
	switch ev.GetType() {
	case executorv1.EventType_EVENT_TYPE_PLAN_CREATED:
		t.result.Plan = ev.GetPlanCreated().GetPlan()
		t.task.AgentStatus = executorv1.AgentStatus_AGENT_STATUS_RUNNING
	case executorv1.EventType_EVENT_TYPE_FILE_CHANGED:
		t.result.FilesChanged = append(t.result.FilesChanged, ev.GetFileChanged())
	case executorv1.EventType_EVENT_TYPE_FLOW_STOP:
		t.task.Status = executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING
	case executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS:
		t.end(ev, executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS)
		t.task.FullAnswer = ev.GetFlowSuccess().GetFullAnswer()
	case executorv1.EventType_EVENT_TYPE_FLOW_FAILED:
		t.end(ev, executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR)
		t.task.Error = ev.GetFlowFailed().GetError()
	case executorv1.EventType_EVENT_TYPE_FLOW_CANCEL:
		t.end(ev, executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED)
	}
}

func (t *Tape) end(ev *executorv1.ExecutorEvent, status executorv1.ExecutorStatus) {
	t.task.Status, t.task.EndTime, t.task.Waits = status, ev.GetTime(), nil
}

// Register implements Registrar.
func (e *Executor) Register(r grpc.ServiceRegistrar) { executorv1.RegisterExecutorServiceServer(r, e) }

// CreateTask adds a task, or returns the one with the same request id.
func (e *Executor) CreateTask(_ context.Context, req *executorv1.CreateTaskRequest) (*executorv1.Task, error) {
	if e.OnAdmit != nil {
		if err := e.OnAdmit(); err != nil {
			return nil, err
		}
	}
	e.mu.Lock()
	if i := slices.IndexFunc(e.tapes, func(t *Tape) bool { return t.request != nil && t.request.GetRequestId() == req.GetRequestId() }); i >= 0 {
		defer e.mu.Unlock()
		return proto.CloneOf(e.tapes[i].task), nil
	}
	e.Created = append(e.Created, req)
	t := e.add(&executorv1.Task{Goal: req.GetGoal(), McpIds: req.GetMcpIds(), AgentId: req.GetAgentId()})
	t.request = req
	task := proto.CloneOf(t.task)
	e.mu.Unlock()
	if e.OnCreate != nil {
		e.OnCreate(t, req)
	}
	return task, nil
}

func (e *Executor) find(id string) (*Tape, error) {
	if t := e.Tape(id); t != nil {
		return t, nil
	}
	return nil, errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_TASK_NOT_FOUND, "there is no task %s", id)
}

// Wait opens waits. Call it before playing Stop.
func (t *Tape) Wait(waits ...*executorv1.Wait) *Tape {
	return t.Update(func(task *executorv1.Task) { task.Waits = waits })
}

// Resume closes the waits, so that the task runs again.
func (t *Tape) Resume() *Tape {
	return t.Update(func(task *executorv1.Task) {
		task.Waits, task.Status = nil, executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING
	})
}

// Snapshot returns a copy of the task.
func (t *Tape) Snapshot() *executorv1.Task {
	t.e.mu.Lock()
	defer t.e.mu.Unlock()
	return proto.CloneOf(t.task)
}

// GetTask returns a task.
func (e *Executor) GetTask(_ context.Context, req *executorv1.GetTaskRequest) (*executorv1.Task, error) {
	t, err := e.find(req.GetId())
	if err != nil {
		return nil, err
	}
	return t.Snapshot(), nil
}

// GetTaskResult returns the plan and the changed files of the task's events.
func (e *Executor) GetTaskResult(_ context.Context, req *executorv1.GetTaskResultRequest) (*executorv1.TaskResult, error) {
	t, err := e.find(req.GetId())
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return proto.CloneOf(&t.result), nil
}

// ListTasks lists tasks, newest first. It filters by status only.
func (e *Executor) ListTasks(_ context.Context, req *executorv1.ListTasksRequest) (*executorv1.ListTasksResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := &executorv1.ListTasksResponse{}
	for _, t := range slices.Backward(e.tapes) {
		task := t.task
		if len(req.GetStatuses()) > 0 && !slices.Contains(req.GetStatuses(), task.GetStatus()) {
			continue
		}
		if n := int(req.GetPageSize()); n > 0 && len(list.GetTasks()) == n {
			list.NextPageToken = "more"
			break
		}
		list.Tasks = append(list.Tasks, proto.CloneOf(task))
	}
	return list, nil
}

// ListSteps returns the active steps that the test has set.
func (e *Executor) ListSteps(_ context.Context, req *executorv1.ListStepsRequest) (*executorv1.ListStepsResponse, error) {
	t, err := e.find(req.GetId())
	if err != nil {
		return nil, err
	}
	return &executorv1.ListStepsResponse{Steps: t.Snapshot().GetActiveSteps()}, nil
}

// WatchTask sends events until the task has ended.
func (e *Executor) WatchTask(req *executorv1.WatchTaskRequest, stream grpc.ServerStreamingServer[executorv1.ExecutorEvent]) error {
	t, err := e.find(req.GetId())
	if err != nil {
		return err
	}
	if err := e.callOnWatch(req.GetId(), 0); err != nil {
		return err
	}
	for seq := req.GetAfterSeq(); ; {
		events, more, ended := t.eventsAfter(seq)
		for _, ev := range events {
			if err := stream.Send(ev); err != nil {
				return err
			}
			seq = ev.GetSeq()
			if err := e.callOnWatch(req.GetId(), seq); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
		select {
		case <-more:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func (e *Executor) callOnWatch(id string, seq uint64) error {
	if e.OnWatch == nil {
		return nil
	}
	return e.OnWatch(id, seq)
}

func (t *Tape) eventsAfter(seq uint64) (events []*executorv1.ExecutorEvent, more <-chan struct{}, ended bool) {
	t.e.mu.Lock()
	defer t.e.mu.Unlock()
	if seq < uint64(len(t.events)) {
		events = slices.Clone(t.events[seq:])
	}
	return events, t.more, t.task.GetEndTime() != nil
}

// ResumeTask records the answer and calls OnResume.
func (e *Executor) ResumeTask(_ context.Context, req *executorv1.ResumeTaskRequest) (*executorv1.Task, error) {
	t, err := e.find(req.GetId())
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.Resumed = append(e.Resumed, req)
	open := req.GetUnpause() != nil || slices.ContainsFunc(t.task.GetWaits(), func(w *executorv1.Wait) bool { return w.GetId() == req.GetWaitId() })
	e.mu.Unlock()
	if !open {
		return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN, "wait %s is not open", req.GetWaitId())
	}
	if e.OnResume != nil {
		if err := e.OnResume(t, req); err != nil {
			return nil, err
		}
	}
	return t.Snapshot(), nil
}

// CancelTask calls OnCancel.
func (e *Executor) CancelTask(_ context.Context, req *executorv1.CancelTaskRequest) (*executorv1.Task, error) {
	t, err := e.find(req.GetId())
	if err != nil {
		return nil, err
	}
	if e.OnCancel != nil && t.Snapshot().GetEndTime() == nil {
		e.OnCancel(t, req)
	}
	return t.Snapshot(), nil
}

// PauseTask marks the task as pausing and calls OnPause.
func (e *Executor) PauseTask(_ context.Context, req *executorv1.PauseTaskRequest) (*executorv1.Task, error) {
	t, err := e.find(req.GetId())
	if err != nil {
		return nil, err
	}
	t.Update(func(task *executorv1.Task) { task.PauseRequested = true })
	if e.OnPause != nil {
		e.OnPause(t, req)
	}
	return t.Snapshot(), nil
}

// Tape returns the task with that id, or nil.
func (e *Executor) Tape(id string) *Tape {
	e.mu.Lock()
	defer e.mu.Unlock()
	if i := slices.IndexFunc(e.tapes, func(t *Tape) bool { return t.task.GetId() == id }); i >= 0 {
		return e.tapes[i]
	}
	return nil
}

// GetStoreInfo describes a journal with one task.
func (*Executor) GetStoreInfo(context.Context, *executorv1.GetStoreInfoRequest) (*executorv1.StoreInfo, error) {
	return &executorv1.StoreInfo{Path: "journal.db", SizeBytes: 65536, Schema: 2, Tasks: map[string]int64{"SUCCESS": 1}}, nil
}
