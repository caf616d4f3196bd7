package reason

import (
	"context"
	"encoding/json"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/model"
)

type inputAnswer struct {
	Input   json.RawMessage `json:"input"`
	Missing []string        `json:"missing"`
}

// FirstInput makes the input of a step (A7); with an error, anew with it in view (A11).
func (r *Reasoner) FirstInput(ctx context.Context, req *plannerv1.GetFirstInputParamsRequest) (string, []string, model.Usage, error) {
	tc := req.GetContext()
	if _, err := subjectOf(tc, req.GetToolId(), "failed_input_json", req.GetFailedInputJson()); err != nil {
		return "", nil, model.Usage{}, err
	}
	facts := model.Facts{Context: tc, ToolID: req.GetToolId(), Description: req.GetDescription(), InputJSON: req.GetFailedInputJson(), Error: req.GetError()}
	a, usage, err := structured[inputAnswer](ctx, r, model.InputParams, facts, nil)
	if err != nil {
		return "", nil, usage, err
	}
	text, missing, _, err := inputOf(tc, req.GetToolId(), a.Input, a.Missing)
	return text, missing, usage, err
}

// FillParams mends an input with what a person supplied (A10).
func (r *Reasoner) FillParams(ctx context.Context, req *plannerv1.FillParamsRequest) (string, model.Usage, error) {
	tc := req.GetContext()
	s, err := subjectOf(tc, req.GetToolId(), "input_json", req.GetInputJson())
	if err != nil {
		return "", model.Usage{}, err
	}
	if c := req.GetContentJson(); c != "" && !json.Valid([]byte(c)) {
		return "", model.Usage{}, invalid("content_json", "what the person supplied is not valid JSON")
	}
	facts := model.Facts{Context: tc, ToolID: req.GetToolId(), InputJSON: s.input.String(), Error: req.GetError(),
		ContentJSON: req.GetContentJson(), Description: req.GetDescription()}
	a, usage, err := structured[inputAnswer](ctx, r, model.FillParams, facts, nil)
	if err != nil {
		return "", usage, err
	}
	text, _, _, err := inputOf(tc, req.GetToolId(), a.Input, nil)
	return text, usage, err
}
