package modeltest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// problem is what is wrong with a request, as a provider reports it.
type problem struct {
	status  int
	kind    string // Anthropic's error type
	code    string // OpenAI's error code
	param   string
	message string
}

// catch runs a check and returns the problem that the check found, or nil.
func catch(check func()) (p *problem) {
	defer func() {
		if caught := recover(); caught != nil {
			p = caught.(*problem) //nolint:forcetypeassert // any other value is a bug and panics again
		}
	}()
	check()
	return nil
}

// refuse ends the check of a request by a panic, which catch recovers.
func refuse(param, format string, args ...any) { panic(bad(param, format, args...)) }

func bad(param, format string, args ...any) *problem {
	return &problem{status: 400, kind: "invalid_request_error", param: param, message: fmt.Sprintf(format, args...)}
}

// decode reads an object and refuses unknown fields. where names the object in errors; unknown is the format of the error for a field.
func decode(raw json.RawMessage, into any, where, unknown string) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	err := dec.Decode(into)
	if err == nil {
		return
	}
	if _, field, ok := strings.Cut(err.Error(), "unknown field "); ok {
		refuse(where, unknown, strings.Trim(field, `"`))
	}
	refuse(where, "%s: %v", where, err)
}

var (
	toolName     = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	callID       = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	propertyName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)
)

// read decodes JSON and ignores errors: the JSON is checked elsewhere, or has a free form.
func read[T any](raw json.RawMessage) (v T) {
	_ = json.Unmarshal(raw, &v)
	return v
}

// schema is a JSON Schema.
type schema map[string]json.RawMessage

func (s schema) kinds() []string {
	if kind := read[string](s["type"]); kind != "" {
		return []string{kind}
	}
	return read[[]string](s["type"])
}

// checkParameters checks the rules that both providers have for the schemas of tools.
func checkParameters(raw json.RawMessage, where string) schema {
	s := read[schema](raw)
	if !slices.Equal(s.kinds(), []string{"object"}) {
		refuse(where, "%s: schema must be a JSON Schema of 'type: \"object\"'", where)
	}
	for _, key := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
		if s[key] != nil {
			refuse(where, "%s: schema must not have '%s' at the top level", where, key)
		}
	}
	return s
}

// each calls visit for a schema and all schemas in it.
func (s schema) each(path string, visit func(path string, s schema)) {
	if s == nil {
		return
	}
	visit(path, s)
	for _, key := range []string{"properties", "$defs", "definitions"} {
		for name, member := range read[map[string]schema](s[key]) {
			member.each(path+"/"+key+"/"+name, visit)
		}
	}
	read[schema](s["items"]).each(path+"/items", visit)
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		for _, alternative := range read[[]schema](s[key]) {
			alternative.each(path+"/"+key, visit)
		}
	}
}

// strictKeywords are the keywords that OpenAI's strict mode allows.
var strictKeywords = strings.Fields("type properties required additionalProperties items enum const anyOf description title $ref $defs definitions " +
	"pattern format minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minItems maxItems")

// checkStrict checks OpenAI's rules for strict schemas.
func (s schema) checkStrict(where string) {
	s.each("", func(path string, s schema) {
		for key := range s {
			if !slices.Contains(strictKeywords, key) {
				refuse(where, "Invalid schema: In context=(%s), '%s' is not permitted.", path, key)
			}
		}
		if !slices.Contains(s.kinds(), "object") {
			return
		}
		if string(s["additionalProperties"]) != "false" {
			refuse(where, "Invalid schema: In context=(%s), 'additionalProperties' is required to be supplied and to be false.", path)
		}
		required := read[[]string](s["required"])
		for name := range read[map[string]json.RawMessage](s["properties"]) {
			if !slices.Contains(required, name) {
				refuse(where, "Invalid schema: In context=(%s), 'required' is required to be supplied and to be an array including every key in properties. Missing '%s'.", path, name)
			}
		}
	})
}

// ids lists the ids of the calls without a result.
func ids(open map[string]bool) string {
	return strings.Join(slices.Sorted(maps.Keys(open)), ", ")
}

// compact returns JSON without white space.
func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}
