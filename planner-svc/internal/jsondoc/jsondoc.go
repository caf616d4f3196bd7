package jsondoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Object is a JSON object whose members are exact JSON text. The zero value is empty.
type Object struct {
	keys   []string
	values map[string]string
}

// Parse reads an object; "" is the empty one. Of a name that occurs twice, the last value counts.
func Parse(text string) (*Object, error) {
	o := &Object{}
	if strings.TrimSpace(text) == "" {
		return o, nil
	}
	dec := json.NewDecoder(strings.NewReader(text))
	first, err := dec.Token()
	if err != nil {
		return nil, fmt.Errorf("read a JSON object: %w", err)
	}
	if first != json.Delim('{') {
		return nil, fmt.Errorf("read a JSON object: it is %s", Kind(text))
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("read a JSON object: %w", err)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, fmt.Errorf("read a JSON object: %w", err)
		}
		o.Set(key.(string), Compact(string(value)))
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("read a JSON object: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("read a JSON object: there is more behind it")
	}
	return o, nil
}

// Keys returns the members' names in order. It is not to be changed.
func (o *Object) Keys() []string { return o.keys }

// Get returns a member's JSON text.
func (o *Object) Get(key string) (string, bool) {
	v, ok := o.values[key]
	return v, ok
}

// Has tells whether there is such a member.
func (o *Object) Has(key string) bool {
	_, ok := o.values[key]
	return ok
}

// Set gives a member a value, at the end if it is new.
func (o *Object) Set(key, raw string) {
	if o.values == nil {
		o.values = map[string]string{}
	}
	if _, ok := o.values[key]; !ok {
		o.keys = append(o.keys, key)
	}
	o.values[key] = raw
}

// Delete removes a member if it is there.
func (o *Object) Delete(key string) {
	if _, ok := o.values[key]; !ok {
		return
	}
	delete(o.values, key)
	o.keys = slices.DeleteFunc(slices.Clone(o.keys), func(k string) bool { return k == key })
}

// Clone returns a copy.
func (o *Object) Clone() *Object {
	c := &Object{}
	for _, k := range o.keys {
		c.Set(k, o.values[k])
	}
	return c
}

// String writes the object as compact JSON.
func (o *Object) String() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, k := range o.keys {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(String(k))
		b.WriteByte(':')
		b.WriteString(o.values[k])
	}
	b.WriteByte('}')
	return b.String()
}

// Kind names the type of JSON text: object, array, string, number, boolean or null; "" where it is empty.
func Kind(raw string) string {
	raw = strings.TrimLeft(raw, " \t\r\n")
	if raw == "" {
		return ""
	}
	switch raw[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

// Marshal writes a value as JSON. Characters that matter only to HTML stay as they are.
func Marshal(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// String writes a text as a JSON string.
func String(s string) string {
	text, err := Marshal(s)
	if err != nil {
		return `""` // a string can always be encoded
	}
	return text
}

// Text returns the content of a JSON string, and every other value as it is written.
func Text(raw string) string {
	var s string
	if Kind(raw) == "string" && json.Unmarshal([]byte(raw), &s) == nil {
		return s
	}
	return raw
}

// Items returns the elements of an array as JSON text; nil where it is none.
func Items(raw string) []string {
	var items []json.RawMessage
	if Kind(raw) != "array" || json.Unmarshal([]byte(raw), &items) != nil {
		return nil
	}
	out := make([]string, len(items))
	for i, item := range items {
		out[i] = Compact(string(item))
	}
	return out
}

// Array writes an array of JSON texts.
func Array(items []string) string {
	return "[" + strings.Join(items, ",") + "]"
}

// Compact removes insignificant space. What is no JSON stays as it is.
func Compact(raw string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(raw)) != nil {
		return raw
	}
	return b.String()
}
