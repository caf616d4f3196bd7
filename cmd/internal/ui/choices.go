package ui

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"pawl.dev/services/schema"
)

// choice is a value that a schema lists with a title.
type choice struct {
	Const json.RawMessage `json:"const"`
	Title string          `json:"title"`
}

// listed is the part of a schema that lists values: in the ways of JSON Schema, and in those of MCP's questions.
type listed struct {
	Enum      []json.RawMessage `json:"enum"`
	EnumNames []string          `json:"enumNames"` // titles, beside Enum
	OneOf     []choice          `json:"oneOf"`
	AnyOf     []choice          `json:"anyOf"`
}

// choices are the values, each with its title; none where any other value fits too.
func (l listed) choices() []choice {
	if len(l.Enum) > 0 {
		list := make([]choice, len(l.Enum))
		for i, value := range l.Enum {
			list[i].Const = value
			if len(l.EnumNames) == len(l.Enum) {
				list[i].Title = l.EnumNames[i]
			}
		}
		return list
	}
	list := l.OneOf
	if len(list) == 0 {
		list = l.AnyOf
	}
	if slices.ContainsFunc(list, func(c choice) bool { return c.Const == nil }) {
		return nil
	}
	return list
}

// choose finds the values that a property's schema lists, for itself or for the items of its array.
func (f *Field) choose(p schema.Property) {
	var own listed
	var of struct {
		Items listed `json:"items"`
	}
	_ = json.Unmarshal([]byte(p.Schema), &own) // what does not read so lists nothing
	list := own.choices()
	if len(list) == 0 && slices.Equal(f.Types, []string{"array"}) {
		_ = json.Unmarshal([]byte(p.Schema), &of)
		list = of.Items.choices()
		f.Many = len(list) > 0
	}
	if len(list) == 0 {
		var members []json.RawMessage
		_ = json.Unmarshal([]byte(p.Enum), &members) // a schema that compiled has an array there, or nothing
		list = listed{Enum: members}.choices()
	}
	for _, c := range list {
		if string(c.Const) != "null" {
			f.Enum, f.Titles = append(f.Enum, c.Const), append(f.Titles, c.Title)
		}
	}
}

// Text says whether the field takes any text and nothing else.
func (f Field) Text() bool { return len(f.Enum) == 0 && len(f.Types) == 1 && f.Types[0] == "string" }

// Kind says which values the field takes, for a person.
func (f Field) Kind() string {
	if len(f.Enum) == 0 {
		return strings.Join(f.Types, " or ")
	}
	words := make([]string, len(f.Enum))
	for i, e := range f.Enum {
		words[i] = plain(e)
		if title := f.title(i); title != "" && title != words[i] {
			words[i] += " = " + title
		}
	}
	text := strings.Join(words, " | ")
	if f.Many {
		text += "; several with commas"
	}
	return text
}

func (f Field) title(i int) string {
	if i < len(f.Titles) {
		return f.Titles[i]
	}
	return ""
}

// member finds the value that text means: by the value itself, then by its title.
func (f Field) member(text string) (json.RawMessage, error) {
	for _, e := range f.Enum {
		if text == plain(e) || text == string(e) {
			return e, nil
		}
	}
	for i, e := range f.Enum {
		if title := f.title(i); title != "" && strings.EqualFold(text, title) {
			return e, nil
		}
	}
	return nil, fmt.Errorf("%q is none of %s", text, f.Kind())
}

// members is an array of values: as JSON, or with commas between them.
func (f Field) members(text string) (json.RawMessage, error) {
	if value, ok := document(strings.TrimSpace(text), '['); ok {
		return value, nil
	}
	list := []json.RawMessage{}
	if one, err := f.member(text); err == nil {
		return marshal(append(list, one)) // a title may have a comma
	}
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		value, err := f.member(word)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return marshal(list)
}

// Check says what is wrong with a value by the property's own schema: its type, bounds, lengths and format. A schema that
// cannot be used alone, because it refers to others, says nothing here.
func (f Field) Check(value json.RawMessage) error {
	if f.Schema == "" {
		return nil
	}
	s, err := schema.Compile(f.Schema)
	if err != nil {
		return nil //nolint:nilerr // the whole answer is checked later
	}
	var invalid *schema.Invalid
	if errors.As(s.Validate(string(value)), &invalid) {
		return invalid
	}
	return nil
}
