package ui

import (
	"io"
	"strings"
)

// Table lays cells out in columns. Cells are made harmless; the last column is cut at the terminal's edge, and goes under the others where
// too little of it would be left.
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

// Mark colours the cells of a column (from 0) after they were laid out.
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

// narrow says whether the last column has a line of its own: it does not fit beside the others, and what would fit says little.
func (t *Table) narrow(widths []int) bool {
	const little = 16
	if t.Columns <= 0 || len(widths) < 2 {
		return false
	}
	left := t.Columns
	for _, w := range widths[:len(widths)-1] {
		left -= w + 2
	}
	return left < little && widths[len(widths)-1] > left
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

// Style colours text, or leaves it as it is.
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

// Yellow is for warnings and for what waits.
func (s Style) Yellow(text string) string { return s.wrap("33", text) }

// Cyan is for what goes on.
func (s Style) Cyan(text string) string { return s.wrap("36", text) }

// Field is a line with a name, padded to width, and its value; "" if the value is empty.
func (s Style) Field(name string, width int, value string) string {
	if value == "" {
		return ""
	}
	return "  " + s.Dim(Pad(name, width)) + " " + Line(value) + "\n"
}
