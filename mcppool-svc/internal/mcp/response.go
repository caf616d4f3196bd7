package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"time"

	"pawl.dev/services/strictjson"
)

// postLimit bounds a POST whose response has come over the stream already.
const postLimit = 30 * time.Second

// errTooLong means that a message is longer than the limit.
var errTooLong = errors.New("it is too long")

// responseOf reads the response in a message.
func responseOf(m message) response {
	if len(m.Error) > 0 && !strictjson.Absent(m.Error) {
		var e struct {
			Code    int             `json:"code"`
			Message string          `json:"message"`
			Data    json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal(m.Error, &e); err != nil {
			return malformed("its error cannot be read: %w", err)
		}
		return response{err: &Error{Kind: Answered, Code: e.Code, Sent: true, Message: cut(e.Message), Data: e.Data}}
	}
	if len(m.Result) == 0 {
		return malformed("it has neither result nor error")
	}
	return response{result: m.Result}
}

// malformed is an answer that is not a JSON-RPC response to the request.
func malformed(format string, args ...any) response {
	return response{err: protocolError("the server's answer is not MCP: "+format, args...)}
}

// refusal is the error of a request whose response cannot be used. The tool ran.
func refusal(why error, limit int) *Error {
	if errors.Is(why, errTooLong) {
		e := tooLong(limit)
		e.Ended = true
		return e
	}
	return &Error{Kind: Protocol, Sent: true, Ended: true, Err: why, Message: fmt.Sprintf("the server answered, but its message is refused: %v", why)}
}

func tooLong(limit int) *Error {
	return &Error{Kind: TooLarge, Sent: true,
		Message: fmt.Sprintf("the server sent a message of more than %s; ask the tool for less, or have an operator raise the pool's "+
			"--max-message-bytes", sizeOf(limit))}
}

func protocolError(format string, args ...any) *Error {
	e := Errorf(Protocol, format, args...)
	e.Sent = true
	return e
}

// sizeOf is a limit for people.
func sizeOf(limit int) string {
	switch {
	case limit >= 1<<20 && limit%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", limit>>20)
	case limit >= 1<<10 && limit%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", limit>>10)
	}
	return fmt.Sprintf("%d bytes", limit)
}

// receiver takes the messages of a stream that carries the responses to all requests: a child's stdout, or a stream of
// events. Its methods belong to the goroutine that reads the stream, but for add and remove.
type receiver struct {
	pass  passFunc // takes the server's requests and notifications
	limit int      // bytes of a message

	mu      sync.Mutex
	waiting map[int64]*pendingRequest // guarded by mu
}

// add registers a request that waits for its response.
func (r *receiver) add(x *pendingRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == nil {
		r.waiting = make(map[int64]*pendingRequest)
	}
	r.waiting[x.id] = x
}

func (r *receiver) remove(id int64) *pendingRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.waiting[id]
	delete(r.waiting, id)
	return x
}

// take handles a message that can be used. Responses to no request are dropped. The text is not kept.
func (r *receiver) take(m message, text []byte) {
	switch {
	case m.Method:
		r.pass(m, text, nil)
	case m.Answer:
		if x := r.find(m.ID); x != nil {
			m.Result = bytes.Clone(m.Result) // the text's memory is used again
			x.deliver(responseOf(m))
			if x.cancel != nil {
				// To cancel the POST at once could cancel the request that net/http gives its connection to next.
				time.AfterFunc(postLimit, x.cancel)
			}
		}
	}
}

// refuse fails the request whose response cannot be used.
func (r *receiver) refuse(id []byte, why error) {
	if x := r.find(id); x != nil {
		x.deliver(response{err: refusal(why, r.limit)})
	}
}

// find returns the request with an id, which is removed: a second response is dropped.
func (r *receiver) find(raw []byte) *pendingRequest {
	id, ok := integer(raw)
	if !ok {
		return nil
	}
	return r.remove(id)
}

// integer reads an id that is a number.
func integer(raw []byte) (int64, bool) {
	if id, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return id, true
	}
	f, err := strconv.ParseFloat(string(raw), 64) // 5.0 is 5 too
	return int64(f), err == nil && f == float64(int64(f))
}

// numericID matches ids of requests; an answer to any other has no request.
var numericID = regexp.MustCompile(`^[0-9]{1,19}$`)

// lastID finds the id of a message at its end, where some servers write it.
var lastID = regexp.MustCompile(`"id"\s*:\s*([0-9]{1,19})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)
