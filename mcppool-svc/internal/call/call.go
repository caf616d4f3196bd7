package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/spec"
	"pawl.dev/mcppool-svc/internal/upstream"
	"pawl.dev/services/errs"
	"pawl.dev/services/schema"
)

// Keys of `_meta` that say which step a call belongs to, for servers that can make use of it.
const (
	metaIdempotencyKey = "pawl.dev/idempotency-key"
	metaCallID         = "pawl.dev/call-id"
)

// Pool is where connections come from: a conn.Pool.
type Pool interface {
	Acquire(ctx context.Context, use conn.Use) (*conn.Lease, error)
}

// Request is one call.
type Request struct {
	User           string
	Server         *spec.Server
	Tool           string
	Input          string        // JSON text of an object
	CallID         string        // empty: one is made up
	IdempotencyKey string        // may be empty
	Session        string        // may be empty
	Timeout        time.Duration // 0: the server's
	DefinitionHash string        // expected; may be empty
}

// Send takes what happens during a call to the caller; it may block.
type Send func(*mcppoolv1.CallToolResponse) error

// Caller makes calls. It is safe for concurrent use.
type Caller struct {
	pool    Pool
	log     *slog.Logger
	running *running
}

// New makes a Caller.
func New(pool Pool, log *slog.Logger) *Caller {
	return &Caller{pool: pool, log: log, running: newRunning()}
}

// Cancel asks a user's running call to stop; false where there is none of that id.
func (c *Caller) Cancel(user, callID, reason string) bool {
	return c.running.cancel(callKey{user, callID}, cancelled{reason})
}

// Drain refuses new calls and returns when the running ones have ended; those still running when ctx is done are stopped.
func (c *Caller) Drain(ctx context.Context) { c.running.drain(ctx) }

// Call runs a call to its end: progress and logs go to send as they come, the result last. Every error of a call is an
// *errs.Error that says in its metadata whether the tool ran; an error of send is returned as it is.
func (c *Caller) Call(ctx context.Context, r Request, send Send) error {
	if r.CallID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("making a call id: %w", err)
		}
		r.CallID = id.String()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	key := callKey{r.User, r.CallID}
	if err := c.running.begin(key, cancel); err != nil {
		return err
	}
	defer c.running.end(key)
	start := time.Now()
	result, err := c.attempt(ctx, r, send)
	c.record(ctx, r, start, result, err)
	if err != nil {
		return err
	}
	result.CallId, result.Duration = r.CallID, durationpb.New(time.Since(start))
	return send(&mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Result{Result: result}})
}

// attempt goes the way of a call.
func (c *Caller) attempt(ctx context.Context, r Request, send Send) (*mcppoolv1.CallResult, error) {
	var result *mcppoolv1.CallResult
	use := conn.Use{Server: r.Server, User: r.User, Session: r.Session}
	err := c.leased(ctx, use, func(lease *conn.Lease) (err error) {
		result, err = c.over(ctx, lease, r, send)
		return err
	})
	return result, err
}

// over makes the call over one connection.
func (c *Caller) over(ctx context.Context, lease *conn.Lease, r Request, send Send) (*mcppoolv1.CallResult, error) {
	tool, err := lease.Tools().Find(ctx, r.Tool)
	if err != nil {
		return nil, preparing(err)
	}
	if err := permit(r, tool); err != nil {
		return nil, err
	}
	raw, err := c.execute(ctx, lease.Client(), r, send)
	if err != nil {
		return nil, failure{Executing, err}
	}
	result, err := readResult(raw)
	if err != nil {
		return nil, Explain(Executing, err).With(errs.OutcomeKey, errs.OutcomeKnown)
	}
	return result, c.checkOutput(tool, r, result)
}

// permit checks what can be checked before a tool runs.
func permit(r Request, tool *catalog.Tool) error {
	refuse := func(code codes.Code, reason commonv1.ErrorReason, format string, args ...any) *errs.Error {
		return errs.New(code, reason, format, args...).With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	}
	if tool == nil {
		return refuse(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_TOOL_NOT_FOUND,
			"MCP server %s has no tool %.100q; `pawl mcp tools %s` shows what there is", r.Server.ID, r.Tool, r.Server.ID)
	}
	input, err := schema.Compile(tool.Input)
	if err != nil {
		return refuse(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MCP_PROTOCOL_ERROR,
			"the tool %s/%s cannot be used, its input schema is not valid: %v", r.Server.ID, tool.Name, err)
	}
	if err := input.Validate(r.Input); err != nil {
		return invalidInput(refuse(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT,
			"the input does not fit the schema of the tool %s/%s: %v", r.Server.ID, tool.Name, err), err)
	}
	if r.DefinitionHash != "" && r.DefinitionHash != tool.Hash {
		return refuse(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_DEFINITION_CHANGED,
			"the definition of the tool %s/%s is not the one that was expected; list the tools again and decide anew", r.Server.ID, tool.Name)
	}
	return nil
}

// invalidInput names each place of the input that is wrong.
func invalidInput(e *errs.Error, err error) *errs.Error {
	var invalid *schema.Invalid
	if errors.As(err, &invalid) {
		for _, p := range invalid.Problems {
			e = e.WithViolation("input"+p.Pointer, p.Message)
		}
	}
	return e
}

// execute calls the tool and passes on what the server says meanwhile.
func (c *Caller) execute(ctx context.Context, client upstream.Client, r Request, send Send) (json.RawMessage, error) {
	limit := r.Server.CallLimit()
	if r.Timeout > 0 {
		limit = min(limit, r.Timeout)
	}
	ctx, stop := context.WithTimeoutCause(ctx, limit, timeout{limit})
	defer stop()
	box := newMailbox()
	type answer struct {
		raw json.RawMessage
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		raw, err := client.CallTool(ctx, upstream.Call{
			Name: r.Tool, Arguments: json.RawMessage(r.Input), Meta: meta(ctx, r), Notify: box.put,
		})
		answered <- answer{raw, err}
	}()
	for {
		select {
		case <-box.ready:
			deliver(box, send)
		case a := <-answered:
			deliver(box, send) // what came before the answer
			return a.raw, a.err
		}
	}
}

// deliver sends what the mailbox has. A reader that is gone ends the call through its context, not here.
func deliver(box *mailbox, send Send) {
	for _, m := range box.take() {
		if send(m) != nil {
			return
		}
	}
}

// timeout is why a call ended that took too long.
type timeout struct{ limit time.Duration }

func (t timeout) Error() string {
	return fmt.Sprintf("the tool did not answer within %v; it may still have run. Raise the server's call_timeout for slow tools", t.limit)
}

// meta says to the server which step, call and trace this is.
func meta(ctx context.Context, r Request) map[string]string {
	m := map[string]string{metaCallID: r.CallID}
	if r.IdempotencyKey != "" {
		m[metaIdempotencyKey] = r.IdempotencyKey
	}
	propagation.TraceContext{}.Inject(ctx, propagation.MapCarrier(m))
	return m
}

// checkOutput compares structured content with what the tool promised. A tool that breaks its promise ran all the same:
// the outcome is KNOWN, and the beginning of what it gave goes with the error, so that nobody runs it again to see.
func (c *Caller) checkOutput(tool *catalog.Tool, r Request, result *mcppoolv1.CallResult) error {
	if tool.Output == "" || result.StructuredJson == "" || result.IsError {
		return nil
	}
	output, err := schema.Compile(tool.Output)
	if err != nil {
		c.log.Warn("a tool's output schema is not valid; its results are not checked", "mcp_id", r.Server.ID, "tool", tool.Name, "error", err)
		return nil
	}
	if err := output.Validate(result.StructuredJson); err != nil {
		return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MCP_PROTOCOL_ERROR,
			"the tool %s/%s ran, but its result does not fit its own output schema: %v; do not call it again to get another one",
			r.Server.ID, tool.Name, err).
			With(errs.OutcomeKey, errs.OutcomeKnown).With("structured_json", result.StructuredJson)
	}
	return nil
}

// saysUnknown recognises an unknown tool in the words of servers: MCP gives it the code of invalid parameters.
func saysUnknown(message string) bool {
	m := strings.ToLower(message)
	return strings.Contains(m, "tool") && (strings.Contains(m, "not found") || strings.Contains(m, "unknown"))
}

// record logs how a call went.
func (c *Caller) record(ctx context.Context, r Request, start time.Time, result *mcppoolv1.CallResult, err error) {
	attrs := []any{
		"user", r.User, "mcp_id", r.Server.ID, "tool", r.Tool, "call_id", r.CallID, "session_id", r.Session, "took", time.Since(start),
	}
	if err != nil {
		c.log.InfoContext(ctx, "tool call failed", append(attrs, "error", err)...)
		return
	}
	c.log.DebugContext(ctx, "tool call", append(attrs, "is_error", result.IsError)...)
}
