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

// Coerce turns JSON text into what a property takes if nothing is lost by it: "3" becomes 3 for an integer, 3 becomes "3" for a string, and a text
// with commas an array. Else it returns the text as it was, and false.
func Coerce(p *catalog.Property, raw string) (string, bool) {
	text := strings.TrimSpace(strictjson.Content(raw))
	for _, same := range []func(a, b string) bool{func(a, b string) bool { return a == b }, strings.EqualFold} {
		for member := range strictjson.Items(p.Enum) {
			if same(strictjson.Content(member), text) {
				return member, true
			}
		}
	}
	forms := []string{raw, strictjson.Array([]string{raw})}
	switch strictjson.Kind(raw) {
	case "number", "boolean":
		forms = []string{raw, strictjson.Quote(raw), forms[1]}
	case "string":
		forms = []string{raw, strings.ReplaceAll(text, ",", ""), booleans[strings.ToLower(text)], text}
		if itemOf(p) != p {
			forms = append(forms, listOf(p, text))
		}
	}
	for _, form := range forms {
		if m := wholeNumber.FindStringSubmatch(form); m != nil && p.Takes("integer") && !p.Takes("number") {
			return m[1], true
		}
		if p.Takes(strictjson.Kind(form)) && json.Valid([]byte(form)) {
			return strictjson.Compact(form), true
		}
	}
	return raw, false
}

// listOf makes an array of a list with commas.
func listOf(p *catalog.Property, text string) string {
	var out []string
	for part := range strings.SplitSeq(text, ",") {
		raw, ok := Coerce(itemOf(p), strictjson.Quote(strings.TrimSpace(part)))
		if !ok {
			return ""
		}
		out = append(out, raw)
	}
	return strictjson.Array(out)
}
