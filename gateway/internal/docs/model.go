package docs

import (
	"fmt"
	"html/template"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"pawl.dev/gateway/internal/route"
)

// page is what the template shows.
type page struct {
	Version string
	Intro   []template.HTML // paragraphs
	Groups  []group
	Schemas []schema
	Style   template.CSS
	Script  template.JS
}

// group is the operations of one service, in the order of the contracts.
type group struct {
	ID, Name    string
	Description template.HTML
	Operations  []operation
}

type operation struct {
	ID, RPC      string
	Method, Path string
	Streams      bool
	Description  template.HTML
	Parameters   []field
	BodyType     *typeName
	Body         []field
	AnswerType   typeName
	Answer       []field
	Curl         string
}

type schema struct {
	Name        string
	Description template.HTML
	Fields      []field
}

type field struct {
	Name, In    string
	Type        typeName
	Required    bool
	Description template.HTML
	Values      []string // of an enum
}

// typeName is how a type is shown; Ref is the schema that it links to, Suffix what comes after: [] for a list.
type typeName struct {
	Prefix, Name, Ref, Suffix string
}

// newPage reads the completed document.
func newPage(doc *yaml.Node, routes []*route.Route) (page, error) {
	p := page{Version: text(doc, "info", "version")}
	for paragraph := range strings.SplitSeq(text(doc, "info", "description"), "\n\n") {
		p.Intro = append(p.Intro, inline(tidy(paragraph)))
	}
	operations := byID(doc)
	index := map[string]int{}
	for _, rt := range routes {
		tag := string(rt.RPC.Parent().Name())
		i, known := index[tag]
		if !known {
			i = len(p.Groups)
			index[tag] = i
			p.Groups = append(p.Groups, newGroup(doc, tag))
		}
		op, err := newOperation(doc, operations[operationID(rt)], rt)
		if err != nil {
			return page{}, err
		}
		p.Groups[i].Operations = append(p.Groups[i].Operations, op)
	}
	for name, s := range members(get(doc, "components", "schemas")) {
		p.Schemas = append(p.Schemas, schema{Name: name, Description: inline(text(s, "description")), Fields: properties(s)})
	}
	return p, nil
}

func newGroup(doc *yaml.Node, tag string) group {
	g := group{ID: tag, Name: tag}
	for _, t := range items(get(doc, "tags")) {
		if text(t, "name") == tag {
			g.Name, g.Description = text(t, "x-displayName"), inline(text(t, "description"))
		}
	}
	return g
}

func newOperation(doc *yaml.Node, at *located, rt *route.Route) (operation, error) {
	op := operation{
		ID: operationID(rt), RPC: fmt.Sprintf("%s.%s", rt.RPC.Parent().Name(), rt.RPC.Name()),
		Method: at.method, Path: at.path, Streams: rt.Streams() && !rt.Document(),
		Description: inline(text(at.node, "description")),
	}
	inPath := map[string]bool{}
	for _, p := range items(get(at.node, "parameters")) {
		f := newField(text(p, "name"), text(p, "description"), member(p, "schema"))
		f.In, f.Required = text(p, "in"), text(p, "required") == "true"
		inPath[f.Name] = inPath[f.Name] || f.In == "path"
		op.Parameters = append(op.Parameters, f)
	}
	var example string
	if content := get(at.node, "requestBody", "content", "application/json"); content != nil {
		name := typeOf(member(content, "schema"))
		op.BodyType = &name
		for _, f := range properties(resolve(doc, member(content, "schema"))) {
			if !inPath[f.Name] {
				op.Body = append(op.Body, f)
			}
		}
		var err error
		if example, err = bodyExample(doc, content, inPath); err != nil {
			return operation{}, fmt.Errorf("make an example for %s: %w", op.ID, err)
		}
	}
	for _, content := range members(get(at.node, "responses", "200", "content")) {
		op.AnswerType = typeOf(member(content, "schema"))
		op.Answer = properties(resolve(doc, member(content, "schema")))
	}
	op.Curl = curl(op, example)
	return op, nil
}

func properties(s *yaml.Node) []field {
	var fields []field
	for name, p := range members(member(s, "properties")) {
		fields = append(fields, newField(name, text(p, "description"), p))
	}
	return fields
}

func newField(name, description string, s *yaml.Node) field {
	f := field{Name: name, Type: typeOf(s), Description: inline(description)}
	enum := member(s, "enum")
	if enum == nil {
		enum = get(s, "items", "enum")
	}
	for _, v := range items(enum) {
		if !strings.HasSuffix(v.Value, "_UNSPECIFIED") {
			f.Values = append(f.Values, v.Value)
		}
	}
	return f
}

const refPrefix = "#/components/schemas/"

func typeOf(s *yaml.Node) typeName {
	if all := items(member(s, "allOf")); len(all) == 1 {
		s = all[0]
	}
	if ref, ok := strings.CutPrefix(text(s, "$ref"), refPrefix); ok {
		return typeName{Name: ref, Ref: ref}
	}
	kind, format := text(s, "type"), text(s, "format")
	switch {
	case kind == "array":
		t := typeOf(member(s, "items"))
		t.Suffix += "[]"
		return t
	case kind == "object" && member(s, "additionalProperties") != nil:
		t := typeOf(member(s, "additionalProperties"))
		if t.Name == "" {
			return typeName{Name: "object"}
		}
		t.Prefix = "map of "
		return t
	case format == "date-time" || format == "bytes" || format == "uri":
		return typeName{Name: kind + ", " + format}
	case format == "enum":
		return typeName{Name: "enum"}
	}
	return typeName{Name: kind}
}

// resolve follows a reference.
func resolve(doc, s *yaml.Node) *yaml.Node {
	if ref := typeOf(s).Ref; ref != "" && text(s, "type") != "array" {
		return get(doc, "components", "schemas", ref)
	}
	return s
}

var inCode = regexp.MustCompile("`([^`]+)`")

// inline is text with its `code` marked up.
func inline(s string) template.HTML {
	escaped := template.HTMLEscapeString(s)
	marked := inCode.ReplaceAllString(escaped, "<code>$1</code>")
	return template.HTML(marked) //nolint:gosec // escaped above, and of our own contracts
}
