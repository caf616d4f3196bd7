package extract

import (
	"encoding/json"
	"math/big"
	"regexp"
	"strings"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/services/strictjson"
)

var intPattern = regexp.MustCompile(`^-?(?:0|[1-9]\d*)$`)

var booleans = map[string]string{"true": "true", "yes": "true", "on": "true", "是": "true", "false": "false", "no": "false", "off": "false", "否": "false"}

// Coerce turns JSON text into what a property takes, where nothing is lost by it: "3" becomes 3 for an integer, 3 becomes "3"
// for a string. It returns false, and the text as it was, where there is no such way.
func Coerce(p *catalog.Property, raw string) (string, bool) {
	if p.Enum != "" {
		if v, ok := enumValue(p.Enum, strictjson.Content(raw)); ok {
			return v, true
		}
	}
	kind := strictjson.Kind(raw)
	switch {
	case kind == "number" && p.Takes("integer") && !p.Takes("number"):
		return wholeNumber(raw)
	case p.Takes(kind), kind == "number" && p.Takes("integer"):
		return raw, true
	case kind == "string":
		return fromText(p, strictjson.Content(raw))
	case p.Takes("string") && (kind == "number" || kind == "boolean"):
		return strictjson.Quote(raw), true
	case p.Takes("array") && kind != "null":
		return strictjson.Array([]string{raw}), true
	}
	return raw, false
}

// CoerceText turns text into what a property takes: a string where it takes one.
func CoerceText(p *catalog.Property, text string) (string, bool) {
	return Coerce(p, strictjson.Quote(text))
}

// fromText makes something else than a string of a text.
func fromText(p *catalog.Property, text string) (string, bool) {
	trimmed := strings.TrimSpace(text)
	if p.Takes("integer") || p.Takes("number") {
		digits := strings.ReplaceAll(trimmed, ",", "")
		if intPattern.MatchString(digits) {
			return digits, true
		}
		if p.Takes("number") && json.Valid([]byte(digits)) && strictjson.Kind(digits) == "number" {
			return digits, true
		}
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
	return strictjson.Quote(text), p.Takes("string")
}

// textItems makes an array of a list with commas.
func textItems(p *catalog.Property, text string) (string, bool) {
	item := itemOf(p)
	var items []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		raw, ok := CoerceText(item, part)
		if !ok {
			return strictjson.Quote(text), false
		}
		items = append(items, raw)
	}
	return strictjson.Array(items), len(items) > 0
}

// itemOf describes the elements of an array property.
func itemOf(p *catalog.Property) *catalog.Property {
	item := &catalog.Property{}
	if doc, err := strictjson.ParseObject(p.Schema); err == nil {
		if raw, ok := doc.Get("items"); ok {
			if inner, err := strictjson.ParseObject(raw); err == nil {
				t, _ := inner.Get("type")
				item.Type = strictjson.Content(t)
				item.Enum, _ = inner.Get("enum")
			}
		}
	}
	if strictjson.Kind(item.Type) == "array" {
		item.Type = ""
	}
	return item
}

// wholeNumber accepts 3, 3.0 and 3e2 as integers and writes them as such.
func wholeNumber(raw string) (string, bool) {
	if intPattern.MatchString(raw) {
		return raw, true
	}
	if len(raw) > 40 { // 1e999999999 is not worth computing
		return raw, false
	}
	r, ok := new(big.Rat).SetString(raw)
	if ok && !strings.ContainsAny(raw, "eE") && r.IsInt() {
		return r.Num().String(), true
	}
	return raw, false
}

// enumValue finds the member of an enum that a text means, in any case.
func enumValue(enum, text string) (string, bool) {
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
