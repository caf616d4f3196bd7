// Package ui is the terminal side of the program: safe and fitted text, tables, JSON, questions and forms, interrupts, and the errors that
// end a command. It calls no services.
package ui

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"
)

// UI has the streams, the terminal and the environment of a command.
type UI struct {
	In  io.Reader
	Out io.Writer // the result of the command
	Err io.Writer // notes, warnings, questions and errors

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
	// Rows returns the height of the terminal now; 0 if there is none. It may be nil.
	Rows func() int
	// Getenv reads the environment.
	Getenv func(string) string
	Now    func() time.Time
	// Edit lets the person edit a text; nil if they have no editor.
	Edit func(ctx context.Context, text string) (string, error)
	// Browse opens an address in a browser; nil if there is none.
	Browse func(address string) error

	// Signals delivers interrupts.
	Signals *Signals
	// LeaveNow is set if the command must end at once, because the person pressed Ctrl-C.
	LeaveNow bool

	lines *Lines
	// setPrompt sets the prompt of the edited line; nil: it is not edited.
	setPrompt func(string)
	keys      *keys                    // of EditLines; nil: the lines of In are not edited
	prompter  atomic.Pointer[Prompter] // the newest one; nil: there is none
}

// OS returns the UI of this process.
func OS() *UI {
	u := &UI{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTTY:  term.IsTerminal(int(os.Stdin.Fd())),
		OutTTY: term.IsTerminal(int(os.Stdout.Fd())),
		ErrTTY: term.IsTerminal(int(os.Stderr.Fd())),
		Getenv: os.Getenv, Now: time.Now,
		Columns: func() int { w, _ := terminalSize(); return w },
		Rows:    func() int { _, h := terminalSize(); return h },
		Edit:    Editor(os.Getenv), Browse: Browser(os.Getenv),
	}
	dumb := os.Getenv("TERM") == "dumb"
	u.Color = os.Getenv("NO_COLOR") == "" && !dumb
	u.Live = u.ErrTTY && !dumb
	return u
}

// CanAsk reports whether In and Err are terminals, so that the command can ask questions.
func (u *UI) CanAsk() bool { return u.InTTY && u.ErrTTY }

// Lines returns the reader of In's lines. All callers share it, because it buffers.
func (u *UI) Lines() *Lines {
	if u.lines == nil {
		u.lines = NewLines(u.In)
	}
	return u.lines
}

// Editor returns Edit wrapped so that interrupts go to the editor while it runs; nil if there is no editor.
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

// Prompter returns a Prompter on the UI's streams.
func (u *UI) Prompter() *Prompter {
	p := &Prompter{Lines: u.Lines(), Out: u.Err, Style: u.ErrStyle(), Edit: u.Editor(), Now: u.Now, Columns: u.ErrColumns(), setPrompt: u.setPrompt}
	u.prompter.Store(p)
	return p
}

// terminalSize returns the size of the first standard stream that is a terminal; 0 if none is.
func terminalSize() (columns, rows int) {
	for _, f := range []*os.File{os.Stdout, os.Stderr, os.Stdin} {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w, h
		}
	}
	return 0, 0
}

// FirstError writes to W and keeps the first error, so that callers need not check each write.
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

// OutStyle returns the style of Out.
func (u *UI) OutStyle() Style { return Style{Color: u.Color && u.OutTTY} }

// ErrStyle returns the style of Err.
func (u *UI) ErrStyle() Style { return Style{Color: u.Color && u.ErrTTY} }

// OutColumns returns the width of Out; 0 if it is not a terminal.
func (u *UI) OutColumns() int { return u.width(u.OutTTY) }

// ErrColumns returns the width of Err; 0 if it is not a terminal.
func (u *UI) ErrColumns() int { return u.width(u.ErrTTY) }

func (u *UI) width(terminal bool) int {
	if !terminal {
		return 0
	}
	return u.Columns()
}

// Printf writes to Out. The command fails if Out does, see FirstError.
func (u *UI) Printf(format string, args ...any) { _, _ = fmt.Fprintf(u.Out, format, args...) }

// Eprintf writes to Err and ignores its errors.
func (u *UI) Eprintf(format string, args ...any) { _, _ = fmt.Fprintf(u.Err, format, args...) }

// Note writes a remark to Err.
func (u *UI) Note(format string, args ...any) {
	u.Eprintf("%s\n", u.ErrStyle().Dim(Wrap("pawl: "+Line(fmt.Sprintf(format, args...)), u.ErrColumns(), 0, 2)))
}

// Aside erases the live line or the open question and writes a remark to Err. It is for goroutines other than the command's.
func (u *UI) Aside(text string) {
	rows := 1
	if p := u.prompter.Load(); p != nil {
		rows = p.Rows()
	}
	if u.Live {
		u.Eprintf("%s", EraseRows(rows))
	}
	u.Note("%s", text)
}

// Warn writes a warning.
func (u *UI) Warn(format string, args ...any) {
	u.Eprintf("%s\n", u.ErrStyle().Yellow(Wrap("! "+Line(fmt.Sprintf(format, args...)), u.ErrColumns(), 0, 2)))
}

// Say writes a line to Out, unless the result is JSON.
func (u *UI) Say(format string, args ...any) {
	if !u.JSON {
		u.Printf(format+"\n", args...)
	}
}

// Result writes the result of a command: with --json value, else the formatted line. If err is not nil, Result, Show and List only return err.
func (u *UI) Result(value any, err error, format string, args ...any) error {
	return u.Show(value, err, func() string { return fmt.Sprintf(format+"\n", args...) })
}

// Show writes the result of a command: with --json value, else the text.
func (u *UI) Show(value any, err error, text func() string) error {
	switch {
	case err != nil:
		return err
	case u.JSON:
		return u.Document(value)
	}
	u.Printf("%s", text())
	return nil
}

// Table returns a table for Out with a heading.
func (u *UI) Table(heading ...string) *Table {
	t := &Table{Style: u.OutStyle(), Columns: u.OutColumns()}
	t.Row(heading...)
	return t
}

// List writes a list: with --json value, else the table, or emptyNote if the table has no rows.
func (u *UI) List(value any, err error, t *Table, emptyNote string) error {
	switch {
	case err != nil:
		return err
	case u.JSON:
		return u.Document(value)
	case len(t.rows) == 1:
		u.Note("%s", emptyNote)
		return nil
	}
	return t.Write(u.Out)
}

// Report prints the error that ends a command and returns the exit code.
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

// Lines reads lines. A cancelled Read leaves its line to the next Read, because a read from a terminal cannot be interrupted.
type Lines struct {
	r       *bufio.Reader
	pending chan line // receives the line of the running read; nil if none runs
}

type line struct {
	text string
	err  error
}

// NewLines returns a Lines that reads from r.
func NewLines(r io.Reader) *Lines { return &Lines{r: bufio.NewReader(r)} }

// Read returns the next line without its line end, or io.EOF after the last one.
func (l *Lines) Read(ctx context.Context) (string, error) {
	if l.pending == nil {
		pending := make(chan line, 1)
		l.pending = pending
		go func() {
			text, err := l.r.ReadString('\n')
			if err != nil && text != "" {
				err = nil // the last line has no line end
			}
			pending <- line{strings.TrimRight(text, "\r\n"), err}
		}()
	}
	select {
	case got := <-l.pending:
		l.pending = nil
		return got.text, got.err
	case <-ctx.Done():
	}
	select { // a line that came before the end of ctx is not left to the next question
	case got := <-l.pending:
		l.pending = nil
		return got.text, got.err
	default:
		return "", ctx.Err()
	}
}

// LiveLine is the last line of a terminal, or its last lines, which each Draw overwrites.
type LiveLine struct {
	W     io.Writer
	On    bool // false: Draw does nothing
	shown string
}

// Draw replaces the lines. Each must be narrower than the terminal, and all together lower.
func (l *LiveLine) Draw(text string) {
	if !l.On || text == l.shown {
		return
	}
	Put(l.W, EraseRows(l.rows())+text)
	l.shown = text
}

// Clear removes the lines.
func (l *LiveLine) Clear() {
	if l.shown == "" {
		return
	}
	Put(l.W, EraseRows(l.rows()))
	l.shown = ""
}

func (l *LiveLine) rows() int { return 1 + strings.Count(l.shown, "\n") }

// EraseRows returns the control sequence that erases the row of the cursor and the n-1 rows above it.
func EraseRows(n int) string {
	if n > 1 {
		return fmt.Sprintf("\r\x1b[%dA\x1b[J", n-1)
	}
	return "\r\x1b[K"
}

// Put writes text and ignores the error, which w keeps if it is a FirstError.
func Put(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

// Signals delivers interrupts to the last caller of Take. SIGTERM, SIGHUP and an interrupt that cannot be delivered cancel the program's
// context; the next such signal ends the process.
type Signals struct {
	done   chan struct{}
	cancel func()
	exit   func(int)

	mu        sync.Mutex        // guards the fields below
	receivers []chan<- struct{} // the last one gets the next interrupt
	cancelled bool              // cancel was called
}

// NewSignals delivers the signals of in until Close. It calls cancel to end the program gracefully, and exit to end it at once.
func NewSignals(in <-chan os.Signal, cancel func(), exit func(int)) *Signals {
	s := &Signals{done: make(chan struct{}), cancel: cancel, exit: exit}
	go func() {
		for {
			select {
			case sig := <-in:
				s.deliver(sig)
			case <-s.done:
				return
			}
		}
	}()
	return s
}

// Close stops the delivery.
func (s *Signals) Close() { close(s.done) }

func (s *Signals) deliver(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.receivers); n > 0 && sig == os.Interrupt {
		select {
		case s.receivers[n-1] <- struct{}{}:
			return
		default: // the command has not read the previous interrupt, so it hangs: end the program
		}
	}
	if s.cancelled && s.exit != nil {
		s.exit(Stopped)
	}
	s.cancelled = true
	s.cancel()
}

// Take returns a channel that receives interrupts until the returned function is called.
func (s *Signals) Take() (<-chan struct{}, func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan struct{}, 1)
	s.receivers = append(s.receivers, c)
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.receivers = slices.DeleteFunc(s.receivers, func(r chan<- struct{}) bool { return r == c })
	}
}

// Editor returns a function that opens a text in $VISUAL or $EDITOR and returns the edited text; nil if neither is set. A cancelled context does
// not end the editor, which has the terminal until the person is done.
func Editor(getenv func(string) string) func(context.Context, string) (string, error) {
	command := strings.Fields(cmp.Or(getenv("VISUAL"), getenv("EDITOR")))
	if len(command) == 0 {
		return nil
	}
	return func(ctx context.Context, text string) (edited string, err error) {
		ending := ".yaml"
		if json.Valid([]byte(text)) {
			ending = ".json"
		}
		file, err := os.CreateTemp("", "pawl-*"+ending)
		if err != nil {
			return "", fmt.Errorf("make a file to edit: %w", err)
		}
		defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
		_, err = file.WriteString(text)
		if err = errors.Join(err, file.Close()); err != nil {
			return "", fmt.Errorf("make a file to edit: %w", err)
		}
		cmd := exec.CommandContext(context.WithoutCancel(ctx), command[0], append(command[1:len(command):len(command)], file.Name())...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return "", fmt.Errorf("run the editor %s: %w", command[0], err)
		}
		raw, err := os.ReadFile(file.Name())
		if err != nil {
			return "", fmt.Errorf("read the edited file: %w", err)
		}
		return string(raw), nil
	}
}

// Browser returns a function that opens an address in the person's browser; nil if there is no display or no browser.
func Browser(getenv func(string) string) func(address string) error {
	command := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open"}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	default:
		if getenv("DISPLAY") == "" && getenv("WAYLAND_DISPLAY") == "" {
			return nil
		}
	}
	program, err := exec.LookPath(command[0])
	if err != nil {
		return nil
	}
	return func(address string) error {
		cmd := exec.Command(program, append(command[1:len(command):len(command)], address)...) //nolint:noctx // the browser outlives the command
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("open a browser with %s: %w", command[0], err)
		}
		return cmd.Process.Release()
	}
}
