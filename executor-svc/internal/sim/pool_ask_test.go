package sim

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

// asking is a question that a call waits for.
type asking struct {
	in     *mcppoolv1.CallInputRequired
	answer *mcppoolv1.CallAnswer
	given  chan struct{}
}

// asks lets a call ask people, and waits for their answers. False: the call has ended, or its pool. A server with a request state
// keeps nothing meanwhile; others may have had their effect before they asked.
func (p *pool) asks(c *call, r roll, short string) bool {
	state, lasts := "", 10*time.Minute
	if r.oneIn(2, 41) {
		state = "state of " + c.req.GetCallId()
	}
	if r.oneIn(3, 42) {
		lasts = time.Minute
	}
	if state == "" && r.oneIn(3, 43) {
		p.does(c)
	}
	var asked []*asking
	for i := range 1 + r.draw(2, 44) {
		asked = append(asked, &asking{given: make(chan struct{}), in: &mcppoolv1.CallInputRequired{
			InputId: fmt.Sprint(i), Message: "what?", SchemaJson: inputSchema, RequestState: state, ExpireTime: timestamppb.New(time.Now().Add(lasts)),
		}})
	}
	p.mu.Lock()
	c.asked = asked
	close(c.more)
	c.more = make(chan struct{})
	p.mu.Unlock()
	expires := time.NewTimer(lasts)
	defer expires.Stop()
	for _, q := range asked {
		select {
		case <-q.given:
			continue
		case <-expires.C: // no answer came
		case <-p.dead:
			if state == "" && r.oneIn(3, 47) { // a server without a request state may go on by itself
				p.does(c)
			}
			return false
		case <-c.stop:
			c.err = unknownOutcome(codes.Canceled, commonv1.ErrorReason_ERROR_REASON_CANCELLED, "stopped")
			if _, err := p.w.s.pass(context.Background(), p.dead, "tool gives up "+short); err == nil {
				close(c.done)
			}
			return false
		}
		break
	}
	p.mu.Lock()
	for _, q := range asked {
		if q.answer == nil {
			q.answer = &mcppoolv1.CallAnswer{InputId: q.in.GetInputId(), Action: mcppoolv1.CallAnswer_ACTION_CANCEL}
		}
	}
	p.mu.Unlock()
	return true
}

// open returns the open questions of a call from index told on, its MCP task or nil, and a channel that is closed when either changes.
// It sets told to the number of questions.
func (p *pool) open(c *call, told *int) (open []*asking, task *mcpTask, more <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range c.asked[*told:] {
		if q.answer == nil {
			open = append(open, q)
		}
	}
	*told = len(c.asked)
	return open, c.task, c.more
}

// AnswerCall may succeed although its caller does not learn it.
func (c *poolClient) AnswerCall(ctx context.Context, req *mcppoolv1.AnswerCallRequest, opts ...grpc.CallOption) (*mcppoolv1.AnswerCallResponse, error) {
	c.w.book.begins(c.p, req.GetCallId(), "is answered")
	p, r, err := c.reach(ctx, "answers "+c.w.book.shortID(req.GetCallId()))
	if err != nil {
		return nil, err
	}
	sentTo(opts)
	if r.oneIn(c.w.cfg.netFails, 45) {
		return nil, cut()
	}
	err = p.answer(req)
	if r.oneIn(c.w.cfg.netFails, 46) {
		return nil, cut()
	}
	return &mcppoolv1.AnswerCallResponse{}, err
}

func (p *pool) answer(req *mcppoolv1.AnswerCallRequest) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.calls[req.GetCallId()]
	if c == nil {
		return errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND, "no such call")
	}
	for _, q := range c.asked {
		switch {
		case q.in.GetInputId() != req.GetAnswer().GetInputId():
		case q.answer == nil:
			q.answer = req.GetAnswer()
			p.w.book.took(c.req.GetCallId(), req.GetAnswer())
			close(q.given)
			return nil
		case proto.Equal(q.answer, req.GetAnswer()):
			return nil
		}
	}
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN, "it is answered")
}
