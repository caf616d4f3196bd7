package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
)

// answer writes the answer (A22). Pieces that arrive close together become one event.
func (s *Session) answer(c *plannerv1.TaskContext, cutShort string) Run {
	return func(ctx context.Context, emit func(flow.Input)) {
		if tools, err := s.toolset(ctx); err == nil {
			c.Tools = tools.tools
		}
		var full strings.Builder
		var usage *commonv1.Usage
		rest, err := s.writeAnswer(ctx, c, cutShort, &usage, func(text string) {
			full.WriteString(text)
			emit(flow.Text{Text: text})
		})
		if ctx.Err() != nil {
			return
		}
		full.WriteString(rest)
		out := flow.Answered{FullAnswer: full.String(), Text: rest, Usage: addUsage(nil, usage)}
		if err != nil {
			out.Err = note(fmt.Errorf("writing the answer: %w", err))
			if cutShort != "" && !strings.HasSuffix(cutShort, errs.From(err).Message) {
				out.Err.ErrMsg = cutShort + " " + out.Err.GetErrMsg()
			}
		}
		emit(out)
	}
}

// writeAnswer passes the answer's pieces to show, but the last, which it returns. It tries again only while nothing was shown.
func (s *Session) writeAnswer(ctx context.Context, c *plannerv1.TaskContext, cutShort string, usage **commonv1.Usage, show func(string)) (rest string, err error) {
	shown := false
	rest, err = askPlanner(ctx, s, c, func(ctx context.Context, c *plannerv1.TaskContext, o ...grpc.CallOption) (string, error) {
		stream, err := s.r.planner.GenerateAnswer(ctx, &plannerv1.GenerateAnswerRequest{Context: c, CutShort: cutShort}, o...)
		if err != nil {
			return "", err
		}
		buffer := &textBuffer{delay: s.r.cfg.TextDelay, show: func(text string) { shown = true; show(text) }}
		rest, err := buffer.receive(stream.Recv, usage)
		if err != nil && shown {
			return rest, &partialAnswerError{err}
		}
		return rest, err
	})
	var partial *partialAnswerError
	if errors.As(err, &partial) {
		return rest, partial.error
	}
	return rest, err
}

// partialAnswerError is an error after a part of the answer was shown: the answer cannot start again under the same name.
type partialAnswerError struct{ error }

// textBuffer joins pieces of text that arrive within delay of each other, and passes them to show.
type textBuffer struct {
	delay time.Duration
	show  func(string)

	mu      sync.Mutex // guards the fields below; also held while text is shown
	pending strings.Builder
	timer   *time.Timer // set while text is pending
	ended   bool
}

// receive reads the stream to its end, and returns the text that was not shown.
func (b *textBuffer) receive(recv func() (*plannerv1.GenerateAnswerResponse, error), usage **commonv1.Usage) (rest string, err error) {
	for {
		msg, err := recv()
		if errors.Is(err, io.EOF) {
			return b.end(), nil
		}
		if err != nil {
			return b.end(), err
		}
		if msg.GetUsage() != nil {
			*usage = msg.GetUsage()
		}
		b.add(valid(msg.GetText()))
	}
}

func (b *textBuffer) add(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer == nil && text != "" {
		b.timer = time.AfterFunc(b.delay, b.flush)
	}
	b.pending.WriteString(text)
}

func (b *textBuffer) flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	b.show(b.pending.String())
	b.pending.Reset()
	b.timer = nil
}

// end returns the pending text; none is shown afterwards.
func (b *textBuffer) end() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	if b.timer != nil {
		b.timer.Stop()
	}
	return b.pending.String()
}
