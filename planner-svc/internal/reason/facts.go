package reason

import (
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/schema"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/model"
	"pawl.dev/services/strictjson"
)

// subject is the tool that a question is about, with the input in question.
type subject struct {
	tool  *catalog.Tool
	input *strictjson.Object
}

// subjectOf finds the tool among the task's and reads the input.
func subjectOf(tc *plannerv1.TaskContext, toolID, field, inputJSON string) (subject, error) {
	facts := model.Facts{Context: tc, ToolID: toolID}
	t := facts.Tool()
	if t == nil {
		return subject{}, invalid("tool_id", "the tool %q is not one of the task's tools", toolID)
	}
	text, err := schema.ExactObject(nil, inputJSON)
	if err != nil {
		return subject{}, invalid(field, "the input of %s: %w", toolID, err)
	}
	in, err := strictjson.ParseObject(text)
	if err != nil {
		return subject{}, invalid(field, "the input of %s: %w", toolID, err)
	}
	return subject{tool: catalog.NewTool(t), input: in}, nil
}

func langOf(tc *plannerv1.TaskContext) lang.Lang {
	return lang.Of(tc.GetLanguage(), tc.GetGoal())
}
