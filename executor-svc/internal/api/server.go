package api

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/humantime"
	"pawl.dev/services/identity"

	"pawl.dev/executor-svc/internal/engine"
	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/topic"
	"pawl.dev/executor-svc/internal/webhook"
)

// Deps are what the handlers use.
type Deps struct {
	Engine  *engine.Engine
	Journal journal.Journal
	Planner plannerv1.PlannerServiceClient
	Pool    mcppoolv1.McpPoolServiceClient
	// Hub passes the events of topics to their watchers; Journal reports posts to it.
	Hub *topic.Hub
	// Sender delivers events to webhooks.
	Sender *webhook.Sender
	// Flows by name.
	Flows map[string]flow.Flow
	// Limits are the limits of tasks whose agent sets none.
	Limits *storagev1.Limits
	// Requests is how many tasks one user may create or fork within Window; 0: any number.
	Requests int
	// Posts is how many messages and rollbacks one user may post to topics within Window; 0: any number.
	Posts  int
	Window time.Duration
	// UserBytes is how many bytes one user's tasks and topics may take before new ones, and posts to the topics, are refused; 0: any number.
	UserBytes int64
	// StoreInfo describes the journal.
	StoreInfo func(context.Context) (*executorv1.StoreInfo, error)
	Log       *slog.Logger
}

// Tasks implements ExecutorService.
type Tasks struct {
	executorv1.UnsafeExecutorServiceServer
	Deps
	check *checks
}

// Agents implements AgentService.
type Agents struct {
	executorv1.UnsafeAgentServiceServer
	Deps
	check *checks
}

const (
	// playbookAge is how long the planner's answer about a playbook is kept: it depends only on the text, the inputs and the planner's version.
	playbookAge = time.Minute
	// serverAge is how long the pool's answer that a server exists is kept.
	serverAge = 2 * time.Second
	// maxAnswers bounds the answers that are kept.
	maxAnswers = 1000
)

var (
	_ executorv1.ExecutorServiceServer = (*Tasks)(nil)
	_ executorv1.AgentServiceServer    = (*Agents)(nil)
)

// Register adds the services to a server.
func (s *Tasks) Register(r grpc.ServiceRegistrar) {
	executorv1.RegisterExecutorServiceServer(r, s)
	executorv1.RegisterAgentServiceServer(r, &Agents{Deps: s.Deps, check: s.check})
	topics := &Topics{Deps: s.Deps, tasks: s}
	conversationv1.RegisterTopicServiceServer(r, topics)
	executorv1.RegisterWebhookServiceServer(r, &Webhooks{Deps: s.Deps, topics: topics})
}

// NewTasks returns the implementation of ExecutorService.
func NewTasks(d Deps) *Tasks {
	return &Tasks{Deps: d, check: &checks{Deps: d, playbooks: answers[playbook](playbookAge), servers: answers[struct{}](serverAge)}}
}

// Healthy returns why the service cannot work now, or nil. Health checks call it.
func (s *Tasks) Healthy() error { return s.Engine.StorageError() }

// task loads a task of the caller. It reports another user's task as not found.
func (s *Tasks) task(ctx context.Context, id string) (*journal.Task, error) {
	who, err := identity.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	t, err := s.Journal.Load(ctx, id)
	if err == nil && t.Head.GetUserSub() != who.Sub {
		err = journal.ErrNotFound
	}
	if err != nil {
		return nil, apiError(err, taskNotFound(id))
	}
	return t, nil
}

func taskNotFound(id string) error {
	return errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_TASK_NOT_FOUND,
		"there is no task %s; list yours with `pawl tasks` or GET /v1/tasks", id)
}

// apiError turns an error of the journal or the engine into an error of the API. notFound replaces journal.ErrNotFound.
func apiError(err, notFound error) error {
	var typed *errs.Error
	var limited *journal.Limited
	var full *journal.Full
	switch {
	case err == nil:
		return nil
	case errors.As(err, &limited):
		return errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED,
			"a user may send at most %d such requests within %s; try again in %s", limited.Requests, humantime.Text(limited.Window),
			humantime.AtLeast(limited.RetryAfter)).WithRetryAfter(limited.RetryAfter)
	case errors.As(err, &full):
		return errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
			"your tasks and topics take %d bytes, and an operator allows %d per user (--max-user-bytes); delete tasks that have ended with `pawl delete` or "+
				"DELETE /v1/tasks/{id}", full.Used, full.Limit)
	case errors.Is(err, journal.ErrNotEnded):
		return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_TASK_NOT_ENDED,
			"the task has not ended yet; cancel it first")
	case errors.Is(err, journal.ErrDamaged):
		return errs.New(codes.DataLoss, commonv1.ErrorReason_ERROR_REASON_DATA_DAMAGED,
			"%w; stop pawl, run `pawl store check`, and restore the file from a backup", err)
	case errors.As(err, &typed):
		return typed
	case errors.Is(err, journal.ErrNotFound):
		return notFound
	case errors.Is(err, journal.ErrRequestReused):
		return errs.New(codes.AlreadyExists, commonv1.ErrorReason_ERROR_REASON_REQUEST_ID_REUSED,
			"the request_id was used for a different request; choose a new one for each new request")
	case errors.Is(err, journal.ErrStale):
		return errs.New(codes.Aborted, commonv1.ErrorReason_ERROR_REASON_CONFLICT, "the object has changed since you read it; read it again and repeat the change")
	case errors.Is(err, journal.ErrClosed):
		return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN, "the executor is stopping; try again when it is back")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	if _, ok := status.FromError(err); ok {
		return err // from the stream: the client has disconnected
	}
	return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_STORAGE_ERROR,
		"the journal cannot be used: %w; look at the disk and the executor's log", err)
}
