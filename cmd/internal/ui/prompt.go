package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"pawl.dev/services/strictjson"
)

// Prompter asks a person questions, line by line.
type Prompter struct {
	Lines *Lines
	Out   io.Writer
	Style Style
	// Edit lets the person change a text and returns the new one; nil: they write it on one line instead.
	Edit func(ctx context.Context, text string) (string, error)
	// Alias returns the name of a tool here; nil: its id.
	Alias func(toolID string) string
	Now   func() time.Time

	entered entered
}

// Choice is one answer of a menu.
type Choice struct {
	Word  string   // what the answer is called; its first letter is enough
	Label string   // in the menu, behind the word; may be empty
	Also  []string // other words for it
	Means string   // shown to who types ?
}

// Choose shows a menu and returns the word of the choice.
func (p *Prompter) Choose(ctx context.Context, choices ...Choice) (string, error) {
	labels, letters := make([]string, len(choices)), make([]string, len(choices))
	for i, c := range choices {
		letters[i] = c.Word[:1]
		labels[i] = strings.TrimSpace("[" + c.Word[:1] + "]" + c.Word[1:] + " " + c.Label)
	}
	for {
		text, err := p.Read(ctx, "  "+p.Style.Yellow("?")+" "+strings.Join(labels, ", ")+", ?: ")
		if err != nil {
			return "", err
		}
		text = strings.ToLower(text)
		for _, c := range choices {
			if text == c.Word || text == c.Word[:1] || slices.Contains(c.Also, text) {
				return c.Word, nil
			}
		}
		if text != "?" {
			p.Complain("answer %s or ?", strings.Join(letters, ", "))
			continue
		}
		for _, c := range choices {
			p.Print("      %s\n", p.Style.Dim(Pad(strings.Join(append([]string{c.Word[:1]}, c.Also...), ", "), 10)+"  "+c.Means))
		}
	}
}

// Confirm asks a yes-or-no question; an empty line is no.
func (p *Prompter) Confirm(ctx context.Context, question string) (bool, error) {
	text, err := p.Read(ctx, question+" [y/N] ")
	return err == nil && slices.Contains([]string{"y", "yes"}, strings.ToLower(text)), err
}

// Yes asks for the word yes in full, before something that cannot be undone.
func (p *Prompter) Yes(ctx context.Context, what string) (bool, error) {
	text, err := p.Read(ctx, "    type yes to "+what+": ")
	if err != nil {
		return false, err
	}
	if text != "yes" {
		p.Complain("not done")
	}
	return text == "yes", nil
}

// Change lets the person change a JSON object and returns what they made of it; the old text if they gave up.
func (p *Prompter) Change(ctx context.Context, current string) (string, error) {
	text, err := p.changed(ctx, current)
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		return current, err
	}
	if err == nil {
		text, err = Object(text)
	}
	was, _ := Object(current)
	switch {
	case err != nil:
		p.Complain("not used: %s", Line(err.Error()))
		return current, nil
	case text == was:
		p.Print("    the input is as it was\n")
		return current, nil
	}
	p.Print("%s\n", PrettyJSON(text, "    "))
	return text, nil
}

func (p *Prompter) changed(ctx context.Context, text string) (string, error) {
	if p.Edit != nil {
		return p.Edit(ctx, strings.TrimSpace(PrettyJSON(text, ""))+"\n")
	}
	line, err := p.Read(ctx, "    new input as JSON on one line (empty: as it was): ")
	if line == "" {
		line = text
	}
	return line, err
}

// Read asks and returns one line without the spaces around it.
func (p *Prompter) Read(ctx context.Context, question string) (string, error) {
	p.Print("%s", question)
	text, err := p.Lines.Read(ctx)
	return strings.TrimSpace(text), err
}

// Print writes to the terminal; a terminal that is gone shows when the answer is read.
func (p *Prompter) Print(format string, args ...any) { _, _ = fmt.Fprintf(p.Out, format, args...) }

// Complain says what is wrong with an answer.
func (p *Prompter) Complain(format string, args ...any) {
	p.Print("    %s\n", p.Style.Red(fmt.Sprintf(format, args...)))
}

// Tool is a tool's name here, safe to print.
func (p *Prompter) Tool(id string) string {
	if p.Alias != nil {
		id = p.Alias(id)
	}
	return Line(id)
}

// Lapses says when a question ends by itself; nil: never.
func (p *Prompter) Lapses(deadline *timestamppb.Timestamp) {
	if deadline != nil {
		p.Print("    %s\n", p.Style.Yellow("lapses in "+Duration(deadline.AsTime().Sub(p.Now()))))
	}
}

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
		return p.object(ctx, parts, f.Name+".")
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
			return array(list...)
		}
		list = append(list, value)
	}
}

// object asks for each field, required ones first, and returns the JSON object; within is the name of the object that it is part of, with a
// dot. An empty line leaves an optional field out, or takes its default.
func (p *Prompter) object(ctx context.Context, fields []Field, within string) (json.RawMessage, error) {
	optional := func(f Field) bool { return !f.Required }
	fields = append(slices.DeleteFunc(slices.Clone(fields), optional), slices.DeleteFunc(slices.Clone(fields), func(f Field) bool { return f.Required })...)
	object := map[string]json.RawMessage{}
	for _, f := range fields {
		name := f.Name
		f.Name, f.Description = within+name, strings.TrimSpace(f.Description+emptyMeans(f))
		value, err := p.Value(ctx, f, insistence(f))
		if err != nil {
			return nil, err
		}
		if value == nil {
			value = f.Default
		}
		if value != nil {
			if p.entered.values != nil {
				p.entered.values[f.Name] = value
			}
			object[name] = value
		}
	}
	raw, err := strictjson.Marshal(object)
	return json.RawMessage(raw), err
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
	return InputAccept, string(content), err
}

// form asks for each field. An empty line keeps what was entered before.
func (p *Prompter) form(ctx context.Context, in Input) (json.RawMessage, error) {
	fields, err := Fields(in.Schema)
	if err != nil {
		return nil, err
	}
	if p.entered.question != in.ID || p.entered.values == nil {
		p.entered = entered{question: in.ID, values: map[string]json.RawMessage{}}
	}
	for i, f := range fields {
		if before, ok := p.entered.values[f.Name]; ok {
			fields[i].Default = before
		}
	}
	return p.object(ctx, fields, "")
}
