package cli

import (
	"context"
	"errors"
	"os"
	"strings"

	"pawl.dev/cmd/internal/exit"
	"pawl.dev/cmd/internal/prompt"
	"pawl.dev/cmd/internal/render"
	"pawl.dev/cmd/internal/values"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// AnswerTarget says which wait is answered and what happens then.
type AnswerTarget struct {
	Task   string `arg:"" help:"The task: its id, 6 or more characters of its beginning or end, or last."`
	Detach bool   `short:"d" help:"Answer and leave; do not follow the task to its next stop."`
}

// ApproveCmd is `pawl approve`.
type ApproveCmd struct {
	AnswerTarget
	Wait  string `arg:"" optional:"" help:"The wait; may be left out where only one is open."`
	Edit  bool   `xor:"input" help:"Change the input in $EDITOR first."`
	Input string `xor:"input" placeholder:"JSON|@FILE" help:"Run with this input instead."`

	Grant   bool   `help:"Let later calls of this tool run without asking too, for the rest of the task."`
	MaxRisk string `enum:"low,medium,high," default:"" placeholder:"RISK" help:"With --grant: up to this risk (default: the one that is shown)."`
}

// Help is shown by --help.
func (ApproveCmd) Help() string {
	return `What runs is exactly what was shown (pawl show TASK), or the input that you give here, checked against the tool's schema.
The task is then followed to its next stop, as by pawl run.

Examples:

    pawl approve last
    pawl approve 3fa29c01 --grant
    pawl approve 3fa29c01 --edit
    pawl approve 3fa29c01 --input '{"path": "notes.txt"}' --detach`
}

// Run approves.
func (c *ApproveCmd) Run(ctx context.Context, a *App, g *Globals) error {
	input, err := jsonArg("input", c.Input)
	if err != nil {
		return err
	}
	if c.MaxRisk != "" && !c.Grant {
		return exit.Usagef("--max-risk says how far --grant goes").Then("add --grant, or leave --max-risk out")
	}
	return a.answer(ctx, g, c.AnswerTarget, c.Wait, func(ctx context.Context, wait *executorv1.Wait) (*executorv1.ResumeTaskRequest, error) {
		if c.Edit {
			if input, err = a.editInput(ctx, wait.GetInputJson()); err != nil {
				return nil, err
			}
		}
		return &executorv1.ResumeTaskRequest{Answer: &executorv1.ResumeTaskRequest_Approve{
			Approve: &executorv1.Approve{InputJson: input, Grant: c.grant()},
		}}, nil
	}, waitApproval)
}

func (c *ApproveCmd) grant() *executorv1.Grant {
	if !c.Grant {
		return nil
	}
	return &executorv1.Grant{MaxRisk: commonv1.RiskLevel(commonv1.RiskLevel_value["RISK_LEVEL_"+strings.ToUpper(c.MaxRisk)])}
}

func (a *App) editInput(ctx context.Context, current string) (string, error) {
	edit := a.editor()
	if edit == nil || !a.Console.InTTY {
		return "", exit.Newf("there is no editor to change the input with").Then("set EDITOR and use a terminal, or give --input JSON")
	}
	text, err := edit(ctx, strings.TrimSpace(render.PrettyJSON(current, ""))+"\n")
	if err != nil {
		return "", err
	}
	return prompt.Object(text)
}

// RejectCmd is `pawl reject`.
type RejectCmd struct {
	AnswerTarget
	Wait   string `arg:"" optional:"" help:"The wait; may be left out where only one is open."`
	Reason string `placeholder:"TEXT" help:"Why; kept with the task."`
}

// Help is shown by --help.
func (RejectCmd) Help() string {
	return `The step does not run and its task is cancelled; exit code 0 says that this is so. A step that lacks parameters, or whose
call had an outcome that is not known, can be refused too.

Examples:

    pawl reject last
    pawl reject 3fa29c01 --reason "not on a Friday"`
}

// Run rejects.
func (c *RejectCmd) Run(ctx context.Context, a *App, g *Globals) error {
	err := a.answer(ctx, g, c.AnswerTarget, c.Wait, func(context.Context, *executorv1.Wait) (*executorv1.ResumeTaskRequest, error) {
		return &executorv1.ResumeTaskRequest{Answer: &executorv1.ResumeTaskRequest_Reject{Reject: &executorv1.Reject{Reason: c.Reason}}}, nil
	}, waitApproval, waitParams, waitOutcome)
	var e *exit.Error
	if errors.As(err, &e) && e.Code == exit.Stopped && e.Message == "" {
		return nil // cancelled, as was asked
	}
	return err
}

// ParamsCmd is `pawl params`.
type ParamsCmd struct {
	AnswerTarget
	Values      []string `arg:"" optional:"" name:"name=value" help:"What was missing, by name."`
	Wait        string   `placeholder:"ID" help:"The wait; may be left out where only one is open."`
	JSONValues  bool     `name:"json-values" help:"Each value is JSON. Without: it is read by what the task asks for."`
	Description string   `placeholder:"TEXT" help:"The same in your own words, for the planner to read."`
}

// Help is shown by --help.
func (ParamsCmd) Help() string {
	return `What is asked for is shown by pawl show TASK. Values that are left out stay as they were.

Examples:

    pawl params last path=src depth=2
    pawl params 3fa29c01 --json-values 'tags=["a", "b"]'
    pawl params 3fa29c01 --description "the folder of the tests"`
}

// Run supplies parameters.
func (c *ParamsCmd) Run(ctx context.Context, a *App, g *Globals) error {
	if len(c.Values) == 0 && c.Description == "" {
		return exit.Usagef("there is nothing to supply").Then("pawl params TASK NAME=VALUE…, or --description TEXT; pawl show TASK says what is asked for")
	}
	return a.answer(ctx, g, c.AnswerTarget, c.Wait, func(_ context.Context, wait *executorv1.Wait) (*executorv1.ResumeTaskRequest, error) {
		content, err := values.Object(wait.GetParamsSchemaJson(), c.Values, c.JSONValues, true)
		if err != nil {
			return nil, exit.Usagef("%v", err).Then("pawl show %s says what is asked for", c.Task)
		}
		return &executorv1.ResumeTaskRequest{Answer: &executorv1.ResumeTaskRequest_Params{
			Params: &executorv1.Params{ContentJson: content, Description: c.Description},
		}}, nil
	}, waitParams)
}

// jsonArg reads a JSON object that a flag gives, in place or from a file (@FILE); "" stays "".
func jsonArg(flag, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	if path, ok := strings.CutPrefix(text, "@"); ok {
		raw, err := os.ReadFile(path)
		if err != nil {
			return "", exit.Usagef("read the %s: %v", flag, err)
		}
		text = string(raw)
	}
	exact, err := prompt.Object(text)
	if err != nil {
		return "", exit.Usagef("the %s must be one JSON object: %v", flag, err).Then(`give an object such as --%[1]s '{"path": "a.txt"}', or a file with --%[1]s @FILE`, flag)
	}
	return exact, nil
}
