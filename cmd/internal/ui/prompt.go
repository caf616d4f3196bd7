package ui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
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
	switch {
	case err != nil:
		p.Complain("not used: %s", Line(err.Error()))
		return current, nil
	case text == compact(current):
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
