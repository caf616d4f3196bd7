package rawjson

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxDepth is how deep arrays and objects may be nested. A document also travels as google.protobuf.Struct, which needs
// three messages per level of at most 10,000.
const MaxDepth = 500

// Error says where a document is wrong.
type Error struct {
	Offset  int    // byte in the text
	Pointer string // JSON pointer of the innermost value around it; "" is the document
	Message string
}

func (e *Error) Error() string {
	at := "at byte " + strconv.Itoa(e.Offset)
	if e.Pointer != "" {
		at += " in " + strconv.Quote(e.Pointer)
	}
	return at + ": " + e.Message
}

// Check says whether text is one JSON value as RFC 8259 has it, in valid UTF-8, nested at most MaxDepth deep, and without
// an object that has a key twice (after unescaping): programs disagree on which of the two counts. The number function,
// where not nil, may refuse numbers.
func Check(text string, number func(string) error) error {
	if !utf8.ValidString(text) {
		return &Error{Message: "the text is not valid UTF-8"}
	}
	c := checker{text: text, number: number}
	c.space()
	if err := c.value(0); err != nil {
		return err
	}
	c.space()
	if c.pos < len(text) {
		return c.fail("%s after the end of the value", c.here())
	}
	return nil
}

type checker struct {
	text   string
	pos    int
	number func(string) error
}

func (c *checker) fail(format string, args ...any) *Error {
	return &Error{Offset: c.pos, Message: fmt.Sprintf(format, args...)}
}

// here shows what stands at the position.
func (c *checker) here() string {
	if c.pos >= len(c.text) {
		return "the text ends"
	}
	r, _ := utf8.DecodeRuneInString(c.text[c.pos:])
	return "unexpected " + strconv.QuoteRune(r)
}

func (c *checker) space() {
	c.pos = skipSpace(c.text, c.pos)
}

func (c *checker) next(b byte) bool {
	if c.pos < len(c.text) && c.text[c.pos] == b {
		c.pos++
		return true
	}
	return false
}

func (c *checker) value(depth int) *Error {
	if c.pos >= len(c.text) {
		return c.fail("the text ends where a value should be")
	}
	switch b := c.text[c.pos]; {
	case b == '{' || b == '[':
		if depth >= MaxDepth {
			return c.fail("it is nested deeper than %d levels", MaxDepth)
		}
		if b == '{' {
			return c.object(depth + 1)
		}
		return c.array(depth + 1)
	case b == '"':
		_, err := c.str()
		return err
	case b == '-' || isDigit(b):
		return c.num()
	}
	for _, word := range []string{"true", "false", "null"} {
		if strings.HasPrefix(c.text[c.pos:], word) {
			c.pos += len(word)
			return nil
		}
	}
	return c.fail("%s where a value should be", c.here())
}

func (c *checker) object(depth int) *Error {
	c.pos++
	c.space()
	if c.next('}') {
		return nil
	}
	var seen keySet
	for {
		start := c.pos
		if c.pos >= len(c.text) || c.text[c.pos] != '"' {
			return c.fail("%s where a key should be", c.here())
		}
		raw, err := c.str()
		if err != nil {
			return err
		}
		key := Unquote(raw)
		if !seen.add(key) {
			return &Error{Offset: start, Message: fmt.Sprintf("the key %q is there twice", key)}
		}
		c.space()
		if !c.next(':') {
			return c.fail("%s where a colon should be", c.here())
		}
		c.space()
		if err := c.value(depth); err != nil {
			return err.within(key)
		}
		c.space()
		if c.next('}') {
			return nil
		}
		if !c.next(',') {
			return c.fail("%s where a comma or } should be", c.here())
		}
		c.space()
	}
}

func (c *checker) array(depth int) *Error {
	c.pos++
	c.space()
	if c.next(']') {
		return nil
	}
	for i := 0; ; i++ {
		if err := c.value(depth); err != nil {
			return err.within(strconv.Itoa(i))
		}
		c.space()
		if c.next(']') {
			return nil
		}
		if !c.next(',') {
			return c.fail("%s where a comma or ] should be", c.here())
		}
		c.space()
	}
}

// str returns the string as it is written, with its quotes.
func (c *checker) str() (string, *Error) {
	start := c.pos
	for c.pos++; c.pos < len(c.text); c.pos++ {
		switch b := c.text[c.pos]; {
		case b == '"':
			c.pos++
			return c.text[start:c.pos], nil
		case b < ' ':
			return "", c.fail("a string holds the control character %q; it must be escaped", b)
		case b == '\\':
			if err := c.escape(); err != nil {
				return "", err
			}
		}
	}
	c.pos = start
	return "", c.fail("a string has no end")
}

// escape stands on the backslash, and leaves the position on the escape's last byte.
func (c *checker) escape() *Error {
	rest := c.text[c.pos+1:]
	if rest == "" {
		return c.fail("the text ends in a string")
	}
	if rest[0] != 'u' {
		if strings.IndexByte(`"\/bfnrt`, rest[0]) < 0 {
			return c.fail("a string holds the unknown escape %q", rest[:1])
		}
		c.pos++
		return nil
	}
	if len(rest) < 5 {
		return c.fail("the text ends in a string")
	}
	if _, err := strconv.ParseUint(rest[1:5], 16, 16); err != nil {
		return c.fail("a string holds an escape that is not \\u and four hex digits")
	}
	c.pos += 5
	return nil
}

func (c *checker) num() *Error {
	start := c.pos
	c.next('-')
	if !c.next('0') && !c.digits() {
		return c.fail("%s where a digit should be", c.here())
	}
	if c.next('.') && !c.digits() {
		return c.fail("%s where a digit should be", c.here())
	}
	if c.next('e') || c.next('E') {
		if !c.next('+') {
			c.next('-')
		}
		if !c.digits() {
			return c.fail("%s where a digit should be", c.here())
		}
	}
	if c.number == nil {
		return nil
	}
	if err := c.number(c.text[start:c.pos]); err != nil {
		return &Error{Offset: start, Message: err.Error()}
	}
	return nil
}

// digits passes one or more digits.
func (c *checker) digits() bool {
	start := c.pos
	for c.pos < len(c.text) && isDigit(c.text[c.pos]) {
		c.pos++
	}
	return c.pos > start
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// within adds the step to the container that the failed value is in. It does not move an error of the key itself.
func (e *Error) within(step string) *Error {
	e.Pointer = "/" + EscapePointer(step) + e.Pointer
	return e
}

// keySet is a set of keys that needs no map for small objects.
type keySet struct {
	few  [16]string
	n    int // of few
	many map[string]struct{}
}

// add says whether the key was not there yet.
func (s *keySet) add(key string) bool {
	if s.many != nil {
		if _, there := s.many[key]; there {
			return false
		}
		s.many[key] = struct{}{}
		return true
	}
	if slices.Contains(s.few[:s.n], key) {
		return false
	}
	s.few[s.n] = key
	if s.n++; s.n == len(s.few) {
		s.many = make(map[string]struct{}, 2*len(s.few))
		for _, k := range s.few {
			s.many[k] = struct{}{}
		}
	}
	return true
}
