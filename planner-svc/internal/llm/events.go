package llm

import (
	"bufio"
	"bytes"
	"cmp"
	"io"
)

// readEvents passes the data of the server-sent events of r to handle, to the end of r, after which the connection serves the next request.
// An event that the end of r completes counts too: not all servers end with an empty line.
func readEvents(r io.Reader, contentType string, handle func(data []byte) error) error {
	lines := bufio.NewReaderSize(r, 16<<10)
	var data []byte
	for {
		line, end := lines.ReadBytes('\n')
		if end != nil && end != io.EOF {
			return end
		}
		line = bytes.TrimRight(line, "\r\n")
		if start := bytes.TrimSpace(line); len(start) > 0 && bytes.IndexByte([]byte("{[<"), start[0]) >= 0 {
			return notEvents(contentType, line, lines)
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
	e := errorf(Broken, "%.60s came instead of a stream of events: %#.120q", cmp.Or(contentType, "something of no type"), bytes.TrimSpace(bytes.Join([][]byte{first, more}, []byte(" "))))
	e.Advice = "what answers there is no such model, or does not stream; an operator has to check `baseUrl` (mostly it ends with /v1)"
	return e
}
