package strictjson

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how deep arrays and objects may be nested by default. A google.protobuf.Struct of that depth is safe: it nests three
// messages per level, and protobuf allows 10,000.
const MaxDepth = 500

// Reasons for which a text is refused.
var (
	ErrInvalid   = errors.New("it is not valid JSON")
	ErrDuplicate = errors.New("a key comes twice in one object")
	ErrDepth     = errors.New("it is nested too deep")
	ErrNumber    = errors.New("a number is too expensive to compute with")
)

// Rules are the options of a check. Duplicate keys and violations of the grammar of RFC 8259 are always refused.
type Rules struct {
	MaxDepth int  // 0: the package's MaxDepth
	AnyUTF8  bool // accept invalid UTF-8 in strings, as encoding/json does
}

// Wire has the rules for messages of untrusted peers. Such messages need little nesting, and recursive parsers in any language can
// handle this much.
var Wire = Rules{MaxDepth: 256, AnyUTF8: true}

// Text is JSON as a string or as bytes.
type Text interface{ ~string | ~[]byte }

// Error describes why a text is refused. It wraps one of the errors above.
type Error struct {
	Offset  int    // of the fault, in bytes; 0 if unknown
	Pointer string // JSON pointer of the innermost value known to hold the fault; "" is the document
	Message string
	Reason  error
}

func (e *Error) Error() string {
	at := "at byte " + strconv.Itoa(e.Offset)
	if e.Pointer != "" {
		at += " in " + strconv.Quote(e.Pointer)
	}
	return at + ": " + e.Message
}

func (e *Error) Unwrap() error { return e.Reason }

// Check validates one JSON value. The error is an *Error.
func Check[T Text](text T, rules Rules) error {
	d := decoders.Get().(*decoder)
	defer d.release()
	return d.check(load(d, text), rules)
}

// Scan validates text as Check does and passes each member of the outermost object to take. Keys and values may point into text. If
// the text is refused, take still gets the members that can be found by matching quotes and brackets, so that a broken message can be
// attributed. The last member may be cut off then.
func Scan(text []byte, rules Rules, take func(key, value []byte)) error {
	err := Check(text, rules)
	for key, value := range members(text, err != nil) {
		take(Unquote(key), value)
	}
	return err
}

func (d *decoder) check(data []byte, rules Rules) error {
	if !rules.AnyUTF8 && !utf8.Valid(data) {
		return &Error{Message: "the text is not valid UTF-8", Reason: ErrInvalid}
	}
	limit := cmp.Or(rules.MaxDepth, MaxDepth)
	if at := tooDeep(data, limit); at >= 0 {
		return &Error{Offset: at, Message: fmt.Sprintf("it is nested deeper than %d levels", limit), Reason: ErrDepth}
	}
	d.buffer = *bytes.NewBuffer(data)
	d.json.Reset(&d.buffer, jsontext.AllowInvalidUTF8(true)) // checked above
	if _, err := d.json.ReadValue(); err != nil {
		return describe(err, data)
	}
	if at := skipSpace(data, int(d.json.InputOffset())); at < len(data) {
		return &Error{Offset: at, Message: "there is more after the end of the value", Reason: ErrInvalid}
	}
	return nil
}

// tooDeep returns the offset at which the nesting exceeds the limit, or -1.
func tooDeep(data []byte, limit int) int {
	if bytes.Count(data, []byte("{"))+bytes.Count(data, []byte("[")) <= limit {
		return -1
	}
	depth := 0
	for i := 0; i < len(data); i = tokenEnd(data, i) {
		switch data[i] {
		case '{', '[':
			if depth++; depth > limit {
				return i
			}
		case '}', ']':
			depth--
		}
	}
	return -1
}

// decoder is a jsontext decoder with the buffer it reads.
type decoder struct {
	json   *jsontext.Decoder
	buffer bytes.Buffer
	copied []byte // holds the bytes of a text that is a string
}

var decoders = sync.Pool{New: func() any { return &decoder{json: jsontext.NewDecoder(new(bytes.Buffer))} }}

// load returns the text as bytes. If the text is a string, the bytes are valid until release.
func load[T Text](d *decoder, text T) []byte {
	if s, ok := any(text).(string); ok {
		d.copied = append(d.copied[:0], s...)
		return d.copied
	}
	return []byte(text)
}

func (d *decoder) release() {
	const maxKept = 64 << 10
	d.buffer = bytes.Buffer{}
	d.json.Reset(&d.buffer)
	if cap(d.copied) > maxKept {
		d.copied = nil
	}
	decoders.Put(d)
}

// describe turns an error of the decoder into an *Error.
func describe(err error, data []byte) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &Error{Offset: len(data), Message: "unexpected end of JSON input", Reason: ErrInvalid}
	}
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return &Error{Message: err.Error(), Reason: ErrInvalid}
	}
	e := &Error{Offset: int(syntax.ByteOffset), Pointer: string(syntax.JSONPointer), Message: syntax.Err.Error(), Reason: ErrInvalid}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		e.Pointer, e.Reason = string(syntax.JSONPointer.Parent()), ErrDuplicate
		e.Message = fmt.Sprintf("the key %q comes twice", syntax.JSONPointer.LastToken())
	}
	return e
}

// Document is one valid JSON value, with numbers, strings and the order of members as they were written. Parse makes its text compact.
// Parse a text once, where it arrives, and pass the Document on: no reader has to check it again.
//
//	input, err := schema.ParseObject(req.GetInput(), req.GetInputJson()) // calls Parse
//	err = inputSchema.ValidateDocument(input)                            // does not check the syntax again
//	request = append(request, input.String()...)                         // valid JSON without line feeds
//
// Members, Items, Kind and MemberMap read the text of a Document.
type Document struct{ text string }

// Parse validates and compacts one JSON value. It copies the text only if there is space between tokens. The error is an *Error.
func Parse(text string, rules Rules) (Document, error) {
	if err := Check(text, rules); err != nil {
		return Document{}, err
	}
	return Document{Compact(text)}, nil
}

// Checked returns the Document of a value within a text that Check, Scan or Parse accepted. It does not make the value compact.
func Checked(value string) Document { return Document{value} }

// String returns the document's text; "" for the zero Document.
func (d Document) String() string { return d.text }

const (
	maxNumberLen = 2000
	maxExponent  = 2000
)

// CheckNumbers refuses numbers that are expensive to compute with, such as 1e999999999. The error is an *Error.
func (d Document) CheckNumbers() error {
	for i := 0; i < len(d.text); i = tokenEnd(d.text, i) {
		if c := d.text[i]; c != '-' && !isDigit(c) {
			continue
		}
		if message := numberProblem(d.text[i:tokenEnd(d.text, i)]); message != "" {
			return &Error{Offset: i, Pointer: pointerAt(d.text, i), Message: message, Reason: ErrNumber}
		}
	}
	return nil
}

func numberProblem(number string) string {
	if len(number) > maxNumberLen {
		return fmt.Sprintf("a number has %d characters; the limit is %d", len(number), maxNumberLen)
	}
	i := strings.IndexAny(number, "eE")
	if i < 0 {
		return ""
	}
	exponent, err := strconv.Atoi(number[i+1:])
	if err != nil || exponent > maxExponent || exponent < -maxExponent {
		return fmt.Sprintf("the number %s has an exponent beyond ±%d", number, maxExponent)
	}
	return ""
}

// pointerAt returns the JSON pointer of the value that begins at an offset of valid JSON.
func pointerAt(data string, offset int) string {
	d := jsontext.NewDecoder(strings.NewReader(data), jsontext.AllowInvalidUTF8(true))
	for int(d.InputOffset()) <= offset {
		if _, err := d.ReadToken(); err != nil {
			return ""
		}
	}
	return string(d.StackPointer())
}
