package task

import (
	"context"
	"errors"
	"strings"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// AnswerTarget says which wait is answered and what happens then.
type AnswerTarget struct {
	Task   string `arg:"" complete:"task" help:"The task: its id, 6 or more characters of its beginning or end, or last."`
	Detach bool   `short:"d" help:"Answer and leave; do not follow the task to its next stop."`
}

// ApproveCmd is `pawl approve`.
type ApproveCmd struct {
	AnswerTarget
	Wait  string `arg:"" optional:"" help:"The wait; may be left out where only one is open."`
	Edit  bool   `xor:"input" help:"Change the input in $EDITOR first."`
	Input string `xor:"input" placeholder:"JSON|@FILE" help:"Run with this input instead."`

	Grant   bool    `help:"Let later calls of this tool run without asking too, for the rest of the task."`
	MaxRisk *string `enum:"low,medium,high" placeholder:"RISK" help:"With --grant: up to this risk (default: the one that is shown)."`
}

// Run approves.
func (c *ApproveCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	input, err := ui.ObjectFlag("input", c.Input)
	if err != nil {
		return err
	}
	if c.MaxRisk != nil && !c.Grant {
		return ui.Usagef("--max-risk says how far --grant goes").Then("add --grant, or leave --max-risk out")
	}
	return answer(ctx, u, s, c.AnswerTarget, c.Wait, func(ctx context.Context, wait *executorv1.Wait) (*executorv1.ResumeTaskRequest, error) {
		if c.Edit {
			if input, err = editInput(ctx, u, wait.GetInputJson()); err != nil {
				return nil, err
			}
		}
		return &executorv1.ResumeTaskRequest{Answer: &executorv1.ResumeTaskRequest_Approve{
			Approve: &executorv1.Approve{InputJson: input, Grant: c.grant()},
		}}, nil
	}, waitApproval)
}

func (c *ApproveCmd) grant() *executorv1.Grant {
	switch {
	case !c.Grant:
		return nil
	case c.MaxRisk == nil:
		return &executorv1.Grant{}
	}
	return &executorv1.Grant{MaxRisk: ui.EnumValue[commonv1.RiskLevel](*c.MaxRisk)}
}

func editInput(ctx context.Context, u *ui.UI, current string) (string, error) {
	edit := u.Editor()
	if edit == nil || !u.InTTY {
		return "", ui.Errorf("there is no editor to change the input with").Then("set EDITOR and use a terminal, or give --input JSON")
	}
	text, err := edit(ctx, strings.TrimSpace(ui.PrettyJSON(current, ""))+"\n")
	if err != nil {
		return "", err
	}
	return ui.Object(text)
}

// RejectCmd is `pawl reject`.
type RejectCmd struct {
	AnswerTarget
	Wait   string `arg:"" optional:"" help:"The wait; may be left out where only one is open."`
	Reason string `placeholder:"TEXT" help:"Why; kept with the task."`
}

// Run rejects.
func (c *RejectCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	err := answer(ctx, u, s, c.AnswerTarget, c.Wait, func(context.Context, *executorv1.Wait) (*executorv1.ResumeTaskRequest, error) {
		return &executorv1.ResumeTaskRequest{Answer: &executorv1.ResumeTaskRequest_Reject{Reject: &executorv1.Reject{Reason: c.Reason}}}, nil
	}, waitApproval, waitParams, waitOutcome)
	var e *ui.Error
	if errors.As(err, &e) && e.Code == ui.Stopped && e.Message == "" {
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

// Run supplies parameters.
func (c *ParamsCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	if len(c.Values) == 0 && c.Description == "" {
		return ui.Usagef("there is nothing to supply").Then("pawl params TASK NAME=VALUE…, or --description TEXT; pawl show TASK says what is asked for")
	}
	return answer(ctx, u, s, c.AnswerTarget, c.Wait, func(_ context.Context, wait *executorv1.Wait) (*executorv1.ResumeTaskRequest, error) {
		content, err := ui.ObjectOfPairs(wait.GetParamsSchemaJson(), c.Values, c.JSONValues, true)
		if err != nil {
			return nil, ui.Usagef("%v", err).Then("pawl show %s says what is asked for", c.Task)
		}
		return &executorv1.ResumeTaskRequest{Answer: &executorv1.ResumeTaskRequest_Params{
			Params: &executorv1.Params{ContentJson: content, Description: c.Description},
		}}, nil
	}, waitParams)
}
