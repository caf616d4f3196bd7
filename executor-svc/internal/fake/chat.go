package fake

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
)

// Decide implements PlannerService: without DecideFn it replies.
func (p *Planner) Decide(ctx context.Context, req *plannerv1.DecideRequest) (*plannerv1.DecideResponse, error) {
	res := &plannerv1.DecideResponse{Decision: plannerv1.Decision_DECISION_REPLY, Reason: "a test"}
	if p.DecideFn != nil {
		res = p.DecideFn(req)
	}
	return res, before(ctx, p.BeforeChat)
}

// SelectTools implements PlannerService: without SelectFn it chooses the next entry of Steps among those whose tool the context has.
func (p *Planner) SelectTools(ctx context.Context, req *plannerv1.SelectToolsRequest) (*plannerv1.SelectToolsResponse, error) {
	next, err := p.nextOf(req.GetContext())
	if err != nil {
		return nil, err
	}
	res := &plannerv1.SelectToolsResponse{Steps: next, Usage: p.Usage}
	if p.SelectFn != nil {
		res = p.SelectFn(req)
	}
	return res, before(ctx, p.BeforeChat)
}

// Respond implements PlannerService: without RespondFn it continues with the next entry of Steps, and completes after the last one.
func (p *Planner) Respond(ctx context.Context, req *plannerv1.RespondRequest) (*plannerv1.RespondResponse, error) {
	res := &plannerv1.RespondResponse{Decision: plannerv1.RespondDecision_RESPOND_DECISION_COMPLETE, Text: "done", Usage: p.Usage}
	next, err := p.nextOf(req.GetContext())
	if err != nil {
		return nil, err
	}
	if len(next) > 0 && !req.GetMustComplete() {
		res = &plannerv1.RespondResponse{Decision: plannerv1.RespondDecision_RESPOND_DECISION_CONTINUE, NextCall: next[0], Text: next[0].GetDescription(), Usage: p.Usage}
	}
	if p.RespondFn != nil {
		res = p.RespondFn(req)
	}
	return res, before(ctx, p.BeforeChat)
}

// SummarizeMemory implements PlannerService: without SummarizeFn a conversation fits, and a history becomes the text "a summary".
func (p *Planner) SummarizeMemory(ctx context.Context, req *plannerv1.SummarizeMemoryRequest) (*plannerv1.SummarizeMemoryResponse, error) {
	res := &plannerv1.SummarizeMemoryResponse{Usage: &commonv1.Usage{}}
	switch {
	case p.SummarizeFn != nil:
		res = p.SummarizeFn(req)
	case req.GetContextShare() == 0:
		res.Summary = "a summary"
	}
	return res, before(ctx, p.BeforeChat)
}

// nextOf returns the entry of Steps after those that the context's history has, among the entries whose tool the context has; none after the last one.
func (p *Planner) nextOf(tc *plannerv1.TaskContext) ([]*plannerv1.PlannedStep, error) {
	tools, err := p.toolsOf(tc)
	if err != nil {
		return nil, err
	}
	steps := slices.DeleteFunc(slices.Clone(p.Steps), func(st *plannerv1.PlannedStep) bool {
		return !slices.ContainsFunc(tools, func(t *commonv1.Tool) bool { return t.GetId() == st.GetToolId() })
	})
	done := min(len(tc.GetHistory()), len(steps))
	return steps[done:min(done+1, len(steps))], nil
}

// toolsOf returns the tools of a context. It keeps each catalog, and asks for those that it does not have.
func (p *Planner) toolsOf(tc *plannerv1.TaskContext) ([]*commonv1.Tool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	tools := slices.Clone(tc.GetTools())
	for _, c := range tc.GetCatalogs() {
		if len(c.GetTools()) > 0 {
			if p.catalogs == nil {
				p.catalogs = map[string][]*commonv1.Tool{}
			}
			p.catalogs[c.GetHash()] = c.GetTools()
		}
		if p.catalogs[c.GetHash()] == nil {
			return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_CONTEXT_MISSING, "a catalog is missing").With("catalogs", c.GetHash())
		}
		tools = append(tools, p.catalogs[c.GetHash()]...)
	}
	return tools, nil
}
