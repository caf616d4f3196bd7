package ui

import (
	"context"
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"
)

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
