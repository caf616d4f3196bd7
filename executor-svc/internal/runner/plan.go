package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

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
		out := flow.Begun{Tools: &storagev1.ToolsLoaded{}, Name: shorten(valid(c.GetGoal())), Risk: &storagev1.RiskNote{}}
		tools, err := s.toolset(ctx)
		if err != nil {
			out.Plan.Err = note(fmt.Errorf("loading the tools: %w", err))
		} else {
			c.Tools, out.Tools = tools.tools, tools.loaded
			out.Plan = s.next(ctx, c, tools, &out)
			out.Plan, tools = s.nextWithLate(ctx, c, tools, out.Plan, &out)
			out.Tools = tools.loaded
		}
		if ctx.Err() == nil {
			emit(out)
		}
	}
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
		out, _ := s.nextWithLate(ctx, c, tools, s.next(ctx, c, tools, nil), nil)
		if ctx.Err() == nil {
			emit(out)
		}
	}
}

// next asks for the next step until the planner names a tool that exists; after the last try it is FINAL (A21). begun takes
// the flow's name and risk where nothing was done yet.
func (s *Session) next(ctx context.Context, c *plannerv1.TaskContext, tools *toolset, begun *flow.Begun) flow.Planned {
	var out flow.Planned
	for range s.r.cfg.PlannerTries {
		res, err := told(ctx, s, c, func(ctx context.Context, c *plannerv1.TaskContext) (*plannerv1.PlanStepsResponse, error) {
			return s.r.planner.PlanSteps(ctx, &plannerv1.PlanStepsRequest{Context: c, Begin: begun != nil}, patient)
		})
		switch {
		case err != nil && definitive(err):
			out.Err = note(err)
			return out
		case err != nil:
			out.CutShort = "The planner could not be asked for the next step: " + valid(errs.From(err).Message)
			return out
		}
		out.Usage = add(out.Usage, res.GetUsage())
		s.remember(res.GetContextName(), c)
		if begun != nil {
			named(begun, res)
		}
		if len(res.GetSteps()) == 0 {
			out.CutShort = "The planner answered without a step."
			continue
		}
		p := res.GetSteps()[0]
		if p.GetToolId() == flow.Final {
			out.CutShort = ""
			return out
		}
		if tools.byID[p.GetToolId()] != nil {
			out.Step, out.CutShort = tools.planned(p), ""
			s.setAhead(res.GetSteps()[1:])
			return out
		}
		if tools.expects(p.GetToolId()) {
			return out
		}
		out.CutShort = fmt.Sprintf("The planner chose the tool %q, which is not there.", valid(p.GetToolId()))
		s.log.WarnContext(ctx, "the planner chose an unknown tool", "tool", p.GetToolId())
	}
	return out
}

// named takes the name and the risk that the planner gave the flow.
func named(begun *flow.Begun, res *plannerv1.PlanStepsResponse) {
	if name := valid(res.GetFlowName()); name != "" {
		begun.Name = name
	}
	if res.GetFlowRisk() != nil {
		begun.Risk = riskNote(res.GetFlowRisk())
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
	return &storagev1.ErrorNote{ErrMsg: valid(e.Message), Reason: e.Reason}
}

func riskNote(r *commonv1.Risk) *storagev1.RiskNote {
	return &storagev1.RiskNote{Level: r.GetLevel(), Reason: valid(r.GetReason())}
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

// valid makes text storable: over the network it is UTF-8 already, inside one process nobody has checked it.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

func shorten(goal string) string {
	if utf8.RuneCountInString(goal) <= nameLength {
		return goal
	}
	return string([]rune(goal)[:nameLength-1]) + "…"
}
