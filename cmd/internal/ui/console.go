package ui

import (
	"context"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// UI is what a command reads from and writes to.
type UI struct {
	In  io.Reader
	Out io.Writer // the result of the command
	Err io.Writer // everything said beside it

	InTTY  bool
	OutTTY bool
	ErrTTY bool

	// JSON prints results as JSON.
	JSON bool
	// Color allows escape sequences for colours on terminals.
	Color bool
	// Live allows a line of Err to be overwritten.
	Live bool
	// Columns returns the width of the terminal now; 0 if there is none.
	Columns func() int
	// Getenv reads the environment.
	Getenv func(string) string
	Now    func() time.Time
	// Edit lets the person change a text; nil if they have no editor.
	Edit func(ctx context.Context, text string) (string, error)
	// Browse opens an address in a browser; nil if there is none.
	Browse func(address string) error

	// Signals hands out interrupts.
	Signals *Signals
	// LeaveNow makes the command end without waiting for anything: the person pressed Ctrl-C twice.
	LeaveNow bool

	lines *Lines
}

// OS returns the UI of this process.
func OS() *UI {
	u := &UI{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTTY:  term.IsTerminal(int(os.Stdin.Fd())),
		OutTTY: term.IsTerminal(int(os.Stdout.Fd())),
		ErrTTY: term.IsTerminal(int(os.Stderr.Fd())),
		Getenv: os.Getenv, Columns: columns, Now: time.Now,
		Edit: Editor(os.Getenv), Browse: Browser(os.Getenv),
	}
	dumb := os.Getenv("TERM") == "dumb"
	u.Color = os.Getenv("NO_COLOR") == "" && !dumb
	u.Live = u.ErrTTY && !dumb
	return u
}

// CanAsk reports whether a person is there to answer: questions go to Err and answers come from In.
func (u *UI) CanAsk() bool { return u.InTTY && u.ErrTTY }

// Lines reads In line by line.
func (u *UI) Lines() *Lines {
	if u.lines == nil {
		u.lines = NewLines(u.In)
	}
	return u.lines
}

// Editor returns Edit for use in the middle of a command: interrupts belong to the editor while it has the terminal. It is nil if
// there is no editor.
func (u *UI) Editor() func(context.Context, string) (string, error) {
	if u.Edit == nil {
		return nil
	}
	return func(ctx context.Context, text string) (string, error) {
		_, release := u.Signals.Take()
		defer release()
		return u.Edit(ctx, text)
	}
}

// Prompter asks the person questions.
func (u *UI) Prompter() *Prompter {
	return &Prompter{Lines: u.Lines(), Out: u.Err, Style: u.ErrStyle(), Edit: u.Editor(), Now: u.Now}
}

// columns asks the first stream that is a terminal.
func columns() int {
	for _, f := range []*os.File{os.Stdout, os.Stderr, os.Stdin} {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
	}
	return 0
}
