package reason

import (
	"context"
	"encoding/json"
	"fmt"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/schema"

	"pawl.dev/planner-svc/internal/input"
	"pawl.dev/planner-svc/internal/model"
)

// trouble is what the three requests about errors have in common.
type trouble interface {
	GetContext() *plannerv1.TaskContext
	GetToolId() string
	GetInputJson() string
	GetError() string
}

func factsOf(req trouble) (model.Facts, subject, error) {
	s, err := subjectOf(req.GetContext(), req.GetToolId(), "input_json", req.GetInputJson())
	if err != nil {
		return model.Facts{}, s, err
	}
	return model.Facts{Context: req.GetContext(), ToolID: req.GetToolId(), InputJSON: s.input.String(), Error: req.GetError()}, s, nil
}

type paramErrorAnswer struct {
	Is bool `json:"is_param_error"`
}

// IsParamError judges whether another input may help (A15).
func (r *Reasoner) IsParamError(ctx context.Context, req *plannerv1.IsParamErrorRequest) (bool, model.Usage, error) {
	facts, _, err := factsOf(req)
	if err != nil {
		return false, model.Usage{}, err
	}
	a, usage, err := structured[paramErrorAnswer](ctx, r, model.IsParamError, facts, nil)
	if err != nil {
		return false, usage, err
	}
	return a.Is, usage, nil
}

type messageAnswer struct {
	Message string `json:"message"`
}

// DescribeError says for a person what an error means, in at most 50 words or Chinese characters (A16).
func (r *Reasoner) DescribeError(ctx context.Context, req *plannerv1.DescribeErrorRequest) (string, model.Usage, error) {
	facts, _, err := factsOf(req)
	if err != nil {
		return "", model.Usage{}, err
	}
	a, usage, err := structured[messageAnswer](ctx, r, model.DescribeError, facts, nil)
	if err != nil {
		return "", usage, err
	}
	return input.Shorten(langOf(req.GetContext()), a.Message), usage, nil
}

type formAnswer struct {
	Schema json.RawMessage `json:"schema"`
}

// MissingParams returns the JSON Schema of what a person must supply. Every field is nullable and none required, whatever the
// model said (A16).
func (r *Reasoner) MissingParams(ctx context.Context, req *plannerv1.GetMissingParamsRequest) (string, model.Usage, error) {
	facts, s, err := factsOf(req)
	if err != nil {
		return "", model.Usage{}, err
	}
	var form string
	check := func(a *formAnswer) error {
		var err error
		if form, err = input.NullableForm(string(a.Schema)); err != nil {
			return err
		}
		compiled, err := schema.Compile(form)
		if err != nil {
			return err
		}
		for _, p := range compiled.Properties() {
			if s.tool.Closed() && s.tool.Prop(p.Name) == nil {
				return fmt.Errorf("%s has no property %q", s.tool.GetId(), p.Name)
			}
		}
		return nil
	}
	_, usage, err := structured(ctx, r, model.MissingParams, facts, check)
	if err != nil {
		return "", usage, err
	}
	return form, usage, nil
}
