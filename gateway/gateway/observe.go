package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/serve"

	"pawl.dev/gateway/internal/problem"
)

// writePiece is the size of a piece of a response, whose write is bounded: a client that reads slowly, but reads, keeps its stream.
const writePiece = 64 << 10

// observe is the outermost handler: it bounds the size of the headers and the time of each piece that is written, logs every request, and turns a
// panic into a problem. Without the bound of time, a client that stops reading would hold its stream for ever.
func observe(log *slog.Logger, limits serve.Limits, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tracked, start := &response{ResponseWriter: w, control: http.NewResponseController(w), writeTime: limits.WriteTime}, time.Now()
		if r.ProtoMajor == 1 { // HTTP/2 would end the stream at the deadline, although nothing waits to be written
			tracked.extend() // also for the server's own write of 100 Continue
			if r.Body != http.NoBody {
				_ = tracked.control.SetReadDeadline(start.Add(limits.BodyTime)) // also for a body that the server reads and discards
			}
		}
		defer func() {
			log.DebugContext(r.Context(), "request", "method", r.Method, "path", r.URL.Path, "status", tracked.status,
				"bytes", tracked.bytes, "duration", time.Since(start))
		}()
		defer func() {
			if p := recover(); p != nil {
				handlePanic(log, tracked, r, p)
			}
		}()
		if n := headerBytes(r); n > limits.HeaderBytes {
			problem.New(http.StatusRequestHeaderFieldsTooLarge, commonv1.ErrorReason_ERROR_REASON_TOO_LARGE,
				"the headers have %d bytes, more than the %d that the gateway takes; send less", n, limits.HeaderBytes).Write(tracked)
			return
		}
		next.ServeHTTP(tracked, r)
	})
}

// headerBytes returns the bytes of a request's target and headers.
func headerBytes(r *http.Request) int {
	n := len(r.RequestURI)
	for name, values := range r.Header {
		for _, value := range values {
			n += len(name) + len(value)
		}
	}
	return n
}

// handlePanic answers with a problem if nothing was sent yet. Otherwise it breaks the connection, so that half a response is not taken for a
// whole one.
func handlePanic(log *slog.Logger, w *response, r *http.Request, p any) {
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	log.ErrorContext(r.Context(), "a request panicked", "method", r.Method, "path", r.URL.Path,
		"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if w.status != 0 {
		panic(http.ErrAbortHandler)
	}
	problem.Write(w, errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR,
		"the gateway panicked; this is a bug, and the log has its stack"))
}

// response gives every piece of a write its own deadline, and records the status and the number of bytes of the body.
type response struct {
	http.ResponseWriter
	control   *http.ResponseController
	writeTime time.Duration // of a piece
	status    int           // 0: nothing was sent yet
	bytes     int64
}

func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.extend()
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(data []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	written := 0
	for piece := range slices.Chunk(data, writePiece) {
		w.extend()
		n, err := w.ResponseWriter.Write(piece)
		written, w.bytes = written+n, w.bytes+int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// Unwrap lets a ResponseController reach the server's writer.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// extend moves the write deadline.
func (w *response) extend() {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.writeTime)) // fails only with the writers of tests
}
