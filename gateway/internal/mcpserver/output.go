package mcpserver

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"

	"pawl.dev/services/strictjson"
)

// output is the response to a request: one JSON message, or a stream of them once something must be sent before the end.
type output struct {
	w             http.ResponseWriter
	acceptsStream bool
	streaming     bool
	batch         bool     // there are several messages before the end
	answers       [][]byte // of a batch, before there is a stream
	err           error    // of a failed write: the client is gone
}

// open begins a stream, once, and reports whether there is one.
func (o *output) open() bool {
	if o.streaming || !o.acceptsStream {
		return o.streaming
	}
	o.streaming = true
	h := o.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx
	o.w.WriteHeader(http.StatusOK)
	for _, answer := range o.answers {
		o.send(answer)
	}
	return true
}

// send sends a message before the end. It is lost if the client takes no stream.
func (o *output) send(message []byte) {
	if o.open() {
		o.write("data: ", strictjson.Compact(string(message)), "\n\n") // without line breaks, which end a line of the stream
	}
}

// beat keeps a stream open.
func (o *output) beat() {
	if o.open() {
		o.write(":\n\n")
	}
}

// endBatch sends the answers to a batch if there is no stream that had them.
func (o *output) endBatch() {
	switch o.batch = false; {
	case o.streaming:
	case o.answers == nil:
		o.w.WriteHeader(http.StatusAccepted)
	default:
		o.end(http.StatusOK, slices.Concat([]byte("["), bytes.Join(o.answers, []byte(",")), []byte("]")))
	}
}

// end sends the last message, or an answer to one of a batch. The status counts if there is neither a stream nor a batch.
func (o *output) end(status int, message []byte) {
	switch {
	case o.streaming:
		o.send(message)
		return
	case o.batch:
		o.answers = append(o.answers, message)
		return
	}
	h := o.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(message)))
	o.w.WriteHeader(status)
	_, o.err = o.w.Write(message)
}

// write writes and flushes. The response writer bounds the time that a slow client may take.
func (o *output) write(parts ...string) {
	for _, part := range parts {
		if o.err == nil {
			_, o.err = o.w.Write([]byte(part))
		}
	}
	if o.err == nil {
		o.err = http.NewResponseController(o.w).Flush()
	}
}
