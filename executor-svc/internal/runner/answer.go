package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
)

// piece is what the planner's stream gives: text, or its end.
type piece struct {
	text  string
	usage *commonv1.Usage
	err   error
}

// answer writes the answer (A22). Pieces that come close together become one event.
func (s *Session) answer(c *plannerv1.TaskContext, cutShort string) Run {
	return func(ctx context.Context, emit func(flow.Input)) {
		if tools, err := s.toolset(ctx); err == nil {
			c.Tools = tools.tools
		}
		var full strings.Builder
		var usage *commonv1.Usage
		rest, err := s.pieces(ctx, c, cutShort, func(text string) {
			full.WriteString(text)
			emit(flow.Text{Text: text})
		}, &usage)
		if ctx.Err() != nil {
			return
		}
		full.WriteString(rest)
		out := flow.Answered{FullAnswer: full.String(), Text: rest, Usage: add(nil, usage)}
		if err != nil {
			out.Err = note(fmt.Errorf("writing the answer: %w", err))
			if cutShort != "" && !strings.HasSuffix(cutShort, errs.From(err).Message) {
				out.Err.ErrMsg = cutShort + " " + out.Err.GetErrMsg()
			}
		}
		emit(out)
	}
}

// pieces tries again only while nothing was shown. What comes just before the end is returned: it is shown with the end.
func (s *Session) pieces(ctx context.Context, c *plannerv1.TaskContext, cutShort string, show func(string), usage **commonv1.Usage) (string, error) {
	shown := false
	rest, err := told(ctx, s, c, func(ctx context.Context, c *plannerv1.TaskContext) (string, error) {
		stream, err := s.r.planner.GenerateAnswer(ctx, &plannerv1.GenerateAnswerRequest{Context: c, CutShort: cutShort}, patient)
		if err != nil {
			return "", err
		}
		in := make(chan piece)
		go receivePieces(ctx, stream, in)
		rest, err := s.collect(in, func(text string) { shown = true; show(text) }, usage)
		if err == nil {
			err = ctx.Err() // a stream that was cut off has not ended
		}
		if err != nil && shown {
			return rest, &cut{err}
		}
		return rest, err
	})
	var c2 *cut
	if errors.As(err, &c2) {
		return rest, c2.err
	}
	return rest, err
}

func receivePieces(ctx context.Context, stream interface {
	Recv() (*plannerv1.GenerateAnswerResponse, error)
}, out chan<- piece) {
	defer close(out)
	for {
		msg, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return
		}
		select {
		case out <- piece{text: msg.GetText(), usage: msg.GetUsage(), err: err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// collect shows what came within TextDelay as one piece, and returns what came just before the end.
func (s *Session) collect(in <-chan piece, show func(string), usage **commonv1.Usage) (rest string, err error) {
	var pending strings.Builder
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case p, ok := <-in:
			if !ok || p.err != nil {
				return pending.String(), p.err
			}
			if p.usage != nil {
				*usage = p.usage
			}
			if pending.Len() == 0 && p.text != "" {
				timer.Reset(s.r.cfg.TextDelay)
			}
			pending.WriteString(valid(p.text))
		case <-timer.C:
			show(pending.String())
			pending.Reset()
		}
	}
}

// cut is an error after something was shown: the answer cannot be begun again under the same name.
type cut struct{ err error }

func (c *cut) Error() string { return c.err.Error() }
func (c *cut) Unwrap() error { return c.err }
