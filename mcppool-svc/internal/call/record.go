package call

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"sync/atomic"
	"time"

	"pawl.dev/mcppool-svc/internal/ledger"
	"pawl.dev/services/errs"
)

// decision is what the pool itself said to a call.
type decision string

const (
	undecided decision = ""        // it did not come to that
	allowed   decision = "allowed" // the call was let through to the server
	refused   decision = "refused"
)

// facts are what is found out on the way and goes into the record of a call.
type facts struct {
	decision   decision
	definition string // hash of the tool's
	repeatable bool   // the tool may run twice
	retries    int    // further tries that were made
	repeats    int    // further requests that went on with the call, beside those
	// asked says that the server asked somebody something.
	asked atomic.Bool
	// unclear says that a question was refused which may have been this call's.
	unclear atomic.Bool
	// tasked says that the server does the call as a task.
	tasked atomic.Bool
	cost   cost // of models that the server had asked
	cached bool // the result was kept; the tool was not called
}

// record says how a call went: to those who measure, in the log for whoever looks for a fault, and in the audit.
func (c *Caller) record(ctx context.Context, r *Request, f *facts, took time.Duration, end ledger.End) {
	c.deps.Meter.Ended(ctx, end, took)
	level, message := slog.LevelDebug, "tool call"
	if end.Err != nil {
		level, message = slog.LevelInfo, "tool call failed"
	}
	if c.deps.Log.Enabled(ctx, level) {
		attrs := []slog.Attr{
			slog.String("user", r.User), slog.String("mcp_id", r.MCPID), slog.String("tool", r.Tool), slog.String("call_id", r.CallID),
			slog.String("session_id", r.Session), slog.Duration("took", took), slog.Bool("is_error", end.Result.GetIsError()),
		}
		if end.Err != nil {
			attrs = append(attrs, slog.Any("error", end.Err))
		}
		c.deps.Log.LogAttrs(ctx, level, message, attrs...)
	}
	if c.deps.Audit != nil {
		c.audit(ctx, "tool_call", callRecord(r, f, took, end)...)
	}
}

// audit writes a record of what was done.
func (c *Caller) audit(ctx context.Context, what string, attrs ...slog.Attr) {
	if c.deps.Audit == nil {
		return
	}
	rec := slog.NewRecord(c.deps.Now(), slog.LevelInfo, what, 0)
	rec.AddAttrs(attrs...)
	if err := c.deps.Audit.Handle(ctx, rec); err != nil {
		c.deps.Log.ErrorContext(ctx, "writing an audit record failed; make room, or check the audit file", "record", what, "error", err)
	}
}

// callRecord is a record for those who ask later who did what. It holds no arguments, no results and no messages, which could
// carry secrets: only hashes and names.
func callRecord(r *Request, f *facts, took time.Duration, end ledger.End) []slog.Attr {
	sum := sha256.Sum256([]byte(r.Input))
	outcome, reason := errs.OutcomeKnown, ""
	if end.Err != nil {
		outcome, reason = end.Err.Metadata[errs.OutcomeKey], errs.ReasonName(end.Err.Reason)
	}
	d := f.decision
	if d == undecided {
		d = "none"
	}
	return []slog.Attr{
		slog.String("user", r.User), slog.String("session_id", r.Session), slog.String("mcp_id", r.MCPID), slog.String("tool", r.Tool),
		slog.String("call_id", r.CallID), slog.String("definition_hash", f.definition), slog.String("argument_hash", hex.EncodeToString(sum[:])),
		slog.String("decision", string(d)), slog.String("outcome", outcome), slog.String("reason", reason),
		slog.Int("retries", f.retries+f.repeats), slog.Bool("tool_error", end.Result.GetIsError()), slog.Bool("cached", f.cached), slog.Float64("duration_ms", float64(took.Microseconds())/1000),
	}
}
