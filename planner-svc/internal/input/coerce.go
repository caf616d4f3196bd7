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
	text, kind := strictjson.Content(raw), strictjson.Kind(raw)
	if v, ok := enumMember(p.Enum, text); ok {
		return v, true
	}
	switch {
	case kind == "number" && p.Takes("integer") && !p.Takes("number"):
		if m := wholeNumber.FindStringSubmatch(raw); m != nil {
			return m[1], true
		}
		return raw, false
	case p.Takes(kind), kind == "number" && p.Takes("integer"):
		return raw, true
	case kind == "string":
		return fromText(p, text)
	case p.Takes("string") && (kind == "number" || kind == "boolean"):
		return strictjson.Quote(raw), true
	case p.Takes("array") && kind != "null":
		return strictjson.Array([]string{raw}), true
	}
	return raw, false
}

// fromText makes something else than a string of a text.
func fromText(p *catalog.Property, text string) (string, bool) {
	trimmed := strings.TrimSpace(text)
	digits := strings.ReplaceAll(trimmed, ",", "")
	if m := wholeNumber.FindStringSubmatch(digits); m != nil && m[1] == digits && (p.Takes("integer") || p.Takes("number")) {
		return digits, true
	}
	if p.Takes("number") && strictjson.Kind(digits) == "number" && json.Valid([]byte(digits)) {
		return digits, true
	}
	if b, ok := booleans[strings.ToLower(trimmed)]; ok && p.Takes("boolean") {
		return b, true
	}
	if kind := strictjson.Kind(trimmed); (kind == "array" || kind == "object") && p.Takes(kind) && json.Valid([]byte(trimmed)) {
		return strictjson.Compact(trimmed), true
	}
	if p.Takes("array") {
		return textItems(p, trimmed)
	}
	return strictjson.Quote(text), false
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
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		raw, ok := Coerce(item, strictjson.Quote(part))
		if !ok {
			return strictjson.Quote(text), false
		}
		items = append(items, raw)
	}
	return strictjson.Array(items), len(items) > 0
}

// enumMember finds the member of an enum that a text is, first in its own case and then in any.
func enumMember(enum, text string) (string, bool) {
	for raw := range strictjson.Items(enum) {
		if strictjson.Content(raw) == text {
			return raw, true
		}
	}
	for raw := range strictjson.Items(enum) {
		if strings.EqualFold(strictjson.Content(raw), strings.TrimSpace(text)) {
			return raw, true
		}
	}
	return "", false
}
