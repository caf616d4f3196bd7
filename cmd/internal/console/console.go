// Package console is the person's end of the program: the three streams, whether they are terminals, how wide the
// terminal is and whether colours are wanted. It knows nothing of tasks, and it decides nothing.
package console

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Console is what a command reads from and writes to.
type Console struct {
	In  io.Reader
	Out io.Writer // what was asked for
	Err io.Writer // everything said beside it

	InTTY  bool
	OutTTY bool
	ErrTTY bool

	// Color is whether escape sequences for colours may be written to terminals.
	Color bool
	// Live is whether a line may be written over on Err.
	Live bool
	// Columns says how wide the terminal is now; 0 where there is none.
	Columns func() int
	// Getenv reads the environment.
	Getenv func(string) string
}

// OS is the console of this process.
func OS() *Console {
	c := &Console{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTTY:  term.IsTerminal(int(os.Stdin.Fd())),
		OutTTY: term.IsTerminal(int(os.Stdout.Fd())),
		ErrTTY: term.IsTerminal(int(os.Stderr.Fd())),
		Getenv: os.Getenv,
	}
	dumb := os.Getenv("TERM") == "dumb"
	c.Color = os.Getenv("NO_COLOR") == "" && !dumb
	c.Live = c.ErrTTY && !dumb
	c.Columns = columns
	return c
}

// CanAsk says whether a person is there to answer: questions go to Err and answers come from In.
func (c *Console) CanAsk() bool { return c.InTTY && c.ErrTTY }

// columns asks whichever stream is a terminal.
func columns() int {
	for _, f := range []*os.File{os.Stdout, os.Stderr, os.Stdin} {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
	}
	return 0
}
