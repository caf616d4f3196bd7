package task

import (
	"context"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// OutcomeCmd is `pawl outcome`.
type OutcomeCmd struct {
	AnswerTarget
	Wait   string  `arg:"" optional:"" help:"The wait; may be left out where only one is open."`
	Retry  bool    `xor:"outcome" help:"Call again with the same input: the effect may happen twice."`
	Output string  `xor:"outcome" placeholder:"JSON|@FILE" help:"It ran, and this is what it gave: an object whose message is the text."`
	Skip   *string `xor:"outcome" placeholder:"REASON" help:"Go on without it; its outcome stays unknown."`
}

// Run settles the outcome of a call.
func (c *OutcomeCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	settled, err := c.answer()
	if err != nil {
		return err
	}
	return answer(ctx, u, s, c.AnswerTarget, c.Wait, func(context.Context, *executorv1.Wait) (*executorv1.ResumeTaskRequest, error) {
		return &executorv1.ResumeTaskRequest{Answer: &executorv1.ResumeTaskRequest_Outcome{Outcome: settled}}, nil
	}, waitOutcome)
}

func (c *OutcomeCmd) answer() (*executorv1.OutcomeAnswer, error) {
	switch {
	case c.Retry:
		return &executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Retry{Retry: &executorv1.OutcomeRetry{}}}, nil
	case c.Skip != nil:
		return &executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Skip{Skip: &executorv1.OutcomeSkip{Reason: *c.Skip}}}, nil
	case c.Output == "":
		return nil, ui.Usagef("say how the call ended").
			Then("--retry, --output JSON or --skip REASON; pawl show %s says what was called", c.Task)
	}
	output, err := ui.ObjectFlag("output", c.Output)
	if err != nil {
		return nil, err
	}
	return &executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Output{Output: &executorv1.OutcomeOutput{OutputJson: output}}}, nil
}
