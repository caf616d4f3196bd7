package playbook

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"

	"pawl.dev/services/similar"
)

// whole looks at all steps before the first one runs: what can be known to be wrong with a later step by then is not to be found out
// when the steps before it had their effects. What a step lacks is left alone: a person may supply it (A16).
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

// wrongWith says what is wrong with a step whatever the steps before it bring; empty where nothing is known to be.
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
	if err != nil || s.Continue { // it is not known yet, or told when it is due; or it may fail
		return ""
	}
	if wrong := t.Misfit(input); wrong != nil {
		return wrong.Error()
	}
	return ""
}

// noTool says that a tool is not there, and which ones are that may be meant.
func (r *run) noTool(id string) string {
	server, name, _ := strings.Cut(id, "/")
	text := fmt.Sprintf("%s is not one of the task's tools; where its MCP server is inactive or out of reach, or the tool is quarantined, "+
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
