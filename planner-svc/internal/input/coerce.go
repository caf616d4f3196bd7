package input

import (
	"encoding/json"
	"regexp"
	"strings"

	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
)

var wholeNumber = regexp.MustCompile(`^(-?(?:0|[1-9]\d*))(?:\.0+)?$`)

var booleans = map[string]string{"true": "true", "yes": "true", "on": "true", "是": "true", "false": "false", "no": "false", "off": "false", "否": "false"}

// Coerce turns JSON text into what a property takes if nothing is lost by it: "3" becomes 3 for an integer, 3 becomes "3" for a string. Else it
// returns the text as it was, and false.
func Coerce(p *catalog.Property, raw string) (string, bool) {
	text := strictjson.Content(raw)
	if member, ok := enumMember(p.Enum, text); ok {
		return member, true
	}
	forms := []string{raw}
	switch strictjson.Kind(raw) {
	case "number", "boolean":
		forms = []string{raw, strictjson.Quote(raw), strictjson.Array([]string{raw})}
	case "object", "array":
		forms = []string{raw, strictjson.Array([]string{raw})}
	case "string":
		trimmed := strings.TrimSpace(text)
		forms = []string{raw, strings.ReplaceAll(trimmed, ",", ""), booleans[strings.ToLower(trimmed)], trimmed}
	}
	for _, form := range forms {
		kind := strictjson.Kind(form)
		if m := wholeNumber.FindStringSubmatch(form); m != nil && p.Takes("integer") && !p.Takes("number") {
			return m[1], true
		}
		if p.Takes(kind) && json.Valid([]byte(form)) {
			return strictjson.Compact(form), true
		}
	}
	if strictjson.Kind(raw) == "string" && p.Takes("array") {
		return textItems(p, text)
	}
	return raw, false
}

// textItems makes an array of a list with commas.
func textItems(p *catalog.Property, text string) (string, bool) {
	schema, _ := strictjson.Member(p.Schema, "items")
	kind, _ := strictjson.Member(schema, "type")
	item := &catalog.Property{}
	item.Enum, _ = strictjson.Member(schema, "enum")
	if strictjson.Kind(kind) == "string" {
		item.Type = strictjson.Content(kind)
	}
	var items []string
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' }) {
		raw, ok := Coerce(item, strictjson.Quote(strings.TrimSpace(part)))
		if !ok {
			return strictjson.Quote(text), false
		}
		items = append(items, raw)
	}
	return strictjson.Array(items), len(items) > 0
}

// enumMember finds the member of an enum that a text is, first in its own case and then in any.
func enumMember(enum, text string) (member string, ok bool) {
	for raw := range strictjson.Items(enum) {
		if m := strictjson.Content(raw); m == text {
			return raw, true
		} else if !ok && strings.EqualFold(m, strings.TrimSpace(text)) {
			member, ok = raw, true
		}
	}
	return member, ok
}
