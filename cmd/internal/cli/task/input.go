package task

import (
	"context"
	"strings"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// InputCmd is `pawl input`.
type InputCmd struct {
	AnswerTarget
	Values     []string `arg:"" optional:"" name:"name=value" help:"What is asked for, by name."`
	Wait       string   `placeholder:"ID" help:"The wait; may be left out where only one is open."`
	JSONValues bool     `name:"json-values" help:"Each value is JSON. Without: it is read by what is asked for."`
	Content    string   `xor:"input" placeholder:"JSON|@FILE" help:"The whole answer, in place of values."`
	Done       bool     `xor:"input" help:"You opened the address, and did what it asks."`
	Decline    bool     `xor:"input" help:"Say no; the tool goes on without."`
	Dismiss    bool     `xor:"input" help:"Do not decide; the tool goes on without."`
}

// Run answers.
func (c *InputCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	content, err := ui.ObjectFlag("content", c.Content)
	if err != nil {
		return err
	}
	given := content != "" || c.Done || c.Decline || c.Dismiss
	switch {
	case len(c.Values) > 0 && given:
		return ui.Usagef("values are an answer of their own").Then("give NAME=VALUE…, or one of --content, --done, --decline and --dismiss")
	case len(c.Values) == 0 && !given:
		return ui.Usagef("there is no answer").Then("pawl input TASK NAME=VALUE…, or --content, --done, --decline or --dismiss; pawl show TASK says what is asked for")
	}
	return answer(ctx, u, s, c.AnswerTarget, c.Wait, func(_ context.Context, wait *executorv1.Wait) (*executorv1.ResumeTaskRequest, error) {
		answer, err := c.answer(wait, content)
		if err != nil {
			return nil, err
		}
		return &executorv1.ResumeTaskRequest{Answer: &executorv1.ResumeTaskRequest_Input{Input: answer}}, nil
	}, waitInput)
}

func (c *InputCmd) answer(wait *executorv1.Wait, content string) (*executorv1.InputAnswer, error) {
	switch {
	case c.Decline:
		return &executorv1.InputAnswer{Action: executorv1.InputAnswer_ACTION_DECLINE}, nil
	case c.Dismiss:
		return &executorv1.InputAnswer{Action: executorv1.InputAnswer_ACTION_CANCEL}, nil
	case len(c.Values) > 0:
		var err error
		if content, err = ui.ObjectOfPairs(wait.GetParamsSchemaJson(), c.Values, c.JSONValues, true); err != nil {
			return nil, ui.Usagef("%v", err).Then("pawl show %s says what is asked for", c.Task)
		}
		missing, err := ui.Missing(wait.GetParamsSchemaJson(), c.Values)
		if err != nil {
			return nil, err
		}
		if len(missing) > 0 {
			return nil, ui.Usagef("%s: required, and not given", strings.Join(missing, ", ")).
				Then("pawl input %s%s; pawl show %[1]s says what is asked for", c.Task, paramsHint(wait))
		}
	}
	return &executorv1.InputAnswer{Action: executorv1.InputAnswer_ACTION_ACCEPT, ContentJson: content}, nil
}
