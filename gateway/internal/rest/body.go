package rest

import (
	"errors"
	"io"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/humantime"
)

const (
	// readRate is the number of bytes for each of which a body has a second more to arrive.
	readRate = 64 << 10
	// drainFactor times the limit is how much more of a too large body is read and discarded. A client that writes its whole body before it
	// reads then gets the answer instead of a broken connection.
	drainFactor = 8
)

// timedBody is a body that has until due to arrive, and longer for what has arrived.
type timedBody struct {
	io.Reader
	control *http.ResponseController
	due     time.Time
}

func (b *timedBody) Read(p []byte) (int, error) {
	_ = b.control.SetReadDeadline(b.due) // fails only with the writers of tests
	n, err := b.Reader.Read(p)
	b.due = b.due.Add(time.Duration(n) * time.Second / readRate)
	return n, err
}

// readBody reads the whole body, which may take the time, and longer if it is large. A body over the limit, in bytes, is TOO_LARGE. After an
// error, the rest of the body may still arrive: refuse answers.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, bodyTime time.Duration) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	control := http.NewResponseController(w)
	data, err := io.ReadAll(io.LimitReader(&timedBody{r.Body, control, time.Now().Add(bodyTime)}, limit+1))
	if err != nil {
		return nil, readError(err, bodyTime)
	}
	if int64(len(data)) > limit {
		return nil, tooLarge(limit)
	}
	_ = control.SetReadDeadline(time.Time{}) // the client may stay silent while it is answered
	return data, nil
}

// refuse answers with an error, by fail, before the body has arrived. Over HTTP/1 it ends the connection, because else the server would wait for the body
// before it answers.
func refuse(w http.ResponseWriter, r *http.Request, err error, fail func(http.ResponseWriter, error)) {
	if r.ProtoMajor == 1 && r.Body != http.NoBody {
		w.Header().Set("Connection", "close")
	}
	fail(w, err)
}

// drain reads and discards more of a body that was refused because of its size, for as long as the time, unless the client waits for 100 Continue
// before it sends the body. HTTP/2 needs no drain: it ends the stream, not the connection.
func drain(w http.ResponseWriter, r *http.Request, limit int64, bodyTime time.Duration) {
	control := http.NewResponseController(w)
	if r.ProtoMajor != 1 || r.Header.Get("Expect") != "" || control.Flush() != nil || control.SetReadDeadline(time.Now().Add(bodyTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, r.Body, drainFactor*limit) // the client has its answer
}

func tooLarge(limit int64) error {
	return errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_TOO_LARGE,
		"the body is larger than the %d bytes that the gateway takes; send less, or pass large data by reference", limit)
}

func readError(err error, bodyTime time.Duration) error {
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_TIMEOUT,
			"the body did not arrive in time: it has %s, and a second more for each %d KiB; send it again", humantime.Text(bodyTime), readRate>>10)
	}
	return invalid("the body could not be read to its end: %w", err)
}

func invalid(format string, args ...any) *errs.Error {
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, format, args...)
}
