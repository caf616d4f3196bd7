package plan

import (
	"encoding/json"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/schema"

	"pawl.dev/planner-svc/internal/catalog"
)

// Check validates what the contract cannot express: the tool must be one of the task's, inputs must be JSON objects, and what a person
// supplied must be JSON.
func Check(req any) error {
	if r, ok := req.(interface {
		GetContext() *plannerv1.TaskContext
		GetToolId() string
	}); ok && catalog.Find(r.GetContext().GetTools(), r.GetToolId()) == nil {
		return Invalid("tool_id", "the tool %q is not one of the task's tools", r.GetToolId())
	}
	if r, ok := req.(interface{ GetInputJson() string }); ok {
		if err := checkInput("input_json", r.GetInputJson()); err != nil {
			return err
		}
	}
	switch r := req.(type) {
	case *plannerv1.GetFirstInputParamsRequest:
		return checkInput("failed_input_json", r.GetFailedInputJson())
	case *plannerv1.FillParamsRequest:
		if c := r.GetContentJson(); c != "" && !json.Valid([]byte(c)) {
			return Invalid("content_json", "what the person supplied is not valid JSON")
		}
	}
	return nil
}

func checkInput(field, text string) error {
	if _, err := schema.ExactObject(nil, text); err != nil {
		return Invalid(field, "the input: %w", err)
	}
	return nil
}

// Invalid returns an error about a field of the request.
func Invalid(field, format string, args ...any) error {
	e := errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, format, args...)
	return e.WithViolation(field, e.Message)
}
