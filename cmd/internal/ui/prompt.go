package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"pawl.dev/services/strictjson"
)

// Prompter asks a person questions and reads the answers, one line each.
type Prompter struct {
	Lines *Lines
	Out   io.Writer
	Style Style
	// Edit lets the person edit a text; nil: they type it on one line instead.
	Edit func(ctx context.Context, text string) (string, error)
	// Alias returns a tool's name for the person; nil: its id.
	Alias func(toolID string) string
	Now   func() time.Time
	// Columns is the width of the terminal; 0 if there is none.
	Columns int
	// Command runs a line that is a command instead of an answer, and reports whether it is one; nil: there are no commands.
	Command func(ctx context.Context, line string) bool
	// Subject is printed before the choices of a menu; it may be empty.
	Subject string

	draft     draft
	setPrompt func(string) // of the editor; nil if there is none
	mu        sync.Mutex   // guards asked
	asked     string       // the open question, in the terminal's last rows; else ""
}

// Choice is one answer of a menu.
type Choice struct {
	Word  string   // the answer; its first letter is enough
	Label string   // text after the word in the menu; may be empty
	Also  []string // synonyms of Word
	Means string   // the explanation that ? shows
}

// unbroken takes the place of a space at which Wrap must not break a line.
const unbroken = "\u00a0"

// Choose shows a menu and returns the Word of the chosen answer.
func (p *Prompter) Choose(ctx context.Context, choices ...Choice) (string, error) {
	labels, letters := make([]string, len(choices)), make([]string, len(choices))
	for i, c := range choices {
		letters[i] = c.Word[:1]
		labels[i] = strings.ReplaceAll(strings.TrimSpace("["+c.Word[:1]+"]"+c.Word[1:]+" "+c.Label), " ", unbroken)
	}
	menu := strings.ReplaceAll(Wrap(Line(p.Subject)+strings.Join(labels, ", ")+","+unbroken+"?:"+unbroken, p.Columns, 4, 4), unbroken, " ")
	for {
		text, err := p.Read(ctx, "  "+p.Style.Yellow("?")+" "+menu)
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

// Yes asks the person to type yes in full, before an action that cannot be undone.
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

// Read prints the question and returns the next line that is not a command, trimmed.
func (p *Prompter) Read(ctx context.Context, question string) (string, error) {
	for {
		text, err := p.readLine(ctx, question)
		if err != nil || p.Command == nil || !p.Command(ctx, text) {
			return text, err
		}
	}
}

func (p *Prompter) readLine(ctx context.Context, question string) (string, error) {
	if p.setPrompt != nil {
		p.setPrompt("")
		defer p.setPrompt(linePrompt)
	}
	p.mu.Lock()
	p.asked = question
	p.Print("%s", question)
	p.mu.Unlock()
	text, err := p.Lines.Read(ctx)
	p.mu.Lock()
	p.asked = ""
	p.mu.Unlock()
	return strings.TrimSpace(text), err
}

// asking reports whether a question is open.
func (p *Prompter) asking() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked != ""
}

// Repeat prints the question again that was overwritten while the person is asked. Unlike the other methods, it is for another goroutine.
func (p *Prompter) Repeat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Print("%s", p.asked)
}

// escape matches a sequence that sets a colour.
var escape = regexp.MustCompile("\x1b\\[[0-9;]*m")

// Rows returns how many rows of the terminal the open question takes; 1 without one. Like Repeat, it is for another goroutine.
func (p *Prompter) Rows() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	rows := 0
	for line := range strings.SplitSeq(escape.ReplaceAllString(p.asked, ""), "\n") {
		rows++
		if p.Columns > 0 {
			rows += max(Width(line)-1, 0) / p.Columns
		}
	}
	return rows
}

// Print writes to the terminal. It ignores errors: if the terminal is gone, reading the answer fails.
func (p *Prompter) Print(format string, args ...any) { _, _ = fmt.Fprintf(p.Out, format, args...) }

// Complain prints why an answer is not accepted.
func (p *Prompter) Complain(format string, args ...any) {
	p.Print("    %s\n", p.Style.Red(fmt.Sprintf(format, args...)))
}

// Tool returns a tool's name for the person, safe to print.
func (p *Prompter) Tool(id string) string {
	if p.Alias != nil {
		id = p.Alias(id)
	}
	return Line(id)
}

// PrintExpiry prints when the question expires; nothing if deadline is nil.
func (p *Prompter) PrintExpiry(deadline *timestamppb.Timestamp) {
	if deadline != nil {
		p.Print("    %s\n", p.Style.Yellow("expires in "+Duration(deadline.AsTime().Sub(p.Now()))))
	}
}

const (
	// emptyText is the input for an empty text.
	emptyText = `""`
	// byParts is the input that requests a question for each item of an array, or for each property of an object.
	byParts = "+"
)

// Value asks for one value until it is valid. For an empty line it returns nil, or prints requirement and asks again if requirement is not "".
func (p *Prompter) Value(ctx context.Context, f Field, requirement string) (json.RawMessage, error) {
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
		if err != nil || text == "" && requirement == "" {
			return nil, err
		}
		if text == "" {
			p.Complain("%s", requirement)
			continue
		}
		var value json.RawMessage
		if text == byParts && parts != nil {
			if value, err = p.partByPart(ctx, f, parts); err != nil {
				return nil, err
			}
		} else {
			value, err = f.parseTyped(text)
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

// parseTyped parses a line that a person typed.
func (f Field) parseTyped(text string) (json.RawMessage, error) {
	if text == emptyText && f.IsText() {
		text = ""
	}
	return f.Parse(text)
}

// parts returns the properties of an object, or a field named item for the items of an array; nil if the schema has neither.
func (f Field) parts() []Field {
	var s struct {
		Items      json.RawMessage `json:"items"`
		Properties json.RawMessage `json:"properties"`
	}
	if len(f.Types) != 1 || f.Many || json.Unmarshal([]byte(f.Schema), &s) != nil {
		return nil
	}
	objectSchema := ""
	switch {
	case f.Types[0] == "array" && s.Items != nil:
		objectSchema = `{"type":"object","properties":{"item":` + string(s.Items) + `}}`
	case f.Types[0] == "object" && s.Properties != nil:
		objectSchema = f.Schema
	}
	fields, err := Fields(objectSchema)
	if objectSchema == "" || err != nil {
		return nil
	}
	return fields
}

// partByPart asks for an array item by item, up to an empty line, or for an object property by property.
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

// object asks for each field, required ones first, and returns the JSON object. An empty line takes the field's default, or else omits an
// optional field. prefix is the name of the enclosing object with a dot, or "".
func (p *Prompter) object(ctx context.Context, fields []Field, prefix string) (json.RawMessage, error) {
	optional := func(f Field) bool { return !f.Required }
	fields = append(slices.DeleteFunc(slices.Clone(fields), optional), slices.DeleteFunc(slices.Clone(fields), func(f Field) bool { return f.Required })...)
	object := map[string]json.RawMessage{}
	for _, f := range fields {
		name := f.Name
		f.Name, f.Description = prefix+name, strings.TrimSpace(f.Description+emptyHint(f))
		value, err := p.Value(ctx, f, requirementOf(f))
		if err != nil {
			return nil, err
		}
		if value == nil {
			value = f.Default
		}
		if value != nil {
			if p.draft.values != nil {
				p.draft.values[f.Name] = value
			}
			object[name] = value
		}
	}
	raw, err := strictjson.Marshal(object)
	return json.RawMessage(raw), err
}

// requirementOf returns the message that a field is required, with advice on how to enter an empty value; "" if the line may be empty.
func requirementOf(f Field) string {
	text := Line(f.Name) + " is required"
	switch {
	case !f.Required || f.Default != nil:
		return ""
	case f.IsText() && f.Check(json.RawMessage(emptyText)) == nil:
		return text + "; " + emptyText + " is an empty text"
	case f.Many && f.Check(json.RawMessage("[]")) == nil:
		return text + "; [] is an empty list"
	}
	return text
}

// emptyHint explains what an empty line means for a field.
func emptyHint(f Field) string {
	switch {
	case f.Default != nil:
		return " [empty: " + CompactJSON(string(f.Default)) + "]"
	case !f.Required:
		return " [may be empty]"
	}
	return ""
}

// Input is an MCP server's request for input during a call (elicitation).
type Input struct {
	ID       string // of the question
	Server   string // the server that asks
	Schema   string // JSON Schema of the answer
	URL      string // an address to open, instead of a schema
	Deadline *timestamppb.Timestamp
	// OwnCall is set if the call belongs to this command and ends with it, so that the person cannot answer later.
	OwnCall bool
}

// InputAction is the person's decision.
type InputAction int

// The possible decisions.
const (
	InputLeave   InputAction = iota // leave the question open or, if the call is the command's own, cancel the call
	InputDecline                    // decline to answer
	InputAccept                     // answer, with the content
)

// draft keeps the values entered for a question, in case the question is asked again.
type draft struct {
	question string
	values   map[string]json.RawMessage
}

// Input asks the person the question of an MCP server. It returns the decision and the answer's content: a JSON object, or "".
func (p *Prompter) Input(ctx context.Context, in Input) (InputAction, string, error) {
	server := Line(in.Server)
	first := Choice{Word: "answer", Means: "fill in what the server asks for"}
	if in.URL != "" {
		first = Choice{Word: "yes", Label: "(done)", Means: "you opened the address and did what the page asks"}
		p.Print("    %s\n    %s\n", p.Style.Dim("the server "+server+" asks you to open this in a browser, if you trust it:"), p.Style.Bold(Line(in.URL)))
	} else {
		p.Print("    %s\n", p.Style.Dim("your answer goes to the server "+server))
	}
	p.PrintExpiry(in.Deadline)
	last := Choice{Word: "detach", Means: "leave the question open and end this command"}
	if in.OwnCall {
		last = Choice{Word: "cancel", Label: "the call", Means: "end the call"}
	}
	word, err := p.Choose(ctx, first, Choice{Word: "no", Means: "decline; the tool goes on without an answer"}, last)
	switch {
	case err != nil:
		return InputLeave, "", err
	case word == "no":
		return InputDecline, "", nil
	case word == last.Word:
		return InputLeave, "", nil
	case word == "yes":
		return InputAccept, "", nil
	}
	content, err := p.form(ctx, in)
	return InputAccept, string(content), err
}

// form asks for each field. An empty line keeps the value that was entered before.
func (p *Prompter) form(ctx context.Context, in Input) (json.RawMessage, error) {
	fields, err := Fields(in.Schema)
	if err != nil {
		return nil, err
	}
	if p.draft.question != in.ID || p.draft.values == nil {
		p.draft = draft{question: in.ID, values: map[string]json.RawMessage{}}
	}
	for i, f := range fields {
		if before, ok := p.draft.values[f.Name]; ok {
			fields[i].Default = before
		}
	}
	return p.object(ctx, fields, "")
}
