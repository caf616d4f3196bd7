package ui

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"

	"pawl.dev/services/errs"
	"pawl.dev/services/schema"
)

// Parse turns text into a value of the field; the error says what would be right.
func (f Field) Parse(text string) (json.RawMessage, error) {
	types := f.Types
	switch {
	case f.Many:
		return f.members(text)
	case len(f.Enum) > 0:
		return f.member(text)
	case len(types) == 0: // JSON where the text is JSON, else a string
		types = []string{"json", "string"}
	}
	for _, t := range types {
		if value, ok := parseAs(t, text); ok {
			return value, nil
		}
	}
	if slices.Contains(types, "string") {
		return marshal(text)
	}
	return nil, wants(types)
}

func parseAs(kind, text string) (json.RawMessage, bool) {
	text = strings.TrimSpace(text)
	switch kind {
	case "integer":
		return json.RawMessage(text), integer.MatchString(text)
	case "number":
		return json.RawMessage(text), json.Valid([]byte(text)) && strings.ContainsAny(text[:1], "-0123456789")
	case "boolean":
		return boolean(text)
	case "array":
		return document(text, '[')
	case "object":
		return document(text, '{')
	case "json":
		return document(text, 0)
	}
	return nil, false
}

var integer = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

func boolean(text string) (json.RawMessage, bool) {
	switch strings.ToLower(text) {
	case "true", "yes", "y":
		return json.RawMessage("true"), true
	case "false", "no", "n":
		return json.RawMessage("false"), true
	}
	return nil, false
}

// document is text as compact JSON, if it is some and begins with first (0: any value).
func document(text string, first byte) (json.RawMessage, bool) {
	var out bytes.Buffer
	if text == "" || (first != 0 && text[0] != first) || json.Compact(&out, []byte(text)) != nil {
		return nil, false
	}
	return out.Bytes(), true
}

func wants(types []string) error {
	kind := strings.Join(types, " or ")
	said := map[string]string{
		"integer": "a whole number is wanted", "number": "a number is wanted", "boolean": "yes or no is wanted",
		"array": `a JSON array is wanted, such as ["a", "b"]`, "object": `a JSON object is wanted, such as {"a": 1}`,
		"json": `JSON is wanted; a text stands in double quotes, such as '"text"'`,
	}[kind]
	return errors.New(cmp.Or(said, kind+" is wanted"))
}

// plain is a JSON value as a person types it: a string without its quotes.
func plain(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) == nil {
		return s
	}
	return string(value)
}

// marshal is json.Marshal that leaves <, > and & as they are.
func marshal(v any) (json.RawMessage, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

// Object checks that text is a JSON object and returns it on one line, its numbers exact.
func Object(text string) (string, error) {
	exact, err := schema.ExactObject(nil, strings.TrimSpace(text))
	if err != nil {
		return "", errors.New(errs.From(err).Message)
	}
	return exact, nil
}

// ObjectFlag reads a JSON object that a flag gives, in place or from a file (@FILE); "" stays "".
func ObjectFlag(flag, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	if path, ok := strings.CutPrefix(text, "@"); ok {
		raw, err := os.ReadFile(path)
		if err != nil {
			return "", Usagef("read the %s: %v", flag, err)
		}
		text = string(raw)
	}
	exact, err := Object(text)
	if err != nil {
		return "", Usagef("the %s must be one JSON object: %v", flag, err).
			Then(`give an object such as --%[1]s '{"path": "a.txt"}', or a file with --%[1]s @FILE`, flag)
	}
	return exact, nil
}

func compact(raw string) string {
	var out bytes.Buffer
	switch {
	case strings.TrimSpace(raw) == "":
		return "{}"
	case json.Compact(&out, []byte(raw)) != nil:
		return raw
	}
	return out.String()
}

// JSONText is a text as a JSON value.
func JSONText(text string) json.RawMessage {
	raw, _ := marshal(text) // a string can always be encoded
	return raw
}
