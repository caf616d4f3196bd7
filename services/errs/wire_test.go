package errs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

func TestToWireMapsAndLogsInternalErrors(t *testing.T) {
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, nil))
	inner := fmt.Errorf("open the journal: %w", &pathError{io.ErrUnexpectedEOF})
	err := errs.ToWire(t.Context(), log, "/p.S/M", inner)
	if status.Code(err) != codes.Internal || errs.Reason(err) != unknownError {
		t.Errorf("err = %v, want Internal/UNKNOWN_ERROR", err)
	}
	if !strings.Contains(err.Error(), "open the journal") {
		t.Errorf("the message %q does not say what was being done", err)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error("a cause crossed the wire")
	}
	for _, want := range []string{"method=/p.S/M", "reason=UNKNOWN_ERROR", "open the journal", "pathError", "chain="} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, &logged)
		}
	}
}

type pathError struct{ error }

func (p *pathError) Unwrap() error { return p.error }

func TestToWireDoesNotLogWhatCallersDoWrong(t *testing.T) {
	var logged bytes.Buffer
	err := errs.ToWire(t.Context(), slog.New(slog.NewTextHandler(&logged, nil)), "/p.S/M", errs.New(codes.NotFound, notFound, "no task"))
	if status.Code(err) != codes.NotFound {
		t.Errorf("err = %v, want NotFound", err)
	}
	if logged.Len() > 0 {
		t.Errorf("logged: %s", &logged)
	}
	if err := errs.ToWire(t.Context(), nil, "/p.S/M", nil); err != nil {
		t.Errorf("success became %v", err)
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
