package ui

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Text makes s safe to print on a terminal and keeps its lines. It replaces control, invisible and reordering characters by visible ones.
func Text(s string) string {
	return clean(s, func(r rune) (rune, bool) { return r, r == '\n' || r == '\t' })
}

// Line is like Text, but returns one line: it replaces line ends and tabs by spaces.
func Line(s string) string {
	return clean(s, func(r rune) (rune, bool) { return ' ', r == '\n' || r == '\t' })
}

// clean replaces unsafe characters by visible ones. space returns the replacement of a white-space character, and whether r is one.
func clean(s string, space func(rune) (rune, bool)) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, unsafe) {
		return s
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	var b strings.Builder
	for i, r := range s {
		if replacement, ok := space(r); ok {
			b.WriteRune(replacement)
			continue
		}
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !unsafe(r):
			b.WriteRune(r)
		case r < 0x20:
			b.WriteRune(0x2400 + r) // the pictures of control characters: ESC is ␛
		case r == 0x7f:
			b.WriteRune('␡')
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// unsafe reports whether a terminal interprets r, or r disguises the text around it.
func unsafe(r rune) bool {
	switch {
	case unicode.IsControl(r): // C0, DEL and C1
		return true
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x200e, r == 0x200f, r == 0x061c:
		return true // bidirectional overrides, isolates and marks
	case r == 0x2028, r == 0x2029:
		return true // line and paragraph separators
	case r == 0x200b, r == 0x2060, r == 0xfeff:
		return true // zero width: different texts would look the same
	}
	return r >= 0xe0000 && r <= 0xe007f // tag characters: invisible text
}

// Width returns the number of terminal columns that s takes.
func Width(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// Fit cuts s to at most n columns and marks a cut with …. If n <= 0, it returns s.
func Fit(s string, n int) string {
	if n <= 0 || Width(s) <= n {
		return s
	}
	used := 0
	for i, r := range s {
		w := runeWidth(r)
		if used+w > n-1 {
			return s[:i] + "…"
		}
		used += w
	}
	return s
}

// Pad fills s with spaces up to n columns.
func Pad(s string, n int) string {
	if w := Width(s); w < n {
		return s + strings.Repeat(" ", n-w)
	}
	return s
}

func runeWidth(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Wrap makes text safe to print and breaks its lines between words at a width of columns; 0 breaks none. The first line begins at column
// used, the others at column hang, or further left if little room would remain. Words and pawl commands stay whole, because people copy them.
func Wrap(text string, columns, used, hang int) string {
	const little, smallHang = 24, 4
	if columns > 0 && columns-hang < little {
		hang = min(hang, smallHang)
	}
	var b strings.Builder
	for i, line := range strings.Split(strings.TrimRight(Text(text), "\n"), "\n") {
		if i > 0 {
			b.WriteString("\n" + strings.Repeat(" ", hang))
			used = hang
		}
		body := strings.TrimLeft(line, " ")
		indent := len(line) - len(body)
		b.WriteString(line[:indent])
		used += indent
		for j, word := range words(body) {
			switch {
			case j == 0:
			case columns > 0 && used+1+Width(word) > columns:
				b.WriteString("\n" + strings.Repeat(" ", hang+indent))
				used = hang + indent
			default:
				b.WriteByte(' ')
				used++
			}
			b.WriteString(word)
			used += Width(word)
		}
	}
	return b.String()
}

// words splits a line into words and whole pawl commands, which end with a punctuation mark.
func words(line string) []string {
	var list []string
	command := false
	for _, word := range strings.Split(line, " ") {
		if command {
			list[len(list)-1] += " " + word
		} else {
			list = append(list, word)
		}
		bare := strings.TrimLeft(word, "(`")
		command = (command || bare == "pawl") && !strings.ContainsAny(word[max(len(word)-1, 0):], ",;:.)`")
	}
	return list
}

// stderrMark separates the message of a pool's error from the last lines that the MCP server's program wrote to stderr.
const stderrMark = "; its stderr ends with: "

// Failure returns a server's error with a multi-line stderr on lines of its own.
func Failure(text string) string {
	if message, tail, ok := strings.Cut(text, stderrMark); ok && strings.Contains(strings.TrimSpace(tail), "\n") {
		return message + strings.TrimRight(stderrMark, " ") + "\n" + strings.TrimRight(tail, "\n")
	}
	return text
}

// Brief returns the first line of a server's error, without the program's stderr and the server's id.
func Brief(id, text string) string {
	message, _, _ := strings.Cut(strings.TrimSpace(text), stderrMark)
	first, _, cut := strings.Cut(message, "\n")
	if cut {
		first += " …"
	}
	return strings.TrimPrefix(first, "MCP server "+id+": ")
}

// Table lays out cells in columns and makes them safe to print. It cuts the last column at the terminal's edge, or puts it on a line of its
// own if too little of it would be left.
type Table struct {
	Style   Style
	Columns int // of the terminal; 0 cuts nothing
	rows    [][]string
	marks   map[int]func(string) string
}

// Row adds a row.
func (t *Table) Row(cells ...string) {
	for i := range cells {
		cells[i] = Line(cells[i])
	}
	t.rows = append(t.rows, cells)
}

// Mark sets the function that colours the cells of a column, counted from 0.
func (t *Table) Mark(column int, paint func(string) string) {
	if t.marks == nil {
		t.marks = map[int]func(string) string{}
	}
	t.marks[column] = paint
}

// Write writes all rows; the first one is the heading.
func (t *Table) Write(w io.Writer) error {
	widths := t.widths()
	narrow := t.narrow(widths)
	var b strings.Builder
	for n, row := range t.rows {
		if last := len(widths) - 1; narrow && len(row) > last {
			if strings.Join(row[:last], "") != "" {
				b.WriteString(t.line(row[:last], widths, n == 0) + "\n")
			}
			if row[last] != "" {
				b.WriteString("  " + t.paint(last, Fit(row[last], t.Columns-2), n == 0) + "\n")
			}
			continue
		}
		b.WriteString(t.line(row, widths, n == 0) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// narrow reports whether the last column needs a line of its own, because too little of it fits beside the others.
func (t *Table) narrow(widths []int) bool {
	const little = 16
	if t.Columns <= 0 || len(widths) < 2 {
		return false
	}
	room := t.Columns
	for _, w := range widths[:len(widths)-1] {
		room -= w + 2
	}
	return room < little && widths[len(widths)-1] > room
}

func (t *Table) widths() []int {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], Width(cell))
		}
	}
	return widths
}

func (t *Table) line(row []string, widths []int, heading bool) string {
	var b strings.Builder
	used := 0
	for i, cell := range row {
		last := i == len(row)-1
		if last && t.Columns > 0 {
			cell = Fit(cell, max(t.Columns-used, 1))
		}
		if !last {
			cell = Pad(cell, widths[i])
		}
		used += Width(cell) + 2
		b.WriteString(t.paint(i, cell, heading))
		if !last {
			b.WriteString("  ")
		}
	}
	return strings.TrimRight(b.String(), " ")
}

func (t *Table) paint(column int, cell string, heading bool) string {
	if heading {
		return t.Style.Dim(cell)
	}
	if paint := t.marks[column]; paint != nil {
		return paint(cell)
	}
	return cell
}

// Style colours text if Color is set.
type Style struct{ Color bool }

func (s Style) wrap(code, text string) string {
	if !s.Color || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Bold is for what matters most.
func (s Style) Bold(text string) string { return s.wrap("1", text) }

// Dim is for what matters least.
func (s Style) Dim(text string) string { return s.wrap("2", text) }

// Red is for failure.
func (s Style) Red(text string) string { return s.wrap("31", text) }

// Green is for success.
func (s Style) Green(text string) string { return s.wrap("32", text) }

// Yellow is for warnings and waits.
func (s Style) Yellow(text string) string { return s.wrap("33", text) }

// Cyan is for running work.
func (s Style) Cyan(text string) string { return s.wrap("36", text) }

// Field returns a line with a name, padded to width, and its value; "" if the value is empty.
func (s Style) Field(name string, width int, value string) string {
	if value == "" {
		return ""
	}
	return "  " + s.Dim(Pad(name, width)) + " " + Line(value) + "\n"
}
