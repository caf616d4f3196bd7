package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// maxQuestions is how many requests of a server are answered at once; more wait.
const maxQuestions = 16

// event is one of a stream, as it is read.
type event struct {
	name []byte
	data []byte
	long bool // data was longer than the limit, and cut off there
}

// read reads the stream until it ends. The first event names the address for our messages: named gets it, or nil.
func (t *sse) read(body io.ReadCloser, from *url.URL, named chan<- *url.URL) {
	defer func() { _ = body.Close() }()
	r := bufio.NewReaderSize(body, 4096)
	slots := make(chan struct{}, maxQuestions)
	notes := newThrottle()
	begun := false
	for {
		e, err := t.next(r)
		if err == nil {
			switch {
			case string(e.name) == "endpoint" && !begun:
				var endpoint *url.URL
				if endpoint, err = endpointOf(from, e.data); err == nil {
					begun = true
					named <- endpoint
				}
			case len(e.name) == 0 || string(e.name) == "message":
				err = t.take(e, notes, slots)
			}
		}
		if err != nil {
			t.fail(streamLost(err))
			t.end()
			if !begun {
				named <- nil
			}
			return
		}
	}
}

// endpointOf is the address that a server names for our messages. It must be of the server that was registered: anything
// else could be sent what is meant for it.
func endpointOf(from *url.URL, data []byte) (*url.URL, error) {
	endpoint, err := from.Parse(string(bytes.TrimSpace(data)))
	if err != nil {
		return nil, Errorf(Protocol, "the server names an address for messages that cannot be read: %w", err)
	}
	if !sameOrigin(endpoint, from) {
		return nil, Errorf(AddressRefused, "the server at %s wants messages sent to %s; only its own origin is allowed",
			place(from), place(endpoint))
	}
	return endpoint, nil
}

// next reads one event (https://html.spec.whatwg.org/multipage/server-sent-events.html), whose data may have many lines.
func (t *sse) next(r *bufio.Reader) (event, error) {
	var e event
	lines := 0
	for {
		line, err := t.line(r)
		switch {
		case err != nil:
			return event{}, err
		case len(line) == 0 && (lines > 0 || len(e.name) > 0):
			return e, nil
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			e.name = value
		case "data":
			if lines++; lines > 1 {
				e.data = append(e.data, '\n')
			}
			room := max(0, t.limit-len(e.data))
			e.long = e.long || len(value) > room
			e.data = append(e.data, value[:min(len(value), room)]...)
		}
	}
}

// line reads a line, of which it keeps what a message may have at most and a little more.
func (t *sse) line(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if room := t.limit + len("data: ") + 1 - len(line); room > 0 {
			line = append(line, part[:min(len(part), room)]...)
		}
		switch {
		case err == nil:
			return bytes.TrimRight(line, "\r\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// take does with a message what it is for. An error ends the stream.
func (t *sse) take(e event, notes *throttle, slots chan struct{}) error {
	m := readMessage(e.data)
	if e.long {
		m.Err = errTooLong
	}
	if e.long && m.ID == nil && !m.Method {
		e := tooLong(t.limit) // whom it is for cannot be known: somebody would wait for ever
		e.Lost = true
		return e
	}
	t.pass(m, e.data, notes, slots)
	return nil
}

// pass hands a message on.
func (t *sse) pass(m message, data []byte, notes *throttle, slots chan struct{}) {
	switch {
	case m.Err != nil && !m.Method && numericID.Match(m.ID):
		t.deliver(t.judge.line(m.ID, m.Err))
	case m.Err != nil: // a notification that is no message, or a question that cannot be understood
	case m.Method && len(m.ID) > 0:
		notes.ask(len(data))
		t.question(data, slots)
	case m.Method:
		notes.wait(len(data))
		t.notified(data)
	default:
		t.deliver(data)
	}
}

// deliver gives an answer to who waits for it.
func (t *sse) deliver(data []byte) {
	var response transport.JSONRPCResponse
	if json.Unmarshal(data, &response) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if ch := t.waiting[response.ID.String()]; ch != nil {
		delete(t.waiting, response.ID.String())
		ch <- &response
	}
}

func (t *sse) notified(data []byte) {
	var n mcp.JSONRPCNotification
	if json.Unmarshal(data, &n) != nil {
		return
	}
	t.mu.Lock()
	notify := t.notify
	t.mu.Unlock()
	if notify != nil {
		notify(n)
	}
}

// question answers a request of the server, beside the stream.
func (t *sse) question(data []byte, slots chan struct{}) {
	var request transport.JSONRPCRequest
	if json.Unmarshal(data, &request) != nil {
		return
	}
	t.mu.Lock()
	answer := t.answer
	t.mu.Unlock()
	select {
	case slots <- struct{}{}:
	case <-t.life.Done():
		return
	}
	t.work.Go(func() {
		defer func() { <-slots }()
		response := transport.NewJSONRPCErrorResponse(request.ID, mcp.METHOD_NOT_FOUND, "not supported: "+cut(request.Method), nil)
		if answer != nil {
			r, err := answer(t.life, request)
			switch {
			case err != nil:
				response = transport.NewJSONRPCErrorResponse(request.ID, mcp.INTERNAL_ERROR, fmt.Sprint(err), nil)
			case r == nil:
				return // the server wants no answer any more
			default:
				response = r
			}
		}
		if body, err := json.Marshal(response); err == nil {
			_ = t.post(t.life, body) // best effort: a server that cannot be told asks in vain
		}
	})
}
