package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// checkedBody stands between an HTTP answer and mcp-go, which takes the last of two results: a message that says two things
// has a verdict put in its place, as on stdio. It passes on whole messages, which mcp-go waits for anyway: the whole body,
// or one event of a stream.
type checkedBody struct {
	io.ReadCloser // bounded
	judge         *judge
	x             *exchange // keeps the answer that it wants
	events        bool

	src   *bufio.Reader // of events
	ready []byte        // what may be passed on
	end   error         // what comes after it
	event []byte        // the lines of the current event, ended ones alone
}

// Read implements io.Reader.
func (b *checkedBody) Read(p []byte) (int, error) {
	for len(b.ready) == 0 {
		if b.end != nil {
			return 0, b.end
		}
		if b.events {
			b.next()
		} else {
			b.whole()
		}
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

func (b *checkedBody) whole() {
	text, err := io.ReadAll(b.ReadCloser)
	b.end = io.EOF
	if err != nil {
		b.end = err
	}
	b.ready = text
	if verdict := b.verdict(text); err == nil && verdict != nil {
		b.ready = verdict
	}
}

// next reads a line; an empty one ends an event.
func (b *checkedBody) next() {
	if b.src == nil {
		b.src = bufio.NewReader(b.ReadCloser)
	}
	line, err := b.src.ReadBytes('\n')
	b.event = append(b.event, line...)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		b.end = err // the event is not whole: mcp-go is not to take it for one
	case err != nil:
		b.end = err
		b.flush()
	case len(bytes.TrimRight(line, "\r\n")) == 0:
		b.flush()
	}
}

// flush passes the event on.
func (b *checkedBody) flush() {
	b.ready = b.event
	b.event = nil
	if verdict := b.verdict(dataOf(b.ready)); verdict != nil {
		// Other fields of the event stay as they are: an id is where the stream is taken up again.
		b.ready = append(withoutData(b.ready), "data: "+string(verdict)+"\n"...)
	}
}

// verdict is what to put in the place of a message; nil where it can stay. What nobody can wait for stays too: mcp-go drops it. A
// result that was read here is not read again.
func (b *checkedBody) verdict(text []byte) []byte {
	m := readMessage(text)
	switch {
	case m.Method || !m.Answer:
		return nil
	case m.Err == nil && b.x.keep(m):
		return emptyAnswer(m.ID)
	case m.Err == nil || !numericID.Match(m.ID):
		return nil
	}
	return b.judge.line(m.ID, m.Err)
}

// emptyAnswer is an answer in the place of one that is kept.
func emptyAnswer(id []byte) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", id)
}

// dataOf joins the data lines of an event.
func dataOf(event []byte) []byte {
	var data [][]byte
	for line := range bytes.Lines(event) {
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(data, bytes.TrimPrefix(bytes.TrimRight(value, "\r\n"), []byte(" ")))
		}
	}
	return bytes.Join(data, []byte("\n"))
}

// withoutData is an event without its data and its end.
func withoutData(event []byte) []byte {
	var rest []byte
	for line := range bytes.Lines(event) {
		if !bytes.HasPrefix(line, []byte("data:")) && len(bytes.TrimRight(line, "\r\n")) > 0 {
			rest = append(rest, line...)
		}
	}
	return rest
}
