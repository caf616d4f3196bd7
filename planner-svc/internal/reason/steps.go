package reason

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/schema"

	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/model"
	"pawl.dev/planner-svc/internal/risk"
)

type stepAnswer struct {
	ToolID      string          `json:"tool_id"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"input"`
	Risk        *riskAnswer     `json:"risk"`
	Missing     []string        `json:"missing"`
}

type stepsAnswer struct {
	Steps []stepAnswer `json:"steps"`
}

// PlanSteps plans the next step with its input and risk, and further ones where they are certain.
func (r *Reasoner) PlanSteps(ctx context.Context, tc *plannerv1.TaskContext) ([]*plannerv1.PlannedStep, model.Usage, error) {
	return r.planSteps(ctx, model.Facts{Context: tc})
}

func (r *Reasoner) planSteps(ctx context.Context, f model.Facts) ([]*plannerv1.PlannedStep, model.Usage, error) {
	steps, computed, err := compute(ctx, r, &f, model.Computing.PlanSteps)
	if computed || err != nil {
		return steps, model.Usage{}, err
	}
	tc := f.Context
	check := func(a *stepsAnswer) error {
		for i, st := range a.Steps {
			if err := known(tc, st.ToolID); err != nil {
				return err
			}
			if st.ToolID == model.Final && i < len(a.Steps)-1 {
				return fmt.Errorf("%s is the end; no step can follow it", model.Final)
			}
		}
		return nil
	}
	a, usage, err := structured(ctx, r, model.PlanSteps, f, check)
	if err != nil {
		return nil, usage, err
	}
	for _, st := range a.Steps {
		planned, err := plannedStep(tc, st)
		if err != nil {
			return nil, usage, err
		}
		steps = append(steps, planned)
	}
	return steps, usage, nil
}

// known checks that a tool is one of the task's, or FINAL.
func known(tc *plannerv1.TaskContext, toolID string) error {
	facts := model.Facts{Context: tc, ToolID: toolID}
	if toolID == model.Final || facts.Tool() != nil {
		return nil
	}
	ids := make([]string, 0, len(tc.GetTools())+1)
	for _, t := range tc.GetTools() {
		ids = append(ids, t.GetId())
	}
	return fmt.Errorf("there is no tool %q; there are %s", toolID, strings.Join(append(ids, model.Final), ", "))
}

func plannedStep(tc *plannerv1.TaskContext, st stepAnswer) (*plannerv1.PlannedStep, error) {
	if st.ToolID == model.Final {
		return &plannerv1.PlannedStep{ToolId: model.Final, Description: st.Description}, nil
	}
	text, missing, s, err := inputOf(tc, st.ToolID, st.Input, st.Missing)
	if err != nil {
		return nil, err
	}
	var said *commonv1.Risk
	if st.Risk != nil {
		said = st.Risk.proto()
	}
	return &plannerv1.PlannedStep{ToolId: st.ToolID, Description: st.Description, InputJson: text,
		Risk: atLeast(langOf(tc), s, said), Missing: missing}, nil
}

// inputOf makes a model's input exact, and names the required properties that it lacks whatever the model said.
func inputOf(tc *plannerv1.TaskContext, toolID string, raw json.RawMessage, said []string) (string, []string, subject, error) {
	s, err := subjectOf(tc, toolID, "input", string(raw))
	if err != nil {
		return "", nil, s, err
	}
	text, err := schema.ExactObject(nil, string(raw))
	if err != nil {
		return "", nil, s, err
	}
	missing := s.tool.Missing(s.input)
	for _, name := range said {
		if s.tool.Prop(name) != nil && !s.input.Has(name) && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	return text, missing, s, nil
}

// atLeast raises what a model said to what the tool's floor and the input demand: a model can raise a risk, never lower it
// (A29).
func atLeast(l lang.Lang, s subject, said *commonv1.Risk) *commonv1.Risk {
	demanded := risk.Assess(l, s.tool, s.input)
	if said.GetLevel() >= demanded.GetLevel() && said.GetReason() != "" {
		return said
	}
	return demanded
}

// NextStep plans the next step alone (A21).
func (r *Reasoner) NextStep(ctx context.Context, tc *plannerv1.TaskContext) (toolID, description string, usage model.Usage, err error) {
	a, usage, err := structured(ctx, r, model.NextStep, model.Facts{Context: tc}, func(a *stepAnswer) error { return known(tc, a.ToolID) })
	if err != nil {
		return "", "", usage, err
	}
	return a.ToolID, a.Description, usage, nil
}

// ToolRisk assesses one call (A8).
func (r *Reasoner) ToolRisk(ctx context.Context, tc *plannerv1.TaskContext, toolID, inputJSON string) (*commonv1.Risk, model.Usage, error) {
	s, err := subjectOf(tc, toolID, "input_json", inputJSON)
	if err != nil {
		return nil, model.Usage{}, err
	}
	a, usage, err := structured[riskAnswer](ctx, r, model.ToolRisk, model.Facts{Context: tc, ToolID: toolID, InputJSON: s.input.String()}, nil)
	if err != nil {
		return nil, usage, err
	}
	return atLeast(langOf(tc), s, a.proto()), usage, nil
}
