package playbook

import (
	"context"
	"sync"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/plan"
)

// kept is how many parsed playbooks are kept: a task asks once per step.
const kept = 64

// Planner plans the steps of playbooks.
type Planner struct {
	plan.Planner // answers all requests that do not depend on the playbook: errors, risks, a person's parameters

	mu     sync.Mutex
	parsed map[string]*Playbook // by text
}

// New returns the planner. The fallback answers all requests that do not depend on the playbook.
func New(fallback plan.Planner) *Planner {
	return &Planner{Planner: fallback, parsed: map[string]*Playbook{}}
}

// Info implements plan.Planner.
func (*Planner) Info() plan.Info {
	return plan.Info{Name: plan.Playbook, Description: "Steps that a person wrote, given with the task as a YAML playbook; no language model."}
}

// PlanSteps implements plan.Planner.
func (m *Planner) PlanSteps(_ context.Context, req *plannerv1.PlanStepsRequest, _ func(string) error) (*plannerv1.PlanStepsResponse, error) {
	r, err := m.run(req.GetContext())
	if err != nil {
		return nil, err
	}
	res := &plannerv1.PlanStepsResponse{Usage: &commonv1.Usage{}}
	if req.GetBegin() {
		res.FlowName, res.FlowRisk = r.flowName(), r.flowRisk()
	}
	res.Steps, err = r.steps()
	return res, err
}

// GenerateAnswer implements plan.Planner.
func (m *Planner) GenerateAnswer(_ context.Context, req *plannerv1.GenerateAnswerRequest, emit func(string) error) (*plannerv1.GenerateAnswerResponse, error) {
	r, err := m.run(req.GetContext())
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
	return res, emit(text) // in one piece, because all of it is there at once
}

// GetFirstInputParams returns the step's input as written in the playbook, also after an error: an input that a person wrote is never
// changed.
func (m *Planner) GetFirstInputParams(_ context.Context, req *plannerv1.GetFirstInputParamsRequest) (*plannerv1.GetFirstInputParamsResponse, error) {
	r, err := m.run(req.GetContext())
	if err != nil {
		return nil, err
	}
	p, err := r.due(req.GetToolId(), req.GetFailedInputJson() != "" || req.GetError() != "")
	if err != nil {
		return nil, err
	}
	return &plannerv1.GetFirstInputParamsResponse{InputJson: p.GetInputJson(), Missing: p.GetMissing(), Usage: &commonv1.Usage{}}, nil
}

func (m *Planner) run(tc *plannerv1.TaskContext) (*run, error) {
	p, err := m.Parse(tc.GetPlaybook())
	inputs := ""
	if err == nil {
		inputs, err = p.FillInputs(tc.GetInputsJson())
	}
	if err != nil { // the request that planned was right
		c := *errs.From(err)
		c.Code = codes.FailedPrecondition
		return nil, &c
	}
	return &run{
		Playbook: p, tc: tc, lang: lang.Of(tc.GetLanguage(), tc.GetGoal()+p.Name), states: make([]state, len(p.Steps)), inputs: inputs,
	}, nil
}

// Parse parses a playbook unless it was parsed before: one that was checked is not parsed again for its task's first step.
func (m *Planner) Parse(text string) (*Playbook, error) {
	m.mu.Lock()
	p := m.parsed[text]
	m.mu.Unlock()
	if p != nil {
		return p, nil
	}
	p, err := Parse(text)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.parsed) >= kept {
		clear(m.parsed)
	}
	m.parsed[text] = p
	return p, nil
}

// due returns the step that calls the tool now. again: an input of the step has failed, and the step is in the history already.
func (r *run) due(toolID string, again bool) (*plannerv1.PlannedStep, error) {
	err := r.replay()
	if n := len(r.calls); again && n > 0 && r.calls[n-1].entry.GetToolId() == toolID && r.calls[n-1].entry.GetResult() != plannerv1.StepResult_STEP_RESULT_SUCCESS {
		return r.propose(r.calls[n-1].place)
	}
	if err != nil {
		return nil, err
	}
	if p := r.at; p.step == len(r.Steps) || r.Steps[p.step].Tool != toolID {
		return nil, failed("the playbook does not call %s at this point (step %d)", toolID, p.step+1)
	}
	return r.propose(r.at)
}
