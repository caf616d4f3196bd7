// Package catalog describes the tools that a task may use: their schemas, properties and risk floors. It knows no goals and calls nothing.
package catalog

import (
	"fmt"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/schema"
	"pawl.dev/services/strictjson"
)

// Tool is a tool with its input's properties.
type Tool struct {
	*commonv1.Tool
	Props  []Property     // not to be changed
	Schema *schema.Schema // nil if the tool's schema cannot be used
}

// Property is a member of the tool's input.
type Property = schema.Property

// NewTool reads a tool's schema.
func NewTool(t *commonv1.Tool) *Tool {
	tool := &Tool{Tool: t}
	compiled, err := schema.Compile(t.GetInputSchemaJson())
	if err != nil {
		return tool
	}
	tool.Schema, tool.Props = compiled, compiled.Properties()
	return tool
}

// Find returns the tool of that id, nil if there is none.
func Find(tools []*commonv1.Tool, id string) *commonv1.Tool {
	for _, t := range tools {
		if t.GetId() == id {
			return t
		}
	}
	return nil
}

// CallOf returns the tool of a request, and input as an object, which is empty if input is "". The API has checked both.
func CallOf(req interface {
	GetContext() *plannerv1.TaskContext
	GetToolId() string
}, input string) (*Tool, *strictjson.Object) {
	in, err := strictjson.ParseObject(input)
	if err != nil {
		in = &strictjson.Object{}
	}
	return NewTool(Find(req.GetContext().GetTools(), req.GetToolId())), in
}

// Closed reports whether the schema refuses properties that it does not name.
func (t *Tool) Closed() bool {
	extra, _ := strictjson.Member(t.GetInputSchemaJson(), "additionalProperties")
	return t.Schema != nil && extra == "false"
}

// Prop returns the property of that name, nil if there is none.
func (t *Tool) Prop(name string) *Property {
	for i := range t.Props {
		if t.Props[i].Name == name {
			return &t.Props[i]
		}
	}
	return nil
}

// PropLike returns the property of a name in any spelling: start_line, startLine, Start-Line.
func (t *Tool) PropLike(name string) *Property {
	if p := t.Prop(name); p != nil {
		return p
	}
	want := squeeze(name)
	for i := range t.Props {
		if squeeze(t.Props[i].Name) == want {
			return &t.Props[i]
		}
	}
	return nil
}

// Misfit returns an error if an input does not fit the schema. Missing properties are no misfit: a person is asked for them.
func (t *Tool) Misfit(input string) error {
	if t.Schema == nil {
		return nil
	}
	if wrong := schema.WithoutMissing(t.Schema.Validate(input)); wrong != nil {
		return fmt.Errorf("the input does not fit the schema of %s: %w", t.GetId(), wrong)
	}
	return nil
}

// Missing returns the names of the required properties that an input lacks.
func (t *Tool) Missing(input *strictjson.Object) []string {
	var names []string
	for _, p := range t.Props {
		if p.Required && !input.Has(p.Name) {
			names = append(names, p.Name)
		}
	}
	return names
}

// Reads reports whether the tool changes nothing.
func (t *Tool) Reads() bool { return t.GetEffect() == commonv1.Effect_EFFECT_READ }

// Floor returns the lowest risk of a call: the pool's floor, or the floor of the tool's effect if the pool gives none.
func (t *Tool) Floor() commonv1.RiskLevel {
	switch {
	case t.GetRiskFloor() != commonv1.RiskLevel_RISK_LEVEL_UNSPECIFIED:
		return t.GetRiskFloor() // an operator may set it below the effect's
	case t.Reads():
		return commonv1.RiskLevel_RISK_LEVEL_LOW
	case t.GetEffect() == commonv1.Effect_EFFECT_DESTRUCTIVE:
		return commonv1.RiskLevel_RISK_LEVEL_HIGH
	}
	return commonv1.RiskLevel_RISK_LEVEL_MEDIUM
}

// separators are left out when spellings of a name are compared.
var separators = strings.NewReplacer("_", "", "-", "", " ", "", ".", "")

func squeeze(name string) string { return separators.Replace(strings.ToLower(name)) }
