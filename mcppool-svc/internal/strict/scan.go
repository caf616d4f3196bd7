package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// MaxDepth is how deep values may be nested. What tools exchange stays far below, and programs that recurse, in whatever
	// language, stand it.
	MaxDepth = 256
	// smallObject is up to how many keys an object's keys are compared one by one.
	smallObject = 16
)

// What is refused.
var (
	ErrTwice   = errors.New("a key comes twice in one object")
	ErrCase    = errors.New("a key of the message is in the wrong letter case")
	ErrDeep    = fmt.Errorf("it is nested more than %d levels deep", MaxDepth)
	ErrInvalid = errors.New("it is not valid JSON")
)

// members are those of a JSON-RPC message.
var members = []string{"jsonrpc", "id", "method", "params", "result", "error"}

// Message is what a look at a JSON-RPC message tells, also at one that is cut off or cannot be used.
type Message struct {
	ID     []byte // raw; nil where there is none
	Method bool   // it has a method
	Answer bool   // it has a result or an error
	Result []byte // raw; nil where there is none
	Error  []byte // the same
	Err    error  // why it cannot be used; nil where it can
}

// Check refuses text that is not JSON, has a key twice in one object, or is nested too deep.
func Check(text []byte) error { return scan(text, false).Err }

// Scan looks at a message. Its own members are refused in another letter case too: a reader that does not care for it
// would take one for the other.
func Scan(text []byte) Message { return scan(text, true) }

func scan(text []byte, message bool) Message {
	const depth, many = 6, 10 // as most messages have
	s := scanner{text: text, message: message, frames: make([]frame, 0, depth), keys: make([][]byte, 0, many)}
	s.run()
	if s.err == nil && !s.whole() {
		s.err = ErrInvalid
	}
	return Message{ID: s.id.of(text), Method: s.method, Answer: s.answer, Result: s.result.of(text), Error: s.failure.of(text), Err: s.err}
}

// scanner goes over text once. What it finds relies on nothing but the brackets and quotes, so that invalid text does no harm; whether
// the text is valid is seen beside that.
type scanner struct {
	grammar
	text    []byte
	message bool // it is one
	frames  []frame
	keys    [][]byte // of all open objects, the innermost last
	beyond  int      // levels below MaxDepth
	isID    bool     // the value of the message's id comes next
	value   member   // the value of this member comes next
	at      int      // where the scanner is
	begun   int      // where that value began, while it is open

	// What Message says.
	id, result, failure span
	method, answer      bool
	err                 error
}

// member is one of a message whose value is kept.
type member int

const (
	none member = iota
	result
	failure
)

// span is a place in a text.
type span struct{ from, to int }

// of is what is there; nil where there is nothing.
func (p span) of(text []byte) []byte {
	if p.to == 0 {
		return nil
	}
	return text[p.from:p.to]
}

// frame is an open object or array.
type frame struct {
	object bool
	key    bool            // a key comes next
	first  int             // its first key in keys
	seen   map[string]bool // its keys, once there are many
}

func (s *scanner) run() {
	for i := 0; i < len(s.text); i++ {
		s.at = i
		switch c := s.text[i]; c {
		case '"':
			end, kind := readString(s.text, i)
			s.token(span{i, end}, kind)
			i = end - 1
		case '{', '[':
			s.open(c == '{')
		case '}', ']':
			s.close(c == '}')
		case ',':
			top := s.top()
			s.comma(top != nil, top != nil && top.object)
			if top != nil {
				top.key = top.object
			}
		case ':':
			s.colon()
		case ' ', '\t', '\r', '\n':
		default:
			end := wordEnd(s.text, i)
			s.token(span{i, end}, wordKind(s.text[i:end]))
			i = end - 1
		}
	}
}

// stringEnd is where the string that begins at i has ended.
func stringEnd(text []byte, i int) int {
	quote := i
	for i++; i < len(text); {
		if quote < i {
			n := bytes.IndexByte(text[i:], '"')
			if n < 0 {
				break
			}
			quote = i + n
		}
		escape := bytes.IndexByte(text[i:quote], '\\')
		if escape < 0 {
			return quote + 1
		}
		i += escape + 2
	}
	return len(text)
}

// top is the innermost open object or array, where keys are looked at.
func (s *scanner) top() *frame {
	if len(s.frames) == 0 || s.beyond > 0 {
		return nil
	}
	return &s.frames[len(s.frames)-1]
}

// token is a string, number or word.
func (s *scanner) token(at span, k kind) {
	if top := s.top(); top != nil && top.key {
		top.key = false
		s.afterKey(k)
		s.add(top, s.text[at.from:at.to], k)
		return
	}
	s.scalar(k, len(s.frames) == 0)
	if s.isID && len(s.frames) == 1 {
		s.id = at
	}
	s.isID = false
	if len(s.frames) == 1 {
		s.keep(at)
	}
}

// keep takes the whole value of a member.
func (s *scanner) keep(at span) {
	switch s.value {
	case result:
		s.result = at
	case failure:
		s.failure = at
	}
	s.value = none
}

// add takes a key.
func (s *scanner) add(f *frame, raw []byte, k kind) {
	key := bytes.Trim(raw, `"`)
	if k != plain && (bytes.IndexByte(raw, '\\') >= 0 || !utf8.Valid(raw)) {
		var text string
		if json.Unmarshal(raw, &text) == nil {
			key = []byte(text)
		}
	}
	if len(s.frames) == 1 {
		s.member(string(key))
	}
	if s.err != nil {
		return // one reason is enough
	}
	switch n := len(s.keys) - f.first; {
	case f.seen != nil:
	case n < smallObject:
		for _, k := range s.keys[f.first:] {
			if bytes.Equal(k, key) {
				s.fail(ErrTwice)
			}
		}
		s.keys = append(s.keys, key)
		return
	default:
		f.seen = make(map[string]bool, 4*smallObject)
		for _, k := range s.keys[f.first:] {
			f.seen[string(k)] = true
		}
	}
	if f.seen[string(key)] {
		s.fail(ErrTwice)
	}
	f.seen[string(key)] = true
}

// member notes a key of the message itself.
func (s *scanner) member(key string) {
	switch key {
	case "id":
		s.isID = s.id.to == 0
	case "method":
		s.method = true
	case "result":
		s.answer, s.value = true, result
	case "error":
		s.answer, s.value = true, failure
	case "jsonrpc", "params":
	default:
		if s.message && slices.ContainsFunc(members, func(m string) bool { return strings.EqualFold(m, key) }) {
			s.fail(ErrCase)
		}
	}
}

func (s *scanner) open(object bool) {
	s.isID = false
	s.begin(object)
	if len(s.frames) == 1 {
		s.begun = s.at
	}
	if len(s.frames) == MaxDepth {
		s.fail(ErrDeep)
		s.beyond++
		return
	}
	s.frames = append(s.frames, frame{object: object, key: object, first: len(s.keys)})
}

func (s *scanner) close(object bool) {
	top := s.top()
	s.end(top != nil && top.object == object, object, len(s.frames) <= 1)
	switch {
	case s.beyond > 0:
		s.beyond--
	case len(s.frames) > 0:
		s.keys = s.keys[:s.frames[len(s.frames)-1].first]
		s.frames = s.frames[:len(s.frames)-1]
		if len(s.frames) == 1 {
			s.keep(span{s.begun, s.at + 1})
		}
	}
}

func (s *scanner) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}
