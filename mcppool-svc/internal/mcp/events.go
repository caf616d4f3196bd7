package mcp

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

// minRetry is the shortest time before a stream is opened again, whatever the server says.
const minRetry = 10 * time.Millisecond

// event is one event of a stream.
type event struct {
	name string
	data []byte
	tail []byte // the end of data that was longer than the limit, and cut off there; else nil
}

// isMessage reports whether the event carries a message.
func (e event) isMessage() bool { return e.name == "" || e.name == "message" }

// eventReader reads server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html).
type eventReader struct {
	lines *lines
	limit int // bytes of an event's data

	lastID string        // of the last whole event that had one
	retry  time.Duration // how long to wait before the stream is opened again; 0 if the server did not say
}

// newEventReader makes one. What is over the limit is cut off; an event of more than the given multiple of the limit ends the stream.
func newEventReader(src io.Reader, limit, multiple int) *eventReader {
	return &eventReader{lines: newLines(src, limit+len("data: ")+2, multiple*limit), limit: limit}
}

// next reads one event, whose data may have many lines. The error of a stream that ended is io.EOF.
func (r *eventReader) next() (event, error) {
	var e event
	id := r.lastID
	r.lines.size = 0
	for count := 0; ; {
		line, tail, err := r.lines.next()
		switch {
		case errors.Is(err, io.EOF) && count > 0:
			return e, nil // not ended, but whole
		case err != nil:
			return event{}, err
		case r.lines.size > r.lines.most:
			return event{}, endless(r.limit)
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			r.lastID = id
			if count > 0 {
				return e, nil
			}
			e, r.lines.size = event{}, 0
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			e.name = string(value)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				id = string(value)
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				r.retry = max(time.Duration(ms)*time.Millisecond, minRetry)
			}
		case "data":
			if count++; count > 1 {
				e.data = append(e.data, '\n')
			}
			e.add(value, tail, r.limit)
		}
	}
}

// add adds a line to the data, as far as there is room.
func (e *event) add(value, tail []byte, limit int) {
	room := max(0, limit-len(e.data))
	if len(value) > room || tail != nil || e.tail != nil {
		if tail == nil {
			tail = value[max(0, len(value)-tailSize):]
		}
		e.tail = append(make([]byte, 0, tailSize), tail...)
	}
	e.data = append(e.data, value[:min(len(value), room)]...)
}
