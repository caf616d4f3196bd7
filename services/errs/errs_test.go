package errs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"buf.build/go/protovalidate"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

const (
	notFound     = commonv1.ErrorReason_ERROR_REASON_TASK_NOT_FOUND
	invalid      = commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST
	unknownError = commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR
)

// C3: an error prints as `[code] message`, and keeps its cause.
func TestErrorC3PrintsReasonAndMessage(t *testing.T) {
	e := errs.New(codes.NotFound, notFound, "there is no task %q: %w", "t1", io.EOF)
	if got, want := e.Error(), `[TASK_NOT_FOUND] there is no task "t1": EOF`; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	if !errors.Is(e, io.EOF) {
		t.Error("the cause is lost")
	}
	several := errs.New(codes.NotFound, notFound, "%w and %w", io.EOF, io.ErrClosedPipe)
	if !errors.Is(several, io.EOF) || !errors.Is(several, io.ErrClosedPipe) {
		t.Error("one of several causes is lost")
	}
}

func TestNewWithoutArgsTakesTheFormatLiterally(t *testing.T) {
	text := "100% of %s"
	if got := errs.New(codes.Internal, unknownError, text, []any{}...).Message; got != text {
		t.Errorf("Message = %q, want %q", got, text)
	}
}

// C3: the eight codes of the source have their reasons under the same names.
func TestReasonNameC3(t *testing.T) {
	for _, name := range []string{"TOOL_NOT_FOUND", "TOOL_EXECUTION_FAILED", "RESOURCE_NOT_FOUND", "PROMPT_NOT_FOUND",
		"MODEL_ERROR", "NETWORK_ERROR", "PERMISSION_DENIED", "UNKNOWN_ERROR"} {
		n, ok := commonv1.ErrorReason_value["ERROR_REASON_"+name]
		if !ok {
			t.Errorf("there is no reason %s", name)
			continue
		}
		if got := errs.ReasonName(commonv1.ErrorReason(n)); got != name {
			t.Errorf("ReasonName = %q, want %q", got, name)
		}
	}
}

func TestWithCopies(t *testing.T) {
	base := errs.New(codes.InvalidArgument, invalid, "no").With("a", "1").WithViolation("x", "is bad")
	one := base.With("b", "2").WithViolation("y", "is worse").WithRetryAfter(time.Second)
	two := base.With("b", "3").WithViolation("z", "is worst")
	if diff := cmp.Diff(map[string]string{"a": "1"}, base.Metadata); diff != "" {
		t.Errorf("base was changed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]errs.Violation{{"x", "is bad"}, {"y", "is worse"}}, one.Violations); diff != "" {
		t.Errorf("one (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]errs.Violation{{"x", "is bad"}, {"z", "is worst"}}, two.Violations); diff != "" {
		t.Errorf("two (-want +got):\n%s", diff)
	}
	if base.RetryAfter != 0 || one.RetryAfter != time.Second {
		t.Errorf("RetryAfter = %v and %v", base.RetryAfter, one.RetryAfter)
	}
}

func TestStatusRoundTrip(t *testing.T) {
	full := errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED, "太多 requests").
		With("limit", "5").With(errs.OutcomeKey, errs.OutcomeNotExecuted).With("empty", "").
		WithViolation("task.goal", "is empty").WithViolation("", "of the whole").
		WithRetryAfter(1500*time.Millisecond + 7).
		WithUsage(&commonv1.Usage{ModelCalls: 2, InputTokens: 900, CostNanoUsd: proto.Uint64(0)})
	for _, want := range []*errs.Error{
		full,
		errs.New(codes.NotFound, notFound, "no task"),
		errs.New(codes.Internal, unknownError, ""),
	} {
		// As it goes over the wire: a status error made from a proto, wrapped by the client.
		wire := status.FromProto(want.GRPCStatus().Proto()).Err()
		got := errs.From(fmt.Errorf("ask the planner: %w", wire))
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(errs.Error{}), protocmp.Transform()); diff != "" {
			t.Errorf("round trip of %v (-want +got):\n%s", want, diff)
		}
	}
}

func TestStatusOfEveryReasonRoundTrips(t *testing.T) {
	for n := range commonv1.ErrorReason_name {
		want := commonv1.ErrorReason(n)
		st := errs.New(codes.Unknown, want, "x").GRPCStatus()
		if got := errs.Reason(st.Err()); got != want {
			t.Errorf("%v came back as %v", want, got)
		}
	}
}

func TestStatusNeverTurnsAFailureIntoSuccess(t *testing.T) {
	if err := errs.New(codes.OK, notFound, "x").GRPCStatus().Err(); status.Code(err) != codes.Internal {
		t.Errorf("code = %v, want Internal", status.Code(err))
	}
}

func TestStatusIsBoundedAndValid(t *testing.T) {
	e := errs.New(codes.Internal, unknownError, "bad \xff %s", strings.Repeat("长", 5000)).
		With("big", strings.Repeat("x", 9000)).With("bad\xff", "\xff")
	for range 500 {
		e = e.WithViolation("field", strings.Repeat("y", 100))
	}
	got := errs.From(e.GRPCStatus().Err())
	if len(got.Message) > 2100 || !strings.Contains(got.Message, "长") || !strings.HasSuffix(got.Message, "… (cut)") {
		t.Errorf("message of %d bytes ends in %q", len(got.Message), got.Message[len(got.Message)-20:])
	}
	if last := got.Violations[len(got.Violations)-1].Description; len(got.Violations) > 30 || !strings.HasSuffix(last, "more") {
		t.Errorf("%d violations, the last is %q", len(got.Violations), last)
	}
	if n := len(got.Metadata["big"]); n > 1100 {
		t.Errorf("metadata value of %d bytes", n)
	}
}

func TestFrom(t *testing.T) {
	typed := errs.New(codes.NotFound, notFound, "no task")
	foreign, err := status.New(codes.NotFound, "bucket").WithDetails(&errdetails.ErrorInfo{Domain: "googleapis.com", Reason: "TASK_NOT_FOUND"})
	if err != nil {
		t.Fatal(err)
	}
	newer, err := status.New(codes.Aborted, "new").WithDetails(
		&errdetails.ErrorInfo{Domain: errs.Domain, Reason: "OF_THE_FUTURE", Metadata: map[string]string{"k": "v"}})
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name    string
		err     error
		code    codes.Code
		reason  commonv1.ErrorReason
		message string
	}{
		{"typed", typed, codes.NotFound, notFound, "no task"},
		{"typed, wrapped", fmt.Errorf("outer: %w", typed), codes.NotFound, notFound, "no task"},
		{"typed, joined", errors.Join(io.EOF, typed), codes.NotFound, notFound, "no task"},
		{"cancelled", fmt.Errorf("wait: %w", context.Canceled), codes.Canceled, commonv1.ErrorReason_ERROR_REASON_CANCELLED, "wait: context canceled"},
		{"deadline", context.DeadlineExceeded, codes.DeadlineExceeded, commonv1.ErrorReason_ERROR_REASON_TIMEOUT, "context deadline exceeded"},
		{"anything", fmt.Errorf("read: %w", io.ErrUnexpectedEOF), codes.Internal, unknownError, "read: unexpected EOF"},
		{"bare status", status.Error(codes.Unavailable, "refused"), codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR, "refused"},
		{"bare status, denied", status.Error(codes.PermissionDenied, "no"), codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED, "no"},
		{"foreign ErrorInfo", foreign.Err(), codes.NotFound, unknownError, "bucket"},
		{"newer reason", newer.Err(), codes.Aborted, commonv1.ErrorReason_ERROR_REASON_CONFLICT, "new"},
		{"over the size limit", status.Error(codes.ResourceExhausted, "grpc: received message larger than max (500 vs. 100)"),
			codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_TOO_LARGE, "the message has 500 bytes, the limit is 100; send less at once"},
		{"another exhaustion", status.Error(codes.ResourceExhausted, "quota"), codes.ResourceExhausted, unknownError, "quota"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := errs.From(c.err)
			if e.Code != c.code || e.Reason != c.reason || e.Message != c.message {
				t.Errorf("From = %v, %q; want %v [%s] %q", e.Code, e.Error(), c.code, errs.ReasonName(c.reason), c.message)
			}
			if !errors.Is(c.err, typed) && !errors.Is(e, c.err) {
				t.Error("the error itself is lost from the chain")
			}
		})
	}
	if errs.From(nil) != nil || errs.Reason(nil) != 0 {
		t.Error("nil is no error")
	}
	if md := errs.From(newer.Err()).Metadata; md["k"] != "v" {
		t.Errorf("metadata of a newer reason = %v", md)
	}
}

func TestFromValidationListsEveryField(t *testing.T) {
	bad := &mcppoolv1.McpServer{Id: "Not A Slug", DisplayName: strings.Repeat("x", 201)}
	e := errs.From(fmt.Errorf("check: %w", protovalidate.Validate(bad)))
	if e.Code != codes.InvalidArgument || e.Reason != invalid {
		t.Fatalf("From = %v", e)
	}
	fields := map[string]string{}
	for _, v := range e.Violations {
		fields[v.Field] = v.Description
		if !strings.Contains(e.Message, v.Field+": "+v.Description) {
			t.Errorf("the message %q does not tell of %s", e.Message, v.Field)
		}
	}
	if fields["id"] == "" || fields["display_name"] == "" {
		t.Errorf("violations = %v", fields)
	}
}
