package call

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/ledger"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/services/errs"
)

// Send takes what happens during a call to the caller; it may block.
type Send func(*mcppoolv1.CallToolResponse) error

// follow tells what somebody else's call does from now on, and how it ends, unless ctx ends before.
func (c *Caller) follow(ctx context.Context, call *ledger.Call, send Send) error {
	box, err := call.Follow()
	if err != nil {
		return err
	}
	defer call.Leave(box)
	if !tell(ctx.Done(), call, box, send) {
		return errs.New(codes.Canceled, commonv1.ErrorReason_ERROR_REASON_CANCELLED,
			"the caller went away; the call goes on, AttachCall follows it and CancelCall ends it").With(errs.OutcomeKey, errs.OutcomeUnknown)
	}
	return c.sendEnd(ctx, call, send)
}

// tell sends what a server says during a call; false where gone came before the call's end.
func tell(gone <-chan struct{}, call *ledger.Call, box *ledger.Mailbox, send Send) bool {
	for {
		select {
		case <-box.Ready():
			deliver(box, send)
		case <-call.Done():
			deliver(box, send) // what came before the end
			return true
		case <-gone:
			return false
		}
	}
}

// sendEnd says how a call ended.
func (c *Caller) sendEnd(ctx context.Context, call *ledger.Call, send Send) error {
	end := call.End()
	if end.Err == nil {
		var out struct { // in one piece
			mcppoolv1.CallToolResponse
			event mcppoolv1.CallToolResponse_Result
		}
		out.event.Result = end.Result
		out.Event = &out.event
		if err := send(&out.CallToolResponse); err != nil {
			return err
		}
	}
	if ctx.Err() == nil {
		c.ledger.Fetched(call)
	}
	if end.Err != nil {
		return end.Err
	}
	return nil
}

// deliver sends what the mailbox has. A reader that is gone is noticed elsewhere, not here.
func deliver(box *ledger.Mailbox, send Send) {
	for _, n := range box.Take() {
		if send(toResponse(n)) != nil {
			return
		}
	}
}

func toResponse(n mcp.Notification) *mcppoolv1.CallToolResponse {
	switch {
	case n.Question != nil:
		return &mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_InputRequired{InputRequired: toInputRequired(n.Question)}}
	case n.Task != nil:
		return &mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Task{Task: toTask(n.Task)}}
	}
	if p := n.Progress; p != nil {
		return &mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Progress{
			Progress: &mcppoolv1.CallProgress{Progress: p.Done, Total: p.Total, Message: clean(p.Message)},
		}}
	}
	l := n.Log
	return &mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Log{
		Log: &mcppoolv1.CallLog{Level: clean(l.Level), Logger: clean(l.Logger), DataJson: clean(l.Data)},
	}}
}

func toInputRequired(q *mcp.Question) *mcppoolv1.CallInputRequired {
	return &mcppoolv1.CallInputRequired{
		InputId: q.ID, Message: q.Message, SchemaJson: q.Schema, Url: q.URL, RequestState: clean(q.State),
		ExpireTime: timestamppb.New(q.Expire),
	}
}

func toTask(t *mcp.Task) *mcppoolv1.CallTask {
	out := &mcppoolv1.CallTask{TaskId: t.ID, Status: clean(t.Status), StatusMessage: clean(t.Message), Portable: t.Portable}
	if t.TTL > 0 {
		out.Ttl = durationpb.New(t.TTL)
	}
	return out
}
