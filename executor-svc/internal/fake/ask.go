package fake

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

// question is a question of a call. answer is set and answered is closed when an answer arrives.
type question struct {
	in       *mcppoolv1.CallInputRequired
	answer   *mcppoolv1.CallAnswer
	answered chan struct{}
}

type callKey struct{}

// Ask sends a call's questions together and waits for the answers. Use it in a CallFn with Detached.
func (p *Pool) Ask(ctx context.Context, send func(*mcppoolv1.CallToolResponse) error, questions ...*mcppoolv1.CallInputRequired) ([]*mcppoolv1.CallAnswer, error) {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return nil, errors.New("only a call can ask")
	}
	asked := make([]*question, 0, len(questions))
	for _, in := range questions {
		asked = append(asked, &question{in: in, answered: make(chan struct{})})
	}
	p.mu.Lock()
	c.asked = append(c.asked, asked...)
	close(c.more)
	c.more = make(chan struct{})
	p.mu.Unlock()
	for _, q := range asked {
		if err := send(&mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_InputRequired{InputRequired: q.in}}); err != nil {
			return nil, err
		}
	}
	var answers []*mcppoolv1.CallAnswer
	for _, q := range asked {
		select {
		case <-q.answered:
			answers = append(answers, q.answer)
		case <-ctx.Done():
			if lost := new(errs.Error); errors.As(context.Cause(ctx), &lost) {
				return nil, lost
			}
			return nil, errs.New(codes.Canceled, commonv1.ErrorReason_ERROR_REASON_CANCELLED, "the call was stopped")
		}
	}
	return answers, nil
}

// follow sends each question of a call once, until the call has ended.
func (p *Pool) follow(c *call, stream grpc.ServerStreamingServer[mcppoolv1.AttachCallResponse]) error {
	for known := 0; ; {
		p.mu.Lock()
		var open []*question
		for _, q := range c.asked[known:] {
			if q.answer == nil {
				open = append(open, q)
			}
		}
		more := c.more
		known = len(c.asked)
		p.mu.Unlock()
		for _, q := range open {
			if err := stream.Send(&mcppoolv1.AttachCallResponse{Event: &mcppoolv1.AttachCallResponse_InputRequired{InputRequired: q.in}}); err != nil {
				return err
			}
		}
		select {
		case <-c.done:
			return nil
		case <-more:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// AnswerCall implements McpPoolService.
func (p *Pool) AnswerCall(_ context.Context, req *mcppoolv1.AnswerCallRequest) (*mcppoolv1.AnswerCallResponse, error) {
	if p.BeforeAnswer != nil {
		if err := p.BeforeAnswer(req); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.Answers = append(p.seen.Answers, req)
	c := p.ledger[req.GetCallId()]
	if c == nil || c.done == nil {
		return nil, errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND, "no call %s", req.GetCallId())
	}
	for _, q := range c.asked {
		switch {
		case q.in.GetInputId() != req.GetAnswer().GetInputId():
		case q.answer == nil:
			q.answer = req.GetAnswer()
			close(q.answered)
			return &mcppoolv1.AnswerCallResponse{}, nil
		case proto.Equal(q.answer, req.GetAnswer()):
			return &mcppoolv1.AnswerCallResponse{}, nil
		default:
			return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN, "%s was answered differently", q.in.GetInputId())
		}
	}
	return nil, errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "the call has no question %s", req.GetAnswer().GetInputId())
}

// LoseServer ends all calls that have asked questions, as if their server had died and the pool had not.
func (p *Pool) LoseServer() {
	lost := errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_UNAVAILABLE, "the server's process ended").
		With(errs.OutcomeKey, errs.OutcomeUnknown)
	p.mu.Lock()
	var waiting []*call
	for _, c := range p.ledger {
		if len(c.asked) > 0 {
			waiting = append(waiting, c)
		}
	}
	p.mu.Unlock()
	for _, c := range waiting {
		c.stop(lost)
		<-c.done
	}
}
