package task

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/strictjson"
)

// Asker asks a person for the answer to a wait.
type Asker struct {
	*ui.Prompter
	s    *discover.Session // nil: changes of files are shown as JSON
	task string
	edit *textEdit // of the wait that was asked about last
}

// ErrCancel means that the person wants to cancel the task.
var ErrCancel = errors.New("the task is to be cancelled")

// detach is the choice that leaves a wait open.
var detach = ui.Choice{Word: "detach", Also: []string{"q", "quit"}, Means: "leave the question open and end this command"}

// Ask asks for the answer to a wait and returns it without the task's id. It returns nil if the wait stays open, for example at the end of
// the input, and ErrCancel if the person wants to cancel the task.
func (p *Asker) Ask(ctx context.Context, wait *executorv1.Wait) (*executorv1.ResumeTaskRequest, error) {
	p.Subject = tag(wait.GetSubtaskId())
	if p.edit == nil || p.edit.wait != wait.GetId() {
		p.edit = &textEdit{editor: p.Edit, wait: wait.GetId()}
	}
	ask := map[executorv1.WaitKind]func(context.Context, *executorv1.Wait) (*executorv1.ResumeTaskRequest, error){
		waitApproval: p.approval, waitParams: p.params, waitOutcome: p.outcome, waitInput: p.input, waitPause: p.paused, waitPlan: p.plan,
	}[wait.GetKind()]
	if ask == nil {
		return nil, fmt.Errorf("this version of pawl cannot answer a wait of kind %s", wait.GetKind())
	}
	req, err := ask(ctx, wait)
	switch {
	case errors.Is(err, io.EOF):
		p.Print("\n")
		return nil, nil
	case err != nil || req == nil:
		return nil, err
	}
	req.WaitId = wait.GetId()
	return req, nil
}

// approval shows the exact call, asks whether it may run, and lets the person edit its input. Like the following methods, it returns nil to
// leave the wait open.
func (p Asker) approval(ctx context.Context, wait *executorv1.Wait) (*executorv1.ResumeTaskRequest, error) {
	tool, edited, folded := p.Tool(wait.GetToolId()), "", false
	word, err := "edit", error(nil) // if the service did not accept the edited input
	if p.edit.problem == "" {
		p.Print("    %s\n", p.Style.Dim(tool+" is to run with"))
		folded = p.showInput(ctx, wait.GetToolId(), wait.GetInputJson(), foldedDiff)
		p.PrintExpiry(wait.GetDeadline())
		word, err = p.chooseApproval(ctx, wait, false, folded)
	}
	for ; err == nil; word, err = p.chooseApproval(ctx, wait, edited != "", folded) {
		switch word {
		case "approve":
			if yes, err := p.confirmRisk(ctx, wait, "approve"); err != nil || yes {
				return approve(edited, nil), err
			}
		case "grant":
			p.Print("    %s\n", p.Style.Yellow("later calls of "+tool+" in this task will run without asking"+grantLimit(wait)))
			if yes, err := p.confirmRisk(ctx, wait, "approve them all"); err != nil || yes {
				return approve(edited, &executorv1.Grant{MaxRisk: wait.GetRisk().GetLevel()}), err
			}
		case "edit":
			current := cmp.Or(edited, wait.GetInputJson())
			changed, err := p.changeInput(ctx, current)
			if err != nil {
				return nil, err
			}
			if changed != current {
				edited = changed
			}
		case "view":
			p.showInput(ctx, wait.GetToolId(), cmp.Or(edited, wait.GetInputJson()), 0)
		case "reject":
			return p.reject(ctx)
		default:
			return nil, nil
		}
	}
	return nil, err
}

// chooseApproval returns the word of the person's choice about a call. edited reports that its input was edited; folded, that lines of its diff were
// left out.
func (p Asker) chooseApproval(ctx context.Context, wait *executorv1.Wait, edited, folded bool) (word string, err error) {
	run := ui.Choice{Word: "approve", Also: []string{"y", "yes"}, Means: "run it with this input"}
	if edited {
		run.Label = "the edited input"
	}
	choices := []ui.Choice{
		run, {Word: "grant", Label: "for this task", Means: "run it, and later calls of this tool in this task without asking"},
		{Word: "edit", Means: "change the input first"}, {Word: "reject", Also: []string{"n", "no"}, Means: rejectionText(wait)}, detach,
	}
	if folded {
		choices = append(choices, ui.Choice{Word: "view", Label: "all", Means: "show the whole diff"})
	}
	return p.Choose(ctx, choices...)
}

// rejectionText explains what the rejection of a step means.
func rejectionText(wait *executorv1.Wait) string {
	if wait.GetRejectFailsStep() {
		return "do not run it; the subtask goes on without it"
	}
	return "do not run it; the task is cancelled"
}

// foldedDiff and foldedLine are how many lines of a diff, and how many columns of each, are shown before an approval, unless the person wants all.
const (
	foldedDiff = 40
	foldedLine = 400
)

// showInput shows the input of a call: as a diff of at most limit lines (0: all) if it changes files, else as JSON. It reports whether lines were
// left out.
func (p Asker) showInput(ctx context.Context, toolID, inputJSON string, limit int) (folded bool) {
	diff := ""
	if p.s != nil {
		diff, folded = inputDiff(ctx, p.s, p.Style, toolID, inputJSON, limit)
	}
	p.Print("%s", cmp.Or(diff, ui.PrettyJSON(inputJSON, "    ")+"\n"))
	return folded
}

// inputDiff returns the change that a call would make to files, as a coloured diff of at most limit lines (0: all), and whether lines were left out;
// "" if the change is not known. If the folder cannot be written, the text ends with a warning.
func inputDiff(ctx context.Context, s *discover.Session, st ui.Style, toolID, inputJSON string, limit int) (text string, folded bool) {
	diff := proposed(ctx, s, toolID, inputJSON)
	if diff == "" {
		return "", false
	}
	warning := ""
	server, _, _ := strings.Cut(toolID, "/")
	if root, err := openFolder(ctx, s, server); err == nil {
		if err := checkWritable(root.Name()); err != nil {
			warning = st.Red("! the folder "+ui.Line(root.Name())+" cannot be written, so the call will fail: "+err.Error()) + "\n"
		}
		_ = root.Close()
	}
	lines := strings.Split(strings.TrimSuffix(diff, "\n"), "\n")
	for i, line := range lines {
		if limit > 0 && len(line) > foldedLine {
			lines[i], folded = ui.Fit(line, foldedLine), true
		}
	}
	more := len(lines) - limit
	if limit == 0 || more <= 5 { // a few lines more are cheaper than the note
		return colourDiff(st, strings.Join(lines, "\n")) + warning, folded
	}
	return colourDiff(st, strings.Join(lines[:limit], "\n")) + st.Yellow("… "+ui.Plural(more, "more line")) + "\n" + warning, true
}

// grantLimit names the highest risk that a grant covers; "" if no risk was assessed.
func grantLimit(wait *executorv1.Wait) string {
	if name := ui.EnumName(wait.GetRisk().GetLevel()); name != "" {
		return ", up to risk " + name
	}
	return ""
}

// confirmRisk asks the person to type yes if the step's risk is high, and reports whether the step may run.
func (p Asker) confirmRisk(ctx context.Context, wait *executorv1.Wait, what string) (bool, error) {
	if wait.GetRisk().GetLevel() != commonv1.RiskLevel_RISK_LEVEL_HIGH {
		return true, nil
	}
	p.Print("    %s\n", p.Style.Red("! HIGH RISK"+reasonText(wait.GetRisk().GetReason())))
	return p.Yes(ctx, what)
}

func (p Asker) reject(ctx context.Context) (*executorv1.ResumeTaskRequest, error) {
	reason, err := p.reason(ctx)
	return reject(reason), err
}

func (p Asker) reason(ctx context.Context) (string, error) {
	return p.Read(ctx, "    reason (may be empty): ")
}

// input asks for the input that a tool's server requested during a call.
func (p Asker) input(ctx context.Context, wait *executorv1.Wait) (*executorv1.ResumeTaskRequest, error) {
	server, _, _ := strings.Cut(p.Tool(wait.GetToolId()), "/")
	action, content, err := p.Input(ctx, ui.Input{
		ID: wait.GetId(), Server: server, Schema: wait.GetParamsSchemaJson(), URL: wait.GetUrl(), Deadline: wait.GetDeadline(),
	})
	switch {
	case err != nil || action == ui.InputLeave:
		return nil, err
	case action == ui.InputDecline:
		return input(executorv1.InputAnswer_ACTION_DECLINE, ""), nil
	}
	return input(executorv1.InputAnswer_ACTION_ACCEPT, content), nil
}

// outcome asks how a call with an unknown outcome ended. Each choice explains its risk.
func (p Asker) outcome(ctx context.Context, wait *executorv1.Wait) (*executorv1.ResumeTaskRequest, error) {
	p.Print("    %s\n%s\n", p.Style.Dim(p.Tool(wait.GetToolId())+" was called with"), ui.PrettyJSON(wait.GetInputJson(), "    "))
	p.Print("    %s\n", p.Style.Red("it may have had its effect or not: look before you answer"))
	choices := []ui.Choice{
		{Word: "retry", Means: "call it again with the same input; the effect may happen twice"},
		{Word: "output", Means: "it ran; you enter its result"},
		{Word: "skip", Means: "go on without it; its outcome stays unknown"},
		{Word: "cancel", Means: "end the task"},
	}
	for _, c := range choices {
		p.Print("      %s\n", p.Style.Dim(ui.Pad(c.Word, 6)+"  "+c.Means))
	}
	p.PrintExpiry(wait.GetDeadline())
	for {
		word, err := p.Choose(ctx, append(choices, detach)...)
		if err != nil {
			return nil, err
		}
		switch word {
		case "retry": // confirmed, because only this can repeat a side effect
			if yes, err := p.Yes(ctx, "call it again"); err != nil || yes {
				return retry(), err
			}
		case "output":
			if output, err := p.output(ctx); err != nil || output != "" {
				return outputOf(output), err
			}
		case "skip":
			reason, err := p.reason(ctx)
			return skip(reason), err
		case "cancel":
			return p.reject(ctx)
		default:
			return nil, nil
		}
	}
}

// output reads the tool's result. A JSON object is used as it is; any other text becomes the output's message. It returns "" if there is
// no usable result.
func (p Asker) output(ctx context.Context) (string, error) {
	text, err := p.Read(ctx, "    its result, as text or as a JSON object (empty: choose again): ")
	if err != nil || text == "" {
		return "", err
	}
	if !strings.HasPrefix(text, "{") {
		return strictjson.Marshal(map[string]string{"message": text})
	}
	exact, err := ui.Object(text)
	if err != nil {
		p.Complain("not used: %s", ui.Line(err.Error()))
	}
	return exact, nil
}

// paused asks whether to continue a paused task.
func (p Asker) paused(ctx context.Context, wait *executorv1.Wait) (*executorv1.ResumeTaskRequest, error) {
	p.Print("    %s\n", p.Style.Dim("the task is paused"+reasonText(strings.TrimPrefix(wait.GetMessage(), "paused"))))
	word, err := p.Choose(ctx, ui.Choice{Word: "unpause", Also: []string{"y", "yes"}, Means: "let the task go on"},
		ui.Choice{Word: "cancel", Label: "the task", Means: "end the task"}, detach)
	switch {
	case err != nil || word == detach.Word:
		return nil, err
	case word == "cancel":
		return nil, ErrCancel
	}
	return unpause(), nil
}

// params asks for each parameter of the wait. An empty line leaves a parameter unchanged. If the person enters none, params asks for a
// description in words; if that is empty too, the wait stays open.
func (p Asker) params(ctx context.Context, wait *executorv1.Wait) (*executorv1.ResumeTaskRequest, error) {
	fields, err := ui.Fields(wait.GetParamsSchemaJson())
	if err != nil {
		return nil, err
	}
	if in := wait.GetInputJson(); in != "" && in != "{}" {
		p.Print("    %s\n%s\n", p.Style.Dim(p.Tool(wait.GetToolId())+" has this input so far"), ui.PrettyJSON(in, "    "))
	}
	p.PrintExpiry(wait.GetDeadline())
	if len(fields) > 0 {
		p.Print("    %s\n", p.Style.Dim("an empty line leaves a parameter as it is; Ctrl-D leaves the task waiting"))
	}
	var current map[string]json.RawMessage
	_ = json.Unmarshal([]byte(wait.GetInputJson()), &current) // an input that is not an object has no parameters
	object := map[string]json.RawMessage{}
	for _, f := range fields {
		_, isSet := current[f.Name]
		value, err := p.field(ctx, f, f.Required && !isSet)
		if err != nil {
			return nil, err
		}
		if value != nil {
			object[f.Name] = value
		}
	}
	if len(object) > 0 {
		content, err := strictjson.Marshal(object)
		return params(content, ""), err
	}
	words, err := p.Read(ctx, "  "+p.Style.Yellow("?")+" in your own words (empty: leave the task waiting): ")
	if err != nil || words == "" {
		return nil, err
	}
	return params("", words), nil
}

// field asks for a value until it is valid. It returns nil for an empty line, or for two empty lines if the value is required.
func (p Asker) field(ctx context.Context, f ui.Field, required bool) (json.RawMessage, error) {
	if required {
		f.Description = strings.TrimSpace(f.Description + " [required]")
	}
	value, err := p.Value(ctx, f, "")
	if err != nil || value != nil || !required {
		return value, err
	}
	p.Complain("%s is required; an empty line once more leaves it out", ui.Line(f.Name))
	return p.Value(ctx, f, "")
}
