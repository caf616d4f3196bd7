package stream

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"

	"pawl.dev/gateway/internal/problem"
)

// Framing encodes the parts of a stream for the wire. Each result is written unchanged and flushed. For nil only the headers are flushed, if they
// were not yet.
type Framing interface {
	ContentType() string
	Opening() []byte
	Message(m proto.Message) ([]byte, error)
	Heartbeat() []byte
	Failure(p problem.Problem) []byte
	End(last Summary) []byte
	Stopping(p problem.Problem) []byte
}

// Summary is the content of the event `end`.
type Summary struct {
	LastSeq uint64 `json:"lastSeq,omitempty"`
	Status  string `json:"status,omitempty"`
}

// update updates the summary with a message.
func (s *Summary) update(m proto.Message) {
	if seq := eventSeq(m); seq > 0 {
		s.LastSeq = seq
	}
	e, ok := m.(*executorv1.ExecutorEvent)
	if !ok {
		return
	}
	if status := e.GetFlow().GetExecutorStatus(); status != executorv1.ExecutorStatus_EXECUTOR_STATUS_UNSPECIFIED {
		s.Status = status.String()
	}
}

// sse frames a stream as Server-Sent Events: https://html.spec.whatwg.org/multipage/server-sent-events.html.
type sse struct{}

func (sse) ContentType() string { return sseType }

func (sse) Opening() []byte { return []byte(": ok\n\n") }

func (sse) Heartbeat() []byte { return []byte(": keep-alive\n\n") }

// stopping is a comment, so that an EventSource connects again and resumes after its last event.
func (sse) Stopping(problem.Problem) []byte { return []byte(": the gateway is stopping\n\n") }

func (sse) Message(m proto.Message) ([]byte, error) {
	data, err := JSON(m)
	if err != nil {
		return nil, err
	}
	return event(eventSeq(m), eventName(m), data), nil
}

func (sse) Failure(p problem.Problem) []byte { return event(0, "error", p.JSON()) }

func (sse) End(last Summary) []byte {
	data, err := json.Marshal(last)
	if err != nil { // a number and a name always encode
		data = []byte("{}")
	}
	return event(0, "end", data)
}

func event(id uint64, name string, data []byte) []byte {
	head := "event: " + name + "\ndata: "
	if id > 0 {
		head = "id: " + strconv.FormatUint(id, 10) + "\n" + head
	}
	return slices.Concat([]byte(head), data, []byte("\n\n"))
}

// eventSeq returns the seq of a message, or 0.
func eventSeq(m proto.Message) uint64 {
	switch e := m.(type) {
	case *executorv1.ExecutorEvent:
		return e.GetSeq()
	case *conversationv1.TopicEvent:
		return e.GetSeq()
	}
	return 0
}

// eventName returns the SSE event name of a message: the type of a task's or a topic's event, without prefix and in lower case, or the name of the field that is
// set in an event of a tool call or a completion.
func eventName(m proto.Message) string {
	switch m := m.(type) {
	case *executorv1.ExecutorEvent:
		return strings.ToLower(strings.TrimPrefix(m.GetType().String(), "EVENT_TYPE_"))
	case *conversationv1.TopicEvent:
		return strings.ToLower(strings.TrimPrefix(m.GetType().String(), "TOPIC_EVENT_TYPE_"))
	case *mcppoolv1.CallToolResponse, *mcppoolv1.AttachCallResponse, *pipelinev1.StreamCompleteResponse:
		r := m.ProtoReflect()
		if fd := r.WhichOneof(r.Descriptor().Oneofs().ByName("event")); fd != nil {
			return string(fd.Name())
		}
	}
	return "message" // the name that an EventSource gives to an event without a name
}

// ndjson frames a stream as one JSON text per line. A line with the single member `error` ends a stream that failed.
type ndjson struct{}

func (ndjson) ContentType() string { return ndjsonType }

func (ndjson) Opening() []byte { return nil }

func (ndjson) Heartbeat() []byte { return nil } // readers of lines do not expect empty ones

func (ndjson) End(Summary) []byte { return nil }

func (n ndjson) Stopping(p problem.Problem) []byte { return n.Failure(p) }

func (ndjson) Message(m proto.Message) ([]byte, error) {
	data, err := JSON(m)
	if err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}

func (ndjson) Failure(p problem.Problem) []byte {
	return fmt.Appendf(nil, "{\"error\":%s}\n", p.JSON())
}
