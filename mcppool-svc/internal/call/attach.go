package call

import (
	"context"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/ledger"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
)

// Task is the MCP task that does a call which another pool began.
type Task struct {
	ID      string // empty: there is none
	Tool    string
	MCPID   string
	Server  *registry.Server
	Refused error // why the user cannot use the server; Server is nil then
}

// Attach follows a call that was made before, from now on. One that is not known here, but that a task does, is followed where
// the server keeps it. Errors are as Call's.
func (c *Caller) Attach(ctx context.Context, q ledger.Query, t Task, send Send) error {
	if t.ID == "" {
		call, err := c.ledger.Attach(q)
		if err != nil {
			return err
		}
		return c.follow(ctx, call, send)
	}
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	call, mine, err := c.ledger.Adopt(q, cancel)
	switch {
	case err != nil:
		cancel(nil)
		return err
	case !mine:
		cancel(nil)
		return c.follow(ctx, call, send)
	}
	defer cancel(nil)
	m := &making{Caller: c, call: call, cancel: cancel, send: send, r: Request{
		User: q.User, Server: t.Server, Refused: t.refusal(), MCPID: t.MCPID, Tool: t.Tool, Input: "{}",
		CallID: q.ID, Session: q.Session, Epoch: q.Epoch, Task: t.ID, Continues: true,
	}}
	return m.lead(ctx, running)
}

// refusal is why a task is not asked for. What it does, or did, is not known then.
func (t Task) refusal() error {
	switch {
	case t.Refused != nil:
		return t.Refused
	case t.Server.HTTP == nil:
		return errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND,
			"the task %.100q of MCP server %s ended with the connection that began it; what became of it cannot be found out", t.ID, t.MCPID)
	}
	return nil
}

// permitTask checks what can be checked before a task is asked for: the tool runs already, or did.
func (r *Request) permitTask(decision registry.Decision) error {
	if decision == registry.Deny {
		return errs.New(codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED,
			"a rule of MCP server %s does not let you call %s; ask an operator", r.Server.ID, r.Tool)
	}
	return nil
}
