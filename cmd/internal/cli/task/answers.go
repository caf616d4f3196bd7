package task

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// AnswerTarget names the task to answer. Detach ends the command once the answer is sent.
type AnswerTarget struct {
	OneTask
	Detach bool `short:"d" help:"Do not follow the task to its next stop."`
}

// ApproveCmd is `pawl approve`.
type ApproveCmd struct {
	AnswerTarget
	Wait  string `arg:"" optional:"" help:"The wait; may be left out if only one is open."`
	Edit  bool   `xor:"input" help:"Change the input, or the plan, in $EDITOR first."`
	Input string `xor:"input" placeholder:"JSON|@FILE" help:"Run with this input, or work on this plan, instead."`

	Grant   bool    `help:"Let later calls of this tool in this task run without asking, too."`
	MaxRisk *string `enum:"low,medium,high" placeholder:"RISK" help:"With --grant: up to this risk (default: the risk of the step)."`
}

// Run approves a step.
func (c *ApproveCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	input, err := ui.ObjectFlag("input", c.Input)
	if err != nil {
		return err
	}
	if c.MaxRisk != nil && !c.Grant {
		return ui.Usagef("--max-risk limits --grant").Then("add --grant, or leave --max-risk out")
	}
	var grant *executorv1.Grant
	if c.Grant {
		grant = &executorv1.Grant{}
	}
	if c.MaxRisk != nil {
		grant.MaxRisk = ui.EnumValue[commonv1.RiskLevel](*c.MaxRisk)
	}
	commandStart, edit := time.Now(), &textEdit{editor: u.Editor()}
	build := func(ctx context.Context, task *executorv1.Task, wait *executorv1.Wait) (_ *executorv1.ResumeTaskRequest, err error) {
		if c.Wait == "" && !c.Edit {
			if err := checkShown(s, task, wait, commandStart); err != nil {
				return nil, err
			}
		}
		if wait.GetKind() == waitPlan {
			return c.plan(ctx, s, task.GetId(), input, edit)
		}
		if c.Edit {
			if edit.editor == nil || !u.InTTY {
				return nil, ui.Errorf("there is no editor to change the input with").Then("set EDITOR and use a terminal, or give --input JSON")
			}
			input, err = edit.input(ctx, wait.GetInputJson())
		}
		return approve(input, grant), err
	}
	err = answer(ctx, u, s, c.AnswerTarget, c.Wait, build, waitApproval, waitPlan)
	for edit.refused(err) {
		err = answer(ctx, u, s, c.AnswerTarget, c.Wait, build, waitApproval, waitPlan)
	}
	return err
}

// plan returns the answer that approves a plan: as shown, edited, or replaced by input.
func (c *ApproveCmd) plan(ctx context.Context, s *discover.Session, taskID, input string, edit *textEdit) (*executorv1.ResumeTaskRequest, error) {
	req := approve("", nil)
	var err error
	switch {
	case input != "":
		req.GetApprove().Plan, err = parsePlan(input)
	case c.Edit:
		var result *executorv1.TaskResult
		if result, err = s.Tasks.GetTaskResult(ctx, &executorv1.GetTaskResultRequest{Id: taskID}); err == nil {
			req.GetApprove().Plan, err = edit.plan(ctx, result.GetPlan())
		}
	}
	return req, err
}

// RejectCmd is `pawl reject`.
type RejectCmd struct {
	AnswerTarget
	Wait   string `arg:"" optional:"" help:"The wait; may be left out if only one is open."`
	Reason string `placeholder:"TEXT" help:"Why; kept with the task."`
}

// Run rejects a step and follows its task to the end.
func (c *RejectCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	if strings.Contains(c.Wait, " ") { // no wait has such an id
		return ui.Usagef("%q is no wait", c.Wait).Then("pawl reject %s --reason %q", c.Task, c.Wait)
	}
	err := answer(ctx, u, s, c.AnswerTarget, c.Wait, func(context.Context, *executorv1.Task, *executorv1.Wait) (*executorv1.ResumeTaskRequest, error) {
		return reject(c.Reason), nil
	}, waitApproval, waitParams, waitOutcome, waitPlan)
	var e *ui.Error
	if errors.As(err, &e) && e.Code == ui.Stopped && e.Message == "" {
		return nil // the task is cancelled, as requested
	}
	return err
}

// ParamsCmd is `pawl params`.
type ParamsCmd struct {
	AnswerTarget
	Values      []string `arg:"" optional:"" name:"name=value" help:"The missing parameters, by name."`
	Wait        string   `placeholder:"ID" help:"The wait; may be left out if only one is open."`
	JSONValues  bool     `name:"json-values" help:"Read each value as JSON (default: as the type that the task asks for)."`
	Description string   `placeholder:"TEXT" help:"The parameters in your own words, for the planner."`
}

// Run supplies parameters.
func (c *ParamsCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	if len(c.Values) == 0 && c.Description == "" {
		return ui.Usagef("there is nothing to supply").Then("pawl params TASK NAME=VALUE…, or --description TEXT; pawl show TASK says what is asked for")
	}
	return answer(ctx, u, s, c.AnswerTarget, c.Wait, func(_ context.Context, _ *executorv1.Task, wait *executorv1.Wait) (*executorv1.ResumeTaskRequest, error) {
		content, err := ui.ObjectOfPairs(wait.GetParamsSchemaJson(), c.Values, c.JSONValues, true)
		if err != nil {
			return nil, ui.Usagef("%v", err).Then("pawl show %s says what is asked for", c.Task)
		}
		return params(content, c.Description), nil
	}, waitParams)
}

// InputCmd is `pawl input`.
type InputCmd struct {
	AnswerTarget
	Values     []string `arg:"" optional:"" name:"name=value" help:"The requested values, by name."`
	Wait       string   `placeholder:"ID" help:"The wait; may be left out if only one is open."`
	JSONValues bool     `name:"json-values" help:"Read each value as JSON (default: as the type that the server asks for)."`
	Content    string   `xor:"input" placeholder:"JSON|@FILE" help:"The whole answer, in place of values."`
	Done       bool     `xor:"input" help:"You opened the address and did what the page asks."`
	Decline    bool     `xor:"input" help:"Decline; the tool goes on without an answer."`
	Dismiss    bool     `xor:"input" help:"Close the question (MCP: cancel); the tool goes on without an answer."`
}

// Run answers an MCP server's question.
func (c *InputCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	content, err := ui.ObjectFlag("content", c.Content)
	if err != nil {
		return err
	}
	hasFlag := content != "" || c.Done || c.Decline || c.Dismiss
	switch {
	case len(c.Values) > 0 && hasFlag:
		return ui.Usagef("NAME=VALUE cannot be combined with --content, --done, --decline or --dismiss").Then("give either the values or one of the flags")
	case len(c.Values) == 0 && !hasFlag:
		return ui.Usagef("there is no answer").Then("pawl input TASK NAME=VALUE…, or --content, --done, --decline or --dismiss; pawl show TASK says what is asked for")
	}
	return answer(ctx, u, s, c.AnswerTarget, c.Wait, func(_ context.Context, _ *executorv1.Task, wait *executorv1.Wait) (*executorv1.ResumeTaskRequest, error) {
		return c.answer(wait, content)
	}, waitInput)
}

func (c *InputCmd) answer(wait *executorv1.Wait, content string) (*executorv1.ResumeTaskRequest, error) {
	switch {
	case c.Decline:
		return input(executorv1.InputAnswer_ACTION_DECLINE, ""), nil
	case c.Dismiss:
		return input(executorv1.InputAnswer_ACTION_CANCEL, ""), nil
	case len(c.Values) > 0:
		var err error
		if content, err = ui.ObjectOfPairs(wait.GetParamsSchemaJson(), c.Values, c.JSONValues, true); err != nil {
			return nil, ui.Usagef("%v", err).Then("pawl show %s says what is asked for", c.Task)
		}
		fields, _ := ui.Fields(wait.GetParamsSchemaJson()) // ObjectOfPairs has read the same schema
		var missing []string
		for _, f := range fields {
			if f.Required && !slices.ContainsFunc(c.Values, func(pair string) bool { return strings.HasPrefix(pair, f.Name+"=") }) {
				missing = append(missing, f.Name)
			}
		}
		if len(missing) > 0 {
			return nil, ui.Usagef("required values are missing: %s", strings.Join(missing, ", ")).
				Then("pawl input %s%s; pawl show %[1]s says what is asked for", c.Task, paramsHint(wait))
		}
	}
	return input(executorv1.InputAnswer_ACTION_ACCEPT, content), nil
}

// OutcomeCmd is `pawl outcome`.
type OutcomeCmd struct {
	AnswerTarget
	Wait   string  `arg:"" optional:"" help:"The wait; may be left out if only one is open."`
	Retry  bool    `xor:"outcome" help:"Call again with the same input: the effect may happen twice."`
	Output string  `xor:"outcome" placeholder:"JSON|@FILE" help:"The call ran, with this result: an object whose field message holds the text."`
	Skip   *string `xor:"outcome" placeholder:"REASON" help:"Go on without a result; the outcome stays unknown."`
}

// Run settles the outcome of a call.
func (c *OutcomeCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	settled, err := c.answer()
	if err != nil {
		return err
	}
	commandStart := time.Now()
	return answer(ctx, u, s, c.AnswerTarget, c.Wait, func(_ context.Context, task *executorv1.Task, wait *executorv1.Wait) (*executorv1.ResumeTaskRequest, error) {
		if c.Wait == "" {
			err = checkShown(s, task, wait, commandStart)
		}
		return settled, err
	}, waitOutcome)
}

func (c *OutcomeCmd) answer() (*executorv1.ResumeTaskRequest, error) {
	switch {
	case c.Retry:
		return retry(), nil
	case c.Skip != nil:
		return skip(*c.Skip), nil
	case c.Output == "":
		return nil, ui.Usagef("say how the call ended").
			Then("--retry, --output JSON or --skip REASON; pawl show %s says what was called", c.Task)
	}
	output, err := ui.ObjectFlag("output", c.Output)
	return outputOf(output), err
}
