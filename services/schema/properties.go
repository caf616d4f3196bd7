package schema

import (
	"slices"
	"strings"

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

// Takes reports whether values of a JSON type are taken. A property without a type takes all.
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
	p.Type = s.typeOf(target, 0)
	p.Default = member(raw, target, "default")
	p.Enum = member(raw, target, "enum")
	if d := member(raw, target, "description"); strictjson.Kind(d) == "string" {
		p.Description = strictjson.Content(d)
	}
	return p
}

// member looks a keyword up beside a reference, and then where the reference leads.
func member(raw, target, keyword string) string {
	if v, ok := strictjson.Member(raw, keyword); ok {
		return v
	}
	v, _ := strictjson.Member(target, keyword)
	return v
}

// typeOf reads the type keyword, and else what the alternatives, the constant or the enum say.
func (s *Schema) typeOf(raw string, depth int) string {
	const deepest = 8
	if depth > deepest {
		return ""
	}
	if t, ok := strictjson.Member(raw, "type"); ok {
		return joinTypes(t)
	}
	var found []string
	for _, keyword := range []string{"anyOf", "oneOf", "allOf"} {
		branches, _ := strictjson.Member(raw, keyword)
		for branch := range strictjson.Items(branches) {
			found = append(found, strings.Split(s.typeOf(s.follow(branch), depth+1), "|")...)
		}
	}
	if c, ok := strictjson.Member(raw, "const"); ok {
		found = append(found, strictjson.Kind(c))
	}
	values, _ := strictjson.Member(raw, "enum")
	for v := range strictjson.Items(values) {
		found = append(found, strictjson.Kind(v))
	}
	return joinUnique(found)
}

func joinTypes(t string) string {
	if strictjson.Kind(t) == "string" {
		return strictjson.Content(t)
	}
	var types []string
	for one := range strictjson.Items(t) {
		types = append(types, strictjson.Content(one))
	}
	return joinUnique(types)
}

func joinUnique(types []string) string {
	var unique []string
	for _, t := range types {
		if t != "" && !slices.Contains(unique, t) {
			unique = append(unique, t)
		}
	}
	return strings.Join(unique, "|")
}

// follow goes where a `$ref` within the document leads; the schema itself if there is none, or if the reference is
// of a kind that only the validator understands (anchors, ids).
func (s *Schema) follow(raw string) string {
	const longest = 16
	for range longest {
		ref, ok := strictjson.Member(raw, "$ref")
		if !ok || strictjson.Kind(ref) != "string" {
			return raw
		}
		path, ok := strings.CutPrefix(strictjson.Content(ref), "#/")
		if !ok {
			return raw
		}
		target, ok := walk(s.raw, strings.Split(path, "/"))
		if !ok {
			return raw
		}
		raw = target
	}
	return raw
}

func walk(raw string, steps []string) (string, bool) {
	unescape := strings.NewReplacer("~1", "/", "~0", "~", "%25", "%", "%22", `"`, "%20", " ")
	for _, step := range steps {
		next, ok := strictjson.Member(raw, unescape.Replace(step))
		if !ok {
			return "", false
		}
		raw = next
	}
	return raw, true
}
