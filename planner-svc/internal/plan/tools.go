package plan

import (
	"cmp"
	"fmt"
	"slices"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/alias"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/prompt"
	"pawl.dev/planner-svc/internal/rank"
)

// The names of the planner's own tools. The aliases of all other tools contain "__".
const (
	readOutput = "read_output"
	findTools  = "find_tools"
	finish     = "finish"
	reflect    = "reflect"
)

// ReadOutputID is the tool id of steps that read on in an earlier output; see PlannedStep.from_history.
const ReadOutputID = "pawl/read_output"

const (
	// maxTools is the most tools that a prompt holds in full. If a task has more, its prompts hold a selection.
	maxTools = 40
	// chosenTools is the size of the selection; the tools that the task has used are added.
	chosenTools = 32
	// maxFound is how many tools find_tools returns.
	maxFound = 8
)

// toolset holds the tools of one prompt, and all tools of the task.
type toolset struct {
	shown []*commonv1.Tool // in the prompt
	all   catalog.Set
	count int // of all

	// ending is the tool with which the model ends its work; nil if it answers instead.
	ending *plannerv1.ModelTool
}

// ownTool returns a tool of the planner.
func ownTool(name, description string) *plannerv1.ModelTool {
	return &plannerv1.ModelTool{Name: name, Description: description, InputSchemaJson: prompt.Schema(name)}
}

// toolsOf chooses the tools of a prompt: all of them, or those most relevant to the goal in the task's order, followed by those that the task has
// used, in the order of their first use. So the selection only grows while a task runs.
func toolsOf(s *session) *toolset {
	t := &toolset{all: s.all, count: len(s.tc.GetTools()), shown: slices.Clip(s.tc.GetTools())}
	if t.count <= maxTools {
		return t
	}
	chosen := t.search(s.tc.GetGoal()+" "+s.tc.GetAgentDescription(), chosenTools)
	slices.SortFunc(chosen, func(a, b rank.Hit) int { return cmp.Compare(a.Position, b.Position) })
	t.shown = toolsIn(chosen)
	for _, e := range s.tc.GetHistory() {
		t.show(t.all.Find(e.GetToolId()))
	}
	return t
}

func toolsIn(hits []rank.Hit) (tools []*commonv1.Tool) {
	for _, h := range hits {
		tools = append(tools, h.Tool)
	}
	return tools
}

// show adds a tool to the shown tools; it ignores nil and a tool that is already shown.
func (t *toolset) show(tool *commonv1.Tool) {
	if tool != nil && !slices.Contains(t.shown, tool) {
		t.shown = append(t.shown, tool)
	}
}

// search returns the tools that match a text best, at most limit of them, the best first.
func (t *toolset) search(text string, limit int) []rank.Hit {
	hits := t.all.Search(text)
	return hits[:min(len(hits), limit)]
}

// find shows the tools that match a query and returns them.
func (t *toolset) find(query string) []*commonv1.Tool {
	found := toolsIn(t.search(query, maxFound))
	for _, tool := range found {
		t.show(tool)
	}
	return found
}

// modelTools returns the planner's own tools and the shown tools, as models get them.
func (t *toolset) modelTools(inJSON bool) []*plannerv1.ModelTool {
	tools := make([]*plannerv1.ModelTool, 0, len(t.shown)+3)
	if t.ending != nil {
		tools = append(tools, t.ending)
	}
	tools = append(tools, ownTool(readOutput, "Reads on in the output of an earlier step, of which only the beginning is shown."))
	if t.count > maxTools {
		tools = append(tools, ownTool(findTools, fmt.Sprintf("Finds further tools: you see only some of the %d.", t.count)))
	}
	for _, tool := range t.shown {
		tools = append(tools, modelTool(tool, inJSON))
	}
	return tools
}

func modelTool(t *commonv1.Tool, inJSON bool) *plannerv1.ModelTool {
	out := &plannerv1.ModelTool{Name: Alias(t.GetId()), InputSchemaJson: strictjson.Compact(t.GetInputSchemaJson())}
	if !inJSON {
		out.InputSchemaJson = withExtras(t.GetInputSchemaJson())
	}
	if d := prompt.Definition(t); d != "" {
		out.Description = prompt.Fence(d)
	}
	return out
}

// withExtras returns an input schema with three more properties before its own. readCall removes them from the model's calls.
func withExtras(inputSchema string) string {
	doc, err := strictjson.ParseObject(inputSchema)
	if err != nil {
		doc = &strictjson.Object{}
	}
	props := &strictjson.Object{}
	props.Set("pawl_why", `{"type":"string"}`)
	props.Set("pawl_risk", `{"type":"string","enum":["LOW","MEDIUM","HIGH"]}`)
	props.Set("pawl_task", `{"type":"object","properties":{"name":{"type":"string"},"risk":{"type":"string","enum":["LOW","MEDIUM","HIGH"]}}}`)
	own, _ := doc.Get("properties")
	for name, property := range strictjson.Members(own) {
		props.Set(name, property)
	}
	doc.Set("type", `"object"`)
	doc.Set("properties", props.String())
	return doc.String()
}

// Alias returns the name by which models call a tool.
func Alias(id string) string {
	if id == ReadOutputID {
		return readOutput
	}
	return alias.Of(id)
}
