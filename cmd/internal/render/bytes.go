package render

import (
	"fmt"
	"io"
	"unicode/utf8"
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

// HarmlessJSON passes JSON on to a terminal: characters that it would obey become escapes, which mean the same.
func HarmlessJSON(w io.Writer) io.Writer { return &harmless{w: w} }

type harmless struct {
	w    io.Writer
	rest []byte // the beginning of a character that was cut
}

func (h *harmless) Write(p []byte) (int, error) {
	text := append(h.rest, p...)
	end := len(text)
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if b := text[len(text)-i]; utf8.RuneStart(b) {
			if !utf8.FullRune(text[len(text)-i:]) {
				end = len(text) - i
			}
			break
		}
	}
	h.rest = append([]byte(nil), text[end:]...)
	if _, err := h.w.Write(harmlessJSON(text[:end])); err != nil {
		return 0, err
	}
	return len(p), nil
}
