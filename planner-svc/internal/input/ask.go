package input

import (
	"slices"
	"strings"

	"pawl.dev/services/schema"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/services/strictjson"
)

// Offending returns the names of the properties that a person should look at: those that are required and missing, those
// that the schema refuses, those that the error names or whose value it names; else all that are required, else all.
func Offending(t *catalog.Tool, in *strictjson.Object, failure string) []string {
	found := map[string]bool{}
	for _, name := range t.Missing(in) {
		found[name] = true
	}
	for _, problem := range problems(t, in) {
		name, _, _ := strings.Cut(strings.TrimPrefix(problem.Pointer, "/"), "/")
		found[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)] = true
	}
	lower := strings.ToLower(failure)
	for _, p := range t.Props {
		if mentions(lower, p.Name) {
			found[p.Name] = true
		}
	}
	names := pick(t, found)
	if len(names) == 0 {
		names = byValue(t, in, failure)
	}
	if len(names) == 0 {
		names = pick(t, requiredOf(t))
	}
	if len(names) == 0 {
		for _, p := range t.Props {
			names = append(names, p.Name)
		}
	}
	return names
}

// mentions tells whether an error names a property. Names that are ordinary words count only in quotation marks or before
// words that speak of properties.
func mentions(failure, name string) bool {
	name = strings.ToLower(name)
	if strings.ContainsAny(name, "_-") {
		return catalog.ContainsWord(failure, name)
	}
	for _, form := range []string{`"` + name + `"`, "'" + name + "'", "`" + name + "`", "/" + name + `"`, name + " is required", "missing " + name,
		"invalid " + name, name + " must", name + " is invalid", name + ":", "property " + name, "field " + name, "parameter " + name, "argument " + name, "参数 " + name, "缺少 " + name, "缺少" + name} {
		if i := strings.Index(failure, form); i >= 0 && !catalog.IsWordByte(failure, i-1) {
			return true
		}
	}
	return false
}

// byValue finds properties whose value the error quotes, such as the path that was not found.
func byValue(t *catalog.Tool, in *strictjson.Object, failure string) []string {
	var names []string
	for _, p := range t.Props {
		if raw, ok := in.Get(p.Name); ok {
			if v := strictjson.Content(raw); len(v) > 1 && strings.Contains(failure, v) {
				names = append(names, p.Name)
			}
		}
	}
	return names
}

func requiredOf(t *catalog.Tool) map[string]bool {
	m := map[string]bool{}
	for _, p := range t.Props {
		if p.Required {
			m[p.Name] = true
		}
	}
	return m
}

// pick returns the tool's properties that are in a set, in the schema's order.
func pick(t *catalog.Tool, set map[string]bool) []string {
	var names []string
	for _, p := range t.Props {
		if set[p.Name] {
			names = append(names, p.Name)
		}
	}
	return names
}

// Form returns the JSON Schema of an object with the named properties of a tool, each nullable (A16), with titles and
// descriptions kept, none required.
func Form(t *catalog.Tool, names []string) string {
	props := &strictjson.Object{}
	for _, name := range names {
		p := t.Prop(name)
		if p == nil {
			continue
		}
		props.Set(name, nullable(p.Schema))
		if _, err := schema.Compile(form(t.GetInputSchemaJson(), props)); err != nil {
			props.Set(name, words(p.Schema)) // it refers to a place that is not in the form
		}
	}
	return form(t.GetInputSchemaJson(), props)
}

// words keeps of a schema what people read.
func words(raw string) string {
	out := &strictjson.Object{}
	if doc, err := strictjson.ParseObject(raw); err == nil {
		for _, k := range []string{"title", "description"} {
			if v, ok := doc.Get(k); ok {
				out.Set(k, v)
			}
		}
	}
	return out.String()
}

func form(source string, props *strictjson.Object) string {
	out := &strictjson.Object{}
	out.Set("type", `"object"`)
	out.Set("properties", props.String())
	out.Set("required", "[]")
	if doc, err := strictjson.ParseObject(source); err == nil {
		for _, defs := range []string{"$defs", "definitions"} {
			if v, ok := doc.Get(defs); ok && strings.Contains(props.String(), "#/"+defs+"/") {
				out.Set(defs, v)
			}
		}
	}
	return out.String()
}

// nullable makes a schema accept null too.
func nullable(raw string) string {
	doc, err := strictjson.ParseObject(raw)
	if err != nil || len(doc.Keys()) == 0 { // true, {}: null is accepted already
		return "{}"
	}
	t, typed := doc.Get("type")
	simple := typed && !slices.ContainsFunc([]string{"$ref", "anyOf", "oneOf", "allOf", "not", "const", "if"}, doc.Has)
	if !simple {
		return nullableUnion(doc)
	}
	types := slices.Collect(strictjson.Items(t))
	if strictjson.Kind(t) == "string" {
		types = []string{t}
	}
	if !slices.Contains(types, `"null"`) {
		types = append(types, `"null"`)
	}
	out := doc.Clone()
	out.Set("type", strictjson.Array(types))
	if enum, ok := doc.Get("enum"); ok && !slices.Contains(slices.Collect(strictjson.Items(enum)), "null") {
		out.Set("enum", strictjson.Array(append(slices.Collect(strictjson.Items(enum)), "null")))
	}
	return out.String()
}

// nullableUnion puts null beside a schema that is more than a type; what people read stays at the top.
func nullableUnion(doc *strictjson.Object) string {
	out, inner := &strictjson.Object{}, doc.Clone()
	for _, k := range []string{"title", "description", "default"} {
		if v, ok := doc.Get(k); ok {
			out.Set(k, v)
			inner.Delete(k)
		}
	}
	out.Set("anyOf", strictjson.Array([]string{inner.String(), `{"type":"null"}`}))
	return out.String()
}
