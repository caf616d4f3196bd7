package stream

import (
	"errors"
	"io"
	"log/slog"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/gateway/internal/problem"
)

// TaskIDHeader is the response header with the task's id, taken from the first event. It is absent if the response began before that event.
const TaskIDHeader = "Pawl-Task-Id"

// session is one response. Until its header is written, an error becomes a problem; afterwards, a frame of the stream.
type session struct {
	w        http.ResponseWriter
	framing  Framing
	refuse   func(http.ResponseWriter, error) // answers with an error before the header is written
	done     func() bool                      // no further messages are needed
	encoding chan struct{}                    // of the handler
	log      *slog.Logger
	// emptyMeansEnded is true for a resumed watch: if it ends without an event, its task had already ended, and the response is 204.
	emptyMeansEnded bool

	opened bool
	last   Summary
	err    error // of a failed write: the client is gone
}

// forward sends a message to the client and reports whether the stream has ended.
func (s *session) forward(got received) (done bool) {
	switch {
	case errors.Is(got.err, io.EOF):
		s.end()
		return true
	case got.err != nil:
		s.fail(got.err)
		return true
	}
	frame, err := s.encode(got.message)
	if err != nil {
		s.log.Error("a message of a stream cannot be sent", "error", err)
		s.fail(err)
		return true
	}
	s.announce(got.message)
	s.writeHeader()
	s.last.update(got.message)
	s.write(frame)
	if s.done() {
		s.end()
		return true
	}
	return false
}

// encode returns the frame of a message.
func (s *session) encode(m proto.Message) ([]byte, error) {
	if proto.Size(m) >= largeMessage {
		s.encoding <- struct{}{}
		defer func() { <-s.encoding }()
	}
	return s.framing.Message(m)
}

// announce sets the headers that depend on the first message.
func (s *session) announce(m proto.Message) {
	if e, ok := m.(*executorv1.ExecutorEvent); ok && !s.opened {
		s.w.Header().Set(TaskIDHeader, e.GetTaskId())
	}
}

// writeHeader answers 200, once.
func (s *session) writeHeader() {
	if s.opened {
		return
	}
	s.opened = true
	h := s.w.Header()
	h.Set("Content-Type", s.framing.ContentType())
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx
	s.w.WriteHeader(http.StatusOK)
	s.write(s.framing.Opening())
}

func (s *session) beat() {
	s.writeHeader()
	s.write(s.framing.Heartbeat())
}

func (s *session) fail(err error) {
	if !s.opened {
		s.refuse(s.w, err)
		return
	}
	s.write(s.framing.Failure(problem.From(err)))
}

// end closes a stream that succeeded. 204 stops an EventSource from reconnecting.
func (s *session) end() {
	if !s.opened && s.emptyMeansEnded {
		s.w.WriteHeader(http.StatusNoContent)
		return
	}
	s.writeHeader()
	s.write(s.framing.End(s.last))
}

func (s *session) stop() {
	err := errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN,
		"the gateway is stopping; tasks go on: to follow one, use GET /v1/tasks/{id}/events (for a topic, /v1/topics/{id}/events) with afterSeq, the seq of the last event that you saw; "+
			"a tool call without callId is cancelled, and one with a callId may go on: ask with POST /v1/mcpCalls:attach")
	if !s.opened {
		s.refuse(s.w, err)
		return
	}
	s.write(s.framing.Stopping(problem.From(err)))
}

// write writes a frame and flushes it. The response writer bounds the time that a slow client may take.
func (s *session) write(frame []byte) {
	if s.err != nil {
		return
	}
	if _, s.err = s.w.Write(frame); s.err == nil {
		s.err = http.NewResponseController(s.w).Flush()
	}
}
