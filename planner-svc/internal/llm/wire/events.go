package wire

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"

	"pawl.dev/planner-svc/internal/llm"
)

// readEvents passes the server-sent events of r to handle. An event that the end of r completes counts too: not all servers end with an
// empty line.
func readEvents(r io.Reader, contentType string, handle func(kind string, data []byte) error) error {
	lines := bufio.NewReaderSize(r, 16<<10)
	kind, seen := "", false
	var data []byte
	dispatch := func() error {
		k, d := kind, data
		kind, data = "", nil
		if len(d) == 0 {
			return nil
		}
		return handle(k, d)
	}
	for {
		line, end := lines.ReadBytes('\n')
		if end != nil && end != io.EOF {
			return end
		}
		line = bytes.TrimRight(line, "\r\n")
		if !seen && len(bytes.TrimSpace(line)) > 0 {
			seen = true
			if bytes.ContainsAny(bytes.TrimSpace(line)[:1], "{[<") {
				return notEvents(contentType, line, lines)
			}
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			kind = string(value)
		case "data":
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, value...)
		}
		if len(line) == 0 || end == io.EOF {
			if err := dispatch(); err != nil {
				return err
			}
		}
		if end == io.EOF {
			return nil
		}
	}
}

// notEvents explains an answer that is a web page or JSON instead of a stream. Not all servers name the type of a stream, but no line of
// one begins like these.
func notEvents(contentType string, first []byte, rest *bufio.Reader) error {
	more, _ := rest.Peek(rest.Buffered())
	kind := "something of no type"
	if contentType != "" {
		kind = fmt.Sprintf("%.60s", contentType)
	}
	return &llm.Error{
		Class:   llm.Broken,
		Message: fmt.Sprintf("%s came instead of a stream of events: %s", kind, excerpt(string(first)+" "+string(more))),
		Advice:  "what answers there is no such model, or does not stream; an operator has to check `baseUrl` (mostly it ends with /v1)",
	}
}

// excerpt returns the beginning of a text on one line, without control characters.
func excerpt(text string) string {
	const most = 120
	shown := strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text[:min(len(text), 4*most)], ""), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	if runes := []rune(shown); len(runes) > most {
		return string(runes[:most]) + " …"
	}
	return shown
}
