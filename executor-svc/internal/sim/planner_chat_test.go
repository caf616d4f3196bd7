package sim

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// asksAbout waits until a question about a message arrives, and returns how many calls the task has made.
func (c *plannerClient) asksAbout(ctx context.Context, what string, tc *plannerv1.TaskContext) (calls int, r roll, err error) {
	if r, err = c.asks(ctx, what+" of "+c.w.book.name(tc.GetTaskId())); err != nil {
		return 0, r, err
	}
	k, err := c.w.planner.known(tc, r)
	for _, n := range k.ended {
		calls += n
	}
	return calls, r, err
}

// Decide mostly replies.
func (c *plannerClient) Decide(ctx context.Context, req *plannerv1.DecideRequest, _ ...grpc.CallOption) (*plannerv1.DecideResponse, error) {
	_, r, err := c.asksAbout(ctx, "for the decision", req.GetContext())
	if err != nil {
		return nil, err
	}
	out := &plannerv1.DecideResponse{Decision: plannerv1.Decision_DECISION_REPLY, Reason: "because", Usage: usage(r)}
	switch n := r.draw(6, 60); {
	case r == 0:
	case n == 0:
		out.Decision = plannerv1.Decision_DECISION_SILENT
	case n == 1:
		out.Decision, out.Question = plannerv1.Decision_DECISION_ASK_HUMAN, "what is meant?"
	case n <= 3 && len(req.GetAgents()) > 0:
		out.Decision, out.DelegateTo = plannerv1.Decision_DECISION_DELEGATE, req.GetAgents()[r.draw(uint64(len(req.GetAgents())), 61)]
	}
	return out, nil
}

// SelectTools selects a call or two, and none later.
func (c *plannerClient) SelectTools(ctx context.Context, req *plannerv1.SelectToolsRequest, _ ...grpc.CallOption) (*plannerv1.SelectToolsResponse, error) {
	calls, r, err := c.asksAbout(ctx, "for calls", req.GetContext())
	if err != nil {
		return nil, err
	}
	out := &plannerv1.SelectToolsResponse{Usage: usage(r)}
	if r != 0 && calls < 2 {
		for i := range r.draw(3, 62) {
			out.Steps = append(out.Steps, chatCall(r, calls+int(i)))
		}
	}
	return out, nil
}

func chatCall(r roll, n int) *plannerv1.PlannedStep {
	return &plannerv1.PlannedStep{
		ToolId: []string{toolRead, toolWrite, toolIdempotent}[r.draw(3, 63+uint64(n))], InputJson: fmt.Sprintf(`{"text":"call %d"}`, n),
		Description: low.String(), Risk: &commonv1.Risk{Level: low, Reason: "because"},
	}
}

// SummarizeMemory summarizes calls, and sometimes a conversation.
func (c *plannerClient) SummarizeMemory(ctx context.Context, req *plannerv1.SummarizeMemoryRequest, _ ...grpc.CallOption) (*plannerv1.SummarizeMemoryResponse, error) {
	_, r, err := c.asksAbout(ctx, "for a summary", req.GetContext())
	if err != nil {
		return nil, err
	}
	out := &plannerv1.SummarizeMemoryResponse{Usage: usage(r)}
	switch n := len(req.GetContext().GetMessages()) - int(req.GetKeepLast()); {
	case req.GetContextShare() == 0:
		out.Summary = "what the calls gave"
	case n > 0 && r.oneIn(2, 66):
		out.Summary, out.CoveredMessages = "what was said", uint32(n)
	}
	return out, nil
}

// Respond mostly completes.
func (c *plannerClient) Respond(ctx context.Context, req *plannerv1.RespondRequest, _ ...grpc.CallOption) (*plannerv1.RespondResponse, error) {
	calls, r, err := c.asksAbout(ctx, "to respond to the message", req.GetContext())
	if err != nil {
		return nil, err
	}
	out := &plannerv1.RespondResponse{Decision: plannerv1.RespondDecision_RESPOND_DECISION_COMPLETE, Text: "done", Usage: usage(r)}
	if !req.GetMustComplete() && r.oneIn(3, 67) {
		out.Decision, out.NextCall, out.Text = plannerv1.RespondDecision_RESPOND_DECISION_CONTINUE, chatCall(r, calls), "one more call"
	}
	return out, nil
}
