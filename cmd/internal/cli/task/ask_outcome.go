package task

import (
	"context"
	"strings"

	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// outcome asks for the outcome of a call: only a person can find out, and each answer says what it risks.
func (p Asker) outcome(ctx context.Context, wait *executorv1.Wait) (Answer, error) {
	p.Print("    %s\n%s\n", p.Style.Dim(p.Tool(wait.GetToolId())+" was called with"), ui.PrettyJSON(wait.GetInputJson(), "    "))
	p.Print("    %s\n", p.Style.Red("it may have had its effect, and it may not: look before you answer"))
	choices := []ui.Choice{
		{Word: "retry", Means: "call it again with the same input; the effect may happen twice"},
		{Word: "output", Means: "it ran, and you say what it gave"},
		{Word: "skip", Means: "go on without it; its outcome stays unknown"},
		{Word: "cancel", Means: "end the task"},
	}
	for _, c := range choices {
		p.Print("      %s\n", p.Style.Dim(ui.Pad(c.Word, 6)+"  "+c.Means))
	}
	p.Lapses(wait.GetDeadline())
	for {
		word, err := p.Choose(ctx, append(choices, detach)...)
		if err != nil {
			return leave, err
		}
		var answer *executorv1.OutcomeAnswer
		switch word {
		case "retry":
			answer, err = p.retry(ctx)
		case "output":
			answer, err = p.output(ctx)
		case "skip":
			answer, err = p.skip(ctx)
		case "cancel":
			return p.reject(ctx, wait)
		default:
			return leave, nil
		}
		if err != nil {
			return leave, err
		}
		if answer != nil {
			return Answer{Resume: &executorv1.ResumeTaskRequest{
				WaitId: wait.GetId(), Answer: &executorv1.ResumeTaskRequest_Outcome{Outcome: answer},
			}}, nil
		}
	}
}

// retry wants the word yes: nothing else in Pawl may make an effect happen twice.
func (p Asker) retry(ctx context.Context) (*executorv1.OutcomeAnswer, error) {
	yes, err := p.Yes(ctx, "call it again")
	if err != nil || !yes {
		return nil, err
	}
	return &executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Retry{Retry: &executorv1.OutcomeRetry{}}}, nil
}

func (p Asker) skip(ctx context.Context) (*executorv1.OutcomeAnswer, error) {
	reason, err := p.why(ctx)
	return &executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Skip{Skip: &executorv1.OutcomeSkip{Reason: reason}}}, err
}

// output reads the result of the tool: an object as it is, any other text as the message of the output.
func (p Asker) output(ctx context.Context) (*executorv1.OutcomeAnswer, error) {
	text, err := p.Read(ctx, "    what it gave, as text or as a JSON object (empty: another answer): ")
	if err != nil || text == "" {
		return nil, err
	}
	exact := "{" + ui.Member("message", ui.JSONText(text)) + "}"
	if strings.HasPrefix(text, "{") {
		if exact, err = ui.Object(text); err != nil {
			p.Complain("not used: %s", ui.Line(err.Error()))
			return nil, nil
		}
	}
	return &executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Output{Output: &executorv1.OutcomeOutput{OutputJson: exact}}}, nil
}

// paused asks whether a paused task shall go on.
func (p Asker) paused(ctx context.Context, wait *executorv1.Wait) (Answer, error) {
	why := ""
	if m := wait.GetMessage(); m != "" && m != "paused" {
		why = ": " + ui.Line(m)
	}
	p.Print("    %s\n", p.Style.Dim("the task is paused"+why))
	word, err := p.Choose(ctx, ui.Choice{Word: "unpause", Also: []string{"y", "yes"}, Means: "let the task go on"},
		ui.Choice{Word: "cancel", Label: "the task", Means: "end the task"}, detach)
	switch {
	case err != nil || word == detach.Word:
		return leave, err
	case word == "cancel":
		return Answer{Cancel: true}, nil
	}
	return Answer{Resume: &executorv1.ResumeTaskRequest{
		WaitId: wait.GetId(), Answer: &executorv1.ResumeTaskRequest_Unpause{Unpause: &executorv1.Unpause{}},
	}}, nil
}
