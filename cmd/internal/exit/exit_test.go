package exit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"pawl.dev/cmd/internal/exit"
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
		{"plain", errors.New("disk full"), "disk full", "", exit.Failed},
		{"its own", fmt.Errorf("wrapped: %w", exit.Usagef("bad %s", "flag").Then("do %s", "this")), "bad flag", "do this", exit.Usage},
		{"silent", exit.Silent(exit.Stopped), "", "", exit.Stopped},
		{"interrupted", fmt.Errorf("x: %w", context.Canceled), "interrupted", "", exit.Stopped},
		{"interrupted on the wire", status.Error(codes.Canceled, "x"), "interrupted", "", exit.Stopped},
		{"a reason with a next step", wire(errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_TASK_NOT_FOUND, "no task x")),
			"no task x", "pawl tasks shows the tasks there are", exit.Failed},
		{"a server that nobody can activate", wire(errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_ACTIVE,
			"MCP server fs is disabled; enable it where it was registered")), "MCP server fs is disabled; enable it where it was registered", "", exit.Failed},
		{"fields", wire(errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "the request is wrong").
			WithViolation("goal", "is too long")), "the request is wrong\n  goal: is too long", "", exit.Failed},
		{"a field that the message names", wire(errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "goal is too long").
			WithViolation("goal", "is too long")), "goal is too long", "", exit.Failed},
		{"later", wire(errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED, "too many requests").
			WithRetryAfter(3 * time.Second)), "too many requests (try again in 3s)", "", exit.Failed},
		{"later, as it says itself", wire(errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED, "too many; try again in 3s").
			WithRetryAfter(3 * time.Second)), "too many; try again in 3s", "", exit.Failed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := exit.From(tc.err)
			want := []any{tc.message, tc.next, tc.code}
			if diff := cmp.Diff(want, []any{got.Message, got.Next, got.Code}); diff != "" {
				t.Error(diff)
			}
		})
	}
	if exit.From(nil) != nil {
		t.Error("nothing is an error")
	}
}

// Every reason that a person can do something about says what.
func TestNextSteps(t *testing.T) {
	for _, reason := range []commonv1.ErrorReason{
		commonv1.ErrorReason_ERROR_REASON_TASK_NOT_FOUND, commonv1.ErrorReason_ERROR_REASON_AGENT_NOT_FOUND,
		commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_FOUND, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_ACTIVE,
		commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_UNAVAILABLE, commonv1.ErrorReason_ERROR_REASON_TOOL_NOT_FOUND,
		commonv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED,
		commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN, commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS,
		commonv1.ErrorReason_ERROR_REASON_TASK_NOT_ENDED, commonv1.ErrorReason_ERROR_REASON_DATA_DAMAGED,
	} {
		if exit.From(errs.New(codes.Unknown, reason, "x")).Next == "" {
			t.Errorf("%s has no next step", errs.ReasonName(reason))
		}
	}
}

func TestCausesAreKept(t *testing.T) {
	cause := errors.New("cause")
	if err := exit.Wrap(cause, "what happened"); !errors.Is(err, cause) || err.Error() != "what happened" {
		t.Errorf("%v", err)
	}
	if err := exit.Newf("it failed: %w", cause).Then("try"); !errors.Is(err, cause) || err.Error() != "it failed: cause" {
		t.Errorf("%v", err)
	}
}
