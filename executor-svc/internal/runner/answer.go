package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
)

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
		texts := &collected{delay: s.r.cfg.TextDelay, show: func(text string) { shown = true; show(text) }}
		rest, err := texts.collect(stream.Recv, usage)
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

// collected is text that came within a while, and is shown as one piece.
type collected struct {
	delay time.Duration
	show  func(string)

	mu      sync.Mutex // guards what follows, and is held while text is shown
	pending strings.Builder
	timer   *time.Timer // set while something is pending
	ended   bool
}

// collect receives to the end, shows what came within the delay as one piece, and returns what came just before the end.
func (c *collected) collect(recv func() (*plannerv1.GenerateAnswerResponse, error), usage **commonv1.Usage) (rest string, err error) {
	for {
		msg, err := recv()
		if errors.Is(err, io.EOF) {
			return c.end(), nil
		}
		if err != nil {
			return c.end(), err
		}
		if msg.GetUsage() != nil {
			*usage = msg.GetUsage()
		}
		c.add(valid(msg.GetText()))
	}
}

func (c *collected) add(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer == nil && text != "" {
		c.timer = time.AfterFunc(c.delay, c.flush)
	}
	c.pending.WriteString(text)
}

func (c *collected) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.show(c.pending.String())
	c.pending.Reset()
	c.timer = nil
}

// end returns what was not shown; nothing is, any more.
func (c *collected) end() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.timer != nil {
		c.timer.Stop()
	}
	return c.pending.String()
}

// cut is an error after something was shown: the answer cannot be begun again under the same name.
type cut struct{ err error }

func (c *cut) Error() string { return c.err.Error() }
func (c *cut) Unwrap() error { return c.err }
