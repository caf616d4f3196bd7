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
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
	"pawl.dev/services/schema"
)

// attempt goes the way of a call (D8).
func (m *making) attempt(ctx context.Context) error {
	r := &m.r
	if r.Refused != nil {
		m.f.decision = refused
		return errs.From(r.Refused).With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	}
	if err := m.current(r); err != nil {
		m.f.decision = refused
		return err
	}
	m.limit = r.limit()
	return m.retrying(ctx)
}

// try makes the call; and at once another time where it went wrong for want of a connection of its own.
func (m *making) try(ctx context.Context) error {
	err := m.once(ctx)
	if !m.unheard(ctx, err) {
		return err
	}
	first := m.result
	again := m.once(ctx)
	if again != nil && errs.From(again).Metadata[errs.OutcomeKey] == errs.OutcomeNotExecuted {
		m.result = first // what it came to counts where it was not made again
		return err
	}
	return again
}

// once makes the call over one connection.
func (m *making) once(ctx context.Context) error {
	if m.f.retries > 0 {
		m.r.Timeout = max(m.limit-time.Since(m.began), time.Millisecond) // all tries together take no longer than one may
	}
	return m.leased(ctx, m.use(), func(lease *conn.Lease) (err error) {
		m.result, err = m.over(ctx, lease)
		return err
	})
}

// current refuses what is out of date before anybody is asked anything.
func (c *Caller) current(r *Request) error {
	if r.ConfigRevision != 0 && r.ConfigRevision != r.Server.ConfigRevision() {
		return refuse(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_DEFINITION_CHANGED,
			"the configuration of MCP server %s is not the one that was expected; list its tools again and decide anew", r.Server.ID)
	}
	return r.inTime(c.deps.Now())
}

// over makes the call over one connection.
func (m *making) over(ctx context.Context, lease *conn.Lease) (*mcppoolv1.CallResult, error) {
	r, f := &m.r, &m.f
	all, tool, err := lease.Tools().Find(ctx, r.Tool)
	if err != nil {
		return nil, preparing(err)
	}
	var hints registry.Hints
	if tool != nil {
		hints = tool.Hints
	}
	policy, decision := r.Server.JudgeFor(r.User, r.Tool, hints)
	if tool != nil {
		f.definition, f.repeatable = tool.Hash, repeatable(policy)
	}
	if r.Task == "" {
		err = m.permit(r, all, tool, decision)
	} else {
		err = r.permitTask(decision)
	}
	if err != nil {
		f.decision = refused
		return nil, err
	}
	f.decision = allowed
	reads := r.Task == "" && policy.Effect == commonv1.Effect_EFFECT_READ
	var keep keeper
	if reads {
		keep = m.keep(lease, r, tool)
	} else {
		lease.Wrote()
		defer lease.Wrote()
	}
	if result := keep.get(r); result != nil {
		f.cached = true
		return result, nil
	}
	raw, err := m.execute(ctx, lease.Client(), tool)
	if err != nil {
		return nil, failure{Executing, err}
	}
	return m.read(raw, tool, keep)
}

// read makes the call's result of what the tool gave.
func (m *making) read(raw json.RawMessage, tool *catalog.Tool, keep keeper) (*mcppoolv1.CallResult, error) {
	result, err := readResult(raw)
	if err != nil {
		return nil, Explain(Executing, err).With(errs.OutcomeKey, errs.OutcomeKnown)
	}
	if err := m.checkOutput(tool, &m.r, result); err != nil {
		return nil, err
	}
	if limit := m.deps.MaxResult; limit > 0 && len(raw) > limit {
		shorten(result, limit)
	}
	if !m.f.asked.Load() && !m.f.unclear.Load() { // with other answers it would be another result
		keep.put(result)
	}
	return result, nil
}

// permit checks what can be checked before a tool runs.
func (c *Caller) permit(r *Request, all *catalog.Catalog, tool *catalog.Tool, decision registry.Decision) error {
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
	if decision == registry.Deny {
		return refuse(codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED,
			"a rule of MCP server %s does not let you call %s; ask an operator", r.Server.ID, tool.Name)
	}
	if r.DefinitionHash != "" && r.DefinitionHash != tool.Hash {
		return refuse(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_DEFINITION_CHANGED,
			"the definition of the tool %s/%s is not the one that was expected; list the tools again and decide anew", r.Server.ID, tool.Name)
	}
	return nil
}

func noTool(s *registry.Server, name string) *errs.Error {
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

// checkOutput compares structured content with what the tool promised. A tool that breaks its promise ran all the same:
// the outcome is KNOWN, and the beginning of what it gave goes with the error, so that nobody runs it again to see.
func (c *Caller) checkOutput(tool *catalog.Tool, r *Request, result *mcppoolv1.CallResult) error {
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
