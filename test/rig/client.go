package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
)

// Client has the calls that tests make, over gRPC or REST. Pawl's error responses are returned as *Refused.
type Client interface {
	Create(ctx context.Context, req *executorv1.CreateTaskRequest) (*executorv1.Task, error)
	// Watch calls each for the events after a seq, until the task has ended or each returns false.
	Watch(ctx context.Context, id string, after uint64, each func(*executorv1.ExecutorEvent) bool) error
	Resume(ctx context.Context, req *executorv1.ResumeTaskRequest) (*executorv1.Task, error)
	Cancel(ctx context.Context, req *executorv1.CancelTaskRequest) (*executorv1.Task, error)
	Pause(ctx context.Context, req *executorv1.PauseTaskRequest) (*executorv1.Task, error)
	Fork(ctx context.Context, req *executorv1.ForkTaskRequest) (*executorv1.Task, error)
	Delete(ctx context.Context, id string) error
	// Export returns the whole document.
	Export(ctx context.Context, id string) ([]byte, error)
	CreateAgent(ctx context.Context, req *executorv1.CreateAgentRequest) (*executorv1.Agent, error)
	Get(ctx context.Context, id string) (*executorv1.Task, error)
	Steps(ctx context.Context, id string) ([]*executorv1.Step, error)
	Result(ctx context.Context, id string) (*executorv1.TaskResult, error)
}

// Refused is an error response of Pawl.
type Refused struct {
	// Reason is the ErrorInfo reason, such as TASK_NOT_FOUND.
	Reason string
	// HTTP is the status over REST; 0 over gRPC.
	HTTP    int
	Message string
	// RetryAfter is the delay before another attempt; 0 if the response has none. REST has it in whole seconds.
	RetryAfter time.Duration
}

func (r *Refused) Error() string { return fmt.Sprintf("%s (%d): %s", r.Reason, r.HTTP, r.Message) }

// GRPC is a client over gRPC.
type GRPC struct {
	tasks  executorv1.ExecutorServiceClient
	agents executorv1.AgentServiceClient
}

// NewGRPC returns a client over a connection to the executor.
func NewGRPC(conn grpc.ClientConnInterface) GRPC {
	return GRPC{tasks: executorv1.NewExecutorServiceClient(conn), agents: executorv1.NewAgentServiceClient(conn)}
}

// Create implements Client.
func (c GRPC) Create(ctx context.Context, req *executorv1.CreateTaskRequest) (*executorv1.Task, error) {
	t, err := c.tasks.CreateTask(ctx, req)
	return t, refused(err)
}

// Watch implements Client.
func (c GRPC) Watch(ctx context.Context, id string, after uint64, each func(*executorv1.ExecutorEvent) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.tasks.WatchTask(ctx, &executorv1.WatchTaskRequest{Id: id, AfterSeq: after})
	for err == nil {
		var e *executorv1.ExecutorEvent
		if e, err = stream.Recv(); err == nil && !each(e) {
			return nil
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return refused(err)
}

// Resume implements Client.
func (c GRPC) Resume(ctx context.Context, req *executorv1.ResumeTaskRequest) (*executorv1.Task, error) {
	t, err := c.tasks.ResumeTask(ctx, req)
	return t, refused(err)
}

// Cancel implements Client.
func (c GRPC) Cancel(ctx context.Context, req *executorv1.CancelTaskRequest) (*executorv1.Task, error) {
	t, err := c.tasks.CancelTask(ctx, req)
	return t, refused(err)
}

// Pause implements Client.
func (c GRPC) Pause(ctx context.Context, req *executorv1.PauseTaskRequest) (*executorv1.Task, error) {
	t, err := c.tasks.PauseTask(ctx, req)
	return t, refused(err)
}

// Fork implements Client.
func (c GRPC) Fork(ctx context.Context, req *executorv1.ForkTaskRequest) (*executorv1.Task, error) {
	t, err := c.tasks.ForkTask(ctx, req)
	return t, refused(err)
}

// Delete implements Client.
func (c GRPC) Delete(ctx context.Context, id string) error {
	_, err := c.tasks.DeleteTask(ctx, &executorv1.DeleteTaskRequest{Id: id})
	return refused(err)
}

// Export implements Client.
func (c GRPC) Export(ctx context.Context, id string) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var document []byte
	stream, err := c.tasks.ExportTask(ctx, &executorv1.ExportTaskRequest{Id: id})
	for err == nil {
		var piece *executorv1.ExportTaskResponse
		if piece, err = stream.Recv(); err == nil {
			document = append(document, piece.GetData()...)
		}
	}
	if errors.Is(err, io.EOF) {
		return document, nil
	}
	return nil, refused(err)
}

// CreateAgent implements Client.
func (c GRPC) CreateAgent(ctx context.Context, req *executorv1.CreateAgentRequest) (*executorv1.Agent, error) {
	a, err := c.agents.CreateAgent(ctx, req)
	return a, refused(err)
}

// Get implements Client.
func (c GRPC) Get(ctx context.Context, id string) (*executorv1.Task, error) {
	t, err := c.tasks.GetTask(ctx, &executorv1.GetTaskRequest{Id: id})
	return t, refused(err)
}

// Steps implements Client.
func (c GRPC) Steps(ctx context.Context, id string) ([]*executorv1.Step, error) {
	res, err := c.tasks.ListSteps(ctx, &executorv1.ListStepsRequest{Id: id})
	return res.GetSteps(), refused(err)
}

// Result implements Client.
func (c GRPC) Result(ctx context.Context, id string) (*executorv1.TaskResult, error) {
	res, err := c.tasks.GetTaskResult(ctx, &executorv1.GetTaskResultRequest{Id: id})
	return res, refused(err)
}

func refused(err error) error {
	if err == nil {
		return nil
	}
	e := errs.From(err)
	return &Refused{Reason: errs.ReasonName(e.Reason), Message: e.Message, RetryAfter: e.RetryAfter}
}
