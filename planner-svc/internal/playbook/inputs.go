package playbook

import (
	"cmp"
	"errors"
	"slices"

	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/schema"
	"pawl.dev/services/strictjson"
)

// inputs is what a playbook takes from those who run it.
type inputs struct {
	raw      string // JSON Schema of an object
	compiled *schema.Schema
	names    []string
	defaults *strictjson.Object
}

// inputs reads the schema of the inputs: a JSON Schema of an object, or the properties of one, which are required unless they have a default.
func (r *reader) inputs(n *yaml.Node) *inputs {
	in := &inputs{raw: r.json(n, 0, nil), defaults: &strictjson.Object{}}
	given, err := strictjson.ParseObject(in.raw)
	if err != nil || len(given.Keys()) == 0 {
		r.wrong(n, "`inputs` must have `name: {type: …}` lines, or be a JSON Schema of an object")
		return in
	}
	properties := in.raw
	if kind, _ := given.Get("type"); kind == `"object"` {
		properties, _ = given.Get("properties")
	} else {
		in.raw = ""
	}
	declared := &strictjson.Object{}
	var required []string
	for name, property := range strictjson.Members(properties) {
		if strictjson.Kind(property) == "string" {
			property = `{"type":` + property + `}`
		}
		if value, ok := strictjson.Member(property, "default"); ok {
			in.defaults.Set(name, value)
		} else {
			required = append(required, strictjson.Quote(name))
		}
		if !idPattern.MatchString(name) {
			r.wrong(n, "an input must begin with a letter and have letters, digits, _ and - alone: "+name)
		}
		in.names = append(in.names, name)
		declared.Set(name, property)
	}
	if in.raw == "" {
		in.raw = `{"type":"object","properties":` + declared.String() + `,"required":` + strictjson.Array(required) + `,"additionalProperties":false}`
	}
	if in.compiled, err = schema.Compile(in.raw); err != nil {
		r.wrong(n, "`inputs`: "+errs.From(err).Message)
		return in
	}
	var invalid *schema.Invalid
	if errors.As(in.compiled.Validate(in.defaults.String()), &invalid) {
		for _, p := range invalid.Problems {
			if !p.Missing() {
				r.wrong(n, "a default of `inputs` does not fit: "+p.String())
			}
		}
	}
	return in
}

// checkInput checks that the playbook declares an input.
func (r *reader) checkInput(p *Playbook, line int, what, name string) {
	var names []string
	if p.Inputs != nil {
		names = p.Inputs.names
	}
	if !slices.Contains(names, name) {
		r.problems = append(r.problems, problem{line, what + " reads the input " + name + ", which `inputs` does not have; it has " + list(names)})
	}
}

// InputsSchema returns the JSON Schema of the inputs; "" if the playbook takes none.
func (p *Playbook) InputsSchema() string {
	if p.Inputs == nil {
		return ""
	}
	return p.Inputs.raw
}

// FillInputs checks inputs, a JSON object or "", and adds the defaults. The error is INVALID_REQUEST.
func (p *Playbook) FillInputs(raw string) (string, error) {
	given, err := strictjson.ParseObject(cmp.Or(raw, "{}"))
	switch {
	case err != nil:
		return "", invalidInputs("they must be a JSON object: " + err.Error())
	case p.Inputs == nil && len(given.Keys()) > 0:
		return "", invalidInputs("the playbook takes none")
	case p.Inputs == nil:
		return "{}", nil
	}
	for _, name := range p.Inputs.defaults.Keys() {
		if !given.Has(name) {
			value, _ := p.Inputs.defaults.Get(name)
			given.Set(name, value)
		}
	}
	filled := given.String()
	var invalid *schema.Invalid
	if err := p.Inputs.compiled.Validate(filled); errors.As(err, &invalid) {
		var messages []string
		for _, problem := range invalid.Problems {
			messages = append(messages, problem.String())
		}
		return "", invalidInputs(messages...)
	} else if err != nil {
		return "", invalidInputs(err.Error())
	}
	return filled, nil
}

func invalidInputs(messages ...string) error {
	e := errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "the inputs of the playbook: %s", messages[0])
	for _, m := range messages {
		e = e.WithViolation("inputs_json", m)
	}
	return e
}
