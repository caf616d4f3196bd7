package playbook

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"

	"pawl.dev/services/similar"
)

// whole checks all steps before the first one runs, so that no step has an effect if a later one certainly cannot work. Missing values are
// no error, because a person may supply them.
func (r *run) whole() error {
	if len(r.tc.GetHistory()) > 0 {
		return nil
	}
	var problems []problem
	for i := range r.Steps {
		if wrong := r.wrongWith(i); wrong != "" {
			problems = append(problems, problem{r.Steps[i].Line, fmt.Sprintf("%s: %s", r.stepName(i), wrong)})
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return report(codes.FailedPrecondition, problems, problems[0].message, "; nothing was called")
}

// wrongWith returns why a step cannot work, whatever the outputs of the steps before it; "" if nothing is known.
func (r *run) wrongWith(i int) string {
	s := &r.Steps[i]
	t := r.tool(s.Tool)
	if s.If != nil {
		if holds, err := r.eval(s.If, i); err == nil && holds == "false" {
			return ""
		}
	}
	if t == nil {
		return r.noTool(s.Tool)
	}
	input, err := r.fill(s.Input, place{step: i}, false)
	if err != nil || s.Continue { // not known yet, or reported when it is due; or the step may fail
		return ""
	}
	if wrong := t.Misfit(input); wrong != nil {
		return wrong.Error()
	}
	return ""
}

// noTool returns the error for a tool that does not exist; it names similar tools.
func (r *run) noTool(id string) string {
	server, name, _ := strings.Cut(id, "/")
	text := fmt.Sprintf("%s is not one of the task's tools; if its MCP server is inactive or out of reach, or the tool is quarantined, "+
		"see `pawl mcp tools %s` and `pawl mcp tools %[2]s --quarantined`; else mend the playbook", id, server)
	var ids, namesakes []string
	for _, t := range r.tc.GetTools() {
		ids = append(ids, t.GetId())
		if t.GetName() == name && len(namesakes) < 3 {
			namesakes = append(namesakes, t.GetId())
		}
	}
	near := similar.Names(id, ids)
	if len(near) == 0 {
		near = namesakes
	}
	if len(near) > 0 {
		text += " (is " + strings.Join(near, " or ") + " meant?)"
	}
	return text
}
