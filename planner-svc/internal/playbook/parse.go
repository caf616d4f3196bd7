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

	"pawl.dev/planner-svc/internal/risk"
)

// The names by which references reach the task's goal and inputs, and the item of a `foreach` and its index.
const (
	goalName   = "goal"
	inputsName = "inputs"
	itemName   = "item"
	indexName  = "index"
)

// maxAttempts bounds how often a step is tried.
const maxAttempts = 10

var (
	idPattern   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)
	toolPattern = regexp.MustCompile(`^[^/]+/.+$`)
	pathPattern = regexp.MustCompile(`^[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*$`)
)

// Parse reads and checks a playbook. The error is INVALID_PLAYBOOK and names the lines.
func Parse(text string) (*Playbook, error) {
	root, err := document(text)
	if err != nil {
		return nil, err
	}
	r := &reader{p: &Playbook{byID: map[string]int{}}}
	r.playbook(root)
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
		return nil, invalid([]problem{syntaxError(err)})
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, invalid([]problem{{max(second.Line, 1), "a second document begins; a playbook is one"}})
	}
	return doc.Content[0], nil
}

// syntaxError finds the line in the YAML library's message.
func syntaxError(err error) problem {
	text, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	if _, err := fmt.Sscanf(text, "line %d:", &line); err == nil {
		_, text, _ = strings.Cut(text, ": ")
	}
	return problem{line, "it is not valid YAML: " + text}
}

// reader reads a playbook and collects problems, so that a person can correct them all at once.
type reader struct {
	p        *Playbook // as far as it was read: references are to its steps
	problems []problem
	what     string   // the element that is being read, for problems
	given    []string // names that its references may use besides the goal, inputs and steps
}

func (r *reader) wrong(n *yaml.Node, message string) {
	r.problems = append(r.problems, problem{max(n.Line, 1), message})
}

func (r *reader) playbook(root *yaml.Node) {
	r.members(root, "the playbook",
		member{"name", func(v *yaml.Node) { r.p.Name = r.text(v, "name") }},
		member{"goal", func(v *yaml.Node) { r.p.Goal = r.text(v, "goal") }},
		member{"inputs", func(v *yaml.Node) { r.p.Inputs = r.inputs(v) }},
		member{"steps", r.steps},
		member{"answer", func(v *yaml.Node) {
			r.what, r.given = "the answer", nil
			r.p.Answer = r.template(v, "answer")
		}})
	if root.Kind == yaml.MappingNode && r.p.Steps == nil {
		r.wrong(root, "`steps` is missing")
	}
}

func (r *reader) steps(n *yaml.Node) {
	r.p.Steps = []Step{}
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		r.wrong(n, "`steps` must be a list of at least one step")
		return
	}
	for i, item := range n.Content {
		step := r.step(i, item)
		if taken, ok := r.p.byID[step.ID]; ok {
			r.wrong(item, "the id "+step.ID+" is taken by step "+strconv.Itoa(taken+1)+"; ids are unique")
		} else if step.ID == goalName || step.ID == inputsName && r.p.Inputs.Schema != "" {
			r.wrong(item, "a step's `id` cannot be `"+step.ID+"`, which is the playbook's")
		}
		r.p.byID[step.ID] = i
		r.p.Steps = append(r.p.Steps, step)
	}
}

// step reads one step, each key with the names that its references may use.
func (r *reader) step(i int, n *yaml.Node) Step {
	s := Step{ID: defaultID(i), template: &strictjson.Object{}, Line: n.Line}
	r.what, r.given = stepName(i, s.ID), nil
	what := "step " + strconv.Itoa(i+1)
	r.members(n, what,
		member{"id", func(v *yaml.Node) {
			s.ID = r.matching(v, "id", idPattern, "begin with a letter and have letters, digits, _ and - alone")
			r.what = stepName(i, s.ID)
		}},
		member{"tool", func(v *yaml.Node) { s.Tool = r.matching(v, "tool", toolPattern, "be the id of a tool, SERVER/NAME") }},
		member{"if", func(v *yaml.Node) { s.If = r.expression(v, "if", cel.BoolType) }},
		member{"foreach", func(v *yaml.Node) {
			s.Foreach = r.list(v)
			r.given = []string{itemName, indexName}
		}},
		member{"description", func(v *yaml.Node) { s.Description = r.template(v, "description") }},
		member{"input", func(v *yaml.Node) { s.template = r.object(v) }},
		member{"expect", func(v *yaml.Node) {
			r.given = append(r.given, s.ID)
			s.Expect = r.expectations(v)
		}},
		member{"retry", func(v *yaml.Node) { s.Attempts = r.retry(v) }},
		member{"on_error", func(v *yaml.Node) { s.Continue = r.oneOf(v, "on_error", "stop", "continue") == "continue" }},
		member{"risk", func(v *yaml.Node) { s.Risk = risk.Parse(r.oneOf(v, "risk", "low", "medium", "high")) }})
	if n.Kind == yaml.MappingNode && s.Tool == "" {
		r.wrong(n, what+" has no `tool`")
	}
	s.Input = s.template.String()
	s.names = append(namesIn(s.Input), namesIn(s.Description)...)
	return s
}

// list reads the list of a `foreach`: written out, a reference to one, or an expression.
func (r *reader) list(n *yaml.Node) *expression {
	var template string
	switch {
	case n.Kind == yaml.SequenceNode:
		template = r.json(n, 0, true)
	case n.Kind == yaml.ScalarNode && strings.HasPrefix(n.Value, "${"):
		template = r.template(n, "foreach")
	default:
		return r.expression(n, "foreach", cel.ListType(cel.DynType))
	}
	return &expression{template: template, names: namesIn(template)}
}

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

// matching reads a text that must match a pattern, as must says.
func (r *reader) matching(n *yaml.Node, key string, pattern *regexp.Regexp, must string) string {
	text := r.text(n, key)
	if text != "" && !pattern.MatchString(text) {
		r.wrong(n, "`"+key+"` must "+must)
	}
	return text
}

func (r *reader) oneOf(n *yaml.Node, key string, values ...string) string {
	v := r.text(n, key)
	if v != "" && !slices.Contains(values, v) {
		r.wrong(n, "`"+key+"` must be one of "+strings.Join(values, ", "))
	}
	return v
}

// template reads a text with references; it is returned as a JSON string.
func (r *reader) template(n *yaml.Node, key string) string {
	text := r.text(n, key)
	if text == "" {
		return ""
	}
	raw := strictjson.Quote(text)
	r.checkRefs(n, raw)
	return raw
}

// checkRefs checks that the references of a JSON string are to the goal, to inputs, to a given name, or to earlier steps.
func (r *reader) checkRefs(n *yaml.Node, raw string) {
	refs, err := jsonref.Refs(raw)
	if err != nil {
		r.wrong(n, err.Error())
	}
	for _, ref := range refs {
		switch {
		case slices.Contains(r.given, ref.Name):
		case ref.Name == goalName && len(ref.Path) > 0:
			r.wrong(n, ref.String()+": the goal is a text and has no members")
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
	if _, ok := r.p.byID[id]; ok {
		return
	}
	names := slices.Concat([]string{goalName}, r.given)
	for _, s := range r.p.Steps {
		names = append(names, s.ID)
	}
	r.wrong(n, r.what+" refers to "+text+", but no step before it is called "+id+"; it can refer to "+strings.Join(names, ", "))
}

// checkInput checks that the playbook declares an input.
func (r *reader) checkInput(n *yaml.Node, name string) {
	if !r.p.Inputs.properties.Has(name) {
		r.wrong(n, r.what+" reads the input "+name+", which `inputs` does not have")
	}
}
