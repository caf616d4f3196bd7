package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// Asker asks a person for the answer to a wait.
type Asker struct{ *ui.Prompter }

// Answer is what the person decided.
type Answer struct {
	// Leave: the wait stays open and the command ends.
	Leave bool
	// Cancel: the task is to end.
	Cancel bool
	// Resume is the answer to send; its task id is not set. Nil if Leave or Cancel is true.
	Resume *executorv1.ResumeTaskRequest
}

var leave = Answer{Leave: true}

// detach leaves a wait open.
var detach = ui.Choice{Word: "detach", Also: []string{"q", "quit"}, Means: "leave the question open and end this command"}

// Ask asks for the answer to a wait. The end of the input leaves it open.
func (p Asker) Ask(ctx context.Context, wait *executorv1.Wait) (Answer, error) {
	var answer Answer
	var err error
	switch wait.GetKind() {
	case waitApproval:
		answer, err = p.approval(ctx, wait)
	case waitParams:
		answer, err = p.params(ctx, wait)
	case waitOutcome:
		answer, err = p.outcome(ctx, wait)
	case waitInput:
		answer, err = p.input(ctx, wait)
	case waitPause:
		answer, err = p.paused(ctx, wait)
	default:
		return leave, fmt.Errorf("this version of pawl cannot answer a wait of kind %s", wait.GetKind())
	}
	if errors.Is(err, io.EOF) {
		p.Print("\n")
		return leave, nil
	}
	return answer, err
}

// approval asks whether a step may run, shows exactly what would run, and lets the person change it.
func (p Asker) approval(ctx context.Context, wait *executorv1.Wait) (Answer, error) {
	tool := p.Tool(wait.GetToolId())
	p.Print("    %s\n", p.Style.Dim(tool+" would run with"))
	p.Print("%s\n", ui.PrettyJSON(wait.GetInputJson(), "    "))
	p.Lapses(wait.GetDeadline())
	for edited := ""; ; {
		run := ui.Choice{Word: "approve", Also: []string{"y", "yes"}, Means: "run it with this input"}
		if edited != "" {
			run.Label = "the edited input"
		}
		word, err := p.Choose(ctx, run,
			ui.Choice{Word: "grant", Label: "for this task", Means: "run it, and later calls of this tool too without asking"},
			ui.Choice{Word: "edit", Means: "change the input first"},
			ui.Choice{Word: "reject", Also: []string{"n", "no"}, Means: "do not run it; the task is cancelled"}, detach)
		if err != nil {
			return leave, err
		}
		switch word {
		case "approve":
			if yes, err := p.sure(ctx, wait, "approve"); err != nil || yes {
				return approve(wait, edited, nil), err
			}
		case "grant":
			p.Print("    %s\n", p.Style.Yellow("later calls of "+tool+" in this task will run without asking"+upTo(wait)))
			if yes, err := p.sure(ctx, wait, "approve them all"); err != nil || yes {
				return approve(wait, edited, &executorv1.Grant{MaxRisk: wait.GetRisk().GetLevel()}), err
			}
		case "edit":
			current := cmp.Or(edited, wait.GetInputJson())
			changed, err := p.Change(ctx, current)
			if err != nil {
				return leave, err
			}
			if changed != current {
				edited = changed
			}
		case "reject":
			return p.reject(ctx, wait)
		default:
			return leave, nil
		}
	}
}

// upTo is the risk that a grant covers, if one was assessed.
func upTo(wait *executorv1.Wait) string {
	if name := ui.EnumName(wait.GetRisk().GetLevel()); name != "" {
		return ", up to risk " + name
	}
	return ""
}

// sure wants the word yes, in full, before something of high risk.
func (p Asker) sure(ctx context.Context, wait *executorv1.Wait, what string) (bool, error) {
	if wait.GetRisk().GetLevel() != commonv1.RiskLevel_RISK_LEVEL_HIGH {
		return true, nil
	}
	p.Print("    %s\n", p.Style.Red("! HIGH RISK"+because(wait.GetRisk().GetReason())))
	return p.Yes(ctx, what)
}

func approve(wait *executorv1.Wait, edited string, grant *executorv1.Grant) Answer {
	return Answer{Resume: &executorv1.ResumeTaskRequest{
		WaitId: wait.GetId(),
		Answer: &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{InputJson: edited, Grant: grant}},
	}}
}

func (p Asker) reject(ctx context.Context, wait *executorv1.Wait) (Answer, error) {
	reason, err := p.why(ctx)
	return Answer{Resume: &executorv1.ResumeTaskRequest{
		WaitId: wait.GetId(),
		Answer: &executorv1.ResumeTaskRequest_Reject{Reject: &executorv1.Reject{Reason: reason}},
	}}, err
}

func (p Asker) why(ctx context.Context) (string, error) {
	return p.Read(ctx, "    why (may be empty): ")
}

// input asks for what a tool's server wants to know in the middle of a call.
func (p Asker) input(ctx context.Context, wait *executorv1.Wait) (Answer, error) {
	server, _, _ := strings.Cut(p.Tool(wait.GetToolId()), "/")
	action, content, err := p.Input(ctx, ui.Input{
		ID: wait.GetId(), Server: server, Schema: wait.GetParamsSchemaJson(), URL: wait.GetUrl(), Deadline: wait.GetDeadline(),
	})
	answer := &executorv1.InputAnswer{Action: executorv1.InputAnswer_ACTION_ACCEPT, ContentJson: content}
	switch {
	case err != nil || action == ui.InputLeave:
		return leave, err
	case action == ui.InputDecline:
		answer = &executorv1.InputAnswer{Action: executorv1.InputAnswer_ACTION_DECLINE}
	}
	return Answer{Resume: &executorv1.ResumeTaskRequest{
		WaitId: wait.GetId(), Answer: &executorv1.ResumeTaskRequest_Input{Input: answer},
	}}, nil
}
