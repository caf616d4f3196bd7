package schema

import (
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"pawl.dev/services/strictjson"
)

// Property is one member of the object that a schema describes.
type Property struct {
	Name        string
	Type        string // `string`, `integer` …; several are joined with |; "" if the schema does not say
	Description string
	Required    bool
	Default     string // as written in the schema; "" if none
	Enum        string // the array as written in the schema; "" if none
	Schema      string // the property's whole schema, as written
}

// Takes reports whether the property takes values of a JSON type. A property without a type takes all.
func (p *Property) Takes(kind string) bool {
	for t := range strings.SplitSeq(p.Type, "|") {
		if t == kind {
			return true
		}
	}
	return p.Type == ""
}

// Properties returns the members that the schema names at its top level, in the order in which it names them. References
// within the schema are followed. The list is shared and must not be changed.
func (s *Schema) Properties() []Property {
	if s.compiled == nil {
		return nil
	}
	return s.properties()
}

func (s *Schema) readProperties() []Property {
	top := s.follow(s.raw)
	required := map[string]bool{}
	if names, ok := strictjson.Member(top, "required"); ok {
		for name := range strictjson.Items(names) {
			required[strictjson.Content(name)] = true
		}
	}
	members, _ := strictjson.Member(top, "properties")
	var props []Property
	for name, raw := range strictjson.Members(members) {
		p := s.property(raw)
		p.Name, p.Required = name, required[name]
		props = append(props, p)
	}
	return props
}

func (s *Schema) property(raw string) Property {
	p := Property{Schema: raw}
	target := s.follow(raw)
	p.Type = strings.Join(s.types(nil, target, map[string]bool{}), "|")
	p.Default = member(raw, target, "default")
	p.Enum = member(raw, target, "enum")
	if d := member(raw, target, "description"); strictjson.Kind(d) == "string" {
		p.Description = strictjson.Content(d)
	}
	return p
}

// member looks up a keyword in a schema, and then in the target of its reference.
func member(raw, target, keyword string) string {
	if v, ok := strictjson.Member(raw, keyword); ok {
		return v
	}
	v, _ := strictjson.Member(target, keyword)
	return v
}

// types appends the types that a schema names to known: those of its type keyword, or else those of its alternatives, constant or enum.
// Schemas in seen are skipped.
func (s *Schema) types(known []string, raw string, seen map[string]bool) []string {
	if seen[raw] {
		return known
	}
	seen[raw] = true
	add := func(name string) {
		if name != "" && !slices.Contains(known, name) {
			known = append(known, name)
		}
	}
	if t, ok := strictjson.Member(raw, "type"); ok {
		if strictjson.Kind(t) == "string" {
			add(strictjson.Content(t))
		}
		for name := range strictjson.Items(t) {
			add(strictjson.Content(name))
		}
		return known
	}
	for _, keyword := range []string{"anyOf", "oneOf", "allOf"} {
		branches, _ := strictjson.Member(raw, keyword)
		for branch := range strictjson.Items(branches) {
			known = s.types(known, s.follow(branch), seen)
		}
	}
	if c, ok := strictjson.Member(raw, "const"); ok {
		add(strictjson.Kind(c))
	}
	values, _ := strictjson.Member(raw, "enum")
	for v := range strictjson.Items(values) {
		add(strictjson.Kind(v))
	}
	return known
}

// follow returns the schema to which a `$ref` within the document leads. It returns the schema itself if it has no `$ref`, or one that
// only the validator understands (anchors, ids).
func (s *Schema) follow(raw string) string {
	const maxRefs = 16
	for range maxRefs {
		ref, _ := strictjson.Member(raw, "$ref")
		path, err := url.PathUnescape(strictjson.Content(ref))
		if err != nil || !strings.HasPrefix(path, "#/") {
			return raw
		}
		target := s.raw
		for step := range jsontext.Pointer(path[1:]).Tokens() {
			var ok bool
			if target, ok = strictjson.Member(target, step); !ok {
				return raw
			}
		}
		raw = target
	}
	return raw
}
