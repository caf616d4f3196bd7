package errs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

type fakeStream struct{ grpc.ServerStream }

func (fakeStream) Context() context.Context { return context.Background() }

// both runs the unary and the stream interceptor over one handler's result.
func both(log *slog.Logger, result error) (unary, stream error) {
	_, unary = errs.UnaryServerInterceptor(log)(context.Background(), nil, &grpc.UnaryServerInfo{FullMethod: "/p.S/M"},
		func(context.Context, any) (any, error) { return "reply", result })
	stream = errs.StreamServerInterceptor(log)(nil, fakeStream{}, &grpc.StreamServerInfo{FullMethod: "/p.S/M"},
		func(any, grpc.ServerStream) error { return result })
	return unary, stream
}

func TestInterceptorsMapAndLogInternalErrors(t *testing.T) {
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, nil))
	inner := fmt.Errorf("open the journal: %w", &pathError{io.ErrUnexpectedEOF})
	unary, stream := both(log, inner)
	for _, err := range []error{unary, stream} {
		if status.Code(err) != codes.Internal || errs.Reason(err) != unknownError {
			t.Errorf("err = %v, want Internal/UNKNOWN_ERROR", err)
		}
		if !strings.Contains(err.Error(), "open the journal") {
			t.Errorf("the message %q does not say what was being done", err)
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error("a cause crossed the wire")
		}
	}
	for _, want := range []string{"method=/p.S/M", "reason=UNKNOWN_ERROR", "open the journal", "pathError", "chain="} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, &logged)
		}
	}
}

type pathError struct{ error }

func (p *pathError) Unwrap() error { return p.error }

func TestInterceptorsDoNotLogWhatCallersDoWrong(t *testing.T) {
	var logged bytes.Buffer
	unary, stream := both(slog.New(slog.NewTextHandler(&logged, nil)), errs.New(codes.NotFound, notFound, "no task"))
	if status.Code(unary) != codes.NotFound || status.Code(stream) != codes.NotFound {
		t.Errorf("codes = %v and %v", status.Code(unary), status.Code(stream))
	}
	if logged.Len() > 0 {
		t.Errorf("logged: %s", &logged)
	}
	if unary, stream := both(nil, nil); unary != nil || stream != nil {
		t.Errorf("success became %v and %v", unary, stream)
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
