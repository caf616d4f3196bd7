package render

import (
	"fmt"
	"time"
)

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
