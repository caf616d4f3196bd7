package input

import (
	"encoding/json"
	"strings"

	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
)

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
