package runner

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/toolcall"
)

// plan returns the Run that asks the planner for the next step. If begin is true, it also asks for the task's name and risk.
func (s *Session) plan(c *plannerv1.TaskContext, lane uint32, begin bool) Run {
	return func(ctx context.Context, emit func(flow.Input)) {
		p := &planRun{s: s, c: c, lane: lane, emit: emit}
		if begin {
			p.begun = &flow.Begun{Tools: &storagev1.ToolsLoaded{}, Name: flow.Name(validUTF8(c.GetGoal())), Risk: &storagev1.RiskNote{}}
		}
		if tools, err := s.toolset(ctx); err != nil {
			p.out.Err = errorNote(fmt.Errorf("loading the tools: %w", err))
		} else {
			p.tools = tools
			p.nextStep(ctx)
		}
		if ctx.Err() == nil {
			p.emitPlan(p.out)
		}
	}
}

// planRun asks the planner for one next step. A language model may write the task's answer instead, which planRun emits piece by piece.
type planRun struct {
	s     *Session
	c     *plannerv1.TaskContext
	lane  uint32
	tools *toolset
	emit  func(flow.Input)
	// begun holds the task's name and risk; nil once it was emitted, and for later steps.
	begun *flow.Begun
	out   flow.Planned
}

// emitPlan emits out. The first plan of a task is emitted with the tools, the name and the risk.
func (p *planRun) emitPlan(out flow.Planned) {
	if p.begun == nil {
		p.emit(out)
		return
	}
	if p.begun.Plan = out; p.tools != nil {
		p.begun.Tools = p.tools.loaded
	}
	p.emit(*p.begun)
	p.begun = nil
}

// nextStep asks for the next step. While it gets none and the tools of slow servers are missing, it waits for these tools and asks again, unless the
// planner answered the goal, or chose FINAL after at least one step.
func (p *planRun) nextStep(ctx context.Context) {
	for ask := true; ; {
		if ask {
			p.tools.giveTo(p.c)
			p.askNextStep(ctx)
		}
		answered := p.out.Answer != nil && !p.out.Answer.NotReached
		done := answered || p.out.Err == nil && p.out.CutShort == "" && len(p.c.GetHistory()) > 0
		if p.out.Step != nil || len(p.out.Branches) > 0 || done || len(p.tools.late) == 0 {
			return
		}
		p.s.log.InfoContext(ctx, "the planner found no step with the tools listed so far; waiting for slow MCP servers", "missing", len(p.tools.late))
		toolcall.AwaitAny(ctx, p.tools.late)
		more, err := p.s.toolset(ctx)
		if err != nil || ctx.Err() != nil {
			return
		}
		ask = more.loaded.GetToolCount() != p.tools.loaded.GetToolCount() // else a server failed
		p.tools = more
	}
}

// askNextStep asks for the next step until the planner names FINAL or a tool that exists or may still be listed, or the call fails. After the
// last attempt, the step is FINAL. askNextStep replaces out, but keeps its usage and adds to it.
func (p *planRun) askNextStep(ctx context.Context) {
	p.out = flow.Planned{Usage: p.out.Usage}
	for range p.s.r.cfg.PlannerTries {
		var answer *flow.Answered
		res, err := askPlanner(ctx, p.s, p.c, &p.out.Usage, func(ctx context.Context, c *plannerv1.TaskContext, o ...grpc.CallOption) (res *plannerv1.PlanStepsResponse, err error) {
			res, answer, err = p.stream(ctx, c, o)
			return res, err
		})
		switch {
		case err != nil && isDefinitive(err):
			p.out.Err = errorNote(err)
			return
		case err != nil:
			p.out.CutShort = "The planner could not be asked for the next step: " + validUTF8(errs.From(err).Public().Message)
			return
		}
		p.s.setBase(res.GetContextName(), p.c)
		if b := p.begun; b != nil {
			b.Name = cmp.Or(validUTF8(res.GetFlowName()), b.Name)
			if res.GetFlowRisk() != nil {
				b.Risk = riskNote(res.GetFlowRisk())
			}
		}
		if m := res.GetMemory(); m != nil {
			p.out.Memory = &storagev1.Memory{Summary: validUTF8(m.GetSummary()), LastStepId: m.GetLastStepId()}
		}
		if len(res.GetBranches()) > 0 {
			p.out.Branches, p.out.CutShort = res.GetBranches(), ""
			return
		}
		if len(res.GetSteps()) == 0 {
			p.out.CutShort = "The planner answered without a step."
			continue
		}
		first := res.GetSteps()[0]
		if first.GetToolId() == flow.Final {
			p.out.CutShort, p.out.Answer, p.out.Answering = "", answer, answer != nil && answer.Text == answer.FullAnswer
			return
		}
		if step := p.tools.propose(first); step != nil {
			p.out.Step, p.out.CutShort = step, ""
			p.s.setAhead(p.lane, res.GetSteps()[1:])
			return
		}
		p.out.CutShort = fmt.Sprintf("The planner chose the tool %q, which the task does not have.", validUTF8(first.GetToolId()))
		if p.tools.lateFor(first.GetToolId()) != nil {
			return // nextStep waits for the tool
		}
		p.s.log.WarnContext(ctx, "the planner chose an unknown tool", "tool", first.GetToolId())
	}
}

// stream makes the planner call and emits the pieces of an answer. answer holds the last piece and the whole text; nil if the planner wrote
// no answer.
func (p *planRun) stream(ctx context.Context, c *plannerv1.TaskContext, o []grpc.CallOption) (res *plannerv1.PlanStepsResponse, answer *flow.Answered, err error) {
	stream, err := p.s.r.planner.StreamPlanSteps(ctx, &plannerv1.StreamPlanStepsRequest{Context: c, Begin: p.begun != nil}, o...)
	if err != nil {
		return nil, nil, err
	}
	shown := "" // the text emitted so far
	buffer := &textBuffer{delay: p.s.r.cfg.TextDelay, show: func(text string) {
		if shown == "" {
			p.emitPlan(flow.Planned{Answering: true}) // text of a new answer follows
		}
		shown += text
		p.emit(flow.Text{Text: text})
	}}
	for {
		msg, err := stream.Recv()
		if err != nil {
			buffer.end()
			return nil, nil, err
		}
		if res = msg.GetPlan(); res == nil {
			buffer.add(validUTF8(msg.GetAnswerText()))
			continue
		}
		pending := buffer.end()
		if res.Answer == nil {
			return res, nil, nil
		}
		full := validUTF8(res.GetAnswer())
		if pieces := shown + pending; pieces != "" && pieces != full {
			err = errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR, "the planner's answer differs from the pieces that it sent")
		}
		return res, &flow.Answered{
			Text: strings.TrimPrefix(full, shown), FullAnswer: full,
			NotReached: res.GetGoalResult() == plannerv1.GoalResult_GOAL_RESULT_NOT_FULFILLED,
		}, err
	}
}
