package rest

import (
	"bytes"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxFindings bounds the findings in one answer.
const maxFindings = 20

// finding is a value in a body that does not fit its message.
type finding struct {
	path string // waitId, approve.input
	what string
	at   string // line 1, column 2
}

func (f finding) text() string {
	if f.path == "" {
		return fmt.Sprintf("%s (%s)", f.what, f.at)
	}
	return fmt.Sprintf("%s: %s (%s)", f.path, f.what, f.at)
}

// inspect compares valid JSON with a message type. It collects what protojson reports one by one or not at all: unknown fields, unknown
// enum values, and numbers in free-form JSON that a double cannot hold.
func inspect(data []byte, message protoreflect.MessageDescriptor) []finding {
	in := &inspector{data: data, dec: jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	in.message(message, "")
	return in.findings
}

// inspector walks through the JSON of a message. It skips values of an unexpected JSON type, which protojson reports.
type inspector struct {
	data     []byte
	dec      *jsontext.Decoder
	findings []finding
}

// start returns where the next token begins.
func (in *inspector) start() int {
	start := int(in.dec.InputOffset())
	for start < len(in.data) && strings.IndexByte(" \t\r\n,:", in.data[start]) >= 0 {
		start++
	}
	return start
}

// token reads a token; at the end and at an error it is the zero token.
func (in *inspector) token() jsontext.Token {
	token, err := in.dec.ReadToken()
	if err != nil {
		return jsontext.Token{}
	}
	return token
}

func (in *inspector) skip() { _ = in.dec.SkipValue() } // an error shows in the next read

// more reports whether the object or array has another member to inspect.
func (in *inspector) more() bool {
	kind := in.dec.PeekKind()
	return len(in.findings) < maxFindings && kind != 0 && kind != '}' && kind != ']'
}

func (in *inspector) add(path, what string, start int) {
	in.findings = append(in.findings, finding{path: path, what: what, at: position(in.data, start)})
}

func (in *inspector) message(md protoreflect.MessageDescriptor, path string) {
	switch {
	case md.FullName() == "google.protobuf.Struct", md.FullName() == "google.protobuf.Value", md.FullName() == "google.protobuf.ListValue":
		in.freeForm(path)
		return
	case in.dec.PeekKind() != '{', md.ParentFile().Package() == "google.protobuf":
		in.skip()
		return
	}
	in.token()
	for in.more() {
		start := in.start()
		name := in.token().String()
		fd := field(md, name)
		if fd == nil {
			in.add(join(path, name), unknownField(name, md), start)
			in.skip()
			continue
		}
		in.field(fd, join(path, name))
	}
	in.token()
}

func (in *inspector) field(fd protoreflect.FieldDescriptor, path string) {
	switch kind := in.dec.PeekKind(); {
	case fd.IsMap() && kind == '{':
		for in.token(); in.more(); {
			key := in.token().String()
			in.single(fd.MapValue(), path+"["+key+"]")
		}
		in.token()
	case fd.IsList() && kind == '[':
		in.token()
		for i := 0; in.more(); i++ {
			in.single(fd, path+"["+strconv.Itoa(i)+"]")
		}
		in.token()
	case fd.IsMap() || fd.IsList():
		in.skip()
	default:
		in.single(fd, path)
	}
}

func (in *inspector) single(fd protoreflect.FieldDescriptor, path string) {
	switch {
	case fd.Message() != nil:
		in.message(fd.Message(), path)
	case fd.Enum() != nil && in.dec.PeekKind() == '"':
		start := in.start()
		if s := in.token().String(); fd.Enum().Values().ByName(protoreflect.Name(s)) == nil {
			in.add(path, unknownValue(s, fd.Enum()), start)
		}
	default:
		in.skip()
	}
}

// freeForm inspects a value that becomes a Struct or a part of one, whose numbers are doubles.
func (in *inspector) freeForm(path string) {
	outer := in.dec.StackDepth()
	for len(in.findings) < maxFindings && (in.more() || in.dec.StackDepth() > outer) {
		start := in.start()
		token := in.token()
		if token.Kind() == 0 {
			return
		}
		if token.Kind() == '0' && isRounded(token.String()) {
			in.add(path, fmt.Sprintf("the number %.40s would be rounded here; send all of %s as JSON text, in the field %[2]sJson instead", token, path), start)
		}
		if in.dec.StackDepth() == outer {
			return
		}
	}
}

// mayRound reports whether a text could hold an integer that a double cannot.
func mayRound(data []byte) bool {
	const digits = 16 // 2^53 has 16 digits
	run := 0
	for _, c := range data {
		if c < '0' || c > '9' {
			run = 0
		} else if run++; run == digits {
			return true
		}
	}
	return false
}

// maxDigits is more than the digits of the largest double. To parse a longer number would take time that grows with the square of its length.
const maxDigits = 400

// isRounded reports whether an integer changes when it becomes a double, as numbers in a Struct do. It returns false for fractions, which are
// approximations anyway.
func isRounded(number string) bool {
	if strings.ContainsAny(number, ".eE") {
		return false
	}
	if len(number) > maxDigits {
		return true
	}
	exact, ok := new(big.Int).SetString(number, 10)
	if !ok || exact.BitLen() <= 53 {
		return false
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return true
	}
	back, _ := big.NewFloat(f).Int(nil)
	return exact.Cmp(back) != 0
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
