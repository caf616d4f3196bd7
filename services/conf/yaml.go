package conf

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"pawl.dev/services/similar"
)

// file resolves flags from a YAML document. A flag `http-addr` is the key `http-addr`, or `http_addr`, or `addr` under
// `http`; the same holds for flags with dots.
type file struct {
	name   string
	values map[string]setting // by flag name with all separators as "-"
}

// setting is one value of the document: a scalar, a list or a mapping.
type setting struct {
	path string // as in the document, for messages
	*yaml.Node
}

func loadYAML(r io.Reader) (kong.Resolver, error) {
	f := &file{name: "the settings file", values: map[string]setting{}}
	if named, ok := r.(*os.File); ok {
		f.name = named.Name()
	}
	var doc yaml.Node
	if err := yaml.NewDecoder(r).Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return f, nil
		}
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	if err := f.collect("", doc.Content[0]); err != nil {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	return f, nil
}

func canonicalName(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "-", ".", "-").Replace(name))
}

// collect adds every mapping as one value, and its members under longer names: only a flag's type shows which of the two is meant.
func (f *file) collect(path string, n *yaml.Node) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if path == "" && n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: the file must hold `name: value` lines", n.Line)
	}
	if path != "" {
		key := canonicalName(path)
		if before, twice := f.values[key]; twice {
			return fmt.Errorf("line %d: %s is already set in line %d", n.Line, path, before.Line)
		}
		f.values[key] = setting{path, n}
		path += "."
	}
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if err := f.collect(path+n.Content[i].Value, n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// toKong converts a value to the form that kong gets from a command line: scalars as they are written, or lists and maps of them.
func toKong(n *yaml.Node) any {
	switch {
	case n.Kind == yaml.AliasNode:
		return toKong(n.Alias)
	case n.Kind == yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			list = append(list, toKong(item))
		}
		return list
	case n.Kind == yaml.MappingNode:
		m := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			m[n.Content[i].Value] = toKong(n.Content[i+1])
		}
		return m
	case n.Tag == "!!null":
		return nil
	}
	return n.Value
}

// Resolve implements kong.Resolver. The environment overrides the file, unlike in kong itself.
func (f *file) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, env := range flag.Envs {
		if _, set := os.LookupEnv(env); set {
			return nil, nil
		}
	}
	s, ok := f.values[canonicalName(flag.Name)]
	if !ok || s.Kind == yaml.MappingNode && !flag.IsMap() {
		return nil, nil // not a setting itself; Validate reports unknown members
	}
	return toKong(s.Node), nil
}

// Validate implements kong.Resolver: every key of the file must be a flag, a mapping that contains flags, or an entry of a flag that is a map.
func (f *file) Validate(app *kong.Application) error {
	flags := fileFlags(app.Node)
	var unknown []setting
	for key, s := range f.values {
		if !isKnown(key, s, flags) {
			unknown = append(unknown, s)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.SortFunc(unknown, func(a, b setting) int { return cmp.Or(a.Line-b.Line, cmp.Compare(a.path, b.path)) })
	names := slices.Collect(maps.Keys(flags))
	var parts []string
	outer := ""
	for _, s := range unknown {
		if outer != "" && strings.HasPrefix(s.path, outer+".") {
			continue // the outer setting is reported
		}
		outer = s.path
		part := fmt.Sprintf("%s (line %d)", s.path, s.Line)
		if near := similar.Names(canonicalName(s.path), names); len(near) > 0 {
			part += ", did you mean " + strings.Join(near, " or ") + "?"
		}
		parts = append(parts, part)
	}
	return fmt.Errorf("%s: unknown settings: %s; %s --help lists the settings", f.name, strings.Join(parts, ", "), app.Name)
}

// isKnown reports whether the key is a flag, a mapping that contains flags, or an entry of a flag that is a map.
func isKnown(key string, s setting, flags map[string]*kong.Flag) bool {
	if _, ok := flags[key]; ok {
		return true
	}
	for name, flag := range flags {
		if s.Kind == yaml.MappingNode && strings.HasPrefix(name, key+"-") || flag.IsMap() && strings.HasPrefix(key, name+"-") {
			return true
		}
	}
	return false
}

// fileFlags returns the flags that a file may set, of all commands.
func fileFlags(n *kong.Node) map[string]*kong.Flag {
	flags := map[string]*kong.Flag{}
	for _, flag := range n.Flags {
		switch flag.Name {
		case "help", "config", "version":
		default:
			flags[canonicalName(flag.Name)] = flag
		}
	}
	for _, child := range n.Children {
		maps.Copy(flags, fileFlags(child))
	}
	return flags
}
