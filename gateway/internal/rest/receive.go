package rest

import (
	"net/http"

	"google.golang.org/grpc"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/serve"
)

// onBehalfHeader names a user in a service's gRPC calls. It is refused rather than ignored, because the request would be made for another user.
const onBehalfHeader = "X-Pawl-On-Behalf-Of"

// Incoming says how Receive takes a request.
type Incoming struct {
	Conn    grpc.ClientConnInterface         // of the service that knows the caller
	MaxBody int64                            // in bytes; the handler's maximum also counts
	Streams bool                             // the response is a stream
	Fail    func(http.ResponseWriter, error) // answers with an error
	User    *string                          // if not nil, it gets the user whose budget the request uses; "" for services, and without authentication
}

// Receive checks the caller, reserves the memory of the request and reads its body. The request that it returns has a context of NewContext; the
// caller releases what is held. If ok is false, Receive has answered with an error.
func (h *Handler) Receive(w http.ResponseWriter, r *http.Request, in Incoming) (_ *http.Request, body []byte, held *serve.Holding, ok bool) {
	r = r.WithContext(NewContext(r.Context(), r.Header))
	limit := min(h.maxBody, in.MaxBody)
	held, err := h.admit(r, in, limit)
	if err != nil {
		refuse(w, r, err, in.Fail)
		return r, nil, nil, false
	}
	body, err = readBody(w, r, limit, h.bodyTime)
	if err != nil {
		held.Release()
		refuse(w, r, err, in.Fail)
		if errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_TOO_LARGE {
			drain(w, r, limit, h.bodyTime)
		}
		return r, nil, nil, false
	}
	return r, body, held, true
}

// admit checks the caller, and reserves the memory of the request.
func (h *Handler) admit(r *http.Request, in Incoming, limit int64) (held *serve.Holding, err error) {
	user := "" // without credentials, all callers are one
	if h.callers != nil {
		if user, err = h.callers.check(r, in.Conn); err != nil {
			return nil, err
		}
	}
	if in.User != nil {
		*in.User = user
	}
	if r.Header.Values(onBehalfHeader) != nil {
		return nil, invalid("the header %s is for gRPC; leave it out, because over REST each caller acts for itself", onBehalfHeader)
	}
	size := r.ContentLength
	if size < 0 || size > limit { // unknown, or read only to be discarded
		size = limit
	}
	return h.requests.Reserve(r.Context(), user, serve.CallBytes(in.Streams, size))
}
