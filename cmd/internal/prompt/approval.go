package prompt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"pawl.dev/cmd/internal/render"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/schema"
)

// approval asks whether a step may run, shows exactly what would run, and lets the person change it.
func (p *Prompter) approval(ctx context.Context, wait *executorv1.Wait) (Answer, error) {
	p.print("    %s\n", p.Style.Dim(p.tool(wait.GetToolId())+" would run with"))
	p.print("%s\n", render.PrettyJSON(wait.GetInputJson(), "    "))
	p.lapses(wait)
	edited := ""
	for {
		text, err := p.read(ctx, p.menu(edited != ""))
		if err != nil {
			return leave, err
		}
		switch strings.ToLower(text) {
		case "a", "approve":
			if yes, err := p.sure(ctx, wait, "approve"); err != nil || yes {
				return approve(wait, edited, nil), err
			}
		case "g", "grant":
			p.print("    %s\n", p.Style.Yellow("later calls of "+p.tool(wait.GetToolId())+" in this task will run without asking"+upTo(wait)))
			if yes, err := p.sure(ctx, wait, "approve them all"); err != nil || yes {
				return approve(wait, edited, &executorv1.Grant{MaxRisk: wait.GetRisk().GetLevel()}), err
			}
		case "e", "edit":
			if edited, err = p.edit(ctx, wait, edited); err != nil {
				return leave, err
			}
		case "r", "reject":
			reason, err := p.read(ctx, "    why (may be empty): ")
			return reject(wait, reason), err
		case "d", "detach":
			return leave, nil
		default:
			p.complain("answer a, g, e, r or d")
		}
	}
}

func (p *Prompter) menu(edited bool) string {
	what := "[a]pprove"
	if edited {
		what = "[a]pprove the edited input"
	}
	return "  " + p.Style.Yellow("?") + " " + what + ", [g]rant for the rest of this task, [e]dit, [r]eject, [d]etach: "
}

// upTo is the risk that a grant covers, where one was assessed.
func upTo(wait *executorv1.Wait) string {
	if name := render.RiskName(wait.GetRisk().GetLevel()); name != "" {
		return ", up to risk " + name
	}
	return ""
}

// sure wants the word yes, in full, before something of high risk.
func (p *Prompter) sure(ctx context.Context, wait *executorv1.Wait, what string) (bool, error) {
	if wait.GetRisk().GetLevel() != commonv1.RiskLevel_RISK_LEVEL_HIGH {
		return true, nil
	}
	why := ""
	if r := wait.GetRisk().GetReason(); r != "" {
		why = ": " + render.Line(r)
	}
	p.print("    %s\n", p.Style.Red("! HIGH RISK"+why))
	return p.yes(ctx, what)
}

// yes wants the word in full.
func (p *Prompter) yes(ctx context.Context, what string) (bool, error) {
	text, err := p.read(ctx, "    type yes to "+what+": ")
	if err != nil {
		return false, err
	}
	if text != "yes" {
		p.complain("not done")
	}
	return text == "yes", nil
}

// edit returns the new input, or the old one where the person gave up.
func (p *Prompter) edit(ctx context.Context, wait *executorv1.Wait, current string) (string, error) {
	shown := current
	if shown == "" {
		shown = wait.GetInputJson()
	}
	text, err := p.change(ctx, shown)
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		return current, err
	}
	if err != nil {
		p.complain("%s", render.Line(err.Error()))
		return current, nil
	}
	exact, err := Object(text)
	if err != nil {
		p.complain("not used: %s", render.Line(err.Error()))
		return current, nil
	}
	if exact == compact(shown) {
		p.print("    the input is as it was\n")
		return current, nil
	}
	p.print("%s\n", render.PrettyJSON(exact, "    "))
	return exact, nil
}

func (p *Prompter) change(ctx context.Context, text string) (string, error) {
	if p.Edit != nil {
		return p.Edit(ctx, strings.TrimSpace(render.PrettyJSON(text, ""))+"\n")
	}
	line, err := p.read(ctx, "    new input as JSON on one line (empty: as it was): ")
	if line == "" {
		line = text
	}
	return line, err
}

// Object checks that text is a JSON object and returns it on one line, its numbers exact.
func Object(text string) (string, error) {
	exact, err := schema.ExactObject(nil, strings.TrimSpace(text))
	if err != nil {
		return "", errors.New(errs.From(err).Message)
	}
	return exact, nil
}

func compact(raw string) string {
	if strings.TrimSpace(raw) == "" {
		return "{}"
	}
	var out bytes.Buffer
	if json.Compact(&out, []byte(raw)) != nil {
		return raw
	}
	return out.String()
}

func approve(wait *executorv1.Wait, edited string, grant *executorv1.Grant) Answer {
	return Answer{Resume: &executorv1.ResumeTaskRequest{
		WaitId: wait.GetId(),
		Answer: &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{InputJson: edited, Grant: grant}},
	}}
}

func reject(wait *executorv1.Wait, reason string) Answer {
	return Answer{Resume: &executorv1.ResumeTaskRequest{
		WaitId: wait.GetId(),
		Answer: &executorv1.ResumeTaskRequest_Reject{Reject: &executorv1.Reject{Reason: reason}},
	}}
}
