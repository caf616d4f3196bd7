package prompt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"pawl.dev/cmd/internal/render"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// Prompter asks a person.
type Prompter struct {
	Lines *Lines
	Out   io.Writer
	Style render.Style
	// Edit lets the person change a text and returns the new one; nil: they write it on one line instead.
	Edit func(ctx context.Context, text string) (string, error)
	// Alias is how a tool is called here; nil: by its id.
	Alias func(toolID string) string
	Now   func() time.Time
	// OwnCall: what a server asks belongs to a call of this very command, which cannot be left and come back to.
	OwnCall bool

	entered entered
}

// Answer is what the person decided.
type Answer struct {
	// Leave: the wait stays open and the command ends.
	Leave bool
	// Cancel: the task is to end.
	Cancel bool
	// Resume is the answer to send; its task id is not set. Nil where Leave or Cancel is true.
	Resume *executorv1.ResumeTaskRequest
}

var leave = Answer{Leave: true}

// Ask asks for the answer to a wait. The end of the input leaves it open.
func (p *Prompter) Ask(ctx context.Context, wait *executorv1.Wait) (Answer, error) {
	var answer Answer
	var err error
	switch wait.GetKind() {
	case executorv1.WaitKind_WAIT_KIND_APPROVAL:
		answer, err = p.approval(ctx, wait)
	case executorv1.WaitKind_WAIT_KIND_PARAMS:
		answer, err = p.params(ctx, wait)
	case executorv1.WaitKind_WAIT_KIND_OUTCOME:
		answer, err = p.outcome(ctx, wait)
	case executorv1.WaitKind_WAIT_KIND_INPUT:
		answer, err = p.input(ctx, wait)
	case executorv1.WaitKind_WAIT_KIND_PAUSE:
		answer, err = p.paused(ctx, wait)
	default:
		return leave, fmt.Errorf("this version of pawl cannot answer a wait of kind %s", wait.GetKind())
	}
	if errors.Is(err, io.EOF) {
		p.print("\n")
		return leave, nil
	}
	return answer, err
}

// Confirm asks a yes-or-no question; the answer to an empty line is no.
func (p *Prompter) Confirm(ctx context.Context, question string) (bool, error) {
	text, err := p.read(ctx, question+" [y/N] ")
	if err != nil {
		return false, err
	}
	text = strings.ToLower(text)
	return text == "y" || text == "yes", nil
}

func (p *Prompter) read(ctx context.Context, question string) (string, error) {
	p.print("%s", question)
	text, err := p.Lines.Read(ctx)
	return strings.TrimSpace(text), err
}

// print writes to the terminal; one that is gone shows when the answer is read.
func (p *Prompter) print(format string, args ...any) { _, _ = fmt.Fprintf(p.Out, format, args...) }

func (p *Prompter) complain(format string, args ...any) {
	p.print("    %s\n", p.Style.Red(fmt.Sprintf(format, args...)))
}

func (p *Prompter) tool(id string) string {
	if p.Alias != nil {
		id = p.Alias(id)
	}
	return render.Line(id)
}

// lapses says when a wait ends by itself.
func (p *Prompter) lapses(wait *executorv1.Wait) {
	if wait.GetDeadline() == nil {
		return
	}
	left := wait.GetDeadline().AsTime().Sub(p.Now())
	p.print("    %s\n", p.Style.Yellow("lapses in "+render.Duration(left)))
}
