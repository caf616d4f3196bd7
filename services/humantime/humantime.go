// Package humantime writes durations as people do. It knows no clock.
package humantime

import (
	"strings"
	"time"
)

// Text returns a duration in Go's notation, rounded for a message: 16.4s and not 16.390003137s, 24h and not 24h0m0s.
func Text(d time.Duration) string {
	return trim(d.Round(grain(d)))
}

// AtLeast returns the text of a time to wait: whole seconds, rounded up, so that waiting that long is enough.
func AtLeast(d time.Duration) string {
	return trim((d + time.Second - 1).Truncate(time.Second))
}

// grain returns the unit to which a duration is rounded for a message.
func grain(d time.Duration) time.Duration {
	switch d = d.Abs(); {
	case d < time.Millisecond:
		return time.Microsecond
	case d < 10*time.Millisecond:
		return 100 * time.Microsecond
	case d < time.Second:
		return time.Millisecond
	case d < time.Minute:
		return 100 * time.Millisecond
	case d < time.Hour:
		return time.Second
	}
	return time.Minute
}

// trim omits the zero minutes and seconds of whole hours and the zero seconds of whole minutes.
func trim(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
