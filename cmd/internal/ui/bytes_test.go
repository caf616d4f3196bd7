package ui_test

import (
	"bytes"
	"testing"

	"pawl.dev/cmd/internal/ui"
)

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.0 kB", 1549: "1.5 kB", 999_949: "999.9 kB", 999_950: "1.0 MB", 23_400_000: "23.4 MB", 5_000_000_000_000_000: "5000.0 TB",
	} {
		if got := ui.Bytes(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// However the text is cut, what reaches the terminal is harmless and means the same.
func TestHarmlessJSON(t *testing.T) {
	text, want := "{\"a\":\"日本\u202e\u009b2J😀\"}\n", "{\"a\":\"日本\\u202e\\u009b2J😀\"}\n"
	for size := 1; size <= len(text); size++ {
		var out bytes.Buffer
		w := ui.TerminalJSON(&out)
		for rest := []byte(text); len(rest) > 0; {
			n := min(size, len(rest))
			if written, err := w.Write(rest[:n]); err != nil || written != n {
				t.Fatal(written, err)
			}
			rest = rest[n:]
		}
		if out.String() != want {
			t.Errorf("in pieces of %d: %q", size, out.String())
		}
	}
}
