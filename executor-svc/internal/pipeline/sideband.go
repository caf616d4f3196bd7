package pipeline

import (
	"context"
	"errors"
	"io"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
)

// SideBand reads the reply. What the client may see passes to it at once, the whole reply to the next processors.
type SideBand struct{}

// Process implements Processor.
func (SideBand) Process(_ context.Context, x *Exchange) error {
	var raw strings.Builder
	var hide hider
	for {
		piece, err := x.Reply.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return errs.From(io.ErrUnexpectedEOF)
		case err != nil:
			return x.modelError(err)
		}
		switch p := piece.GetPiece().(type) {
		case *plannerv1.GenerateResponse_Text:
			raw.WriteString(p.Text)
			text := p.Text
			if !x.Native {
				text = hide.write(text)
			}
			if text != "" {
				x.say(text)
			}
		case *plannerv1.GenerateResponse_ToolCall:
			x.Calls = append(x.Calls, p.ToolCall)
		case *plannerv1.GenerateResponse_End:
			if rest := hide.end(); rest != "" {
				x.say(rest)
			}
			x.Raw = raw.String()
			x.spend(p.End.GetUsage())
			x.Response.StopReason, x.Response.Model, x.Response.ProviderModel = p.End.GetStopReason(), p.End.GetModel(), p.End.GetProviderModel()
			return nil
		}
	}
}

// modelError returns an error of the planner with what the request has cost.
func (x *Exchange) modelError(err error) error {
	if err == nil {
		return nil
	}
	e := errs.From(err)
	x.spend(e.Usage)
	if e.Reason == commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR {
		e = errs.New(e.Code, e.Reason, "the connection to the planner broke before the model had answered: %w; send the request again", err)
	}
	return e.WithUsage(x.Response.GetUsage())
}
