package input

import (
	"errors"
	"slices"
	"strings"

	"pawl.dev/services/schema"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
)

// Offending returns the names of the properties that a person should look at: those that are required and missing, those that the schema refuses, and
// those that the error names; else those whose value it quotes; else all that are required, else all.
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
	if names := namesOf(t, func(p *catalog.Property) bool { return found[p.Name] || mentions(lower, p.Name) }); len(names) > 0 {
		return names
	}
	if names := byValue(t, in, failure); len(names) > 0 {
		return names
	}
	if names := namesOf(t, func(p *catalog.Property) bool { return p.Required }); len(names) > 0 {
		return names
	}
	return namesOf(t, func(*catalog.Property) bool { return true })
}

// namesOf returns the names of the properties that are meant, in the schema's order.
func namesOf(t *catalog.Tool, meant func(*catalog.Property) bool) []string {
	var names []string
	for i := range t.Props {
		if meant(&t.Props[i]) {
			names = append(names, t.Props[i].Name)
		}
	}
	return names
}

// naming is how errors name a property: $ stands for its name.
var naming = strings.Split(`"$"|'$'|`+"`$`"+`|/$"|$ is required|missing $|invalid $|$ must|$ is invalid|$:|property $|field $|parameter $|argument $|参数 $|缺少 $|缺少$`, "|")

// mentions reports whether an error names a property. Names that are ordinary words count only in quotation marks or beside words that speak of
// properties.
func mentions(failure, name string) bool {
	name = strings.ToLower(name)
	if strings.ContainsAny(name, "_-") {
		return catalog.ContainsWord(failure, name)
	}
	return slices.ContainsFunc(naming, func(form string) bool {
		i := strings.Index(failure, strings.ReplaceAll(form, "$", name))
		return i >= 0 && !catalog.IsWordByte(failure, i-1)
	})
}

// byValue finds properties whose value the error quotes, such as the path that was not found.
func byValue(t *catalog.Tool, in *strictjson.Object, failure string) []string {
	return namesOf(t, func(p *catalog.Property) bool {
		raw, _ := in.Get(p.Name)
		text := strictjson.Content(raw)
		return len(text) > 1 && strings.Contains(failure, text)
	})
}

// problems returns what is wrong with an input by the tool's schema.
func problems(t *catalog.Tool, in *strictjson.Object) []schema.Problem {
	var invalid *schema.Invalid
	if t.Schema == nil || !errors.As(t.Schema.Validate(in.String()), &invalid) {
		return nil
	}
	return invalid.Problems
}

// Form returns the JSON Schema of an object with the named properties of a tool, each nullable (A16), with titles and descriptions kept, none required.
func Form(t *catalog.Tool, names []string) string {
	source, err := strictjson.ParseObject(t.GetInputSchemaJson())
	if err != nil {
		source = &strictjson.Object{}
	}
	props := &strictjson.Object{}
	for _, name := range names {
		p := t.Prop(name)
		if p == nil {
			continue
		}
		props.Set(name, nullable(p.Schema))
		if _, err := schema.Compile(form(source, props)); err != nil {
			props.Set(name, members(p.Schema, "title", "description").String()) // it refers to a place that is not in the form
		}
	}
	return form(source, props)
}

func form(source, props *strictjson.Object) string {
	out := &strictjson.Object{}
	out.Set("type", `"object"`)
	out.Set("properties", props.String())
	out.Set("required", "[]")
	for _, defs := range []string{"$defs", "definitions"} {
		if v, ok := source.Get(defs); ok && strings.Contains(props.String(), "#/"+defs+"/") {
			out.Set(defs, v)
		}
	}
	return out.String()
}

// members returns some members of a JSON object.
func members(raw string, keys ...string) *strictjson.Object {
	out := &strictjson.Object{}
	for _, k := range keys {
		if v, ok := strictjson.Member(raw, k); ok {
			out.Set(k, v)
		}
	}
	return out
}

// nullable makes a schema accept null too. What people read stays at the top.
func nullable(raw string) string {
	doc, err := strictjson.ParseObject(raw)
	if err != nil || len(doc.Keys()) == 0 { // true, {}: null is accepted already
		return "{}"
	}
	if !doc.Has("type") || slices.ContainsFunc([]string{"$ref", "anyOf", "oneOf", "allOf", "not", "const", "if"}, doc.Has) {
		out := members(raw, "title", "description", "default")
		for _, k := range out.Keys() {
			doc.Delete(k)
		}
		out.Set("anyOf", strictjson.Array([]string{doc.String(), `{"type":"null"}`}))
		return out.String()
	}
	types, _ := doc.Get("type")
	if strictjson.Kind(types) == "string" {
		types = strictjson.Array([]string{types})
	}
	doc.Set("type", with(types, `"null"`))
	if enum, ok := doc.Get("enum"); ok {
		doc.Set("enum", with(enum, "null"))
	}
	return doc.String()
}

// with adds an item to a JSON array unless it is there.
func with(array, item string) string {
	items := slices.Collect(strictjson.Items(array))
	if !slices.Contains(items, item) {
		items = append(items, item)
	}
	return strictjson.Array(items)
}
