package ui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"

	"golang.org/x/term"
)

// linePrompt begins a line that the person edits, unless a question does.
const linePrompt = "> "

// EditLines lets the person edit the lines of In, with a history (arrow keys), below the texts that are written to Out and Err. It does nothing unless these
// are a terminal. The caller calls restore at the end. Ctrl-C is an interrupt, and Ctrl-D ends the input. Answers to questions do not become part of the history.
func (u *UI) EditLines() (restore func(), err error) {
	in, isFile := u.In.(*os.File)
	if !isFile || !u.InTTY || !u.OutTTY || !u.ErrTTY || u.Getenv("TERM") == "dumb" {
		return func() {}, nil
	}
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, fmt.Errorf("set the terminal up: %w", err)
	}
	lines, out, errs, live, edit := u.lines, u.Out, u.Err, u.Live, u.Edit
	if edit != nil {
		u.Edit = func(ctx context.Context, text string) (string, error) { // the editor gets the terminal as it was
			if err := term.Restore(int(in.Fd()), state); err != nil {
				return "", fmt.Errorf("set the terminal up: %w", err)
			}
			edited, err := edit(ctx, text)
			_, raw := term.MakeRaw(int(in.Fd()))
			return edited, errors.Join(err, raw)
		}
	}
	typed := &keys{in: in, signals: u.Signals}
	e := &editor{tty: struct {
		io.Reader
		io.Writer
	}{typed, u.Out}, size: terminalSize}
	t := term.NewTerminal(e.tty, linePrompt)
	t.History = &history{History: t.History, asking: func() bool { p := u.prompter.Load(); return p != nil && p.asking() }}
	e.t.Store(t)
	u.lines, u.keys, u.Out, u.Err, u.Live = NewLines(e), typed, e, e, false
	u.setPrompt = func(prompt string) { e.t.Load().SetPrompt(prompt) }
	return func() {
		u.lines, u.keys, u.Out, u.Err, u.Live, u.Edit, u.setPrompt = lines, nil, out, errs, live, edit, nil
		_ = term.Restore(int(in.Fd()), state)
		u.Printf("\n")
	}, nil
}

// TypedAhead returns how many lines the person has typed that can be read without waiting, as far as the platform tells. Nothing may be reading lines meanwhile.
func (u *UI) TypedAhead() int {
	in, isFile := u.In.(*os.File)
	switch {
	case !isFile || !u.InTTY || !readable(in):
		return 0
	case u.keys == nil:
		return 1 // or more: the terminal gives one line at a time
	}
	return u.keys.readAhead()
}

// keys reads what a person types at a terminal in raw mode, and delivers Ctrl-C as an interrupt.
type keys struct {
	in      *os.File
	ahead   []byte // was read already
	signals *Signals
}

// readAhead reads what the person has typed already, and returns the number of lines.
func (k *keys) readAhead() int {
	for page := make([]byte, 4096); readable(k.in); {
		n, err := k.in.Read(page)
		k.ahead = append(k.ahead, page[:n]...)
		if err != nil { // the next Read reports it
			break
		}
	}
	ends := bytes.ReplaceAll(k.ahead, []byte("\r\n"), []byte("\n"))
	return bytes.Count(ends, []byte("\n")) + bytes.Count(ends, []byte("\r"))
}

// Read implements io.Reader.
func (k *keys) Read(p []byte) (n int, err error) {
	const ctrlC = 3
	if len(k.ahead) > 0 {
		n = copy(p, k.ahead)
		k.ahead = k.ahead[n:]
	} else {
		n, err = k.in.Read(p)
	}
	kept := slices.DeleteFunc(p[:n], func(key byte) bool { return key == ctrlC })
	if len(kept) < n {
		k.signals.deliver(os.Interrupt)
	}
	return len(kept), err
}

// history holds the lines that a person typed, without answers to questions.
type history struct {
	term.History
	asking func() bool
}

// Add implements term.History.
func (h *history) Add(line string) {
	if !h.asking() {
		h.History.Add(line)
	}
}

// editor reads the lines that a person edits at a terminal.
type editor struct {
	t    atomic.Pointer[term.Terminal]
	tty  io.ReadWriter
	size func() (columns, rows int)
	rest string // of the last line
}

// Write implements io.Writer: it writes above the line that the person edits.
func (e *editor) Write(p []byte) (int, error) { return e.t.Load().Write(p) }

// Read implements io.Reader.
func (e *editor) Read(p []byte) (int, error) {
	if e.rest == "" {
		t := e.t.Load()
		if columns, rows := e.size(); columns > 0 {
			_ = t.SetSize(columns, rows) // it only measures
		}
		line, err := t.ReadLine()
		if errors.Is(err, io.EOF) { // a Terminal reports Ctrl-D at each further ReadLine
			next := term.NewTerminal(e.tty, linePrompt)
			next.History = t.History
			e.t.Store(next)
		}
		if err != nil && !errors.Is(err, term.ErrPasteIndicator) {
			return 0, err
		}
		e.rest = line + "\n"
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}
