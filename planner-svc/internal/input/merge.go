package input

import (
	"cmp"
	"slices"

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
