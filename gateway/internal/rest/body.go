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
	// readTimeout is how long a body may take to arrive, and longer by a second for each readRate bytes.
	readTimeout = 15 * time.Second
	readRate    = 64 << 10
	// drainFactor times the limit is how much more of a too large body is read and discarded. A client that writes its whole body before it
	// reads then gets the answer instead of a broken connection.
	drainFactor = 8
)

// readBody reads the whole body. A body over the limit, in bytes, is TOO_LARGE.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	control := http.NewResponseController(w)
	timeout := readTimeout + time.Duration(min(uint64(r.ContentLength), uint64(limit))/readRate)*time.Second // a negative, unknown length counts as the limit
	_ = control.SetReadDeadline(time.Now().Add(timeout))                                                     // fails only with the writers of tests
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	if r.ContentLength > limit {
		drain(r, limit)
		return nil, tooLarge(limit)
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err != nil {
		return nil, readError(err, timeout)
	}
	if int64(len(data)) > limit {
		drain(r, limit)
		return nil, tooLarge(limit)
	}
	return data, nil
}

// drain reads and discards more of the body, unless the client waits for 100 Continue before it sends the body.
func drain(r *http.Request, limit int64) {
	if r.Header.Get("Expect") == "" {
		_, _ = io.CopyN(io.Discard, r.Body, drainFactor*limit) // an error does not change the answer
	}
}

func tooLarge(limit int64) error {
	return errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_TOO_LARGE,
		"the body is larger than the %d bytes that the gateway takes; send less, or pass large data by reference", limit)
}

func readError(err error, after time.Duration) error {
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return invalid("the body did not arrive within %s; send it again", humantime.Text(after))
	}
	return invalid("the body could not be read to its end: %w", err)
}

func invalid(format string, args ...any) *errs.Error {
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, format, args...)
}
