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

// readEvents passes the data of the server-sent events of r to handle. An event that the end of r completes counts too: not all servers end
// with an empty line.
func readEvents(r io.Reader, contentType string, handle Decoder) error {
	lines := bufio.NewReaderSize(r, 16<<10)
	var data []byte
	for begun := false; ; {
		line, end := lines.ReadBytes('\n')
		if end != nil && end != io.EOF {
			return end
		}
		line = bytes.TrimRight(line, "\r\n")
		if start := bytes.TrimSpace(line); !begun && len(start) > 0 {
			begun = true
			if bytes.ContainsAny(start[:1], "{[<") {
				return notEvents(contentType, line, lines)
			}
		}
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
		}
		if (len(line) == 0 || end == io.EOF) && len(data) > 0 {
			if err := handle(data); err != nil {
				return err
			}
			data = nil
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
