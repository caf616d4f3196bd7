package ui_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

func TestFrom(t *testing.T) {
	wire := func(e *errs.Error) error { return e.GRPCStatus().Err() }
	for _, tc := range []struct {
		name          string
		err           error
		message, next string
		code          int
	}{
		{"plain", errors.New("disk full"), "disk full", "", ui.Failed},
		{"its own", fmt.Errorf("wrapped: %w", ui.Usagef("bad %s", "flag").Then("do %s", "this")), "bad flag", "do this", ui.Usage},
		{"silent", ui.Exit(ui.Stopped), "", "", ui.Stopped},
		{"interrupted", fmt.Errorf("x: %w", context.Canceled), "interrupted", "", ui.Stopped},
		{"interrupted on the wire", status.Error(codes.Canceled, "x"), "interrupted", "", ui.Stopped},
		{"a reason with a next step", wire(errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_TASK_NOT_FOUND, "no task x")),
			"no task x", "pawl tasks shows the tasks there are", ui.Failed},
		{"a server that no user can activate", wire(errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_ACTIVE,
			"MCP server fs is disabled; enable it in its configuration file, and restart the pool")), "MCP server fs is disabled; enable it in its configuration file, and restart the pool", "", ui.Failed},
		{"fields", wire(errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "the request is wrong").
			WithViolation("goal", "is too long")), "the request is wrong\n  the goal is too long", "", ui.Usage},
		{"rules in words", wire(errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "the request is not valid: mcp_server.id: …").
			WithViolation("mcp_server.id", "does not match regex pattern `^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$`").
			WithViolation("mcp_server_id", "does not match regex pattern `^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$`").
			WithViolation("mcp_server.call_timeout", "must be greater than 0s and less than or equal to 86400s").
			WithViolation("mcp_server.permissions[0].tools[12]", "must be at least 1 characters").
			WithViolation("some.new_field", "does not match regex pattern `^a$`")),
			"the id must be lower-case letters, digits, - and _, of 1 to 64 characters, the first and the last one a letter or digit\n" +
				"--call-timeout must be more than 0s and at most 24h\n--deny, --ask or --allow must not be empty\nsome.new field is not of the form ^a$", "", ui.Usage},
		{"one field", wire(errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "mcp_server.http.url: is not an http or https address").
			WithViolation("mcp_server.http.url", "is not an http or https address")), "--url is not an http or https address", "", ui.Usage},
		{"a model that is not there", wire(errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, `there is no model "x"; there are: a, b`).
			WithViolation("model", "unknown model")), `there is no model "x"; there are: a, b`, "pawl models shows the models there are", ui.Usage},
		{"advice of its own", wire(errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_TOOL_NOT_FOUND, "fs has no tool x; `pawl mcp tools fs` shows what there is")),
			"fs has no tool x", "pawl mcp tools fs shows what there is", ui.Failed},
		{"the same advice", wire(errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_FOUND, "there is no MCP server x; `pawl mcp list` shows what there is")),
			"there is no MCP server x", "pawl mcp list shows the servers there are; pawl mcp add registers one", ui.Failed},
		{"advice for everybody", wire(errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_AGENT_NOT_FOUND, "there is no agent x; list all with `pawl agents list --all` or GET /v1/agents")),
			"there is no agent x", "list all with pawl agents list --all", ui.Failed},
		{"an id that is taken", wire(errs.New(codes.AlreadyExists, commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS, "the agent a already exists; update it, or choose another id")),
			"the agent a already exists", "choose another id, or change or remove the existing one", ui.Failed},
		{"a field that the message names", wire(errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "goal is too long").
			WithViolation("goal", "is too long")), "goal is too long", "", ui.Usage},
		{"later", wire(errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED, "too many requests").
			WithRetryAfter(3 * time.Second)), "too many requests (try again in 3s)", "", ui.Failed},
		{"later, as it says itself", wire(errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED, "too many; try again in 3s").
			WithRetryAfter(3 * time.Second)), "too many; try again in 3s", "", ui.Failed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := ui.AsError(tc.err)
			want := []any{tc.message, tc.next, tc.code}
			if diff := cmp.Diff(want, []any{got.Message, got.Next, got.Code}); diff != "" {
				t.Error(diff)
			}
		})
	}
	if ui.AsError(nil) != nil {
		t.Error("nothing is an error")
	}
}

// Every reason that a person can act on has a next step.
func TestNextSteps(t *testing.T) {
	for _, reason := range []commonv1.ErrorReason{
		commonv1.ErrorReason_ERROR_REASON_TASK_NOT_FOUND, commonv1.ErrorReason_ERROR_REASON_AGENT_NOT_FOUND,
		commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_FOUND, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_ACTIVE,
		commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_UNAVAILABLE, commonv1.ErrorReason_ERROR_REASON_TOOL_NOT_FOUND,
		commonv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED,
		commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN, commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS,
		commonv1.ErrorReason_ERROR_REASON_TASK_NOT_ENDED, commonv1.ErrorReason_ERROR_REASON_DATA_DAMAGED,
	} {
		if ui.AsError(errs.New(codes.Unknown, reason, "x")).Next == "" {
			t.Errorf("%s has no next step", errs.ReasonName(reason))
		}
	}
}

func TestCausesAreKept(t *testing.T) {
	cause := errors.New("cause")
	if err := ui.WrapError(cause, "what happened"); !errors.Is(err, cause) || err.Error() != "what happened" {
		t.Errorf("%v", err)
	}
	if err := ui.Errorf("it failed: %w", cause).Then("try"); !errors.Is(err, cause) || err.Error() != "it failed: cause" {
		t.Errorf("%v", err)
	}
}
