package input

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
)

// Merge returns a copy of in, a step's input. It sets the values that it finds in description, a person's comment, and then the members of content:
// the JSON that a person supplied, or the input of an earlier attempt. A member that is null changes nothing. If content is not an object, it is the value
// of the property that Offending names, and is left out if Offending names several. failure is the error of the earlier attempt, for Offending.
// Values are converted to the schema's types if that loses nothing; members that the schema does not allow are left out.
func Merge(t *catalog.Tool, in *strictjson.Object, content, description, failure string) *strictjson.Object {
	out, tool := in.Clone(), *t
	names := Offending(t, in, failure)
	tool.Props = slices.Clone(t.Props)
	for i := range tool.Props {
		tool.Props[i].Required = slices.Contains(names, tool.Props[i].Name)
	}
	found := ParamsOf(&tool).Fill(Scan(description)).Input
	for _, k := range found.Keys() {
		raw, _ := found.Get(k)
		out.Set(k, raw)
	}
	if _, err := strictjson.ParseObject(content); err != nil && len(names) == 1 {
		content = "{" + strictjson.Quote(names[0]) + ":" + cmp.Or(content, "null") + "}"
	}
	for k, raw := range strictjson.Members(content) {
		p := t.PropLike(k)
		if p != nil {
			k = p.Name
			raw, _ = Coerce(p, raw)
		}
		if raw != "null" && (p != nil || !t.Closed()) {
			out.Set(k, raw)
		}
	}
	return Ordered(t, out)
}

var booleans = map[string]string{"true": "true", "yes": "true", "on": "true", "是": "true", "false": "false", "no": "false", "off": "false", "否": "false"}

// Coerce converts a JSON value to a type that a property takes, if the conversion loses nothing: "3" becomes 3 for an integer, 3 becomes "3" for a
// string, and a single value becomes an array. Otherwise it returns the value unchanged, and false.
func Coerce(p *catalog.Property, raw string) (string, bool) {
	text := strings.TrimSpace(strictjson.Content(raw))
	for member := range strictjson.Items(p.Enum) {
		if strings.EqualFold(strictjson.Content(member), text) {
			return member, true
		}
	}
	forms := []string{raw, strictjson.Quote(raw), strictjson.Array([]string{raw})}
	switch strictjson.Kind(raw) {
	case "null":
		return raw, p.Takes("null")
	case "string":
		forms = []string{raw, strings.ReplaceAll(text, ",", ""), booleans[strings.ToLower(text)], text}
		if !strings.Contains(text, ",") { // with a comma, it may be a list
			forms = append(forms, strictjson.Array([]string{raw}))
		}
	}
	for _, form := range forms {
		kind := strictjson.Kind(form)
		if whole := kind == "number" && !strings.ContainsAny(form, ".eE"); (p.Takes(kind) || whole && p.Takes("integer")) && json.Valid([]byte(form)) {
			return strictjson.Compact(form), true
		}
	}
	return raw, false
}
