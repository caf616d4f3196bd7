package task

import (
	"bytes"
	"context"
	"fmt"
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
	return planHelp + b.String(), err
}

// parsePlan parses a plan in YAML or JSON. The service checks ids and dependencies.
func parsePlan(text string) (*executorv1.Plan, error) {
	var file planFile
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		return nil, fmt.Errorf("the plan is not understood: %w", err)
	}
	if len(file.Subtasks) == 0 {
		return nil, fmt.Errorf("the plan has no subtasks")
	}
	raw, err := strictjson.Marshal(file)
	if err != nil {
		return nil, err
	}
	plan := &executorv1.Plan{}
	return plan, protojson.Unmarshal([]byte(raw), plan)
}

// planText describes a plan whole.
func planText(st ui.Style, columns int, plan *executorv1.Plan) string {
	view := newPlanView(plan)
	var b strings.Builder
	if plan.GetMainTask() != "" {
		fmt.Fprintf(&b, "%s %s\n", st.Cyan("●"), st.Bold(ui.Wrap(plan.GetMainTask(), columns, 2, 2)))
	}
	lines := view.draw(st, columns, 0, func(*subtaskView) string { return "" })
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
	current, edited := result.GetPlan(), false
	p.Print("%s", planText(p.Style, p.Columns, current))
	p.PrintExpiry(wait.GetDeadline())
	for {
		yes := ui.Choice{Word: "yes", Also: []string{"approve"}, Means: "start work on this plan"}
		if edited {
			yes.Label = "(the edited plan)"
		}
		word, err := p.Choose(ctx, yes, ui.Choice{Word: "edit", Means: "change the plan first, as YAML in $EDITOR"},
			ui.Choice{Word: "reject", Also: []string{"n", "no"}, Means: "do not start; the task is cancelled"}, detach)
		if err != nil {
			return nil, err
		}
		switch word {
		case "yes":
			req := approve("", nil)
			if edited {
				req.GetApprove().Plan = current
			}
			return req, nil
		case "edit":
			changed, err := editPlan(ctx, p.Edit, current)
			if err != nil {
				p.Complain("not used: %s", ui.Line(err.Error()))
				continue
			}
			current, edited = changed, true
			p.Print("%s", planText(p.Style, p.Columns, current))
		case "reject":
			return p.reject(ctx)
		default:
			return nil, nil
		}
	}
}

// editPlan lets the person edit a plan in an editor.
func editPlan(ctx context.Context, edit func(context.Context, string) (string, error), plan *executorv1.Plan) (*executorv1.Plan, error) {
	if edit == nil {
		return nil, ui.Errorf("there is no editor to change the plan with").Then("set EDITOR, or give the plan with pawl approve TASK --input JSON")
	}
	text, err := planYAML(plan)
	if err == nil {
		text, err = edit(ctx, text)
	}
	if err != nil {
		return nil, err
	}
	return parsePlan(text)
}
