package call

import (
	"context"

	"pawl.dev/mcppool-svc/internal/mcp"
)

// Cancel asks a user's running call to stop; false if no call with that id runs.
func (c *Caller) Cancel(user, callID, reason string) bool {
	return c.calls.Cancel(user, callID, cancelled{reason})
}

// Drain refuses new calls and returns when the running ones have ended and, if fetched is set, their results were sent to clients.
// Calls still running when ctx is done are cancelled.
func (c *Caller) Drain(ctx context.Context, fetched bool) {
	c.calls.Drain(ctx, fetched, mcp.ErrStopping)
}

// cancelled is the cause of a call's end that was cancelled.
type cancelled struct{ reason string }

func (c cancelled) Error() string {
	if c.reason == "" {
		return "the call was cancelled"
	}
	return "the call was cancelled: " + c.reason
}
