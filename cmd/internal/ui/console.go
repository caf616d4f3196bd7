// Package ui is the terminal side of the program: text made safe and fitted to the terminal, tables, JSON, questions and forms,
// interrupts, and the errors that end a command. It makes no calls to services.
package ui

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
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

// Result writes the result of a command: value as JSON, or else the line. It returns err if there is one, as Show and List do.
func (u *UI) Result(value any, err error, format string, args ...any) error {
	return u.Show(value, err, func() string { return fmt.Sprintf(format+"\n", args...) })
}

// Show writes the result of a command: value as JSON, or else the text.
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

// Table begins a list for Out.
func (u *UI) Table(heading ...string) *Table {
	t := &Table{Style: u.OutStyle(), Columns: u.OutColumns()}
	t.Row(heading...)
	return t
}

// List writes a list: value as JSON, or else the table, or else the note if the table is empty.
func (u *UI) List(value any, err error, t *Table, empty string) error {
	switch {
	case err != nil:
		return err
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

// Lines reads lines. A read that was given up goes on and serves the next one, because a read from a terminal cannot
// be taken back.
type Lines struct {
	r       *bufio.Reader
	pending chan line // of the read under way; nil if there is none
}

type line struct {
	text string
	err  error
}

// NewLines reads from r.
func NewLines(r io.Reader) *Lines { return &Lines{r: bufio.NewReader(r)} }

// Read returns the next line without its end; io.EOF after the last one.
func (l *Lines) Read(ctx context.Context) (string, error) {
	if l.pending == nil {
		pending := make(chan line, 1)
		l.pending = pending
		go func() {
			text, err := l.r.ReadString('\n')
			if err != nil && text != "" {
				err = nil // a last line without its end
			}
			pending <- line{strings.TrimRight(text, "\r\n"), err}
		}()
	}
	select {
	case got := <-l.pending:
		l.pending = nil
		return got.text, got.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// LiveLine is one line of a terminal that is overwritten; it does nothing unless On.
type LiveLine struct {
	W     io.Writer
	On    bool
	shown string
}

// Draw shows the line in place of what it shows now.
func (l *LiveLine) Draw(line string) {
	if !l.On || line == l.shown {
		return
	}
	Put(l.W, "\r\x1b[K"+line)
	l.shown = line
}

// Clear removes the line.
func (l *LiveLine) Clear() {
	if l.shown == "" {
		return
	}
	Put(l.W, "\r\x1b[K")
	l.shown = ""
}

// Put writes and ignores the error, for output that comes bit by bit: see FirstError.
func Put(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

// Signals delivers each interrupt to a command that takes interrupts itself, else it cancels the context of
// the whole program. A request to end (SIGTERM, SIGHUP) always ends the context: it does not cancel the task.
type Signals struct {
	done   chan struct{}
	cancel func()
	exit   func(int)

	mu    sync.Mutex
	takes []chan<- struct{} // the last one gets the next interrupt
	asked bool              // the context has been ended
}

// NewSignals hands out the signals of in until it is closed. cancel ends the program in order, exit at once.
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

// Close ends the handing out.
func (s *Signals) Close() { close(s.done) }

func (s *Signals) deliver(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.takes); n > 0 && sig == os.Interrupt {
		select {
		case s.takes[n-1] <- struct{}{}:
			return
		default: // it did not take the one before: the person means it
		}
	}
	if s.asked && s.exit != nil {
		s.exit(Stopped)
	}
	s.asked = true
	s.cancel()
}

// Take sends interrupts to the channel from now on, until the returned function is called.
func (s *Signals) Take() (<-chan struct{}, func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan struct{}, 1)
	s.takes = append(s.takes, c)
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.takes = slices.DeleteFunc(s.takes, func(t chan<- struct{}) bool { return t == c })
	}
}

// Editor lets the person change a text in $VISUAL or $EDITOR; nil where neither is set. An editor is never killed: it
// has the terminal until the person is done.
func Editor(getenv func(string) string) func(context.Context, string) (string, error) {
	command := strings.Fields(cmp.Or(getenv("VISUAL"), getenv("EDITOR")))
	if len(command) == 0 {
		return nil
	}
	return func(ctx context.Context, text string) (edited string, err error) {
		file, err := os.CreateTemp("", "pawl-*.json")
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
			return "", fmt.Errorf("read what was edited: %w", err)
		}
		return string(raw), nil
	}
}

// Browser opens addresses in the person's browser; nil where this machine has none to show.
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
		cmd := exec.Command(program, append(command[1:len(command):len(command)], address)...) //nolint:noctx // it outlives the command
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("open a browser with %s: %w", command[0], err)
		}
		return cmd.Process.Release()
	}
}
