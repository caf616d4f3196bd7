package task

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/strictjson"
)

// planFile is a plan as people edit it. Its keys are those of the plan's JSON.
type planFile struct {
	MainTask string        `yaml:"mainTask" json:"mainTask,omitempty"`
	Subtasks []subtaskFile `yaml:"subtasks" json:"subtasks,omitempty"`
}

type subtaskFile struct {
	ID          string   `yaml:"id" json:"id,omitempty"`
	Title       string   `yaml:"title" json:"title,omitempty"`
	Description string   `yaml:"description,omitempty" json:"description,omitempty"`
	Acceptance  string   `yaml:"acceptance,omitempty" json:"acceptance,omitempty"`
	DependsOn   []string `yaml:"dependsOn,flow,omitempty" json:"dependsOn,omitempty"`
	ToolIDs     []string `yaml:"toolIds,omitempty" json:"toolIds,omitempty"`
}

const planHelp = "# Change, add or remove subtasks. dependsOn lists the ids of the subtasks that must be completed before.\n"

// planYAML returns a plan as YAML for an editor.
func planYAML(plan *executorv1.Plan) (string, error) {
	file := planFile{MainTask: plan.GetMainTask()}
	for _, s := range plan.GetSubtasks() {
		file.Subtasks = append(file.Subtasks, subtaskFile{
			ID: s.GetId(), Title: s.GetTitle(), Description: s.GetDescription(), Acceptance: s.GetAcceptance(), DependsOn: s.GetDependsOn(), ToolIDs: s.GetToolIds(),
		})
	}
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	err := encoder.Encode(file)
	return b.String(), err
}

// plainYAML replaces the Go terms in messages of the YAML decoder.
var plainYAML = strings.NewReplacer(
	"not found in type task.planFile", "is not known (a plan has mainTask and subtasks)", "not found in type task.subtaskFile", "is not known (a subtask has id, title, description, acceptance, dependsOn and toolIds)",
	"cannot unmarshal !!str", "text", "cannot unmarshal !!seq", "a list", "cannot unmarshal !!map", "an object", "cannot unmarshal !!", "",
	"into []task.subtaskFile", "where a list of subtasks belongs", "into task.subtaskFile", "where a subtask belongs", "into task.planFile", "where a plan belongs",
	"into []string", "where a list belongs", "into string", "where text belongs",
)

// parsePlan parses a plan in YAML or JSON. The service checks ids and dependencies.
func parsePlan(text string) (*executorv1.Plan, error) {
	var file planFile
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	err := decoder.Decode(&file)
	var wrong *yaml.TypeError
	switch {
	case errors.As(err, &wrong):
		return nil, ui.Errorf("the plan is not understood: %s", plainYAML.Replace(strings.Join(wrong.Errors, "; ")))
	case err != nil && !errors.Is(err, io.EOF): // io.EOF: there is nothing but comments
		return nil, ui.Errorf("the plan is not understood: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	case len(file.Subtasks) == 0:
		return nil, ui.Errorf("the plan has no subtasks")
	}
	raw, err := strictjson.Marshal(file)
	if err != nil {
		return nil, err
	}
	plan := &executorv1.Plan{}
	return plan, protojson.Unmarshal([]byte(raw), plan)
}

// plan lets the person edit a plan. It returns nil if the plan stays as it is.
func (e *textEdit) plan(ctx context.Context, plan *executorv1.Plan) (edited *executorv1.Plan, err error) {
	if e.editor == nil {
		return nil, ui.Errorf("there is no editor to change the plan with").Then("set EDITOR, or give the plan with pawl approve TASK --input JSON")
	}
	original, err := planYAML(plan)
	if err != nil {
		return nil, err
	}
	err = e.run(ctx, planHelp, original, func(text string) (err error) {
		edited, err = parsePlan("\n\n\n" + text) // as many lines as the head above the mistake, whose message names a line
		return err
	})
	if err != nil {
		return nil, err
	}
	if now, err := planYAML(edited); err != nil || now == original {
		return nil, err
	}
	return edited, nil
}

// planText describes a plan whole.
func planText(st ui.Style, columns int, plan *executorv1.Plan) string {
	view := newPlanView(plan)
	var b strings.Builder
	if plan.GetMainTask() != "" {
		fmt.Fprintf(&b, "%s %s\n", st.Cyan("●"), st.Bold(ui.Wrap(plan.GetMainTask(), columns, 2, 2)))
	}
	lines := view.draw(st, columns, 0, func(*executorv1.Subtask) string { return "" })
	for i, s := range plan.GetSubtasks() {
		b.WriteString(lines[i] + "\n")
		rule := st.Dim("│")
		if i == len(lines)-1 {
			rule = " "
		}
		about := s.GetDescription()
		if s.GetAcceptance() != "" {
			about = strings.TrimSpace(about + "\nDone when: " + s.GetAcceptance())
		}
		if about == "" {
			continue
		}
		for line := range strings.SplitSeq(ui.Wrap(about, columns, 6, 0), "\n") {
			b.WriteString(rule + "     " + st.Dim(line) + "\n")
		}
	}
	return b.String()
}

// plan shows the plan, asks whether work on it may start, and lets the person edit it.
func (p Asker) plan(ctx context.Context, wait *executorv1.Wait) (*executorv1.ResumeTaskRequest, error) {
	result, err := p.s.Tasks.GetTaskResult(ctx, &executorv1.GetTaskResultRequest{Id: p.task})
	if err != nil {
		return nil, err
	}
	req, word := approve("", nil), ""
	if p.edit.problem != "" { // the service did not accept the edited plan
		word = "edit"
	} else {
		p.Print("%s", planText(p.Style, p.Columns, result.GetPlan()))
		p.PrintExpiry(wait.GetDeadline())
	}
	for {
		switch word {
		case "yes":
			return req, nil
		case "edit":
			edited, err := p.edit.plan(ctx, cmp.Or(req.GetApprove().GetPlan(), result.GetPlan()))
			switch {
			case err != nil:
				p.Complain("not used: %s", ui.Line(err.Error()))
			case edited == nil:
				p.Print("    the plan is unchanged\n")
			default:
				req.GetApprove().Plan = edited
				p.Print("%s", planText(p.Style, p.Columns, edited))
			}
		case "reject":
			return p.reject(ctx)
		case detach.Word:
			return nil, nil
		}
		yes := ui.Choice{Word: "yes", Also: []string{"approve"}, Means: "start work on this plan"}
		if req.GetApprove().GetPlan() != nil {
			yes.Label = "(the edited plan)"
		}
		word, err = p.Choose(ctx, yes, ui.Choice{Word: "edit", Means: "change the plan first, as YAML in $EDITOR"},
			ui.Choice{Word: "reject", Also: []string{"n", "no"}, Means: "do not start; the task is cancelled"}, detach)
		if err != nil {
			return nil, err
		}
	}
}
