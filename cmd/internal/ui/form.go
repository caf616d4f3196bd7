package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	// emptyText is how a person gives an empty text on purpose.
	emptyText = `""`
	// byParts is how a person asks for a question per item of an array, or per property of an object.
	byParts = "+"
)

// Value asks for one value until it fits; nil if the line is empty. If the value is required, insist is the complaint about an
// empty line.
func (p *Prompter) Value(ctx context.Context, f Field, insist string) (json.RawMessage, error) {
	question := "  " + p.Style.Yellow("?") + " " + p.Style.Bold(Line(f.Name))
	parts := f.parts()
	kind := f.Kind()
	if parts != nil {
		kind += "; " + byParts + " enters it part by part"
	}
	if kind != "" {
		question += " (" + Line(kind) + ")"
	}
	if f.Description != "" {
		question += p.Style.Dim(" " + Line(f.Description))
	}
	for {
		text, err := p.Read(ctx, question+": ")
		if err != nil || text == "" && insist == "" {
			return nil, err
		}
		if text == "" {
			p.Complain("%s", insist)
			continue
		}
		var value json.RawMessage
		if text == byParts && parts != nil {
			if value, err = p.partByPart(ctx, f, parts); err != nil {
				return nil, err
			}
		} else {
			value, err = f.typed(text)
		}
		if err == nil {
			err = f.Check(value)
		}
		if err == nil {
			return value, nil
		}
		p.Complain("%s", Line(fmt.Sprint(err)))
	}
}

func (f Field) typed(text string) (json.RawMessage, error) {
	if text == emptyText && f.Text() {
		text = ""
	}
	return f.Parse(text)
}

// parts are the properties of an object, or the one kind of item of an array; nil if the schema does not say.
func (f Field) parts() []Field {
	var s struct {
		Items      json.RawMessage `json:"items"`
		Properties json.RawMessage `json:"properties"`
	}
	if len(f.Types) != 1 || f.Many || json.Unmarshal([]byte(f.Schema), &s) != nil {
		return nil
	}
	of := ""
	switch {
	case f.Types[0] == "array" && s.Items != nil:
		of = `{"type":"object","properties":{"item":` + string(s.Items) + `}}`
	case f.Types[0] == "object" && s.Properties != nil:
		of = f.Schema
	}
	fields, err := Fields(of)
	if of == "" || err != nil {
		return nil
	}
	return fields
}

// partByPart asks for an array item by item, until an empty line, or for an object property by property.
func (p *Prompter) partByPart(ctx context.Context, f Field, parts []Field) (json.RawMessage, error) {
	if f.Types[0] == "object" {
		for i := range parts {
			parts[i].Name = f.Name + "." + parts[i].Name
		}
		object, err := p.object(ctx, parts, func(name string) string { return strings.TrimPrefix(name, f.Name+".") })
		return json.RawMessage(object), err
	}
	list := []json.RawMessage{}
	for {
		item := parts[0]
		item.Name = f.Name + "[" + strconv.Itoa(len(list)+1) + "]"
		item.Description = strings.TrimSpace(item.Description + " [empty: no more]")
		value, err := p.Value(ctx, item, "")
		if err != nil {
			return nil, err
		}
		if value == nil {
			return marshal(list)
		}
		list = append(list, value)
	}
}

// object asks for each field, required ones first, and returns the JSON object. key is a field's name in the object. An empty line leaves
// an optional field out, or takes its default.
func (p *Prompter) object(ctx context.Context, fields []Field, key func(string) string) (string, error) {
	optional := func(f Field) bool { return !f.Required }
	fields = append(slices.DeleteFunc(slices.Clone(fields), optional), slices.DeleteFunc(slices.Clone(fields), func(f Field) bool { return f.Required })...)
	var members []string
	for _, f := range fields {
		f.Description = strings.TrimSpace(f.Description + emptyMeans(f))
		value, err := p.Value(ctx, f, insistence(f))
		if err != nil {
			return "", err
		}
		if value == nil {
			value = f.Default
		}
		if value != nil {
			if p.entered.values != nil {
				p.entered.values[f.Name] = value
			}
			members = append(members, Member(key(f.Name), value))
		}
	}
	return "{" + strings.Join(members, ",") + "}", nil
}

// Member is a member of a JSON object.
func Member(name string, value json.RawMessage) string {
	return string(JSONText(name)) + ":" + string(value)
}

// insistence is the complaint about an empty line for a required field, with how to enter an empty value; "" if the line may be empty.
func insistence(f Field) string {
	text := Line(f.Name) + " is required"
	switch {
	case !f.Required || f.Default != nil:
		return ""
	case f.Text() && f.Check(json.RawMessage(emptyText)) == nil:
		return text + "; " + emptyText + " is an empty text"
	case f.Many && f.Check(json.RawMessage("[]")) == nil:
		return text + "; [] is none of them"
	}
	return text
}

// emptyMeans says what an empty line means.
func emptyMeans(f Field) string {
	switch {
	case f.Default != nil:
		return " [empty: " + CompactJSON(string(f.Default)) + "]"
	case !f.Required:
		return " [may be empty]"
	}
	return ""
}

// Input is a question of an MCP server in the middle of a call.
type Input struct {
	ID       string // of the question
	Server   string // the server that asks
	Schema   string // of the answer
	URL      string // instead of a schema: an address to open
	Deadline *timestamppb.Timestamp
	// OwnCall: the call belongs to this command, which cannot be left and come back to.
	OwnCall bool
}

// InputAction is what the person decided.
type InputAction int

// What a person may decide.
const (
	InputLeave   InputAction = iota // the question stays open
	InputCancel                     // the call is to end
	InputDecline                    // no
	InputAccept                     // yes, with the content
)

// entered is what was entered for a question, kept in case the question is put again: because the answer was refused, or because
// something came in between.
type entered struct {
	question string
	values   map[string]json.RawMessage
}

// Input asks what an MCP server wants to know; the answer's content is a JSON object.
func (p *Prompter) Input(ctx context.Context, in Input) (InputAction, string, error) {
	server := Line(in.Server)
	first := Choice{Word: "answer", Means: "fill in what the server asks for"}
	if in.URL != "" {
		first = Choice{Word: "yes", Label: "(done)", Means: "you opened the address, and did what it asks"}
		p.Print("    %s\n    %s\n", p.Style.Dim("the server "+server+" asks you to open this in a browser, if you trust it:"), p.Style.Bold(Line(in.URL)))
	} else {
		p.Print("    %s\n", p.Style.Dim("what you answer goes to the server "+server))
	}
	p.Lapses(in.Deadline)
	last := Choice{Word: "detach", Means: "leave the question open and end this command"}
	if in.OwnCall {
		last = Choice{Word: "cancel", Label: "the call", Means: "end the call"}
	}
	word, err := p.Choose(ctx, first, Choice{Word: "no", Means: "the tool goes on without"}, last)
	switch {
	case err != nil:
		return InputLeave, "", err
	case word == "no":
		return InputDecline, "", nil
	case word == "cancel":
		return InputCancel, "", nil
	case word == "detach":
		return InputLeave, "", nil
	case word == "yes":
		return InputAccept, "", nil
	}
	content, err := p.form(ctx, in)
	return InputAccept, content, err
}

// form asks for each field. An empty line keeps what was entered before.
func (p *Prompter) form(ctx context.Context, in Input) (string, error) {
	fields, err := Fields(in.Schema)
	if err != nil {
		return "", err
	}
	if p.entered.question != in.ID || p.entered.values == nil {
		p.entered = entered{question: in.ID, values: map[string]json.RawMessage{}}
	}
	for i, f := range fields {
		if before, ok := p.entered.values[f.Name]; ok {
			fields[i].Default = before
		}
	}
	return p.object(ctx, fields, strings.Clone)
}
