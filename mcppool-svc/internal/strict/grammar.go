package strict

import "bytes"

// grammar sees whether brackets, strings and words follow each other as JSON has it, and as encoding/json takes it.
type grammar struct {
	next want
	bad  bool
}

// want is what may come next.
type want int

const (
	aValue want = iota
	aValueOrEnd
	aKey
	aKeyOrEnd
	aColon
	aCommaOrEnd
	nothing
)

// kind is what a token is.
type kind int

const (
	broken kind = iota
	word        // a number, or one of the three words
	text        // a string
	plain       // a string of ASCII without escapes
)

// whole says whether the text was valid and has ended.
func (g *grammar) whole() bool { return !g.bad && g.next == nothing }

func (g *grammar) afterKey(k kind) {
	g.bad = g.bad || k < text || g.next != aKey && g.next != aKeyOrEnd
	g.next = aColon
}

func (g *grammar) colon() {
	g.bad = g.bad || g.next != aColon
	g.next = aValue
}

// scalar is a value that is no object or array.
func (g *grammar) scalar(k kind, outermost bool) {
	g.bad = g.bad || k == broken || g.next != aValue && g.next != aValueOrEnd
	g.after(outermost)
}

func (g *grammar) begin(object bool) {
	g.bad = g.bad || g.next != aValue && g.next != aValueOrEnd
	if g.next = aValueOrEnd; object {
		g.next = aKeyOrEnd
	}
}

// end closes an object or array; fits says whether it is what is open.
func (g *grammar) end(fits, object, outermost bool) {
	empty := aValueOrEnd
	if object {
		empty = aKeyOrEnd
	}
	g.bad = g.bad || !fits || g.next != aCommaOrEnd && g.next != empty
	g.after(outermost)
}

func (g *grammar) comma(inside, object bool) {
	g.bad = g.bad || !inside || g.next != aCommaOrEnd
	if g.next = aValue; object {
		g.next = aKey
	}
}

func (g *grammar) after(outermost bool) {
	if g.next = aCommaOrEnd; outermost {
		g.next = nothing
	}
}

// readString finds the end of the string that begins at i.
func readString(all []byte, i int) (end int, k kind) {
	k = plain
	for i++; i < len(all); i++ {
		switch c := all[i]; {
		case c == '"':
			return i + 1, k
		case c == '\\':
			n := escape(all[i:])
			k = min(k, text)
			if n == 0 {
				k, n = broken, 2
			}
			i += n - 1
		case c < ' ':
			k = broken
		case c >= 0x80:
			k = min(k, text)
		}
	}
	return len(all), broken
}

// escape is how long the escape sequence is that something begins with; 0 where it is none.
func escape(of []byte) int {
	switch {
	case len(of) < 2:
		return 0
	case bytes.IndexByte([]byte(`"\/bfnrt`), of[1]) >= 0:
		return 2
	case of[1] != 'u' || len(of) < 6:
		return 0
	}
	for _, c := range of[2:6] {
		if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'f') {
			return 0
		}
	}
	return 6
}

// wordEnd is where the number or word ends that begins at i.
func wordEnd(all []byte, i int) int {
	for i++; i < len(all); i++ {
		switch all[i] {
		case ',', ']', '}', ' ', '\t', '\r', '\n':
			return i
		}
	}
	return i
}

// wordKind says whether it is a number or one of the three words.
func wordKind(raw []byte) kind {
	switch string(raw) {
	case "true", "false", "null":
		return word
	}
	rest := bytes.TrimPrefix(raw, []byte("-"))
	whole := digits(rest)
	if whole == 0 || whole > 1 && rest[0] == '0' {
		return broken
	}
	if rest = rest[whole:]; len(rest) > 0 && rest[0] == '.' {
		n := digits(rest[1:])
		if n == 0 {
			return broken
		}
		rest = rest[1+n:]
	}
	if len(rest) > 0 && rest[0]|0x20 == 'e' {
		rest = rest[1:]
		if len(rest) > 0 && (rest[0] == '+' || rest[0] == '-') {
			rest = rest[1:]
		}
		if n := digits(rest); n == 0 || n < len(rest) {
			return broken
		}
		return word
	}
	if len(rest) > 0 {
		return broken
	}
	return word
}

func digits(raw []byte) int {
	n := 0
	for n < len(raw) && isDigit(raw[n]) {
		n++
	}
	return n
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
