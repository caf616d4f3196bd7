// Package plan defines planners and implements the planner that asks a language model. It knows tools and histories, but nothing of providers, gRPC
// servers and the executor's state.
package plan

import (
	"context"
	"log/slog"
	"slices"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/prompt"
	"pawl.dev/planner-svc/internal/risk"
)

const (
	// Final is the tool id of a step that ends the task.
	Final = "FINAL"
	// Playbook is the name of the planner of tasks with a playbook.
	Playbook = "playbook"
)

// Planner serves the requests of PlannerService that are about a task. Requests have been checked and hold whole contexts.
// Implementations are safe for concurrent use. Errors that callers have to tell apart are *errs.Error, with the usage of the failed call.
type Planner interface {
	// Info describes the planner; its name is the value of a task's `model`. The API sets the defaults.
	Info() *plannerv1.Model

	// PlanSteps serves PlanSteps and StreamPlanSteps. It passes the answer to emit piece by piece, unless emit is nil, and returns an error of emit.
	// The response has a flow name and risk if the request sets `begin`. The API sets the context name.
	PlanSteps(ctx context.Context, req *plannerv1.PlanStepsRequest, emit func(text string) error) (*plannerv1.PlanStepsResponse, error)
	// GenerateAnswer writes the answer to emit and returns the last response, which has no text.
	GenerateAnswer(ctx context.Context, req *plannerv1.GenerateAnswerRequest, emit func(text string) error) (*plannerv1.GenerateAnswerResponse, error)

	GetFirstInputParams(ctx context.Context, req *plannerv1.GetFirstInputParamsRequest) (*plannerv1.GetFirstInputParamsResponse, error)
	FillParams(ctx context.Context, req *plannerv1.FillParamsRequest) (*plannerv1.FillParamsResponse, error)
	AssessToolRisk(ctx context.Context, req *plannerv1.AssessToolRiskRequest) (*plannerv1.AssessToolRiskResponse, error)
	IsParamError(ctx context.Context, req *plannerv1.IsParamErrorRequest) (*plannerv1.IsParamErrorResponse, error)
	DescribeError(ctx context.Context, req *plannerv1.DescribeErrorRequest) (*plannerv1.DescribeErrorResponse, error)
	GetMissingParams(ctx context.Context, req *plannerv1.GetMissingParamsRequest) (*plannerv1.GetMissingParamsResponse, error)
}

// Invalid returns an error about a field of the request.
func Invalid(field, format string, args ...any) error {
	e := errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, format, args...)
	return e.WithViolation(field, e.Message)
}

// Factory makes planners that ask language models.
type Factory struct {
	tries int
	log   *slog.Logger
}

// NewFactory returns a factory. tries is how often a model is asked for a valid reply, the first time included; 0 or less means 3.
func NewFactory(tries int, log *slog.Logger) *Factory {
	if tries <= 0 {
		tries = 3
	}
	return &Factory{tries: tries, log: log}
}

// Planner returns the planner that asks a model.
func (f *Factory) Planner(model llm.Model) *Model { return &Model{Factory: f, model: model} }

// Model is the planner that asks a language model.
type Model struct {
	*Factory
	model llm.Model
}

var _ Planner = (*Model)(nil)

// Info implements Planner.
func (m *Model) Info() *plannerv1.Model {
	info := m.model.Info()
	return &plannerv1.Model{Name: info.Name, Description: info.Description, CanPlan: true, CanGenerate: true, CanCallTools: info.Tools}
}

// PlanSteps implements Planner. It takes one model call, and further calls if the model searches for tools, its reply has to be corrected, or the
// conversation is too long.
func (m *Model) PlanSteps(ctx context.Context, req *plannerv1.PlanStepsRequest, emit func(string) error) (*plannerv1.PlanStepsResponse, error) {
	s := m.session(ctx, req.GetContext())
	gate := &gate{emit: emit, holdBack: holdBack}
	t, err := s.takeTurn(ctx, "", gate)
	if err != nil {
		return nil, err
	}
	res := &plannerv1.PlanStepsResponse{Steps: t.steps, Memory: t.memory}
	if len(t.steps) == 0 {
		if t.answer, err = gate.finish(t.answer); err != nil {
			return nil, err
		}
		description := prompt.LangOf(s.tc).Pick("Nothing is left to do.", "没有剩余的步骤。")
		res.Steps = []*plannerv1.PlannedStep{{ToolId: Final, Description: description}}
		res.Answer, res.GoalResult = &t.answer, t.goalResult
	}
	if req.GetBegin() {
		res.FlowName, res.FlowRisk = flow(s.tc, t)
	}
	res.Usage = s.usage()
	return res, nil
}

// takeTurn appends page to the task's conversation, unless page is empty, and asks for the next turn. If the provider finds the prompt too long,
// takeTurn assumes a smaller window, shortens the conversation and asks once more.
func (s *session) takeTurn(ctx context.Context, page string, g *gate) (*turn, error) {
	for again := false; ; again = true {
		c, err := s.converse(ctx)
		if err != nil {
			return nil, err
		}
		if page != "" {
			c.request.Messages = append(c.request.Messages, llm.UserText(page))
		}
		t, err := c.nextTurn(ctx, g)
		if err == nil {
			t.memory = c.memory
			return t, nil
		}
		if !s.shortens(again, c.request, err) {
			return nil, err
		}
	}
}

// shortens assumes a smaller window and returns true if the provider found a request too long, unless it did so before.
func (s *session) shortens(again bool, r *llm.Request, err error) bool {
	if again || llm.ClassOf(err) != llm.TooLong {
		return false
	}
	s.info.ContextWindow = tokensOf(r) * 3 / 4
	return true
}

// flow returns the flow's name and risk. Without a name from the model, the goal is the name. The risk is the highest of the model's rating and
// the risks of the turn's steps.
func flow(tc *plannerv1.TaskContext, t *turn) (string, *commonv1.Risk) {
	const maxName = 60
	l := prompt.LangOf(tc)
	name := lang.Clip(prompt.Line(t.task.Name), maxName)
	if name == "" {
		name = lang.Title(tc.GetGoal())
	}
	highest := &commonv1.Risk{} // the first step raises it
	if len(t.steps) == 0 {
		highest = &commonv1.Risk{Level: commonv1.RiskLevel_RISK_LEVEL_LOW, Reason: l.Pick("No tool is called.", "不调用任何工具。")}
	}
	for _, st := range t.steps {
		highest = risk.Raise(highest, st.GetRisk().GetLevel(), st.GetRisk().GetReason())
	}
	rated := risk.Parse(t.task.Risk)
	return name, risk.Raise(highest, rated, ratedTask(l, rated))
}

// ratedTask says how the model rates a whole task.
func ratedTask(l lang.Lang, level commonv1.RiskLevel) string {
	return l.Say("The model rates the whole task %s.", "模型将整个任务评为 %s。", risk.Name(level))
}

// GenerateAnswer implements Planner. It does not correct a reply, because emitted text cannot be taken back.
func (m *Model) GenerateAnswer(ctx context.Context, req *plannerv1.GenerateAnswerRequest, emit func(string) error) (*plannerv1.GenerateAnswerResponse, error) {
	s := m.session(ctx, req.GetContext())
	s.hasPlan = len(req.GetSubtasks()) > 0
	c, err := s.converse(ctx)
	if err != nil {
		return nil, err
	}
	r := c.request
	r.Messages = append(r.Messages, llm.UserText(prompt.Render("answer", s.tc, req)))
	r.ToolChoice = plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_NONE
	if c.inJSON {
		r.System = prompt.Render("system", s.tc, nil)
	}
	reply, err := s.generate(ctx, r, (&gate{emit: emit}).delta)
	if err != nil {
		return nil, err
	}
	res := &plannerv1.GenerateAnswerResponse{Usage: s.usage()}
	failed := slices.ContainsFunc(req.GetSubtasks(), func(st *plannerv1.SubtaskState) bool { return st.GetStatus() == "FAILED" })
	if req.GetCutShort() != "" || failed || goalResultOf(reply) == plannerv1.GoalResult_GOAL_RESULT_NOT_FULFILLED {
		res.GoalResult = plannerv1.GoalResult_GOAL_RESULT_NOT_FULFILLED
	}
	if note := cutNote(s.tc, reply); note != "" {
		if err := emit(note); err != nil {
			return nil, err
		}
	}
	return res, nil
}
