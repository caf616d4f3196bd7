package ui

import (
	"fmt"
	"io"
)

// FirstError writes to W and keeps the first error, for output that comes bit by bit.
type FirstError struct {
	W   io.Writer
	Err error
}

// Write implements io.Writer.
func (o *FirstError) Write(p []byte) (int, error) {
	n, err := o.W.Write(p)
	if o.Err == nil {
		o.Err = err
	}
	return n, err
}

// OutStyle is the style of Out.
func (u *UI) OutStyle() Style { return Style{Color: u.Color && u.OutTTY} }

// ErrStyle is the style of Err.
func (u *UI) ErrStyle() Style { return Style{Color: u.Color && u.ErrTTY} }

// OutColumns is how wide lines of Out may be; 0 if it is no terminal.
func (u *UI) OutColumns() int { return u.width(u.OutTTY) }

// ErrColumns is how wide lines of Err may be; 0 if it is no terminal.
func (u *UI) ErrColumns() int { return u.width(u.ErrTTY) }

func (u *UI) width(terminal bool) int {
	if !terminal {
		return 0
	}
	return u.Columns()
}

// Printf writes to Out. An error of Out ends the command with code 1, see FirstError.
func (u *UI) Printf(format string, args ...any) { _, _ = fmt.Fprintf(u.Out, format, args...) }

// Eprintf writes to Err and ignores its errors.
func (u *UI) Eprintf(format string, args ...any) { _, _ = fmt.Fprintf(u.Err, format, args...) }

// Note writes a remark beside the result.
func (u *UI) Note(format string, args ...any) {
	u.Eprintf("%s\n", u.ErrStyle().Dim(Wrap("pawl: "+Line(fmt.Sprintf(format, args...)), u.ErrColumns(), 0, 2)))
}

// Aside is Note from another goroutine than the command's: it first clears the line that may be overwritten.
func (u *UI) Aside(text string) {
	if u.Live {
		u.Eprintf("\r\x1b[K")
	}
	u.Note("%s", text)
}

// Warn writes a warning.
func (u *UI) Warn(format string, args ...any) {
	u.Eprintf("%s\n", u.ErrStyle().Yellow(Wrap("! "+Line(fmt.Sprintf(format, args...)), u.ErrColumns(), 0, 2)))
}

// Say writes a line of the result, unless the result is JSON.
func (u *UI) Say(format string, args ...any) {
	if !u.JSON {
		u.Printf(format+"\n", args...)
	}
}

// Result writes the result of a command: value as JSON, or else the line.
func (u *UI) Result(value any, format string, args ...any) error {
	if u.JSON {
		return u.Document(value)
	}
	u.Printf(format+"\n", args...)
	return nil
}

// Show writes the result of a command: value as JSON, or else the text.
func (u *UI) Show(value any, text func() string) error {
	if u.JSON {
		return u.Document(value)
	}
	u.Printf("%s", text())
	return nil
}

// Table begins a list for Out.
func (u *UI) Table(heading ...string) *Table {
	t := &Table{Style: u.OutStyle(), Columns: u.OutColumns()}
	t.Row(heading...)
	return t
}

// List writes a list: value as JSON, or else the table, or else the note if the table is empty.
func (u *UI) List(value any, t *Table, empty string) error {
	switch {
	case u.JSON:
		return u.Document(value)
	case len(t.rows) == 1:
		u.Note("%s", empty)
		return nil
	}
	return t.Write(u.Out)
}

// Report writes the error that ends a command and returns the exit code.
func (u *UI) Report(err error) int {
	e := AsError(err)
	if e == nil {
		return Done
	}
	if e.Message == "" {
		return e.Code
	}
	const name = "pawl:"
	st := u.ErrStyle()
	u.Eprintf("%s %s\n", st.Red(name), Wrap(Failure(e.Message), u.ErrColumns(), len(name)+1, 2))
	if e.Next != "" {
		u.Eprintf("  %s %s\n", st.Dim("next:"), Wrap(e.Next, u.ErrColumns(), 8, 8))
	}
	return e.Code
}
