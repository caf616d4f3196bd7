package task

import (
	"context"
	"time"

	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

const (
	// mostLimited is how long a command waits in all because its user asked for too much in too short a time.
	mostLimited = 2 * time.Minute
	// leastLimited is the shortest wait before it asks again.
	leastLimited = 100 * time.Millisecond
)

// admitted makes a call that starts a task. Where there were too many of them (A28), it waits as long as it is told and
// tries again, within bounds; an interrupt ends the wait.
func admitted[T any](ctx context.Context, u *ui.UI, call func(context.Context) (T, error)) (T, error) {
	for waited := time.Duration(0); ; {
		result, err := call(ctx)
		if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED {
			return result, err
		}
		pause := max(errs.From(err).RetryAfter, leastLimited)
		if waited+pause > mostLimited {
			return result, err
		}
		if waited == 0 {
			u.Note("%s", "too many requests in a short time; trying again in "+ui.Duration(pause)+" (Ctrl-C leaves)")
		}
		waited += pause
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return result, ctx.Err()
		}
	}
}
