package prompt

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Fence marks a text as data, and makes invisible characters and control markers in it visible. The mark is a hash of the text that does not occur
// in the text, so that no text can contain its own end, and equal texts look the same in every prompt.
func Fence(text string) string {
	text = strings.TrimRight(visible(text), "\n")
	bare := hexDigits(text)
	mark := ""
	for i := 0; mark == "" || strings.Contains(bare, mark); i++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", i, text))
		mark = hex.EncodeToString(sum[:4])
	}
	return "<<<DATA " + mark + "\n" + text + "\nDATA " + mark + ">>>"
}

// hexDigits reduces a text to hexadecimal digits, of which marks consist, so that look-alikes with invisible or full-width characters are found too.
// Other letters and line breaks become |; all other characters are dropped.
func hexDigits(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '！' && r <= '～' {
			r -= '！' - '!'
		}
		switch r = unicode.ToLower(r); {
		case r >= 'a' && r <= 'f', r >= '0' && r <= '9':
			return r
		case unicode.IsLetter(r), r == '\n':
			return '|'
		}
		return -1
	}, text)
}

// controlMarkers matches texts that chat templates of models take for the end of a message, or the beginning of a message of another role.
var controlMarkers = regexp.MustCompile(`<[|｜][^<>|｜\s]{1,60}[|｜]>|\[/?INST\]|<</?SYS>>|</?(start|end)_of_turn>|</?(im_start|im_end|eot_id)>`)

// visible replaces invisible characters by their code points and breaks the control markers of chat templates. It keeps the joiners that scripts
// and emoji need, and drops carriage returns.
func visible(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = controlMarkers.ReplaceAllStringFunc(text, func(m string) string {
		_, n := utf8.DecodeRuneInString(m)
		return m[:n] + "\\" + m[n:]
	})
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\u200c' || r == '\u200d' || !unicode.Is(unicode.Cf, r) && (!unicode.IsControl(r) || r == '\n' || r == '\t'):
			b.WriteRune(r)
		case r == '\r':
		default:
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
		}
	}
	return b.String()
}

// Line puts a text on one line, so that it cannot pose as a paragraph of the prompt.
func Line(text string) string { return strings.Join(strings.Fields(visible(text)), " ") }
