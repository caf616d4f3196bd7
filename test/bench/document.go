package main

import (
	"fmt"
	"strings"
)

// document is the Markdown that is written.
type document struct{ b strings.Builder }

func (d *document) String() string { return d.b.String() }

func (d *document) heading(title string) { fmt.Fprintf(&d.b, "## %s\n\n", title) }

// text is a paragraph.
func (d *document) text(format string, args ...any) { fmt.Fprintf(&d.b, format+"\n\n", args...) }

// table has a first column of names; the others are numbers.
func (d *document) table(head []string, rows [][]string) {
	fmt.Fprintf(&d.b, "| %s |\n|---|%s\n", strings.Join(head, " | "), strings.Repeat("--:|", len(head)-1))
	for _, row := range rows {
		fmt.Fprintf(&d.b, "| %s |\n", strings.Join(row, " | "))
	}
	d.b.WriteString("\n")
}

// figure shows a number with as many digits as it deserves.
func figure(v float64) string {
	switch {
	case v == 0:
		return none
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// ratio shows how often b goes into a.
func ratio(a, b float64) string {
	if a == 0 || b == 0 {
		return none
	}
	return fmt.Sprintf("%.2f ×", a/b)
}
