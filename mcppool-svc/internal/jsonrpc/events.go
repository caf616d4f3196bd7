package jsonrpc

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

// minRetry is the shortest time before a stream is opened again, whatever the server says.
const minRetry = 10 * time.Millisecond

// Event is one event of a stream.
type Event struct {
	Name string
	Data []byte
	Tail []byte // the end of data that was longer than the limit, and cut off there; else nil
}

// IsMessage reports whether the event carries a message.
func (e Event) IsMessage() bool { return e.Name == "" || e.Name == "message" }

// EventReader reads server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html).
type EventReader struct {
	lines *lines
	limit int // bytes of an event's data

	LastID string        // of the last whole event that had one
	Retry  time.Duration // how long to wait before the stream is opened again; 0 if the server did not say
}

// NewEventReader makes one. What is over the limit is cut off; an event of more than the given multiple of the limit ends the stream.
func NewEventReader(src io.Reader, limit, multiple int) *EventReader {
	return &EventReader{lines: newLines(src, limit+len("data: ")+2, multiple*limit), limit: limit}
}

// Next reads one event, whose data may have many lines. The error of a stream that ended is io.EOF.
func (r *EventReader) Next() (Event, error) {
	var e Event
	id := r.LastID
	r.lines.size = 0
	for count := 0; ; {
		line, tail, err := r.lines.next()
		switch {
		case errors.Is(err, io.EOF) && count > 0:
			return e, nil // not ended, but whole
		case err != nil:
			return Event{}, err
		case r.lines.size > r.lines.most:
			return Event{}, ErrEndless
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			r.LastID = id
			if count > 0 {
				return e, nil
			}
			e, r.lines.size = Event{}, 0
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			e.Name = string(value)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				id = string(value)
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				r.Retry = max(time.Duration(ms)*time.Millisecond, minRetry)
			}
		case "data":
			if count++; count > 1 {
				e.Data = append(e.Data, '\n')
			}
			e.add(value, tail, r.limit)
		}
	}
}

// add adds a line to the data, as far as there is room.
func (e *Event) add(value, tail []byte, limit int) {
	room := max(0, limit-len(e.Data))
	if len(value) > room || tail != nil || e.Tail != nil {
		if tail == nil {
			tail = value[max(0, len(value)-tailSize):]
		}
		e.Tail = append(make([]byte, 0, tailSize), tail...)
	}
	e.Data = append(e.Data, value[:min(len(value), room)]...)
}
