package call

import (
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/pin"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
	"pawl.dev/services/schema"
)

// admit makes the checks that need no connection. It refuses the call if the user cannot use the server, its configuration has changed,
// or start_by has passed.
func (x *execution) admit() error {
	if x.Refused != nil {
		return errs.From(x.Refused).With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	}
	if x.ConfigRevision != 0 && x.ConfigRevision != x.Server.ConfigRevision() {
		return refuse(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_DEFINITION_CHANGED,
			"the configuration of MCP server %s is not the one that was expected; list its tools again and decide again", x.Server.ID)
	}
	return x.checkStartBy()
}

// checkStartBy refuses a call that cannot start before its start_by.
func (x *execution) checkStartBy() error {
	if x.StartBy.IsZero() || x.deps.Now().Before(x.StartBy) {
		return nil
	}
	return refuse(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_TOO_LATE,
		"the call could not be started before %s; another owner of the session may have taken over", x.StartBy.UTC().Format(time.RFC3339Nano))
}

// authorize validates the call, checks the permission and returns the tool's policy. tool is nil if the server has no such tool.
func (a *attempt) authorize(tools *catalog.Catalog, tool *catalog.Tool) (registry.Policy, error) {
	var hints registry.Hints
	if tool != nil {
		hints = tool.Hints
	}
	policy, decision := a.Server.PolicyFor(a.User, a.Tool, hints)
	if tool != nil {
		a.definition, a.repeatable = tool.Hash, repeatable(policy)
	}
	if a.Task == "" { // an MCP task already runs: its tool may have changed since
		if err := a.validate(tools, tool); err != nil {
			return policy, err
		}
	}
	if decision == registry.Deny {
		return policy, refuse(codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED,
			"a rule of MCP server %s does not let you call %s; ask an operator", a.Server.ID, a.Tool)
	}
	if a.DefinitionHash != "" && a.DefinitionHash != tool.Hash {
		return policy, refuse(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_DEFINITION_CHANGED,
			"the definition of the tool %s/%s is not the one that was expected; list the tools again and decide again", a.Server.ID, tool.Name)
	}
	return policy, nil
}

// validate checks that the tool exists, is approved and accepts the input.
func (a *attempt) validate(tools *catalog.Catalog, tool *catalog.Tool) error {
	if tool == nil {
		return noTool(a.Server, a.Tool)
	}
	review, err := a.review(a.Server, tools)
	if err != nil {
		return err
	}
	if review.Holds(tool.Name) {
		return refuse(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_TOOL_QUARANTINED,
			"the tool %[1]s/%[2]s is new, or not the one that was approved; `pawl mcp tools %[1]s --quarantined` shows what changed, and "+
				"`pawl mcp approve %[1]s %[2]s` approves it", a.Server.ID, tool.Name).With("definition_hash", tool.Hash)
	}
	input, err := tool.InputSchema()
	if err != nil {
		return refuse(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MCP_PROTOCOL_ERROR,
			"the tool %s/%s cannot be used, its input schema is not valid: %v", a.Server.ID, tool.Name, err)
	}
	if err := input.ValidateDocument(a.Input); err != nil {
		return withViolations(refuse(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT,
			"the input does not fit the schema of the tool %s/%s: %v", a.Server.ID, tool.Name, err), "input", err)
	}
	return nil
}

// review returns the tools of a server that wait for an approval. If the review cannot be stored, no tool may be used.
func (c *Caller) review(s *registry.Server, tools *catalog.Catalog) (*pin.Review, error) {
	review, err := c.deps.Pins.Review(s, tools)
	if err != nil {
		return nil, notStored(err)
	}
	return review, nil
}

func notStored(err error) *errs.Error {
	return refuse(codes.Internal, commonv1.ErrorReason_ERROR_REASON_STORAGE_ERROR, "%w", err)
}

func noTool(s *registry.Server, name string) *errs.Error {
	return refuse(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_TOOL_NOT_FOUND,
		"MCP server %[1]s has no tool %.100[2]q; `pawl mcp tools %[1]s` lists the tools", s.ID, name)
}

// refuse returns the error of a call that was not made.
func refuse(code codes.Code, reason commonv1.ErrorReason, format string, args ...any) *errs.Error {
	return errs.New(code, reason, format, args...).With(errs.OutcomeKey, errs.OutcomeNotExecuted)
}

// withViolations adds the schema violations in err to e; field is the name of the value.
func withViolations(e *errs.Error, field string, err error) *errs.Error {
	var invalid *schema.Invalid
	if errors.As(err, &invalid) {
		for _, p := range invalid.Problems {
			e = e.WithViolation(field+p.Pointer, p.Message)
		}
	}
	return e
}

// meansUnknownTool reports whether a server's error message means that the tool is unknown: MCP has no error code for it.
func meansUnknownTool(message string) bool {
	m := strings.ToLower(message)
	return strings.Contains(m, "tool") && (strings.Contains(m, "not found") || strings.Contains(m, "unknown"))
}
