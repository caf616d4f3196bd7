package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/humantime"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// sendTimeout is how long a sender waits for a task to apply its command.
const sendTimeout = 30 * time.Second

// errQueued answers a command that has to wait for a running slot: it is stored, and will be applied.
var errQueued = errors.New("the command waits for a running slot")

// Create stores a new task and starts it. A repeated request returns the id of the first request's task.
func (e *Engine) Create(ctx context.Context, n journal.NewTask) (id string, err error) {
	if e.isStopped() {
		return "", stopping()
	}
	id, created, err := e.deps.Journal.Create(ctx, n)
	if created {
		e.claimSoon()
	}
	return id, err
}

// Send stores a command for a task, waits until it is applied, and returns the flow's error. It also returns nil if the stored command waits
// for a running slot. If ctx ends first, the command is still applied.
func (e *Engine) Send(ctx context.Context, taskID string, c *storagev1.Command) error {
	if e.isStopped() {
		return stopping()
	}
	c.Id = uuid.NewString()
	c.Time = time.Now().UnixNano()
	result := make(chan error, 1)
	e.mu.Lock()
	e.results[c.Id] = result
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		delete(e.results, c.Id)
		e.mu.Unlock()
	}()
	if _, err := e.deps.Journal.Send(ctx, taskID, c); err != nil {
		return err
	}
	e.Wake(taskID)
	timeout := time.NewTimer(sendTimeout)
	defer timeout.Stop()
	select {
	case err := <-result:
		if errors.Is(err, errQueued) {
			return nil
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-e.draining:
		return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN,
			"the command is stored, but the executor is stopping; it is applied when an executor runs again")
	case <-e.storage.failed():
		return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_STORAGE_ERROR,
			"the command is stored, but the journal cannot be written now: %w; it is applied once the journal works again", e.storage.error())
	case <-timeout.C:
		return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_STORAGE_ERROR,
			"the command is stored, but the task did not apply it within %s; it is applied later", humantime.Text(sendTimeout))
	}
}

// Wake makes a task's owner, or its next owner, read the task's inbox.
func (e *Engine) Wake(taskID string) {
	e.mu.Lock()
	o := e.owners[taskID]
	e.mu.Unlock()
	if o != nil {
		o.wake()
	}
	e.claimSoon() // also if there is an owner: it may be leaving
}

// reply passes a command's result to its sender.
func (e *Engine) reply(commandID string, err error) {
	e.mu.Lock()
	result := e.results[commandID]
	e.mu.Unlock()
	if result == nil {
		return
	}
	select {
	case result <- err:
	default: // the sender already knows that the command is queued
	}
}

func stopping() error {
	return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN,
		"the executor is stopping; try again when it is back")
}

// storageState records whether commits fail. The zero value records success.
type storageState struct {
	mu      sync.Mutex // guards the fields below
	err     error
	failing chan struct{} // closed while commits fail; created when first needed
}

// set records the result of a commit.
func (s *storageState) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil && s.err == nil:
		close(s.channel())
	case err == nil && s.err != nil:
		s.failing = nil
	}
	s.err = err
}

// failed returns a channel that is closed while commits fail.
func (s *storageState) failed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.channel()
}

func (s *storageState) channel() chan struct{} {
	if s.failing == nil {
		s.failing = make(chan struct{})
	}
	return s.failing
}

func (s *storageState) error() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
