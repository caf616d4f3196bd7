package cli

import (
	"context"

	"pawl.dev/cmd/internal/exit"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// OutcomeCmd is `pawl outcome`.
type OutcomeCmd struct {
	AnswerTarget
	Wait   string  `arg:"" optional:"" help:"The wait; may be left out where only one is open."`
	Retry  bool    `xor:"outcome" help:"Call again with the same input: the effect may happen twice."`
	Output string  `xor:"outcome" placeholder:"JSON|@FILE" help:"It ran, and this is what it gave: an object whose message is the text."`
	Skip   *string `xor:"outcome" placeholder:"REASON" help:"Go on without it; what became of it stays unknown."`
}

// Help is shown by --help.
func (OutcomeCmd) Help() string {
	return `A call that was cut off (a crash, a lost connection, a timeout) may have had its effect, and it may not. Pawl never repeats
one that changes something by itself: look at what it changes, then say what became of it. pawl reject TASK ends the task.

Examples:

    pawl outcome last --retry
    pawl outcome last --output '{"message": "written"}'
    pawl outcome 3fa29c01 --skip "the ticket is there, but empty"`
}

// Run says what became of a call.
func (c *OutcomeCmd) Run(ctx context.Context, a *App, g *Globals) error {
	answer, err := c.answer()
	if err != nil {
		return err
	}
	return a.answer(ctx, g, c.AnswerTarget, c.Wait, func(context.Context, *executorv1.Wait) (*executorv1.ResumeTaskRequest, error) {
		return &executorv1.ResumeTaskRequest{Answer: &executorv1.ResumeTaskRequest_Outcome{Outcome: answer}}, nil
	}, waitOutcome)
}

func (c *OutcomeCmd) answer() (*executorv1.OutcomeAnswer, error) {
	switch {
	case c.Retry:
		return &executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Retry{Retry: &executorv1.OutcomeRetry{}}}, nil
	case c.Skip != nil:
		return &executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Skip{Skip: &executorv1.OutcomeSkip{Reason: *c.Skip}}}, nil
	case c.Output == "":
		return nil, exit.Usagef("say what became of the call").
			Then("--retry, --output JSON or --skip REASON; pawl show %s says what was called", c.Task)
	}
	output, err := jsonArg("output", c.Output)
	if err != nil {
		return nil, err
	}
	return &executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Output{Output: &executorv1.OutcomeOutput{OutputJson: output}}}, nil
}
