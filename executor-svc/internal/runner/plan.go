package runner

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// nameLength is how much of a goal stands in for a name that the planner did not give.
const nameLength = 40

// patient lets a call wait for a service that is coming back, within its deadline.
var patient = grpc.WaitForReady(true)

// begin loads the tools, and then asks for name, risk and first step at once (A3).
func (s *Session) begin(c *plannerv1.TaskContext) Run {
	return func(ctx context.Context, emit func(flow.Input)) {
		tools, err := s.toolset(ctx)
		if err != nil {
			emit(flow.Begun{
				Tools: &storagev1.ToolsLoaded{}, Name: shorten(c.GetGoal()), Risk: &storagev1.RiskNote{},
				Plan: flow.Planned{Err: note(fmt.Errorf("loading the tools: %w", err))},
			})
			return
		}
		c.Tools = tools.tools
		out := flow.Begun{Tools: tools.loaded, Name: shorten(c.GetGoal()), Risk: &storagev1.RiskNote{}}
		var named, assessed *commonv1.Usage
		var g errgroup.Group
		g.Go(func() error { named = s.name(ctx, c, &out); return nil })
		g.Go(func() error { assessed = s.risk(ctx, c, &out); return nil })
		g.Go(func() error { out.Plan = s.next(ctx, c, tools); return nil })
		_ = g.Wait() // none of them returns an error: each has its own way to go on without
		if ctx.Err() != nil {
			return
		}
		out.Plan.Usage = add(add(out.Plan.Usage, named), assessed)
		emit(out)
	}
}

func (s *Session) name(ctx context.Context, c *plannerv1.TaskContext, out *flow.Begun) *commonv1.Usage {
	res, err := ask(ctx, s, func(ctx context.Context) (*plannerv1.GetFlowNameResponse, error) {
		return s.r.planner.GetFlowName(ctx, &plannerv1.GetFlowNameRequest{Context: c}, patient)
	})
	if err != nil {
		s.log.WarnContext(ctx, "naming the flow; its goal stands in", "error", err)
		return nil
	}
	if res.GetName() != "" {
		out.Name = res.GetName()
	}
	return res.GetUsage()
}

func (s *Session) risk(ctx context.Context, c *plannerv1.TaskContext, out *flow.Begun) *commonv1.Usage {
	res, err := ask(ctx, s, func(ctx context.Context) (*plannerv1.AssessFlowRiskResponse, error) {
		return s.r.planner.AssessFlowRisk(ctx, &plannerv1.AssessFlowRiskRequest{Context: c}, patient)
	})
	if err != nil {
		s.log.WarnContext(ctx, "assessing the flow's risk; it stays unspecified", "error", err)
		return nil
	}
	out.Risk = riskNote(res.GetRisk())
	return res.GetUsage()
}

func (s *Session) plan(c *plannerv1.TaskContext) Run {
	return func(ctx context.Context, emit func(flow.Input)) {
		tools, err := s.toolset(ctx)
		if err != nil {
			if ctx.Err() == nil {
				emit(flow.Planned{Err: note(fmt.Errorf("loading the tools: %w", err))})
			}
			return
		}
		c.Tools = tools.tools
		out := s.next(ctx, c, tools)
		if ctx.Err() == nil {
			emit(out)
		}
	}
}

// next asks for the next step until the planner names a tool that exists; after the last try it is FINAL (A21).
func (s *Session) next(ctx context.Context, c *plannerv1.TaskContext, tools *toolset) flow.Planned {
	var out flow.Planned
	for range s.r.cfg.PlannerTries {
		res, err := ask(ctx, s, func(ctx context.Context) (*plannerv1.PlanStepsResponse, error) {
			return s.r.planner.PlanSteps(ctx, &plannerv1.PlanStepsRequest{Context: c}, patient)
		})
		switch {
		case err != nil && definitive(err):
			out.Err = note(err)
			return out
		case err != nil:
			out.CutShort = "The planner could not be asked for the next step: " + errs.From(err).Message
			return out
		}
		out.Usage = add(out.Usage, res.GetUsage())
		if len(res.GetSteps()) == 0 {
			out.CutShort = "The planner answered without a step."
			continue
		}
		p := res.GetSteps()[0]
		if p.GetToolId() == flow.Final {
			out.CutShort = ""
			return out
		}
		if tool := tools.byID[p.GetToolId()]; tool != nil {
			out.Step, out.CutShort = planned(p, tool), ""
			return out
		}
		out.CutShort = fmt.Sprintf("The planner chose the tool %q, which is not there.", p.GetToolId())
		s.log.WarnContext(ctx, "the planner chose an unknown tool", "tool", p.GetToolId())
	}
	return out
}

func planned(p *plannerv1.PlannedStep, tool *commonv1.Tool) *flow.PlannedStep {
	input := p.GetInputJson()
	if input == "" {
		input = "{}"
	}
	return &flow.PlannedStep{
		ToolID: p.GetToolId(), Description: p.GetDescription(), InputJSON: input, Risk: riskNote(p.GetRisk()),
		Effect: tool.GetEffect(), Idempotent: tool.GetIdempotent(), RiskFloor: tool.GetRiskFloor(),
		DefinitionHash: tool.GetDefinitionHash(), Problem: problem(tool, input),
	}
}

// ask tries a planner call a few times; an answer that is an error by its nature is not asked for again.
func ask[T any](ctx context.Context, s *Session, call func(context.Context) (T, error)) (T, error) {
	for try := 1; ; try++ {
		c, cancel := context.WithTimeout(s.asUser(ctx), s.r.cfg.PlannerTimeout)
		res, err := call(c)
		cancel()
		if err == nil || definitive(err) || try >= s.r.cfg.PlannerTries || ctx.Err() != nil {
			return res, err
		}
		pause := time.NewTimer(time.Duration(try) * 200 * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
}

// definitive says whether asking again would bring the same answer.
func definitive(err error) bool {
	var c *cut
	if errors.As(err, &c) {
		return true
	}
	switch errs.From(err).Code {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		return true
	}
	return false
}

func note(err error) *storagev1.ErrorNote {
	e := errs.From(err)
	return &storagev1.ErrorNote{ErrMsg: e.Message, Reason: e.Reason}
}

func riskNote(r *commonv1.Risk) *storagev1.RiskNote {
	return &storagev1.RiskNote{Level: r.GetLevel(), Reason: r.GetReason()}
}

func add(sum *storagev1.Usage, u *commonv1.Usage) *storagev1.Usage {
	if u == nil {
		return sum
	}
	if sum == nil {
		sum = &storagev1.Usage{}
	}
	sum.InputTokens += u.GetInputTokens()
	sum.OutputTokens += u.GetOutputTokens()
	sum.ModelCalls += u.GetModelCalls()
	return sum
}

func shorten(goal string) string {
	if utf8.RuneCountInString(goal) <= nameLength {
		return goal
	}
	return string([]rune(goal)[:nameLength-1]) + "…"
}
