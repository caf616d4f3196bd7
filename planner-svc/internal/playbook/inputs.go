package playbook

import (
	"cmp"

	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/schema"
	"pawl.dev/services/strictjson"
)

// Inputs declares the inputs of a playbook's runs.
type Inputs struct {
	Schema               string // JSON Schema of an object; "" if the playbook takes no inputs
	compiled             *schema.Schema
	properties, defaults strictjson.Object
}

// inputs reads the declaration of the inputs: a JSON Schema of an object, or only its properties, which are required unless they have a default.
func (r *reader) inputs(n *yaml.Node) Inputs {
	if n.Kind != yaml.MappingNode {
		return Inputs{}
	}
	in := Inputs{Schema: r.json(n, 0, false)}
	declaration, err := strictjson.ParseObject(in.Schema)
	if err != nil {
		return in
	}
	properties := in.Schema
	if kind, _ := declaration.Get("type"); kind == `"object"` {
		properties, _ = declaration.Get("properties")
	} else {
		in.Schema = ""
	}
	var required []string
	for name, property := range strictjson.Members(properties) {
		if value, ok := strictjson.Member(property, "default"); ok {
			in.defaults.Set(name, value)
		} else {
			required = append(required, strictjson.Quote(name))
		}
		in.properties.Set(name, property)
	}
	if in.Schema == "" {
		in.Schema = `{"type":"object","properties":` + in.properties.String() + `,"required":` + strictjson.Array(required) + `,"additionalProperties":false}`
	}
	if len(r.problems) > 0 { // the schema may be incomplete
		return in
	}
	if in.compiled, err = schema.Compile(in.Schema); err != nil {
		r.addProblem(n, "`inputs`: "+errs.From(err).Message)
		return in
	}
	if wrong := schema.WithoutMissing(in.compiled.Validate(in.defaults.String())); wrong != nil {
		r.addProblem(n, "a default of `inputs` does not fit: "+wrong.Error())
	}
	return in
}

// FillInputs checks inputs, a JSON object or "", and adds the defaults. The error is INVALID_REQUEST.
func (p *Playbook) FillInputs(raw string) (string, error) {
	inputs, err := strictjson.ParseObject(cmp.Or(raw, "{}"))
	switch {
	case err != nil:
		return "", invalidInputs("they must be a JSON object: " + err.Error())
	case p.Inputs.Schema == "" && len(inputs.Keys()) > 0:
		return "", invalidInputs("the playbook takes none")
	case p.Inputs.Schema == "":
		return "{}", nil
	}
	for _, name := range p.Inputs.defaults.Keys() {
		if !inputs.Has(name) {
			value, _ := p.Inputs.defaults.Get(name)
			inputs.Set(name, value)
		}
	}
	filled := inputs.String()
	if err := p.Inputs.compiled.Validate(filled); err != nil {
		return "", invalidInputs(err.Error())
	}
	return filled, nil
}

func invalidInputs(message string) error {
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "the inputs of the playbook: %s", message).
		WithViolation("inputs_json", message)
}
