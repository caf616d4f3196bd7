package sim

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
)

// script is what a planner does with a goal: its steps in order, then FINAL.
type script struct {
	steps []*plannerv1.PlannedStep
	// branches holds, by the number of steps before them, the branches that run side by side.
	branches map[int][]branch
	// coding is the plan of subtasks, if the goal is that of a task of the flow `coding`; else nil.
	coding *coding
	// ahead: a plan holds all steps that are left until the next branches, not just the next one.
	ahead bool
}

type branch struct {
	id    string
	steps []*plannerv1.PlannedStep
}

// mostBranches is how many branches run side by side at most.
const mostBranches = 8

// next returns the next steps of a branch, or of the main line, whose branches come first. ended holds, by branch, how many steps have
// ended.
func (sc *script) next(of string, ended map[string]int) (steps []*plannerv1.PlannedStep, branches []string) {
	line, end := sc.steps, len(sc.steps)
	for n, all := range sc.branches {
		if of == "" && n > ended[""] {
			end = min(end, n)
		}
		for _, b := range all {
			switch {
			case of != "" && b.id == of:
				line, end = b.steps, len(b.steps)
			case of == "" && n == ended[""] && ended[b.id] < len(b.steps): // after a fork, only some of them
				branches = append(branches, b.id)
			}
		}
	}
	if len(branches) > 0 {
		return nil, branches
	}
	steps = slices.Clone(line[min(ended[of], end):end])
	if len(steps) == 0 || sc.ahead && (of != "" || end == len(sc.steps)) {
		steps = append(steps, &plannerv1.PlannedStep{ToolId: flow.Final})
	}
	if !sc.ahead {
		steps = steps[:1]
	}
	return steps, nil
}

// planner follows scripts, and fails in all ways there are. It keeps contexts, and forgets some.
type planner struct {
	w *world

	mu       sync.Mutex // guards what follows
	scripts  map[string]*script
	contexts map[string]kept
}

// kept is what a context holds: the goal, and how many steps have ended, by branch.
type kept struct {
	goal  string
	ended map[string]int
}

func (k kept) with(history []*plannerv1.HistoryEntry) kept {
	k.ended = maps.Clone(k.ended)
	for _, e := range history {
		k.ended[e.GetBranch()]++
	}
	return k
}

func newPlanner(w *world) *planner {
	return &planner{w: w, scripts: map[string]*script{}, contexts: map[string]kept{}}
}

// write makes a script for a new goal of a flow.
func (p *planner) write(s *sched, flow string) (goal string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	goal = fmt.Sprintf("goal %d", len(p.scripts)+1)
	if flow == codingFlow {
		p.scripts[goal] = &script{coding: p.writePlan(s, goal)}
		return goal
	}
	sc := &script{ahead: s.chance(3), branches: map[int][]branch{}}
	sc.steps = p.writeSteps(s, goal, s.rng.IntN(4))
	if s.chance(p.w.cfg.branches) {
		before := s.rng.IntN(len(sc.steps) + 1)
		for i := range pick(s, 2, 2, 3, 3, 4, mostBranches) {
			id := fmt.Sprintf("%d.%d", before, i+1)
			sc.branches[before] = append(sc.branches[before], branch{id, p.writeSteps(s, goal+"/"+id, 1+s.rng.IntN(2))})
		}
	}
	p.scripts[goal] = sc
	return goal
}

func (p *planner) writeSteps(s *sched, goal string, n int) (steps []*plannerv1.PlannedStep) {
	for i := range n {
		step := &plannerv1.PlannedStep{
			ToolId: pick(s, toolRead, toolWrite, toolWrite, toolIdempotent, toolDestroy),
			Risk:   &commonv1.Risk{Level: pick(s, low, low, low, medium, high), Reason: "because"},
		}
		step.InputJson = fmt.Sprintf(`{"text":"%s/%d"}`, goal, i)
		switch {
		case s.chance(12):
			step.InputJson = `{"txt":"misfit"}`
		case s.chance(3):
			step.InputJson = fmt.Sprintf(`{"text":"%s"}`, strings.Split(goal, "/")[0]) // the same as another step's, perhaps
		}
		if i > 0 && s.chance(p.w.cfg.repeats) { // the same once more
			step = proto.Clone(steps[i-1]).(*plannerv1.PlannedStep)
		}
		step.Description = step.GetRisk().GetLevel().String()
		steps = append(steps, step)
	}
	return steps
}

const (
	low    = commonv1.RiskLevel_RISK_LEVEL_LOW
	medium = commonv1.RiskLevel_RISK_LEVEL_MEDIUM
	high   = commonv1.RiskLevel_RISK_LEVEL_HIGH
)

// plannerClient is the planner as one process reaches it.
type plannerClient struct {
	plannerv1.PlannerServiceClient // nil: the executor does not call the other methods
	w                              *world
	p                              *proc
}

// asks waits until a request arrives. A planner may fail, for once or for good, and may never answer.
func (c *plannerClient) asks(ctx context.Context, what string) (roll, error) {
	label := c.p.name + " asks planner " + what
	if actor, ok := ctx.Value(actorKey{}).(string); ok {
		label = actor + " asks planner " + what
	}
	r, err := c.w.s.pass(ctx, c.p.dead, label)
	switch {
	case err != nil:
		return r, ended(ctx)
	case r.oneIn(c.w.cfg.plannerFails*2, 20):
		c.w.s.note(label+": hangs", r)
		select {
		case <-ctx.Done():
		case <-c.p.dead:
		}
		return r, ended(ctx)
	case r.oneIn(c.w.cfg.plannerFails, 21):
		return r, pickError(r)
	}
	return r, nil
}

func pickError(r roll) error {
	switch r.draw(6, 22) {
	case 0:
		return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_PLANNING_FAILED, "no way on")
	case 1:
		return errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "the model answered nonsense")
	}
	return status.Error(codes.Unavailable, "connection refused")
}

// known completes a context that refers to an earlier one.
func (p *planner) known(c *plannerv1.TaskContext, r roll) (kept, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.GetBase() == "" {
		return kept{c.GetGoal(), map[string]int{}}.with(c.GetHistory()), nil
	}
	k, ok := p.contexts[c.GetBase()]
	if !ok || r.oneIn(10, 23) {
		return k, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_CONTEXT_MISSING, "forgotten")
	}
	return k.with(c.GetHistory()), nil
}

func (c *plannerClient) StreamPlanSteps(ctx context.Context, req *plannerv1.StreamPlanStepsRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[plannerv1.StreamPlanStepsResponse], error) {
	name := c.w.book.name(req.GetContext().GetTaskId())
	plan, r, err := c.planSteps(ctx, req)
	if err != nil {
		return nil, err
	}
	s := &planStream{ctx: ctx, c: c, name: name, plan: plan}
	steps := plan.GetSteps()
	switch {
	case len(steps) == 0 || req.GetContext().GetBranch() != "" || !r.oneIn(3, 34):
	case steps[0].GetToolId() == flow.Final:
		// The planner writes the answer itself, and sometimes says that the goal was not reached.
		answer := strings.Repeat("word ", int(r.draw(4, 35))) + "end."
		s.pieces, plan.Answer = strings.SplitAfter(answer, " "), &answer
		plan.GoalResult = plannerv1.GoalResult(r.draw(3, 36))
	case r.oneIn(8, 37):
		s.pieces = []string{"a remark ", "before the call"}
	}
	return s, nil
}

// planStream gives the pieces of an answer, and then the plan.
type planStream struct {
	grpc.ClientStream
	ctx    context.Context
	c      *plannerClient
	name   string
	pieces []string
	plan   *plannerv1.PlanStepsResponse
}

func (s *planStream) Context() context.Context { return s.ctx }

func (s *planStream) Recv() (*plannerv1.StreamPlanStepsResponse, error) {
	if len(s.pieces) == 0 {
		if s.plan == nil {
			return nil, io.EOF
		}
		m := &plannerv1.StreamPlanStepsResponse{Piece: &plannerv1.StreamPlanStepsResponse_Plan{Plan: s.plan}}
		s.plan = nil
		return m, nil
	}
	r, err := s.c.w.s.pass(s.ctx, s.c.p.dead, s.c.p.name+" reads the plan of "+s.name)
	switch {
	case err != nil:
		return nil, ended(s.ctx)
	case r.oneIn(s.c.w.cfg.plannerFails*4, 38):
		return nil, cut()
	}
	m := &plannerv1.StreamPlanStepsResponse{Piece: &plannerv1.StreamPlanStepsResponse_AnswerText{AnswerText: s.pieces[0]}}
	s.pieces = s.pieces[1:]
	return m, nil
}

func (c *plannerClient) planSteps(ctx context.Context, req *plannerv1.StreamPlanStepsRequest) (*plannerv1.PlanStepsResponse, roll, error) {
	r, err := c.asks(ctx, strings.TrimSuffix("for the next step of "+c.w.book.name(req.GetContext().GetTaskId())+" "+req.GetContext().GetBranch(), " "))
	if err != nil {
		return nil, r, err
	}
	p := c.w.planner
	k, err := p.known(req.GetContext(), r)
	if err != nil {
		return nil, r, err
	}
	out := &plannerv1.PlanStepsResponse{Usage: usage(r)}
	if req.GetBegin() {
		out.FlowName, out.FlowRisk = "flow of "+k.goal, &commonv1.Risk{Level: low}
	}
	switch {
	case r.oneIn(40, 24):
		return out, r, nil // no step at all
	case r.oneIn(40, 25):
		out.Steps = []*plannerv1.PlannedStep{{ToolId: "s/nothing"}}
		return out, r, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	out.Steps, out.Branches = p.scripts[k.goal].next(req.GetContext().GetBranch(), k.ended)
	if r.oneIn(2, 26) {
		out.ContextName = fmt.Sprintf("context %d", len(p.contexts)+1)
		p.contexts[out.GetContextName()] = k
	}
	return out, r, nil
}

func usage(r roll) *commonv1.Usage {
	if r.oneIn(4, 27) {
		return nil
	}
	return &commonv1.Usage{InputTokens: 10, OutputTokens: 5, ModelCalls: 1}
}

func (c *plannerClient) GetFirstInputParams(ctx context.Context, req *plannerv1.GetFirstInputParamsRequest, _ ...grpc.CallOption) (*plannerv1.GetFirstInputParamsResponse, error) {
	r, err := c.asks(ctx, "for an input of "+c.w.book.name(req.GetContext().GetTaskId()))
	if err == nil {
		_, err = c.w.planner.known(req.GetContext(), r)
	}
	if err != nil {
		return nil, err
	}
	out := &plannerv1.GetFirstInputParamsResponse{InputJson: fmt.Sprintf(`{"text":"derived %d"}`, r.draw(3, 28)), Usage: usage(r)}
	switch {
	case r.oneIn(6, 29):
		out.InputJson = req.GetFailedInputJson()
	case r.oneIn(6, 30):
		out.InputJson = `{"txt":"misfit again"}`
	}
	return out, nil
}

func (c *plannerClient) FillParams(ctx context.Context, req *plannerv1.FillParamsRequest, _ ...grpc.CallOption) (*plannerv1.FillParamsResponse, error) {
	r, err := c.asks(ctx, "to fill an input of "+c.w.book.name(req.GetContext().GetTaskId()))
	if err == nil {
		_, err = c.w.planner.known(req.GetContext(), r)
	}
	if err != nil {
		return nil, err
	}
	return &plannerv1.FillParamsResponse{InputJson: req.GetContentJson(), Usage: usage(r)}, nil
}

func (c *plannerClient) IsParamError(ctx context.Context, req *plannerv1.IsParamErrorRequest, _ ...grpc.CallOption) (*plannerv1.IsParamErrorResponse, error) {
	r, err := c.asks(ctx, "whether it is about an input of "+c.w.book.name(req.GetContext().GetTaskId()))
	if err != nil {
		return nil, err
	}
	return &plannerv1.IsParamErrorResponse{IsParamError: r.oneIn(2, 31), Usage: usage(r)}, nil
}

func (c *plannerClient) DescribeError(ctx context.Context, req *plannerv1.DescribeErrorRequest, _ ...grpc.CallOption) (*plannerv1.DescribeErrorResponse, error) {
	_, err := c.asks(ctx, "what is wrong with "+c.w.book.name(req.GetContext().GetTaskId()))
	return &plannerv1.DescribeErrorResponse{Message: "please say more"}, err
}

func (c *plannerClient) GetMissingParams(ctx context.Context, req *plannerv1.GetMissingParamsRequest, _ ...grpc.CallOption) (*plannerv1.GetMissingParamsResponse, error) {
	_, err := c.asks(ctx, "what is missing in "+c.w.book.name(req.GetContext().GetTaskId()))
	return &plannerv1.GetMissingParamsResponse{SchemaJson: `{"type":"object"}`}, err
}

func (c *plannerClient) ListModels(ctx context.Context, _ *plannerv1.ListModelsRequest, _ ...grpc.CallOption) (*plannerv1.ListModelsResponse, error) {
	_, err := c.asks(ctx, "for models")
	return &plannerv1.ListModelsResponse{Models: []*plannerv1.Model{{Name: "sim", IsDefault: true}}}, err
}

func (c *plannerClient) GenerateAnswer(ctx context.Context, req *plannerv1.GenerateAnswerRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[plannerv1.GenerateAnswerResponse], error) {
	name := c.w.book.name(req.GetContext().GetTaskId())
	r, err := c.asks(ctx, "for the answer of "+name)
	if err == nil {
		_, err = c.w.planner.known(req.GetContext(), r)
	}
	if err != nil {
		return nil, err
	}
	text := strings.Repeat("word ", int(r.draw(4, 32)))
	return &answerStream{ctx: ctx, c: c, name: name, pieces: strings.SplitAfter(text+"end.", " ")}, nil
}

// answerStream gives an answer word by word.
type answerStream struct {
	grpc.ClientStream
	ctx    context.Context
	c      *plannerClient
	name   string
	pieces []string
}

func (s *answerStream) Context() context.Context { return s.ctx }

func (s *answerStream) Recv() (*plannerv1.GenerateAnswerResponse, error) {
	r, err := s.c.w.s.pass(s.ctx, s.c.p.dead, s.c.p.name+" reads the answer of "+s.name)
	switch {
	case err != nil:
		return nil, ended(s.ctx)
	case r.oneIn(s.c.w.cfg.plannerFails*4, 33):
		return nil, cut()
	case len(s.pieces) == 0:
		return nil, io.EOF
	}
	m := &plannerv1.GenerateAnswerResponse{Text: s.pieces[0]}
	if s.pieces = s.pieces[1:]; len(s.pieces) == 0 {
		m.Usage = usage(r)
	}
	return m, nil
}
