package playbook

import (
	"context"

	"github.com/maypok86/otter/v2"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/plan"
)

// maxParsed bounds the cache of parsed playbooks.
const maxParsed = 64

// Planner plans the steps of playbooks.
type Planner struct {
	plan.Planner // for requests that do not depend on the playbook: errors, risks, a person's parameters

	parsed *otter.Cache[string, *Playbook] // by text
}

// New returns the planner; fallback answers the requests that do not depend on the playbook.
func New(fallback plan.Planner) *Planner {
	return &Planner{Planner: fallback, parsed: otter.Must(&otter.Options[string, *Playbook]{MaximumSize: maxParsed})}
}

// Info implements plan.Planner.
func (*Planner) Info() *plannerv1.Model {
	return &plannerv1.Model{Name: plan.Playbook, CanPlan: true, Description: "Steps that a person wrote, given with the task as a YAML playbook; no language model."}
}

// PlanSteps implements plan.Planner.
func (m *Planner) PlanSteps(ctx context.Context, req *plannerv1.PlanStepsRequest, _ func(string) error) (*plannerv1.PlanStepsResponse, error) {
	r, err := m.run(ctx, req.GetContext())
	if err != nil {
		return nil, err
	}
	res := &plannerv1.PlanStepsResponse{Usage: &commonv1.Usage{}}
	if req.GetBegin() {
		res.FlowName, res.FlowRisk = r.flowName(), r.flowRisk()
	}
	res.Steps, err = r.steps()
	res.Branches = r.open
	return res, err
}

// GenerateAnswer implements plan.Planner.
func (m *Planner) GenerateAnswer(ctx context.Context, req *plannerv1.GenerateAnswerRequest, emit func(string) error) (*plannerv1.GenerateAnswerResponse, error) {
	r, err := m.run(ctx, req.GetContext())
	if err != nil {
		return nil, err
	}
	text, err := r.answer(req.GetCutShort())
	if err != nil {
		return nil, err
	}
	res := &plannerv1.GenerateAnswerResponse{Usage: &commonv1.Usage{}}
	if req.GetCutShort() != "" { // steps are left
		res.GoalResult = plannerv1.GoalResult_GOAL_RESULT_NOT_FULFILLED
	}
	return res, emit(text)
}

// GetFirstInputParams returns the input that the playbook gives the due step. It returns a failed input unchanged, because a person wrote it.
func (m *Planner) GetFirstInputParams(ctx context.Context, req *plannerv1.GetFirstInputParamsRequest) (*plannerv1.GetFirstInputParamsResponse, error) {
	if req.GetFailedInputJson() != "" {
		return &plannerv1.GetFirstInputParamsResponse{InputJson: req.GetFailedInputJson(), Usage: &commonv1.Usage{}}, nil
	}
	res, err := m.PlanSteps(ctx, &plannerv1.PlanStepsRequest{Context: req.GetContext()}, nil)
	if err != nil {
		return nil, err
	}
	due := append(res.GetSteps(), &plannerv1.PlannedStep{ToolId: "branches"})[0]
	if due.GetToolId() != req.GetToolId() {
		return nil, planningFailed("the playbook does not call %s at this point, but %s", req.GetToolId(), due.GetToolId())
	}
	return &plannerv1.GetFirstInputParamsResponse{InputJson: due.GetInputJson(), Missing: due.GetMissing(), Usage: &commonv1.Usage{}}, nil
}

func (m *Planner) run(ctx context.Context, tc *plannerv1.TaskContext) (*run, error) {
	p, err := m.Parse(tc.GetPlaybook())
	inputs := ""
	if err == nil {
		inputs, err = p.FillInputs(tc.GetInputsJson())
	}
	if err != nil { // the request is valid; its task cannot go on
		c := *errs.From(err)
		c.Code = codes.FailedPrecondition
		return nil, &c
	}
	return &run{
		Playbook: p, tc: tc, tools: catalog.FromContext(ctx, tc.GetTools()), lang: lang.Of(tc.GetLanguage(), tc.GetGoal()+p.Name), states: make([]state, len(p.Steps)), inputs: inputs,
	}, nil
}

// Parse parses a playbook. It caches results, because a task sends the same text with each request.
func (m *Planner) Parse(text string) (*Playbook, error) {
	return m.parsed.Get(context.Background(), text, otter.LoaderFunc[string, *Playbook](func(_ context.Context, text string) (*Playbook, error) { return Parse(text) }))
}
