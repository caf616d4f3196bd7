package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// answer returns the Run that lets the planner write the answer, which says what each subtask of a plan has reached. Pieces that arrive close
// together become one event. An answer to a message of a topic also explains which servers failed.
func (s *Session) answer(c *plannerv1.TaskContext, log *history.Log, cutShort string) Run {
	var subtasks []*plannerv1.SubtaskState
	if log.Plan != nil {
		for _, st := range log.Plan.Subtasks {
			subtasks = append(subtasks, subtaskState(st))
		}
	}
	var steps []history.Entry
	failed := false
	if s.head.GetChat() != nil {
		steps = ended(log.Entries)
		failed = slices.ContainsFunc(subtasks, func(st *plannerv1.SubtaskState) bool { return st.GetStatus() == "FAILED" })
	}
	return func(ctx context.Context, emit func(flow.Input)) {
		if tools, err := s.toolset(ctx); err == nil {
			tools.giveTo(c)
		}
		if cutShort != "" {
			cutShort += repeatedCallNote(c.GetHistory())
		}
		var full strings.Builder
		out := flow.Answered{CutShort: cutShort, Gathered: s.gather(ctx, steps)}
		req := &plannerv1.GenerateAnswerRequest{CutShort: cutShort, Subtasks: subtasks, ExplainError: failed}
		end, err := s.writeAnswer(ctx, c, req, &out.Usage, func(text string) {
			full.WriteString(text)
			emit(flow.Text{Text: text})
		})
		if ctx.Err() != nil {
			return
		}
		full.WriteString(end.pending)
		out.Text, out.FullAnswer = end.pending, full.String()
		out.NotReached = end.GetGoalResult() == plannerv1.GoalResult_GOAL_RESULT_NOT_FULFILLED
		if err != nil {
			out.Err = errorNote(fmt.Errorf("writing the answer: %w", err))
			if cutShort != "" && !strings.HasSuffix(cutShort, errs.From(err).Public().Message) {
				out.Err.ErrMsg = cutShort + " " + out.Err.GetErrMsg()
			}
		}
		emit(out)
	}
}

// repeatedCallNote returns a note if the last steps made the same call, which means that the planner is stuck; else "".
func repeatedCallNote(history []*plannerv1.HistoryEntry) string {
	const noticed = 3
	n := 0
	for _, e := range slices.Backward(history) {
		if last := history[len(history)-1]; e.GetToolId() != last.GetToolId() || e.GetInputJson() != last.GetInputJson() {
			break
		}
		n++
	}
	if n < noticed {
		return ""
	}
	return fmt.Sprintf(" The last %d steps made the same call of %s.", n, history[len(history)-1].GetToolId())
}

// answerEnd is the planner's last message and the text that was not shown yet.
type answerEnd struct {
	*plannerv1.GenerateAnswerResponse
	pending string
}

// writeAnswer passes the answer's pieces to show, except the last, which it returns. It retries only if nothing was shown.
func (s *Session) writeAnswer(
	ctx context.Context, c *plannerv1.TaskContext, req *plannerv1.GenerateAnswerRequest, usage **storagev1.Usage, show func(string),
) (end answerEnd, err error) {
	shown := false
	end, err = askPlanner(ctx, s, c, usage, func(ctx context.Context, c *plannerv1.TaskContext, o ...grpc.CallOption) (end answerEnd, err error) {
		req.Context = c
		stream, err := s.r.planner.GenerateAnswer(ctx, req, o...)
		if err != nil {
			return end, err
		}
		buffer := &textBuffer{delay: s.r.cfg.TextDelay, show: func(text string) { shown = true; show(text) }}
		for err == nil {
			var msg *plannerv1.GenerateAnswerResponse
			if msg, err = stream.Recv(); err == nil {
				buffer.add(validUTF8(msg.GetText()))
				end.GenerateAnswerResponse = msg
			}
		}
		end.pending = buffer.end()
		if errors.Is(err, io.EOF) {
			return end, nil
		}
		if shown {
			err = &partialAnswerError{err}
		}
		return end, err
	})
	var partial *partialAnswerError
	if errors.As(err, &partial) {
		return end, partial.error
	}
	return end, err
}

// partialAnswerError is an error after a part of the answer was shown. A retry would append to the part.
type partialAnswerError struct{ error }

// textBuffer joins pieces of text that arrive within delay of the first, and passes them to show.
type textBuffer struct {
	delay time.Duration
	show  func(string)

	mu      sync.Mutex // guards the fields below; also held while text is shown
	pending strings.Builder
	timer   *time.Timer // set while text is pending
	ended   bool
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

// end returns the pending text, and shows none afterwards.
func (b *textBuffer) end() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	if b.timer != nil {
		b.timer.Stop()
	}
	return b.pending.String()
}
