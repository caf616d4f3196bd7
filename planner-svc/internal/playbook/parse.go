package playbook

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"pawl.dev/services/jsonref"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/plan"
	"pawl.dev/planner-svc/internal/risk"
)

// What references call the task's goal and inputs, and the item of a `foreach` with its place.
const (
	goalName   = "goal"
	inputsName = "inputs"
	itemName   = "item"
	indexName  = "index"
)

var (
	idPattern   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)
	pathPattern = regexp.MustCompile(`^[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*$`)
	linePattern = regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:\s*)?line (\d+): (.*)$`)
)

// Parse reads and checks a playbook. The error is INVALID_PLAYBOOK and names the lines.
func Parse(text string) (*Playbook, error) {
	root, err := document(text)
	if err != nil {
		return nil, err
	}
	r := &reader{}
	p := r.playbook(root)
	if len(r.problems) > 0 {
		slices.SortStableFunc(r.problems, func(a, b problem) int { return a.line - b.line })
		return nil, invalid(r.problems)
	}
	return p, p.index()
}

// index looks up once what every run of the playbook needs.
func (p *Playbook) index() error {
	p.byID = make(map[string]int, len(p.Steps))
	for i := range p.Steps {
		s := &p.Steps[i]
		p.byID[s.ID] = i
		template, err := strictjson.ParseObject(s.Input)
		if err != nil {
			return fmt.Errorf("playbook: the input of %s: %w", p.stepName(i), err)
		}
		s.template = template
	}
	return nil
}

// document reads the one YAML document of a text.
func document(text string) (*yaml.Node, error) {
	dec := yaml.NewDecoder(strings.NewReader(text))
	var doc, second yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, invalid([]problem{{1, "it is empty; it needs `steps`"}})
	case err != nil:
		return nil, invalid([]problem{syntaxError(err)})
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, invalid([]problem{{max(second.Line, 1), "a second document begins; a playbook is one"}})
	}
	return doc.Content[0], nil
}

// syntaxError finds the line in the YAML library's message.
func syntaxError(err error) problem {
	if m := linePattern.FindStringSubmatch(err.Error()); m != nil {
		if n, convErr := strconv.Atoi(m[1]); convErr == nil {
			return problem{n, "it is not valid YAML: " + m[2]}
		}
	}
	return problem{1, "it is not valid YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
}

// reader collects problems while it reads, so that a person can mend them all at once.
type reader struct {
	problems []problem
	env      *cel.Env // nil until the first expression
}

func (r *reader) wrong(n *yaml.Node, message string) {
	r.problems = append(r.problems, problem{max(n.Line, 1), message})
}

func (r *reader) playbook(root *yaml.Node) *Playbook {
	p := &Playbook{}
	var answer []use
	var steps *yaml.Node
	r.members(root, "the playbook",
		member{"name", func(v *yaml.Node) { p.Name = r.text(v, "name") }},
		member{"goal", func(v *yaml.Node) { p.Goal = r.text(v, "goal") }},
		member{"inputs", func(v *yaml.Node) { p.Inputs = r.inputs(v) }},
		member{"steps", func(v *yaml.Node) { steps = v }},
		member{"answer", func(v *yaml.Node) { p.Answer, answer = r.template(v, "answer") }})
	switch {
	case root.Kind != yaml.MappingNode:
	case steps == nil:
		r.wrong(root, "`steps` is missing")
	case steps.Kind != yaml.SequenceNode || len(steps.Content) == 0:
		r.wrong(steps, "`steps` must be a list of at least one step")
	default:
		r.steps(p, steps)
		r.checkUses(p, len(p.Steps), "the answer", answer)
	}
	return p
}

func (r *reader) steps(p *Playbook, n *yaml.Node) {
	for i, item := range n.Content {
		step, uses := r.step(p, i, item)
		var given []string
		if step.Foreach != nil {
			given = []string{itemName, indexName}
		}
		for j, other := range p.Steps {
			if other.ID == step.ID {
				r.wrong(item, "the id "+step.ID+" is taken by step "+strconv.Itoa(j+1)+"; ids are unique")
			}
			if slices.Contains(given, other.ID) {
				r.wrong(item, "`foreach` calls its items `item` and `index`; give step "+strconv.Itoa(j+1)+" another id")
			}
		}
		if p.Inputs != nil && step.ID == inputsName {
			r.wrong(item, "a playbook with `inputs` cannot have a step with the id `inputs`")
		}
		p.Steps = append(p.Steps, step)
		r.checkUses(p, i, p.stepName(i), uses.condition)
		r.checkUses(p, i, p.stepName(i), uses.call, given...)
		r.checkUses(p, i+1, p.stepName(i), uses.result, given...)
	}
}

// stepUses are the references of a step, by when they are resolved.
type stepUses struct{ condition, call, result []use }

// step reads one step.
func (r *reader) step(p *Playbook, i int, n *yaml.Node) (s Step, uses stepUses) {
	s = Step{ID: defaultID(i), Input: "{}", Line: n.Line}
	what := "step " + strconv.Itoa(i+1)
	var list, description, input []use
	r.members(n, what,
		member{"id", func(v *yaml.Node) { s.ID = r.id(v) }},
		member{"tool", func(v *yaml.Node) { s.Tool = r.tool(v) }},
		member{"description", func(v *yaml.Node) { s.Description, description = r.template(v, "description") }},
		member{"if", func(v *yaml.Node) { s.If, uses.condition = r.expression(p, v, "if", cel.BoolType) }},
		member{"foreach", func(v *yaml.Node) { s.Foreach, list = r.foreach(p, v) }},
		member{"input", func(v *yaml.Node) { s.Input, input = r.object(v) }},
		member{"expect", func(v *yaml.Node) { s.Expect, uses.result = r.expectations(v) }},
		member{"retry", func(v *yaml.Node) { s.Attempts = r.retry(v) }},
		member{"on_error", func(v *yaml.Node) { s.Continue = r.oneOf(v, "on_error", "stop", "continue") == "continue" }},
		member{"risk", func(v *yaml.Node) { s.Risk = risk.Parse(r.oneOf(v, "risk", "low", "medium", "high")) }})
	uses.condition, uses.call = append(uses.condition, list...), append(description, input...)
	if n.Kind == yaml.MappingNode && s.Tool == "" {
		r.wrong(n, what+" has no `tool`")
	}
	return s, uses
}

// foreach reads a list: written out, a reference to one, or an expression.
func (r *reader) foreach(p *Playbook, n *yaml.Node) (*foreach, []use) {
	f := &foreach{}
	var uses []use
	switch {
	case n.Kind == yaml.SequenceNode:
		f.template = r.json(n, 0, &uses)
	case n.Kind == yaml.ScalarNode && strings.HasPrefix(n.Value, "${"):
		f.template, uses = r.template(n, "foreach")
	default:
		f.expression, uses = r.expression(p, n, "foreach", cel.ListType(cel.DynType))
	}
	return f, uses
}

// maxAttempts bounds how often a step is tried.
const maxAttempts = 10

func (r *reader) retry(n *yaml.Node) (attempts int) {
	r.members(n, "`retry`", member{"attempts", func(v *yaml.Node) {
		var err error
		if attempts, err = strconv.Atoi(v.Value); err != nil || attempts < 2 || attempts > maxAttempts {
			r.wrong(v, "`attempts` must be a number from 2 to "+strconv.Itoa(maxAttempts)+", the first attempt included")
		}
	}})
	if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		r.wrong(n, "`retry` needs `attempts`")
	}
	return attempts
}

// checkUses checks that references are to the goal, to inputs, to what else is given, or to one of the first n steps.
func (r *reader) checkUses(p *Playbook, n int, what string, uses []use, given ...string) {
	for _, u := range uses {
		switch {
		case u.text != "": // a step in any case
		case slices.Contains(given, u.ref.Name):
			continue
		case u.ref.Name == goalName:
			if len(u.ref.Path) > 0 {
				r.problems = append(r.problems, problem{u.line, u.String() + ": the goal is a text and has no members"})
			}
			continue
		case u.ref.Name == inputsName && p.Inputs != nil:
			if len(u.ref.Path) > 0 {
				r.checkInput(p, u.line, what, u.ref.Path[0])
			}
			continue
		}
		ids := make([]string, 0, n)
		for _, s := range p.Steps[:min(n, len(p.Steps))] {
			ids = append(ids, s.ID)
		}
		if !slices.Contains(ids, u.ref.Name) {
			r.problems = append(r.problems, problem{u.line, what + " refers to " + u.String() + ", but no step before it is called " +
				u.ref.Name + "; it can refer to " + list(slices.Concat([]string{goalName}, given, ids))})
		}
	}
}

func (r *reader) id(n *yaml.Node) string {
	id := r.text(n, "id")
	if id != "" && (!idPattern.MatchString(id) || id == goalName) {
		r.wrong(n, "`id` must begin with a letter and have letters, digits, _ and - alone, and cannot be `goal`")
	}
	return id
}

func (r *reader) tool(n *yaml.Node) string {
	tool := r.text(n, "tool")
	server, name, ok := strings.Cut(tool, "/")
	if tool != "" && (!ok || server == "" || name == "" || tool == plan.Final) {
		r.wrong(n, "`tool` must be the id of a tool, SERVER/NAME")
	}
	return tool
}

func (r *reader) oneOf(n *yaml.Node, key string, values ...string) string {
	v := r.text(n, key)
	if v != "" && !slices.Contains(values, v) {
		r.wrong(n, "`"+key+"` must be one of "+strings.Join(values, ", "))
	}
	return v
}

// template reads a text with references; it is returned as a JSON string.
func (r *reader) template(n *yaml.Node, key string) (string, []use) {
	text := r.text(n, key)
	if text == "" {
		return "", nil
	}
	raw := strictjson.Quote(text)
	return raw, r.refs(n, raw)
}

// refs returns the references of a JSON string.
func (r *reader) refs(n *yaml.Node, raw string) []use {
	refs, err := jsonref.Refs(raw)
	if err != nil {
		r.wrong(n, err.Error())
		return nil
	}
	var uses []use
	for _, ref := range refs {
		uses = append(uses, use{ref: ref, line: n.Line})
	}
	return uses
}
