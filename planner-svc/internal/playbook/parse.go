package playbook

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/jsonref"
	"pawl.dev/services/schema"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/risk"
)

// The names by which references reach the task's goal and inputs, and the item of a `foreach` and its index.
const (
	goalName   = "goal"
	inputsName = "inputs"
	itemName   = "item"
	indexName  = "index"
)

// Parse reads and checks a playbook. The error is INVALID_PLAYBOOK and names the lines.
func Parse(text string) (*Playbook, error) {
	root, err := document(text)
	if err != nil {
		return nil, err
	}
	r := &reader{p: &Playbook{byID: map[string]int{}}}
	if raw := r.json(root, 0, false); len(r.problems) == 0 {
		r.checkForm(root, raw)
		r.playbook(root)
	}
	if len(r.problems) > 0 {
		slices.SortStableFunc(r.problems, func(a, b problem) int { return a.line - b.line })
		return nil, invalid(r.problems)
	}
	return r.p, nil
}

// document reads the one YAML document of a text.
func document(text string) (*yaml.Node, error) {
	dec := yaml.NewDecoder(strings.NewReader(text))
	var doc, second yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, invalid([]problem{{1, "it is empty; it needs `steps`"}})
	case err != nil:
		text, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
		if _, err := fmt.Sscanf(text, "line %d:", &line); err == nil {
			_, text, _ = strings.Cut(text, ": ")
		}
		return nil, invalid([]problem{{line, "it is not valid YAML: " + text}})
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, invalid([]problem{{max(second.Line, 1), "a second YAML document begins here; a playbook must be a single one"}})
	}
	return doc.Content[0], nil
}

// reader reads a playbook and collects problems, so that a person can correct them all at once. It skips values of a wrong form, because
// checkForm reports them.
type reader struct {
	p          *Playbook // the part read so far, whose steps references may use
	problems   []problem
	block      int      // of the steps that are being read; see Step
	branch     string   // of the steps that are being read
	element    string   // the element that is being read, for problems
	extraNames []string // names that the element's references may use besides the goal, inputs and steps
}

func (r *reader) addProblem(n *yaml.Node, message string) {
	r.problems = append(r.problems, problem{max(n.Line, 1), message})
}

func (r *reader) playbook(root *yaml.Node) {
	r.p.Name, r.p.Goal = child(root, "name").Value, child(root, "goal").Value
	r.p.Inputs = r.inputs(child(root, "inputs"))
	for i, n := range items(child(root, "steps")) {
		branches := items(child(n, "parallel"))
		if len(branches) == 0 {
			r.add(n)
		}
		for b, branch := range branches {
			r.block, r.branch = i+1, fmt.Sprintf("p%d.%d", i+1, b+1)
			for _, step := range items(child(branch, "steps")) {
				r.add(step)
			}
		}
		r.block, r.branch = 0, ""
	}
	r.element, r.extraNames = "the answer", nil
	answer := child(root, "answer")
	r.p.Answer, r.p.answerLine = r.template(answer), answer.Line
}

// add reads one step and adds it to the playbook.
func (r *reader) add(n *yaml.Node) {
	i := len(r.p.Steps)
	step := r.step(i, n)
	if taken, ok := r.p.byID[step.ID]; ok {
		r.addProblem(n, "the id "+step.ID+" is taken by step "+strconv.Itoa(taken+1)+"; ids are unique")
	} else if step.ID == inputsName && r.p.Inputs.Schema != "" {
		r.addProblem(n, "a step's `id` cannot be `inputs`, because that name refers to the playbook's inputs")
	}
	r.p.byID[step.ID] = i
	r.p.Steps = append(r.p.Steps, step)
}

// step reads one step. Before each key, it sets r.extraNames.
func (r *reader) step(i int, n *yaml.Node) Step {
	s := Step{
		ID: cmp.Or(child(n, "id").Value, defaultID(i)), Tool: child(n, "tool").Value, Line: n.Line,
		Continue: child(n, "on_error").Value == "continue", Risk: risk.Parse(child(n, "risk").Value),
		block: r.block, branch: r.branch,
	}
	_ = child(child(n, "retry"), "attempts").Decode(&s.Attempts)
	r.element, r.extraNames = stepName(i, s.ID), nil
	s.If = r.expression(child(n, "if"), "if", cel.BoolType)
	if list := child(n, "foreach"); !list.IsZero() {
		s.Foreach = r.list(list)
		r.extraNames = []string{itemName, indexName}
	}
	s.Description = r.template(child(n, "description"))
	var err error
	if s.template, err = strictjson.ParseObject(r.json(child(n, "input"), 0, true)); err != nil {
		s.template = &strictjson.Object{}
	}
	s.Input = s.template.String()
	s.names = append(namesIn(s.Input), namesIn(s.Description)...)
	r.extraNames = append(r.extraNames, s.ID)
	for _, item := range items(child(n, "expect")) {
		s.Expect = append(s.Expect, r.expectation(item))
	}
	return s
}

// list reads the list of a `foreach`: a YAML list, a reference to a list, or an expression.
func (r *reader) list(n *yaml.Node) *expression {
	var template string
	switch {
	case n.Kind == yaml.SequenceNode:
		template = r.json(n, 0, true)
	case strings.HasPrefix(n.Value, "${"):
		template = r.template(n)
	default:
		return r.expression(n, "foreach", cel.ListType(cel.DynType))
	}
	return &expression{template: template, names: namesIn(template)}
}

// template reads a text with references and returns it as a JSON string, "" if there is none.
func (r *reader) template(n *yaml.Node) string {
	if n.Value == "" {
		return ""
	}
	raw := strictjson.Quote(n.Value)
	r.checkRefs(n, raw)
	return raw
}

// checkRefs checks that the references of a JSON string name the goal, the inputs, one of r.extraNames, or an earlier step that is not in another branch
// of the same block.
func (r *reader) checkRefs(n *yaml.Node, raw string) {
	refs, err := jsonref.Refs(raw)
	if err != nil {
		r.addProblem(n, err.Error())
	}
	for _, ref := range refs {
		switch {
		case slices.Contains(r.extraNames, ref.Name):
		case ref.Name == goalName && len(ref.Path) > 0:
			r.addProblem(n, ref.String()+": the goal is a text and has no members")
		case ref.Name == goalName:
		case ref.Name == inputsName && r.p.Inputs.Schema != "":
			if len(ref.Path) > 0 {
				r.checkInput(n, ref.Path[0])
			}
		default:
			r.checkStep(n, ref.Name, ref.String())
		}
	}
}

func (r *reader) checkStep(n *yaml.Node, id, text string) {
	beside := func(s *Step) bool { return r.block > 0 && s.block == r.block && s.branch != r.branch }
	if i, ok := r.p.byID[id]; ok {
		if beside(&r.p.Steps[i]) {
			r.addProblem(n, r.element+" refers to "+text+", but "+id+" is in another branch, which runs at the same time; steps after the block can refer to it")
		}
		return
	}
	names := slices.Concat([]string{goalName}, r.extraNames)
	for i := range r.p.Steps {
		if s := &r.p.Steps[i]; !beside(s) {
			names = append(names, s.ID)
		}
	}
	r.addProblem(n, r.element+" refers to "+text+", but no step before it is called "+id+"; it can refer to "+strings.Join(names, ", "))
}

// checkInput checks that the playbook declares an input.
func (r *reader) checkInput(n *yaml.Node, name string) {
	if !r.p.Inputs.properties.Has(name) {
		r.addProblem(n, r.element+" reads the input "+name+", which `inputs` does not declare")
	}
}

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
