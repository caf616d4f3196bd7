package runner

import (
	"context"
	"fmt"
	"unicode/utf8"

	"google.golang.org/grpc"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// nameLength is how much of a goal stands in for a name that the planner did not give.
const nameLength = 40

// begin loads the tools, then asks for name, risk and first step in one call (A3).
func (s *Session) begin(c *plannerv1.TaskContext) Run {
	return func(ctx context.Context, emit func(flow.Input)) {
		out := flow.Begun{Tools: &storagev1.ToolsLoaded{}, Name: shorten(valid(c.GetGoal())), Risk: &storagev1.RiskNote{}}
		tools, err := s.toolset(ctx)
		if err != nil {
			out.Plan.Err = note(fmt.Errorf("loading the tools: %w", err))
		} else {
			out.Plan, tools = s.nextStep(ctx, c, tools, &out)
			out.Tools = tools.loaded
		}
		if ctx.Err() == nil {
			emit(out)
		}
	}
}

// plan asks for the next step.
func (s *Session) plan(c *plannerv1.TaskContext) Run {
	return func(ctx context.Context, emit func(flow.Input)) {
		var out flow.Planned
		tools, err := s.toolset(ctx)
		if err != nil {
			out.Err = note(fmt.Errorf("loading the tools: %w", err))
		} else {
			out, _ = s.nextStep(ctx, c, tools, nil)
		}
		if ctx.Err() == nil {
			emit(out)
		}
	}
}

// nextStep asks for the next step. While it gets none and slow servers are missing, it waits for their tools and asks again: a server
// that hangs does not hold up a task that other tools suffice for. It returns the tools that the answer was made with.
func (s *Session) nextStep(ctx context.Context, c *plannerv1.TaskContext, tools *toolset, begun *flow.Begun) (flow.Planned, *toolset) {
	var out flow.Planned
	for ask := true; ; {
		if ask {
			c.Tools = tools.tools
			s.askNextStep(ctx, c, tools, begun, &out)
		}
		done := out.Err == nil && out.CutShort == "" && len(c.GetHistory()) > 0
		if out.Step != nil || done || len(tools.late) == 0 {
			return out, tools
		}
		s.log.InfoContext(ctx, "the planner knows no step with the tools that are there; waiting for slow MCP servers", "missing", len(tools.late))
		awaitAny(ctx, tools.late)
		more, err := s.toolset(ctx)
		if err != nil || ctx.Err() != nil {
			return out, tools
		}
		ask = len(more.tools) != len(tools.tools) // else a server failed
		tools = more
	}
}

// askNextStep asks for the next step until the planner names a tool that exists; after the last try it is FINAL (A21). begun, if not
// nil, takes the flow's name and risk. The usage in out grows, everything else is replaced.
func (s *Session) askNextStep(ctx context.Context, c *plannerv1.TaskContext, tools *toolset, begun *flow.Begun, out *flow.Planned) {
	*out = flow.Planned{Usage: out.Usage}
	for range s.r.cfg.PlannerTries {
		res, err := askPlanner(ctx, s, c, func(ctx context.Context, c *plannerv1.TaskContext, o ...grpc.CallOption) (*plannerv1.PlanStepsResponse, error) {
			return s.r.planner.PlanSteps(ctx, &plannerv1.PlanStepsRequest{Context: c, Begin: begun != nil}, o...)
		})
		switch {
		case err != nil && definitive(err):
			out.Err = note(err)
			return
		case err != nil:
			out.CutShort = "The planner could not be asked for the next step: " + valid(errs.From(err).Message)
			return
		}
		out.Usage = addUsage(out.Usage, res.GetUsage())
		s.setBase(res.GetContextName(), c)
		if begun != nil {
			takeName(begun, res)
		}
		if len(res.GetSteps()) == 0 {
			out.CutShort = "The planner answered without a step."
			continue
		}
		p := res.GetSteps()[0]
		switch {
		case p.GetToolId() == flow.Final:
			out.CutShort = ""
			return
		case tools.byID[p.GetToolId()] != nil:
			out.Step, out.CutShort = tools.planned(p), ""
			s.setAhead(res.GetSteps()[1:])
			return
		case tools.lateFor(p.GetToolId()) != nil:
			return
		}
		out.CutShort = fmt.Sprintf("The planner chose the tool %q, which is not there.", valid(p.GetToolId()))
		s.log.WarnContext(ctx, "the planner chose an unknown tool", "tool", p.GetToolId())
	}
}

// takeName takes the name and the risk that the planner gave the flow.
func takeName(begun *flow.Begun, res *plannerv1.PlanStepsResponse) {
	if name := valid(res.GetFlowName()); name != "" {
		begun.Name = name
	}
	if res.GetFlowRisk() != nil {
		begun.Risk = riskNote(res.GetFlowRisk())
	}
}

func shorten(goal string) string {
	if utf8.RuneCountInString(goal) <= nameLength {
		return goal
	}
	return string([]rune(goal)[:nameLength-1]) + "…"
}
