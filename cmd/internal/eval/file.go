package eval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

// File is a set of cases, as written in YAML or JSON.
type File struct {
	About   string            `yaml:"about"`
	Servers map[string]string `yaml:"servers"` // by server: the path of its tool list, relative to the file
	Tools   []Tool            `yaml:"tools"`   // tools defined in the file, which belong to the server `tools`
	Cases   []Case            `yaml:"cases"`

	offered map[string][]*commonv1.Tool // by server
}

// Tool is a tool as MCP servers define it, and its effect.
type Tool struct {
	Name         string `yaml:"name"`
	Title        string `yaml:"title"`
	Description  string `yaml:"description"`
	InputSchema  any    `yaml:"inputSchema"`
	OutputSchema any    `yaml:"outputSchema"`
	Effect       string `yaml:"effect"` // READ, WRITE or DESTRUCTIVE; "" is WRITE
}

// Case is a goal and the plan expected for it.
type Case struct {
	Goal      string         `yaml:"goal"`
	Language  string         `yaml:"language"`  // en or zh; "": the goal's language
	Use       []string       `yaml:"use"`       // servers, or tools of the file; all if absent
	Calls     []Call         `yaml:"calls"`     // expected, in this order
	Nothing   bool           `yaml:"nothing"`   // no tool may be called
	Asks      bool           `yaml:"asks"`      // the goal lacks a parameter of the last call, so that a person is asked
	Forbidden []string       `yaml:"forbidden"` // tools that must not be called
	Answer    []string       `yaml:"answer"`    // regular expressions that the answer must match
	Outputs   map[string]any `yaml:"outputs"`   // by tool id: a text, or a structured output; "ok" if absent

	answer []*regexp.Regexp
}

// Call is an expected call. Strings are compared without regard to case and outer punctuation. A parameter that equals its default may be
// present or absent.
type Call struct {
	Tool  OneOf          `yaml:"tool"`  // an id or a name, or a list of alternatives
	Input map[string]any `yaml:"input"` // a value, or {any: […]} with alternatives; the alternative null means absent
}

// OneOf is a text or a list of alternative texts.
type OneOf []string

// UnmarshalYAML reads a text or a list.
func (o *OneOf) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*o = OneOf{n.Value}
		return nil
	}
	var list []string
	err := n.Decode(&list)
	*o = list
	return err
}

// inlineServer is the server id of the tools that a file defines itself.
const inlineServer = "tools"

// Load reads a file and the tool lists that it names.
func Load(path string) (*File, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := &File{}
	if err := decode(raw, f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f.offered = map[string][]*commonv1.Tool{}
	for server, list := range f.Servers {
		raw, err := os.ReadFile(filepath.Join(filepath.Dir(path), filepath.FromSlash(list)))
		if err != nil {
			return nil, fmt.Errorf("%s: the tools of %s: %w", path, server, err)
		}
		var tools []Tool
		if err := decode(raw, &tools); err != nil {
			return nil, fmt.Errorf("%s: the tools of %s: %w", path, server, err)
		}
		if f.offered[server], err = protos(server, tools); err != nil {
			return nil, err
		}
	}
	if f.offered[inlineServer], err = protos(inlineServer, f.Tools); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(f.Cases) == 0 {
		return nil, fmt.Errorf("%s has no cases", path)
	}
	for i := range f.Cases {
		if err := f.check(&f.Cases[i]); err != nil {
			return nil, fmt.Errorf("%s: case %d (%q): %w", path, i+1, f.Cases[i].Goal, err)
		}
	}
	return f, nil
}

func decode(raw []byte, into any) error {
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	return dec.Decode(into)
}

// check validates a case and compiles its expressions.
func (f *File) check(c *Case) error {
	switch {
	case c.Goal == "":
		return errors.New("it has no goal")
	case c.Nothing == (len(c.Calls) > 0):
		return errors.New("it needs either `calls` or `nothing: true`")
	}
	for _, expr := range c.Answer {
		re, err := regexp.Compile(expr)
		if err != nil {
			return err
		}
		c.answer = append(c.answer, re)
	}
	tools, err := f.toolsOf(c)
	if err != nil {
		return err
	}
	names := c.Forbidden
	for _, call := range c.Calls {
		names = append(names, call.Tool...)
	}
	for _, name := range names {
		if find(tools, name) == nil {
			return fmt.Errorf("none of its tools is called %q", name)
		}
	}
	return nil
}

// toolsOf returns the tools that a case offers.
func (f *File) toolsOf(c *Case) ([]*commonv1.Tool, error) {
	use := c.Use
	if use == nil {
		use = append(use, inlineServer)
		use = slices.AppendSeq(use, maps.Keys(f.Servers))
		slices.Sort(use)
	}
	var tools []*commonv1.Tool
	for _, name := range use {
		if list, ok := f.offered[name]; ok {
			tools = append(tools, list...)
		} else if t := find(f.offered[inlineServer], name); t != nil {
			tools = append(tools, t)
		} else {
			return nil, fmt.Errorf("there is no server and no tool %q", name)
		}
	}
	return tools, nil
}

// find returns the tool with the id or name, or nil.
func find(tools []*commonv1.Tool, name string) *commonv1.Tool {
	for _, t := range tools {
		if t.GetId() == name || t.GetName() == name {
			return t
		}
	}
	return nil
}

// protos converts tool definitions of a server.
func protos(server string, tools []Tool) ([]*commonv1.Tool, error) {
	var out []*commonv1.Tool
	for _, t := range tools {
		p := &commonv1.Tool{Id: server + "/" + t.Name, McpId: server, Name: t.Name, Title: t.Title, Description: t.Description, Effect: commonv1.Effect_EFFECT_WRITE}
		if t.Effect != "" {
			value, ok := commonv1.Effect_value["EFFECT_"+t.Effect]
			if !ok {
				return nil, fmt.Errorf("the tool %s: the effect %q must be READ, WRITE or DESTRUCTIVE", p.GetId(), t.Effect)
			}
			p.Effect = commonv1.Effect(value)
		}
		for _, s := range []struct {
			from any
			to   *string
		}{{t.InputSchema, &p.InputSchemaJson}, {t.OutputSchema, &p.OutputSchemaJson}} {
			if s.from == nil {
				continue
			}
			raw, err := json.Marshal(s.from)
			if err != nil {
				return nil, fmt.Errorf("the tool %s: %w", p.GetId(), err)
			}
			*s.to = string(raw)
		}
		out = append(out, p)
	}
	return out, nil
}
