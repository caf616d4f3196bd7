package ui

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Bytes is a size as a person reads it: 512 B, 1.5 kB, 23.4 MB.
func Bytes(n int64) string {
	size, units := float64(n), []string{"kB", "MB", "GB", "TB"}
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	for i, unit := range units {
		if size /= 1000; size < 999.95 || i == len(units)-1 {
			return fmt.Sprintf("%.1f %s", size, unit)
		}
	}
	return ""
}

// Duration is d as a person reads it: 0.04s, 1.3s, 2m05s, 3h07m.
func Duration(d time.Duration) string {
	if d < 0 {
		d = 0
	}
	switch {
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.2fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// Age is how long ago t was: 5s, 3m, 2h, 4d; "" for the zero time.
func Age(t, now time.Time) string {
	if t.IsZero() || t.Unix() <= 0 {
		return ""
	}
	d := max(now.Sub(t), 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// Plural counts things: 1 step, 2 steps.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Number is a float without needless digits.
func Number(f float64) string {
	return strings.TrimRight(strings.TrimRight(strconv.FormatFloat(f, 'f', 2, 64), "0"), ".")
}
