package call

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/services/errs"
)

// running knows the calls in flight: one per user and call id.
type running struct {
	mu       sync.Mutex
	calls    map[callKey]context.CancelCauseFunc // guarded by mu
	draining bool                                // guarded by mu
	drained  chan struct{}                       // closed when draining and empty
}

type callKey struct{ user, id string }

func newRunning() *running {
	return &running{calls: make(map[callKey]context.CancelCauseFunc), drained: make(chan struct{})}
}

// begin registers a call; cancel is how to stop it.
func (r *running) begin(k callKey, cancel context.CancelCauseFunc) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining {
		return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN,
			"the MCP pool is stopping; try again later").With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	}
	if r.calls[k] != nil {
		return errs.New(codes.AlreadyExists, commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS,
			"a call %q is running already; this one was not started", k.id).With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	}
	r.calls[k] = cancel
	return nil
}

func (r *running) end(k callKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.calls, k)
	r.checkDrained()
}

// cancel stops one call; false where there is none.
func (r *running) cancel(k callKey, cause error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	cancel, ok := r.calls[k]
	if ok {
		cancel(cause)
	}
	return ok
}

// drain refuses new calls and returns when the running ones have ended. When ctx is done it stops them first.
func (r *running) drain(ctx context.Context) {
	r.mu.Lock()
	r.draining = true
	r.checkDrained()
	r.mu.Unlock()
	select {
	case <-r.drained:
		return
	case <-ctx.Done():
	}
	r.mu.Lock()
	for _, cancel := range r.calls {
		cancel(errStopping)
	}
	r.mu.Unlock()
	<-r.drained
}

// checkDrained is called with mu held.
func (r *running) checkDrained() {
	if !r.draining || len(r.calls) > 0 {
		return
	}
	select {
	case <-r.drained:
	default:
		close(r.drained)
	}
}

var errStopping = errors.New("the MCP pool is stopping")

// cancelled is why a call ends on somebody's wish.
type cancelled struct{ reason string }

func (c cancelled) Error() string {
	if c.reason == "" {
		return "the call was cancelled"
	}
	return "the call was cancelled: " + c.reason
}
