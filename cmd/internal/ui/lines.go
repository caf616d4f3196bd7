package ui

import (
	"bufio"
	"context"
	"io"
	"strings"
)

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
