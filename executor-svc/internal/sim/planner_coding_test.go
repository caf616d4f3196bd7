package sim

import (
	"context"
	"fmt"
	"io"

	"google.golang.org/grpc"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// coding is what a planner does with a goal of the flow `coding`.
type coding struct {
	subtasks []*plannerv1.Subtask
	risk     commonv1.RiskLevel
	// thoughts holds the calls of each thought, by subtask.
	thoughts map[string][][]*plannerv1.PlannedStep
}

// mostSubtasks is how many subtasks a plan has at first.
const mostSubtasks = 6

// writePlan makes a plan for a goal. Subtasks depend on some of those before.
func (p *planner) writePlan(s *sched, goal string) *coding {
	c := &coding{risk: pick(s, low, low, medium), thoughts: map[string][][]*plannerv1.PlannedStep{}}
	for i := range 1 + s.rng.IntN(mostSubtasks) {
		st := &plannerv1.Subtask{Id: fmt.Sprintf("sub%d", i+1), Title: "a subtask", Acceptance: "it is done"}
		for _, before := range c.subtasks {
			if s.chance(3) {
				st.DependsOn = append(st.DependsOn, before.GetId())
			}
		}
		for range s.rng.IntN(3) {
			steps := p.writeSteps(s, goal+"/"+st.GetId(), 1+s.rng.IntN(3))
			if s.chance(3) { // they only read, so they run at once
				for _, step := range steps {
					step.ToolId = toolRead
				}
			}
			c.thoughts[st.GetId()] = append(c.thoughts[st.GetId()], steps)
		}
		c.subtasks = append(c.subtasks, st)
	}
	return c
}

// next returns the calls of a subtask's next thought after as many ended calls; none if there are none left.
func (c *coding) next(subtask string, ended int) []*plannerv1.PlannedStep {
	for _, steps := range c.thoughts[subtask] {
		if ended < len(steps) {
			return steps[ended:]
		}
		ended -= len(steps)
	}
	return nil
}

// CreatePlan returns the goal's plan, and sometimes one that cannot be used.
func (c *plannerClient) CreatePlan(ctx context.Context, req *plannerv1.CreatePlanRequest, _ ...grpc.CallOption) (*plannerv1.CreatePlanResponse, error) {
	r, err := c.asks(ctx, "for a plan of "+c.w.book.name(req.GetContext().GetTaskId()))
	if err != nil {
		return nil, err
	}
	plan := c.w.planner.codingOf(req.GetContext().GetGoal())
	out := &plannerv1.CreatePlanResponse{MainTask: "do it all", Subtasks: plan.subtasks, Usage: usage(r), Risk: &commonv1.Risk{Level: plan.risk}}
	switch {
	case r.oneIn(12, 40):
		out.Subtasks = []*plannerv1.Subtask{{Id: "a", DependsOn: []string{"b"}}, {Id: "b", DependsOn: []string{"a"}}}
	case r.oneIn(20, 41):
		out.Subtasks = nil
	}
	return out, nil
}

func (p *planner) codingOf(goal string) *coding {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.scripts[goal].coding
}

// Think returns the next calls of a subtask, or says that it is done.
func (c *plannerClient) Think(ctx context.Context, req *plannerv1.ThinkRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[plannerv1.ThinkResponse], error) {
	id := req.GetCurrent().GetId()
	name := c.w.book.name(req.GetContext().GetTaskId()) + " " + id
	r, err := c.asks(ctx, "to think about "+name)
	if err != nil {
		return nil, err
	}
	out := &plannerv1.ThinkResult{Usage: usage(r)}
	out.Steps = c.w.planner.codingOf(req.GetContext().GetGoal()).next(id, len(req.GetContext().GetHistory()))
	switch {
	case r.oneIn(10, 42):
		out.Steps = nil // the flow asks for a reflection
	case r.oneIn(15, 43):
		out.Steps, out.Reflection = nil, &plannerv1.Reflection{Summary: "nothing is done", Next: "go on"}
	case len(out.GetSteps()) == 0:
		out.Reflection = &plannerv1.Reflection{Done: true, Summary: "it is done"}
	case r.oneIn(2, 44):
		out.Reflection = &plannerv1.Reflection{Summary: "something is done", Next: "go on"}
	}
	if out.GetReflection() != nil {
		out.PlanChange = changeOf(r, id, req.GetOthers())
	}
	s := &thoughtStream{ctx: ctx, c: c, name: name, result: out}
	if r.oneIn(2, 45) {
		s.pieces = []string{"first ", "this, ", "then that"}
	}
	return s, nil
}

// changeOf returns how a plan should change: subtasks are added, dropped and reordered, also some that have started.
func changeOf(r roll, id string, others []*plannerv1.SubtaskState) *plannerv1.PlanChange {
	if !r.oneIn(4, 46) || len(others) == 0 {
		return nil
	}
	other := others[r.draw(uint64(len(others)), 47)].GetId()
	out := &plannerv1.PlanChange{Reason: "another way"}
	if r.oneIn(2, 48) {
		out.Add = []*plannerv1.Subtask{{Id: fmt.Sprintf("new%d", r.draw(4, 49)), DependsOn: []string{[]string{id, other, "unknown"}[r.draw(3, 50)]}}}
	}
	if r.oneIn(3, 51) {
		out.Drop = []string{other}
	}
	if r.oneIn(3, 52) {
		out.Order = []string{other, id}
	}
	return out
}

// thoughtStream gives the pieces of a thought, and then its result.
type thoughtStream struct {
	grpc.ClientStream
	ctx    context.Context
	c      *plannerClient
	name   string
	pieces []string
	result *plannerv1.ThinkResult
}

func (s *thoughtStream) Context() context.Context { return s.ctx }

func (s *thoughtStream) Recv() (*plannerv1.ThinkResponse, error) {
	if len(s.pieces) == 0 {
		if s.result == nil {
			return nil, io.EOF
		}
		m := &plannerv1.ThinkResponse{Piece: &plannerv1.ThinkResponse_Result{Result: s.result}}
		s.result = nil
		return m, nil
	}
	r, err := s.c.w.s.pass(s.ctx, s.c.p.dead, s.c.p.name+" reads the thought about "+s.name)
	switch {
	case err != nil:
		return nil, ended(s.ctx)
	case r.oneIn(s.c.w.cfg.plannerFails*4, 53):
		return nil, cut()
	}
	m := &plannerv1.ThinkResponse{Piece: &plannerv1.ThinkResponse_Text{Text: s.pieces[0]}}
	s.pieces = s.pieces[1:]
	return m, nil
}

// Reflect says whether a subtask is done: mostly.
func (c *plannerClient) Reflect(ctx context.Context, req *plannerv1.ReflectRequest, _ ...grpc.CallOption) (*plannerv1.ReflectResponse, error) {
	id := req.GetCurrent().GetId()
	r, err := c.asks(ctx, "to reflect on "+c.w.book.name(req.GetContext().GetTaskId())+" "+id)
	if err != nil {
		return nil, err
	}
	return &plannerv1.ReflectResponse{Done: !r.oneIn(2, 54), Summary: "so far", Next: "go on", Usage: usage(r), PlanChange: changeOf(r, id, req.GetOthers())}, nil
}
