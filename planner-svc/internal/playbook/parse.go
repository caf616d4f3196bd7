package playbook

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"pawl.dev/services/jsonref"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/plan"
	"pawl.dev/planner-svc/internal/risk"
)

// goalName is what references call the task's goal.
const goalName = "goal"

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
}

func (r *reader) wrong(n *yaml.Node, message string) {
	r.problems = append(r.problems, problem{max(n.Line, 1), message})
}

func (r *reader) playbook(root *yaml.Node) *Playbook {
	p := &Playbook{}
	var answer []use
	var steps *yaml.Node
	r.members(root, "the playbook", func(key string, v *yaml.Node) bool {
		switch key {
		case "name":
			p.Name = r.text(v, key)
		case "goal":
			p.Goal = r.text(v, key)
		case "answer":
			p.Answer, answer = r.template(v, key)
		case "steps":
			steps = v
		default:
			return false
		}
		return true
	}, "name", "goal", "steps", "answer")
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
		step, uses, later := r.step(i, item)
		for j, other := range p.Steps {
			if other.ID == step.ID {
				r.wrong(item, "the id "+step.ID+" is taken by step "+strconv.Itoa(j+1)+"; ids are unique")
			}
		}
		p.Steps = append(p.Steps, step)
		r.checkUses(p, i, p.stepName(i), uses)
		r.checkUses(p, i+1, p.stepName(i), later)
	}
}

// step reads one step. Uses are references that are resolved before it runs, later ones after it ran.
func (r *reader) step(i int, n *yaml.Node) (s Step, uses, later []use) {
	s = Step{ID: defaultID(i), Input: "{}", Line: n.Line}
	what := "step " + strconv.Itoa(i+1)
	r.members(n, what, func(key string, v *yaml.Node) bool {
		var found []use
		switch key {
		case "id":
			s.ID = r.id(v)
		case "tool":
			s.Tool = r.tool(v)
		case "description":
			s.Description, found = r.template(v, key)
		case "input":
			s.Input, found = r.object(v)
		case "expect":
			s.Expect, later = r.expectations(v)
		case "on_error":
			s.Continue = r.oneOf(v, key, "stop", "continue") == "continue"
		case "risk":
			s.Risk = risk.Parse(r.oneOf(v, key, "low", "medium", "high"))
		default:
			return false
		}
		uses = append(uses, found...)
		return true
	}, "id", "tool", "description", "input", "expect", "on_error", "risk")
	if n.Kind == yaml.MappingNode && s.Tool == "" {
		r.wrong(n, what+" has no `tool`")
	}
	return s, uses, later
}

// checkUses checks that references are to the goal or to one of the first n steps.
func (r *reader) checkUses(p *Playbook, n int, what string, uses []use) {
	for _, u := range uses {
		if u.ref.Name == goalName {
			if len(u.ref.Path) > 0 {
				r.problems = append(r.problems, problem{u.line, u.ref.String() + ": the goal is a text and has no members"})
			}
			continue
		}
		ids := make([]string, 0, n)
		for _, s := range p.Steps[:min(n, len(p.Steps))] {
			ids = append(ids, s.ID)
		}
		if !slices.Contains(ids, u.ref.Name) {
			r.problems = append(r.problems, problem{u.line, what + " refers to " + u.ref.String() + ", but no step before it is called " +
				u.ref.Name + "; it can refer to " + list(append([]string{goalName}, ids...))})
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
