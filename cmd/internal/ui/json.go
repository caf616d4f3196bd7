package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"pawl.dev/services/strictjson"
)

// JSONLine writes m as one line of protojson, the format of streams with --json.
func JSONLine(w io.Writer, m proto.Message) error {
	raw, err := MarshalJSON(m)
	if err != nil {
		return err
	}
	_, err = w.Write(append(raw, '\n'))
	return err
}

// Document writes value as one indented JSON document: a proto message as protojson, any other value as encoding/json does.
func (u *UI) Document(value any) error {
	var raw string
	var err error
	if m, ok := value.(proto.Message); ok {
		var compact []byte
		compact, err = MarshalJSON(m)
		raw = string(compact)
	} else {
		raw, err = strictjson.Marshal(value)
	}
	if err == nil {
		_, err = io.WriteString(u.Out, PrettyJSON(raw, "")+"\n")
	}
	return err
}

// MarshalJSON returns m as compact protojson. It removes the white space that the protobuf library varies on purpose.
func MarshalJSON(m proto.Message) ([]byte, error) {
	raw, err := protojson.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write %s as JSON: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return escapeJSON([]byte(strictjson.Compact(string(raw)))), nil
}

// escapeJSON replaces characters that a terminal would interpret by their JSON escapes.
func escapeJSON(raw []byte) []byte {
	escaped := func(r rune) bool { return r != '\n' && unsafe(r) } // a line end is white space in JSON
	if !bytes.ContainsFunc(raw, escaped) {
		return raw
	}
	var out bytes.Buffer
	for _, r := range string(raw) {
		switch {
		case !escaped(r):
			out.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.Bytes()
}

// CompactJSON returns raw as one line of JSON that is safe to print; "" for an empty object or "". Text that is not JSON is returned as a Line.
func CompactJSON(raw string) string {
	if raw == "" || raw == "{}" {
		return ""
	}
	var out bytes.Buffer
	if err := json.Compact(&out, []byte(raw)); err != nil {
		return Line(raw)
	}
	return string(escapeJSON(out.Bytes()))
}

// PrettyJSON returns raw as indented JSON that is safe to print, each line after prefix. It leaves numbers unchanged. "" counts as an empty
// object, and text that is not JSON is returned as a Line.
func PrettyJSON(raw, prefix string) string {
	if raw == "" {
		raw = "{}"
	}
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(raw), prefix, "  "); err != nil {
		return prefix + Line(raw)
	}
	return prefix + string(escapeJSON(bytes.TrimSpace(out.Bytes())))
}

// TerminalJSON returns a writer that copies JSON to w and escapes the characters that a terminal would interpret.
func TerminalJSON(w io.Writer) io.Writer { return &jsonEscaper{w: w} }

type jsonEscaper struct {
	w       io.Writer
	pending []byte // the end of the last write, which may be an incomplete character
}

func (e *jsonEscaper) Write(p []byte) (int, error) {
	text := append(e.pending, p...)
	end := bytes.LastIndexFunc(text, func(r rune) bool { return r < utf8.RuneSelf }) + 1 // JSON ends with an ASCII character
	e.pending = bytes.Clone(text[end:])
	_, err := e.w.Write(escapeJSON(text[:end]))
	return len(p), err
}
