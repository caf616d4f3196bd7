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

// JSONLine writes m as protojson on one line: what a stream with --json consists of.
func JSONLine(w io.Writer, m proto.Message) error {
	raw, err := MarshalJSON(m)
	if err != nil {
		return err
	}
	_, err = w.Write(append(raw, '\n'))
	return err
}

// Document writes value as one indented JSON document: a message as protojson, any other value as encoding/json does.
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

// MarshalJSON is compact protojson. The protobuf library varies its white space on purpose; this takes it out.
func MarshalJSON(m proto.Message) ([]byte, error) {
	raw, err := protojson.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write %s as JSON: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return harmlessJSON([]byte(strictjson.Compact(string(raw)))), nil
}

// harmlessJSON writes the characters that a terminal would obey as escapes, which mean the same in JSON.
func harmlessJSON(raw []byte) []byte {
	obeyed := func(r rune) bool { return r != '\n' && harmful(r) } // a line end is white space here
	if !bytes.ContainsFunc(raw, obeyed) {
		return raw
	}
	var out bytes.Buffer
	for _, r := range string(raw) {
		switch {
		case !obeyed(r):
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

// CompactJSON is raw on one line, for people: without needless spaces and harmless. What is no JSON is shown as it is.
func CompactJSON(raw string) string {
	if raw == "" || raw == "{}" {
		return ""
	}
	var out bytes.Buffer
	if err := json.Compact(&out, []byte(raw)); err != nil {
		return Line(raw)
	}
	return string(harmlessJSON(out.Bytes()))
}

// PrettyJSON is raw over several lines, each behind prefix; numbers stay exactly as they are.
func PrettyJSON(raw, prefix string) string {
	if raw == "" {
		raw = "{}"
	}
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(raw), prefix, "  "); err != nil {
		return prefix + Line(raw)
	}
	return prefix + string(harmlessJSON(bytes.TrimSpace(out.Bytes())))
}

// HarmlessJSON passes JSON on to a terminal: characters that it would obey become escapes, which mean the same.
func HarmlessJSON(w io.Writer) io.Writer { return &harmless{w: w} }

type harmless struct {
	w    io.Writer
	rest []byte // the end of what was written, which may have cut a character
}

func (h *harmless) Write(p []byte) (int, error) {
	text := append(h.rest, p...)
	end := bytes.LastIndexFunc(text, func(r rune) bool { return r < utf8.RuneSelf }) + 1 // JSON ends with such a character
	h.rest = bytes.Clone(text[end:])
	_, err := h.w.Write(harmlessJSON(text[:end]))
	return len(p), err
}
