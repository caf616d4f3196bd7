package humantime_test

import (
	"math"
	"testing"
	"time"

	"pawl.dev/services/humantime"
)

func TestText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                               "0s",
		1234 * time.Nanosecond:          "1µs",
		1234567:                         "1.2ms",
		250 * time.Millisecond:          "250ms",
		999_999_999:                     "1s",
		16_390_003_137:                  "16.4s",
		-16_390_003_137:                 "-16.4s",
		30 * time.Second:                "30s",
		59_999 * time.Millisecond:       "1m",
		90_123 * time.Millisecond:       "1m30s",
		10 * time.Minute:                "10m",
		24 * time.Hour:                  "24h",
		90*time.Minute + 31*time.Second: "1h31m",
		math.MaxInt64:                   "2562047h47m",
	} {
		if got := humantime.Text(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}

func TestAtLeast(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1: "1s", time.Second: "1s", 14_200 * time.Millisecond: "15s", 59_001 * time.Millisecond: "1m", time.Hour: "1h",
	} {
		if got := humantime.AtLeast(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}
