package request

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxFindings is how many misfits one answer lists; more only hide the first.
const maxFindings = 20

// A finding is one thing in a body that does not fit its message.
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

// inspect walks valid JSON along a message and collects what protojson would stop at one by one or not see at all:
// unknown fields, unknown enum values, and numbers in free-form JSON that a double cannot hold.
func inspect(data []byte, message protoreflect.MessageDescriptor) []finding {
	in := &inspector{data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	in.dec.UseNumber()
	in.message(message, "")
	return in.found
}

type inspector struct {
	data  []byte
	dec   *json.Decoder
	found []finding
	ended bool // there is no further token
}

// next reads a token and says where it begins. At the end it is nil, as null is, and ended is set.
func (in *inspector) next() (token json.Token, start int64) {
	start = in.dec.InputOffset()
	for start < int64(len(in.data)) && strings.IndexByte(" \t\r\n,:", in.data[start]) >= 0 {
		start++
	}
	token, err := in.dec.Token()
	if err != nil {
		in.ended = true
		return nil, start
	}
	return token, start
}

// more says whether the object or array has another member.
func (in *inspector) more() bool { return !in.ended && in.dec.More() }

func (in *inspector) add(path, what string, start int64) {
	if len(in.found) < maxFindings {
		in.found = append(in.found, finding{path: path, what: what, at: position(in.data, start)})
	}
}

// message inspects a value that is to become a message. Where it is no object, protojson says so.
func (in *inspector) message(md protoreflect.MessageDescriptor, path string) {
	if md.ParentFile().Package() == "google.protobuf" {
		in.wellKnown(md, path)
		return
	}
	token, start := in.next()
	if token != json.Delim('{') {
		in.rest(token, path, start, false)
		return
	}
	for in.more() {
		key, start := in.next()
		name, _ := key.(string)
		fd := field(md, name)
		if fd == nil {
			in.add(join(path, name), unknownField(name, md), start)
			in.skip(path, false)
			continue
		}
		in.field(fd, join(path, name))
	}
	in.next()
}

// wellKnown inspects a google.protobuf type. Of those, only free-form JSON can go wrong unseen.
func (in *inspector) wellKnown(md protoreflect.MessageDescriptor, path string) {
	switch md.Name() {
	case "Struct", "Value", "ListValue":
		in.skip(path, true)
	default:
		in.skip(path, false)
	}
}

func (in *inspector) field(fd protoreflect.FieldDescriptor, path string) {
	switch {
	case fd.IsMap():
		in.each(json.Delim('{'), func(key string) { in.single(fd.MapValue(), path+"["+key+"]") })
	case fd.IsList():
		i := -1
		in.each(json.Delim('['), func(string) { i++; in.single(fd, fmt.Sprintf("%s[%d]", path, i)) })
	default:
		in.single(fd, path)
	}
}

// each inspects the members of an object or array; of anything else, protojson says that it does not fit.
func (in *inspector) each(open json.Delim, member func(key string)) {
	token, start := in.next()
	if token != open {
		in.rest(token, "", start, false)
		return
	}
	for in.more() {
		key := ""
		if open == json.Delim('{') {
			token, _ := in.next()
			key, _ = token.(string)
		}
		member(key)
	}
	in.next()
}

func (in *inspector) single(fd protoreflect.FieldDescriptor, path string) {
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		in.message(fd.Message(), path)
	case protoreflect.EnumKind:
		token, start := in.next()
		if s, ok := token.(string); ok && fd.Enum().Values().ByName(protoreflect.Name(s)) == nil {
			in.add(path, unknownValue(s, fd.Enum()), start)
		}
		in.rest(token, path, start, false)
	default:
		in.skip(path, false)
	}
}

// skip passes over a value; exact says that its numbers must survive as doubles.
func (in *inspector) skip(path string, exact bool) {
	token, start := in.next()
	in.rest(token, path, start, exact)
}

// rest passes over what remains of a value whose first token was read.
func (in *inspector) rest(token json.Token, path string, start int64, exact bool) {
	for depth := 0; !in.ended; token, start = in.next() {
		switch t := token.(type) {
		case json.Delim:
			if t == '{' || t == '[' {
				depth++
			} else {
				depth--
			}
		case json.Number:
			if exact && rounded(t) {
				in.add(path, "the number "+t.String()+" would be rounded here; send this value as text in the field "+
					jsonTwin(path), start)
			}
		}
		if depth == 0 {
			return
		}
	}
}

// rounded says whether an integer changes when it becomes a double, as numbers in a Struct do. Fractions are decimal
// approximations to begin with and are let through.
func rounded(n json.Number) bool {
	if strings.ContainsAny(n.String(), ".eE") {
		return false
	}
	exact, ok := new(big.Int).SetString(n.String(), 10)
	if !ok || exact.BitLen() <= 53 {
		return false
	}
	f, err := n.Float64()
	if err != nil {
		return true
	}
	back, _ := big.NewFloat(f).Int(nil)
	return exact.Cmp(back) != 0
}

// jsonTwin is the name of the field that takes the same value as exact JSON text: approve.input → approve.inputJson.
func jsonTwin(path string) string { return path + "Json" }

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
