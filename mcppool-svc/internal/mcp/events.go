package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

// event is one event of a stream.
type event struct {
	name []byte
	data []byte
	long bool // data was longer than the limit, and cut off there
}

// isMessage reports whether the event carries a message.
func (e event) isMessage() bool { return len(e.name) == 0 || string(e.name) == "message" }

// eventReader reads server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html).
type eventReader struct {
	src   *bufio.Reader
	limit int // bytes of an event's data
	most  int // bytes of a whole event; a longer one ends the stream
	size  int // of the current event

	lastID string        // of the last whole event that had one
	retry  time.Duration // how long to wait before the stream is opened again; 0 if the server did not say
}

// newEventReader makes one. What is over the limit is cut off, up to the given multiple of the limit.
func newEventReader(src io.Reader, limit, multiple int) *eventReader {
	return &eventReader{src: bufio.NewReaderSize(src, 4096), limit: limit, most: multiple * limit}
}

// next reads one event, whose data may have many lines. The error of a stream that ended is io.EOF.
func (r *eventReader) next() (event, error) {
	var e event
	var id []byte
	r.size = 0
	for lines := 0; ; {
		line, err := r.line()
		switch {
		case errors.Is(err, io.EOF) && lines > 0:
			return e, nil // not ended, but whole
		case err != nil:
			return event{}, err
		case len(line) == 0:
			if id != nil {
				r.lastID = string(id)
			}
			if lines > 0 {
				return e, nil
			}
			e, id, r.size = event{}, nil, 0
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			e.name = value
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				id = value
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				r.retry = max(time.Duration(ms)*time.Millisecond, minRetry)
			}
		case "data":
			if lines++; lines > 1 {
				e.data = append(e.data, '\n')
			}
			room := max(0, r.limit-len(e.data))
			e.long = e.long || len(value) > room
			e.data = append(e.data, value[:min(len(value), room)]...)
		}
	}
}

// minRetry is the shortest time before a stream is opened again, whatever the server says.
const minRetry = 10 * time.Millisecond

// line reads a line, of which it keeps a little more than a message may have at most.
func (r *eventReader) line() ([]byte, error) {
	var line []byte
	for {
		part, err := r.src.ReadSlice('\n')
		if r.size += len(part); r.size > r.most {
			e := tooLong(r.limit)
			e.Lost = true
			return nil, e
		}
		if room := r.limit + len("data: ") + 1 - len(line); room > 0 {
			line = append(line, part[:min(len(part), room)]...)
		}
		switch {
		case err == nil:
			return bytes.TrimRight(line, "\r\n"), nil
		case errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}
