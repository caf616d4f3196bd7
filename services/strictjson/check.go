package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how deep arrays and objects may be nested by default. A document also travels as google.protobuf.Struct, which needs
// three messages per level of at most 10,000.
const MaxDepth = 500

// Reasons for which a text is refused.
var (
	ErrInvalid   = errors.New("it is not valid JSON")
	ErrDuplicate = errors.New("a key comes twice in one object")
	ErrDepth     = errors.New("it is nested too deep")
	ErrNumber    = errors.New("a number is too expensive to compute with")
)

// Rules say what is refused beyond RFC 8259 and duplicate keys.
type Rules struct {
	MaxDepth int  // 0: the package's MaxDepth
	AnyUTF8  bool // accept invalid UTF-8 in strings, as encoding/json does
}

// Wire are the rules for messages of peers that are not trusted. They exchange far less nesting, and recursive programs in any language
// stand this much.
var Wire = Rules{MaxDepth: 256, AnyUTF8: true}

// Text is JSON as a string or as bytes.
type Text interface{ ~string | ~[]byte }

// Error says where a text is wrong. It matches one of the reasons above.
type Error struct {
	Offset  int    // byte in the text
	Pointer string // JSON pointer of the innermost value around it; "" is the document
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
	return d.check(load(d, text), rules, nil)
}

// Scan validates text as Check does and passes each member of the outermost object to take, all in one pass. Neither the key nor the
// value is copied. If the text is refused, take still gets the members that quotes and brackets tell apart, the last of them perhaps
// cut off, so that a broken message can be attributed.
func Scan(text []byte, rules Rules, take func(key, value []byte)) error {
	d := decoders.Get().(*decoder)
	defer d.release()
	taken := 0
	err := d.check(text, rules, func(key, value []byte) {
		taken++
		take(key, value)
	})
	if err == nil {
		return nil
	}
	for key, value := range members(text, true) {
		if taken--; taken < 0 {
			take(Unquote(key), value)
		}
	}
	return err
}

// check validates data and passes the members of an object to take, if it is not nil.
func (d *decoder) check(data []byte, rules Rules, take func(key, value []byte)) error {
	if err := precheck(data, rules); err != nil {
		return err
	}
	// It accepts any UTF-8, because precheck has refused what the rules do not allow.
	d.buffer = *bytes.NewBuffer(data)
	d.json.Reset(&d.buffer, jsontext.AllowInvalidUTF8(true))
	var err error
	if take != nil && d.json.PeekKind() == '{' {
		err = d.readMembers(data, take)
	} else {
		_, err = d.json.ReadValue()
	}
	if err != nil {
		return describe(err, data)
	}
	if at := skipSpace(data, int(d.json.InputOffset())); at < len(data) {
		return &Error{Offset: at, Message: "there is more after the end of the value", Reason: ErrInvalid}
	}
	return nil
}

func (d *decoder) readMembers(data []byte, take func(key, value []byte)) error {
	if _, err := d.json.ReadToken(); err != nil {
		return err
	}
	for d.json.PeekKind() != '}' {
		key, err := d.json.ReadValue()
		if err != nil {
			return err
		}
		start := int(d.json.InputOffset()) - len(key)
		key = data[start : start+len(key)] // the decoder's own slice ends with the next read
		value, err := d.json.ReadValue()
		if err != nil {
			return err
		}
		end := int(d.json.InputOffset())
		take(Unquote([]byte(key)), data[end-len(value):end:end])
	}
	_, err := d.json.ReadToken()
	return err
}

// precheck applies the rules that need no parser.
func precheck(data []byte, rules Rules) error {
	if !rules.AnyUTF8 && !utf8.Valid(data) {
		return &Error{Message: "the text is not valid UTF-8", Reason: ErrInvalid}
	}
	most := rules.MaxDepth
	if most == 0 {
		most = MaxDepth
	}
	if at := tooDeep(data, most); at >= 0 {
		return &Error{Offset: at, Message: fmt.Sprintf("it is nested deeper than %d levels", most), Reason: ErrDepth}
	}
	return nil
}

// tooDeep returns where the nesting exceeds the limit, or -1.
func tooDeep(data []byte, most int) int {
	if bytes.Count(data, []byte("{"))+bytes.Count(data, []byte("[")) <= most {
		return -1
	}
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i = stringEnd(data, i) - 1
		case '{', '[':
			if depth++; depth > most {
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
	copied []byte // memory for text that is given as a string
}

var decoders = sync.Pool{New: func() any { return &decoder{json: jsontext.NewDecoder(new(bytes.Buffer))} }}

// load returns the text as bytes; those of a string are valid until release.
func load[T Text](d *decoder, text T) []byte {
	if s, ok := any(text).(string); ok {
		d.copied = append(d.copied[:0], s...)
		return d.copied
	}
	return []byte(text)
}

func (d *decoder) release() {
	const most = 64 << 10
	d.buffer = bytes.Buffer{}
	d.json.Reset(&d.buffer)
	if cap(d.copied) > most {
		d.copied = nil
	}
	decoders.Put(d)
}

// describe words an error of the decoder.
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
