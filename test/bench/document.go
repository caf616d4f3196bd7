package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// document is the Markdown text of the results.
type document struct{ strings.Builder }

func (d *document) heading(title string) { fmt.Fprintf(d, "## %s\n\n", title) }

// text adds a paragraph.
func (d *document) text(format string, args ...any) { fmt.Fprintf(d, format+"\n\n", args...) }

// table adds a table. Its first column is aligned left, the others right.
func (d *document) table(head []string, rows [][]string) {
	fmt.Fprintf(d, "| %s |\n|---|%s\n", strings.Join(head, " | "), strings.Repeat("--:|", len(head)-1))
	for _, row := range rows {
		fmt.Fprintf(d, "| %s |\n", strings.Join(row, " | "))
	}
	d.WriteString("\n")
}

// none is the text of a cell without a value.
const none = "–"

// figure formats a number with about three digits; 0 is none.
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

// ratio formats a divided by b.
func ratio(a, b float64) string {
	if a == 0 || b == 0 {
		return none
	}
	return fmt.Sprintf("%.2f ×", a/b)
}

// quantiles sorts the values and returns p50 and p99, without interpolation, in milliseconds; 0 if there are no values.
func quantiles(values []time.Duration) (p50, p99 float64) {
	n := len(values)
	if n == 0 {
		return 0, 0
	}
	slices.Sort(values)
	return milliseconds(values[n/2]), milliseconds(values[min(n*99/100, n-1)])
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// median returns the median of values; 0 if there are none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted, n := slices.Sorted(slices.Values(values)), len(values)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
