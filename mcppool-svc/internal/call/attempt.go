package call

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/ledger"
	"pawl.dev/mcppool-svc/internal/spec"
	"pawl.dev/mcppool-svc/internal/upstream"
	"pawl.dev/services/errs"
	"pawl.dev/services/schema"
)

// attempt goes the way of a call (D8).
func (c *Caller) attempt(ctx context.Context, r Request, f *facts, call *ledger.Call) (*mcppoolv1.CallResult, error) {
	if r.Refused != nil {
		f.decision = refused
		return nil, errs.From(r.Refused).With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	}
	if err := c.current(r); err != nil {
		f.decision = refused
		return nil, err
	}
	var result *mcppoolv1.CallResult
	began, limit := time.Now(), r.limit()
	once := func() error {
		if f.retries > 0 {
			r.Timeout = max(limit-time.Since(began), time.Millisecond) // all tries together take no longer than one may
		}
		return c.leased(ctx, c.use(r, call), func(lease *conn.Lease) (err error) {
			result, err = c.over(ctx, lease, r, f, call)
			return err
		})
	}
	err := c.retrying(ctx, r, f, func() error {
		err := once()
		if !c.unheard(ctx, r, f, err) {
			return err
		}
		first := result
		again := once()
		if again != nil && errs.From(again).Metadata[errs.OutcomeKey] == errs.OutcomeNotExecuted {
			result = first // what it came to counts where it was not made again
			return err
		}
		return again
	})
	return result, err
}

// current refuses what is out of date before anybody is asked anything.
func (c *Caller) current(r Request) error {
	if r.ConfigRevision != 0 && r.ConfigRevision != r.Server.ConfigRevision() {
		return refuse(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_DEFINITION_CHANGED,
			"the configuration of MCP server %s is not the one that was expected; list its tools again and decide anew", r.Server.ID)
	}
	return r.inTime(c.deps.Now())
}

// over makes the call over one connection.
func (c *Caller) over(ctx context.Context, lease *conn.Lease, r Request, f *facts, call *ledger.Call) (*mcppoolv1.CallResult, error) {
	all, tool, err := lease.Tools().Find(ctx, r.Tool)
	if err != nil {
		return nil, preparing(err)
	}
	if tool != nil {
		f.definition = tool.Hash
		f.repeatable = repeatable(r.Server.Judge(tool.Name, tool.Hints))
	}
	if r.Task == "" {
		err = c.permit(r, all, tool)
	} else {
		err = c.permitTask(r, tool)
	}
	if err != nil {
		f.decision = refused
		return nil, err
	}
	f.decision = allowed
	var keep keeper
	if r.Task == "" {
		keep = c.keep(lease, r, tool)
	}
	if result := keep.get(r); result != nil {
		f.cached = true
		return result, nil
	}
	if r.Task != "" || c.writes(r, tool) {
		lease.Wrote()
		defer lease.Wrote()
	}
	raw, err := c.execute(ctx, lease.Client(), r, f, tool, call)
	if err != nil {
		return nil, failure{Executing, err}
	}
	result, err := readResult(raw)
	if err != nil {
		return nil, Explain(Executing, err).With(errs.OutcomeKey, errs.OutcomeKnown)
	}
	if err := c.checkOutput(tool, r, result); err != nil {
		return nil, err
	}
	if limit := c.deps.MaxResult; limit > 0 && len(raw) > limit {
		shorten(result, limit)
	}
	if !f.asked.Load() && !f.unclear.Load() { // with other answers it would be another result
		keep.put(result)
	}
	return result, nil
}

// permit checks what can be checked before a tool runs.
func (c *Caller) permit(r Request, all *catalog.Catalog, tool *catalog.Tool) error {
	if tool == nil {
		return noTool(r.Server, r.Tool)
	}
	review, err := c.review(r.Server, all)
	if err != nil {
		return err
	}
	if review.Holds(tool.Name) {
		return quarantined(r, tool)
	}
	input, err := tool.InputSchema()
	if err != nil {
		return refuse(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MCP_PROTOCOL_ERROR,
			"the tool %s/%s cannot be used, its input schema is not valid: %v", r.Server.ID, tool.Name, err)
	}
	if err := input.Validate(r.Input); err != nil {
		return invalidInput(refuse(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT,
			"the input does not fit the schema of the tool %s/%s: %v", r.Server.ID, tool.Name, err), err)
	}
	if _, decision := r.Server.JudgeFor(r.User, tool.Name, tool.Hints); decision == spec.Deny {
		return refuse(codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED,
			"a rule of MCP server %s does not let you call %s; ask an operator", r.Server.ID, tool.Name)
	}
	if r.DefinitionHash != "" && r.DefinitionHash != tool.Hash {
		return refuse(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_DEFINITION_CHANGED,
			"the definition of the tool %s/%s is not the one that was expected; list the tools again and decide anew", r.Server.ID, tool.Name)
	}
	return nil
}

func noTool(s *spec.Server, name string) *errs.Error {
	return refuse(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_TOOL_NOT_FOUND,
		"MCP server %[1]s has no tool %.100[2]q; `pawl mcp tools %[1]s` shows what there is", s.ID, name)
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

// taskAfter is how long a call may take before it is begun as a task, where the tool leaves that open: a request that is held
// longer than this is what proxies cut off, and a task costs two more requests and the time until it is asked for again.
const taskAfter = time.Minute

// taskKeep is how much longer than the call may take a server is asked to keep its result: whoever lost it comes back for it.
const taskKeep = time.Hour

// execute calls the tool, unless it is too late by then, or follows the task that does the call.
func (c *Caller) execute(ctx context.Context, client upstream.Client, r Request, f *facts, tool *catalog.Tool, call *ledger.Call) (json.RawMessage, error) {
	limit := r.limit()
	ctx, watch := watch(ctx, limit)
	defer watch.stop()
	a := &asker{caller: c, call: call, named: !r.Unnamed, try: f.retries + 1, watch: watch, facts: f}
	s := &sampler{caller: c, request: r, watch: watch, facts: f}
	how := upstream.Call{
		Name: r.Tool, Arguments: json.RawMessage(r.Input), Meta: r.meta(ctx), Notify: f.noting(call.Notify), Ask: a.ask, Sample: s.sample,
		Unclear: func() { f.unclear.Store(true) },
		Gate:    func() error { return r.inTime(c.deps.Now()) }, Again: c.again(r, f),
		Resume: r.Resume, Answers: r.Answers, Follow: r.Task,
	}
	if tool != nil && (tool.Tasks == catalog.TaskRequired || tool.Tasks == catalog.TaskOptional && limit > taskAfter) {
		how.Task, how.TaskTTL = upstream.TaskAsked, limit+taskKeep
	}
	return client.CallTool(ctx, how)
}

// checkOutput compares structured content with what the tool promised. A tool that breaks its promise ran all the same:
// the outcome is KNOWN, and the beginning of what it gave goes with the error, so that nobody runs it again to see.
func (c *Caller) checkOutput(tool *catalog.Tool, r Request, result *mcppoolv1.CallResult) error {
	if tool == nil || tool.Output == "" || result.StructuredJson == "" || result.IsError {
		return nil
	}
	output, err := tool.OutputSchema()
	if err != nil {
		c.deps.Log.Warn("a tool's output schema is not valid; its results are not checked", "mcp_id", r.Server.ID, "tool", tool.Name, "error", err)
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
