package ui

import "io"

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
