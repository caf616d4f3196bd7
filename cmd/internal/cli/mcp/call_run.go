package mcp

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

// directCall is a call of a tool without a task: its messages are shown, and what its server asks is answered.
type directCall struct {
	u      *ui.UI
	s      *discover.Session
	id     string
	server string
	alias  func(string) string
	given  *mcppoolv1.CallAnswer // what the command line answers; nil: a person is asked
	ask    *ui.Prompter          // nil: no person is there to ask

	over       bool   // the pool said how the call ended
	unanswered string // what the server asked in vain
}

// newDirectCall prepares a call; given is the answer of the command line.
func newDirectCall(u *ui.UI, s *discover.Session, server string, alias func(string) string, given *mcppoolv1.CallAnswer) *directCall {
	d := &directCall{u: u, s: s, id: uuid.NewString(), server: server, alias: alias, given: given}
	if u.CanAsk() && !u.JSON {
		d.ask = u.Prompter()
		d.ask.Alias = alias
	}
	return d
}

// run makes the call and stays with it to its end. A named call goes on without its caller, so that one who leaves says so.
func (d *directCall) run(ctx context.Context, req *mcppoolv1.CallToolRequest) error {
	interrupts, release := d.u.Signals.Take()
	defer release()
	calling, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-interrupts:
			stop()
		case <-calling.Done():
		}
	}()
	req.CallId = d.id
	stream, err := d.s.Pool.CallTool(calling, req)
	if err != nil {
		return err
	}
	err = d.follow(calling, stream)
	d.leave(ctx)
	if calling.Err() != nil {
		return context.Canceled
	}
	if errors.Is(err, errGivenUp) {
		return ui.Exit(ui.Stopped)
	}
	return err
}

// errGivenUp says that the person gave the call up.
var errGivenUp = errors.New("the call was given up")

// leave tells the pool that this command no longer follows the call: it is to stop, or its result was seen.
func (d *directCall) leave(ctx context.Context) {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer done()
	if d.over {
		// The pool forgets it by itself too, only later.
		_, _ = d.s.Pool.AckCall(ctx, &mcppoolv1.AckCallRequest{CallIds: []string{d.id}})
		return
	}
	_, err := d.s.Pool.CancelCall(ctx, &mcppoolv1.CancelCallRequest{CallId: d.id, Reason: "interrupted at the terminal"})
	if err != nil && errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND {
		d.u.Warn("the call could not be cancelled: %s", ui.AsError(err).Message)
	}
}

func (d *directCall) follow(ctx context.Context, stream grpc.ServerStreamingClient[mcppoolv1.CallToolResponse]) error {
	u := d.u
	progress := &ui.LiveLine{W: u.Err, On: u.Live}
	defer progress.Clear()
	for {
		msg, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return ui.Errorf("the call ended without a result").Then("call it again if that does no harm")
		}
		if err != nil {
			d.over = ctx.Err() == nil
			return err
		}
		d.over = msg.GetResult() != nil
		if d.u.JSON {
			err = ui.JSONLine(u.Out, msg)
		} else {
			showProgress(u, progress, msg)
		}
		if err != nil {
			return err
		}
		if in := msg.GetInputRequired(); in != nil {
			progress.Clear()
			if err := d.question(ctx, in); err != nil {
				return err
			}
		}
		if result := msg.GetResult(); result != nil {
			progress.Clear()
			return d.ended(showResult(u, result))
		}
	}
}

// ended is how the command ends: a call that went on without an answer did not do what was meant.
func (d *directCall) ended(err error) error {
	if err != nil || d.unanswered == "" {
		return err
	}
	return ui.Errorf("%s asked for something and got no answer: %s", d.server, d.unanswered).
		Then(`call it at a terminal, or with --answer '{"…": …}' or --decline`)
}

// question answers what the server asks, and again where the answer is refused.
func (d *directCall) question(ctx context.Context, in *mcppoolv1.CallInputRequired) error {
	st := d.u.ErrStyle()
	if !d.u.JSON {
		d.u.Eprintf("%s %s asks: %s\n", st.Yellow("⏸"), ui.Line(d.server), ui.Line(in.GetMessage()))
	}
	for {
		answer, err := d.answer(ctx, in)
		if err != nil {
			return err
		}
		answer.InputId = in.GetInputId()
		_, err = d.s.Pool.AnswerCall(ctx, &mcppoolv1.AnswerCallRequest{CallId: d.id, Answer: answer})
		switch reason := errs.Reason(err); {
		case err == nil:
			return nil
		case reason == commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN:
			d.u.Note("the question is no longer open")
			return nil // what comes next says how it went on
		case !mendable(reason):
			return err
		case d.ask == nil || d.given != nil:
			d.u.Warn("--answer was not taken: %s", ui.AsError(err).Message)
			d.given = nil
			d.ask = nil
		default:
			d.u.Eprintf("    %s\n", st.Red("not taken: "+ui.Text(ui.AsError(err).Message)))
		}
	}
}

// mendable says whether another answer may do.
func mendable(reason commonv1.ErrorReason) bool {
	return reason == commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT || reason == commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST
}

// answer is what the command line or the person says; without both, the server is told that there is no answer.
func (d *directCall) answer(ctx context.Context, in *mcppoolv1.CallInputRequired) (*mcppoolv1.CallAnswer, error) {
	switch {
	case d.given != nil:
		answer := &mcppoolv1.CallAnswer{Action: d.given.GetAction()}
		if in.GetUrl() == "" {
			answer.ContentJson = d.given.GetContentJson()
		}
		return answer, nil
	case d.ask == nil:
		d.unanswered = strings.TrimSpace(in.GetMessage() + " " + in.GetUrl())
		return &mcppoolv1.CallAnswer{Action: mcppoolv1.CallAnswer_ACTION_CANCEL}, nil
	}
	if in.GetExpireTime() != nil {
		// Counted from what the pool says, a person who is late finds the question closed.
		var done context.CancelFunc
		ctx, done = context.WithTimeout(ctx, in.GetExpireTime().AsTime().Sub(d.u.Now()))
		defer done()
	}
	action, content, err := d.ask.Input(ctx, ui.Input{
		ID: in.GetInputId(), Server: d.server, Schema: in.GetSchemaJson(), URL: in.GetUrl(), Deadline: in.GetExpireTime(), OwnCall: true,
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		d.u.Eprintf("\n")
		return &mcppoolv1.CallAnswer{Action: mcppoolv1.CallAnswer_ACTION_CANCEL}, nil
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case action == ui.InputAccept:
		return &mcppoolv1.CallAnswer{Action: mcppoolv1.CallAnswer_ACTION_ACCEPT, ContentJson: content}, nil
	case action == ui.InputDecline:
		return &mcppoolv1.CallAnswer{Action: mcppoolv1.CallAnswer_ACTION_DECLINE}, nil
	}
	if err != nil {
		d.u.Eprintf("\n")
	}
	d.u.Note("cancelling the call")
	return nil, errGivenUp
}
