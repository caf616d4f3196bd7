package rest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/reflect/protoreflect"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"

	"pawl.dev/gateway/internal/forward"
	"pawl.dev/gateway/internal/problem"
	"pawl.dev/gateway/internal/request"
	"pawl.dev/gateway/internal/route"
	"pawl.dev/gateway/internal/stream"
)

// Handler serves all routes of the contracts.
type Handler struct {
	table   *route.Table
	conns   map[protoreflect.FullName]grpc.ClientConnInterface // by service
	mux     *runtime.ServeMux
	streams *stream.Handler
	maxBody int64
}

// New makes the handler. maxBody is in bytes.
func New(ctx context.Context, conns Conns, streams *stream.Handler, maxBody int64) (*Handler, error) {
	services := conns.services()
	h := &Handler{
		conns:   map[protoreflect.FullName]grpc.ClientConnInterface{},
		mux:     newMux(),
		streams: streams,
		maxBody: maxBody,
	}
	var descriptors []protoreflect.ServiceDescriptor
	for _, s := range services {
		h.conns[s.descriptor.FullName()] = s.conn
		descriptors = append(descriptors, s.descriptor)
	}
	table, err := route.NewTable(descriptors...)
	if err != nil {
		return nil, err
	}
	h.table = table
	return h, register(ctx, h.mux, services)
}

// Routes are the routes that the handler serves.
func (h *Handler) Routes() []*route.Route { return h.table.Routes() }

// ServeHTTP serves one call.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rt, variables, allow := h.table.Match(r.Method, r.URL.Path)
	if rt == nil {
		notRouted(w, r, allow)
		return
	}
	body, query, err := h.read(w, r, rt)
	if err != nil {
		problem.Write(w, err)
		return
	}
	// The message is built here also for calls that grpc-gateway decodes again: its own complaints name no place.
	in, err := request.Message(rt, variables, body, query)
	if err != nil {
		problem.Write(w, err)
		return
	}
	r = r.WithContext(forward.NewContext(r.Context(), r.Header))
	if rt.Streams() {
		h.streams.Serve(w, r, h.conns[rt.RPC.Parent().FullName()], rt, in)
		return
	}
	h.mux.ServeHTTP(w, withInput(r, body, query))
}

func (h *Handler) read(w http.ResponseWriter, r *http.Request, rt *route.Route) (body []byte, query url.Values, err error) {
	if body, err = request.ReadBody(w, r, h.maxBody); err != nil {
		return nil, nil, err
	}
	if query, err = url.ParseQuery(r.URL.RawQuery); err != nil {
		return nil, nil, errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
			"the query %q cannot be read: %w; escape what is not a letter or digit", r.URL.RawQuery, err)
	}
	query, err = request.MaskedQuery(rt, body, query)
	return body, query, err
}

// withInput is the request with what was read of it, and without the header by which a client could set a deadline for
// the services.
func withInput(r *http.Request, body []byte, query url.Values) *http.Request {
	r = r.Clone(r.Context())
	r.Header.Del("Grpc-Timeout")
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.URL.RawQuery = query.Encode()
	return r
}

func notRouted(w http.ResponseWriter, r *http.Request, allow []string) {
	if len(allow) > 0 {
		problem.MethodNotAllowed(w, r, allow...)
		return
	}
	problem.New(http.StatusNotFound, commonv1.ErrorReason_ERROR_REASON_ROUTE_NOT_FOUND,
		"there is no %s here; /docs lists what there is", r.URL.Path).Write(w)
}
