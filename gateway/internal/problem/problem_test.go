package problem_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"

	"pawl.dev/gateway/internal/problem"
)

// TestStatusOfEachCode is the whole table.
func TestStatusOfEachCode(t *testing.T) {
	want := map[codes.Code]int{
		codes.InvalidArgument: 400, codes.OutOfRange: 400, codes.Unauthenticated: 401, codes.PermissionDenied: 403, codes.NotFound: 404,
		codes.AlreadyExists: 409, codes.FailedPrecondition: 409, codes.Aborted: 409, codes.ResourceExhausted: 429, codes.Canceled: 499,
		codes.Unknown: 500, codes.Internal: 500, codes.DataLoss: 500, codes.Unimplemented: 501, codes.Unavailable: 503, codes.DeadlineExceeded: 504,
	}
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		ours := errs.New(c, commonv1.ErrorReason_ERROR_REASON_TASK_NOT_FOUND, "m")
		for name, err := range map[string]error{
			"of ours": ours, "off the wire": ours.GRPCStatus().Err(), "wrapped": fmt.Errorf("x: %w", ours), "of gRPC": status.Error(c, "m"),
		} {
			if got := problem.From(err).Status; got != want[c] {
				t.Errorf("%s %s: status %d, want %d", c, name, got, want[c])
			}
		}
	}
}

func TestOtherErrors(t *testing.T) {
	tests := map[string]struct {
		err    error
		status int
		reason string
	}{
		"too large":        {errs.TooLarge(5, 4), 413, "TOO_LARGE"},
		"gRPC's own limit": {status.Error(codes.ResourceExhausted, "grpc: received message larger than max (5 vs. 4)"), 413, "TOO_LARGE"},
		"deadline":         {context.DeadlineExceeded, 504, "TIMEOUT"},
		"cancelled":        {context.Canceled, 499, "CANCELLED"},
		"anything":         {errors.New("x"), 500, "UNKNOWN_ERROR"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if p := problem.From(tt.err); p.Status != tt.status || p.Reason != tt.reason {
				t.Errorf("%d %s, want %d %s", p.Status, p.Reason, tt.status, tt.reason)
			}
		})
	}
}

// Fields have one form: that of JSON, in the detail too. A violation of the whole request names no field.
func TestFieldsHaveTheirJSONNames(t *testing.T) {
	err := errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
		"the request is not valid: page_size: must be at most 1000; context.task_id: must be a UUID; set input or input_json").
		WithViolation("page_size", "must be at most 1000").WithViolation("context.task_id", "must be a UUID").WithViolation("", "set input or input_json")
	p := problem.From(err)
	if want := "the request is not valid: pageSize: must be at most 1000; context.taskId: must be a UUID; set input or inputJson"; p.Detail != want {
		t.Errorf("detail %q", p.Detail)
	}
	want := []problem.Violation{{Field: "pageSize", Description: "must be at most 1000"}, {Field: "context.taskId", Description: "must be a UUID"}, {Description: "set input or inputJson"}}
	if d := cmp.Diff(want, p.Violations); d != "" {
		t.Errorf("violations (-want +got):\n%s", d)
	}
	if strings.Contains(string(p.JSON()), `"field":""`) {
		t.Errorf("an empty field: %s", p.JSON())
	}
}

func TestWrite(t *testing.T) {
	err := errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_REQUEST_ID_REUSED, "a <b> & \"c\"\nd").
		With("first", "1").WithViolation("task.mcp_ids[0].x_y[\"a_b\"]", "bad").WithRetryAfter(1100 * time.Millisecond)
	w := httptest.NewRecorder()
	problem.Write(w, err)
	want := problem.Problem{
		Type: "https://pawl.dev/problems/REQUEST_ID_REUSED", Title: "Request ID reused", Status: 400, Detail: "a <b> & \"c\"\nd",
		Reason: "REQUEST_ID_REUSED", Metadata: map[string]string{"first": "1"}, RetryAfterSeconds: 2,
		Violations: []problem.Violation{{Field: `task.mcpIds[0].xY["a_b"]`, Description: "bad"}},
	}
	var got problem.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problem (-want +got):\n%s", diff)
	}
	if w.Code != 400 || w.Header().Get("Retry-After") != "2" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("status %d, header %v", w.Code, w.Header())
	}
	w = httptest.NewRecorder()
	problem.Write(w, errs.New(codes.Unauthenticated, commonv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED, "send a key"))
	if got := w.Header().Get("WWW-Authenticate"); got != `Bearer realm="pawl"` {
		t.Errorf("WWW-Authenticate %q", got)
	}
}
