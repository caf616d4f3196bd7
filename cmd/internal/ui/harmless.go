package ui

import (
	"io"
	"unicode/utf8"
)

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
