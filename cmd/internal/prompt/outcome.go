package prompt

import (
	"context"
	"encoding/json"
	"strings"

	"pawl.dev/cmd/internal/render"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// outcome asks what became of a call: only a person can find out, and each answer says what it risks.
func (p *Prompter) outcome(ctx context.Context, wait *executorv1.Wait) (Answer, error) {
	p.doubt(wait)
	for {
		text, err := p.read(ctx, "  "+p.Style.Yellow("?")+" [r]etry, [o]utput, [s]kip, [c]ancel, [d]etach: ")
		if err != nil {
			return leave, err
		}
		var answer *executorv1.OutcomeAnswer
		switch strings.ToLower(text) {
		case "r", "retry":
			answer, err = p.retry(ctx)
		case "o", "output":
			answer, err = p.output(ctx)
		case "s", "skip":
			answer, err = p.skip(ctx)
		case "c", "cancel":
			reason, err := p.read(ctx, "    why (may be empty): ")
			return reject(wait, reason), err
		case "d", "detach":
			return leave, nil
		default:
			p.complain("answer r, o, s, c or d")
		}
		if err != nil {
			return leave, err
		}
		if answer != nil {
			return settle(wait, answer), nil
		}
	}
}

// doubt says what is not known, and what each answer means.
func (p *Prompter) doubt(wait *executorv1.Wait) {
	p.print("    %s\n%s\n", p.Style.Dim(p.tool(wait.GetToolId())+" was called with"), render.PrettyJSON(wait.GetInputJson(), "    "))
	p.print("    %s\n", p.Style.Red("it may have had its effect, and it may not: look before you answer"))
	for _, line := range []string{
		"retry   call it again with the same input; the effect may happen twice",
		"output  it ran, and you say what it gave",
		"skip    go on without it; what became of it stays unknown",
		"cancel  end the task",
	} {
		p.print("      %s\n", p.Style.Dim(line))
	}
	p.lapses(wait)
}

// retry wants the word yes: nothing else in Pawl may make an effect happen twice.
func (p *Prompter) retry(ctx context.Context) (*executorv1.OutcomeAnswer, error) {
	yes, err := p.yes(ctx, "call it again")
	if err != nil || !yes {
		return nil, err
	}
	return &executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Retry{Retry: &executorv1.OutcomeRetry{}}}, nil
}

func (p *Prompter) skip(ctx context.Context) (*executorv1.OutcomeAnswer, error) {
	reason, err := p.read(ctx, "    why (may be empty): ")
	return &executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Skip{Skip: &executorv1.OutcomeSkip{Reason: reason}}}, err
}

// output reads what the tool gave: text, which becomes the message of the output, or the whole output as JSON.
func (p *Prompter) output(ctx context.Context) (*executorv1.OutcomeAnswer, error) {
	text, err := p.read(ctx, "    what it gave, as text or as a JSON object (empty: another answer): ")
	if err != nil || text == "" {
		return nil, err
	}
	exact, err := Output(text)
	if err != nil {
		p.complain("not used: %s", render.Line(err.Error()))
		return nil, nil
	}
	return &executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Output{Output: &executorv1.OutcomeOutput{OutputJson: exact}}}, nil
}

// Output is the output of a tool as exact JSON: an object as it is, any other text as its message.
func Output(text string) (string, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "{") {
		return Object(text)
	}
	raw, err := json.Marshal(map[string]string{"message": text})
	return string(raw), err
}

func settle(wait *executorv1.Wait, answer *executorv1.OutcomeAnswer) Answer {
	return Answer{Resume: &executorv1.ResumeTaskRequest{
		WaitId: wait.GetId(), Answer: &executorv1.ResumeTaskRequest_Outcome{Outcome: answer},
	}}
}

// paused asks whether a task that somebody paused shall go on.
func (p *Prompter) paused(ctx context.Context, wait *executorv1.Wait) (Answer, error) {
	why := ""
	if m := wait.GetMessage(); m != "" && m != "paused" {
		why = ": " + render.Line(m)
	}
	p.print("    %s\n", p.Style.Dim("the task is paused"+why))
	for {
		text, err := p.read(ctx, "  "+p.Style.Yellow("?")+" [u]npause, [c]ancel the task, [d]etach: ")
		if err != nil {
			return leave, err
		}
		switch strings.ToLower(text) {
		case "u", "unpause":
			return Answer{Resume: &executorv1.ResumeTaskRequest{
				WaitId: wait.GetId(), Answer: &executorv1.ResumeTaskRequest_Unpause{Unpause: &executorv1.Unpause{}},
			}}, nil
		case "c", "cancel":
			return Answer{Cancel: true}, nil
		case "d", "detach":
			return leave, nil
		}
		p.complain("answer u, c or d")
	}
}
