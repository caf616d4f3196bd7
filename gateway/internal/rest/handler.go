package rest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/gateway/internal/problem"
	"pawl.dev/gateway/internal/stream"
	"pawl.dev/services/serve"
)

// Handler serves all routes of the protos.
type Handler struct {
	mux     *runtime.ServeMux
	routes  []*Route
	streams *stream.Handler
	maxBody int64
	// bodyTime is how long a small body may take to arrive.
	bodyTime time.Duration
	callers  *authenticator // nil: there are no credentials
	// requests bounds the memory of requests.
	requests *serve.Budget
}

// New returns the handler. maxBody is in bytes. If authenticated, callers have credentials, which are checked before a body is read.
func New(conns Conns, streams *stream.Handler, maxBody int64, authenticated bool, bodyTime time.Duration, requests *serve.Budget) (*Handler, error) {
	h := &Handler{streams: streams, maxBody: maxBody, bodyTime: bodyTime, requests: requests}
	if authenticated {
		h.callers = newAuthenticator()
	}
	h.mux = runtime.NewServeMux(
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithRoutingErrorHandler(func(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, _ int) {
			h.notRouted(w, r)
		}),
		runtime.WithErrorHandler(func(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Value(probeKey{}) == nil {
				problem.Write(w, invalid("the path cannot be read: %w", err))
			}
		}),
	)
	for _, s := range conns.services() {
		routes, err := routesOf(s.descriptor)
		if err != nil {
			return nil, err
		}
		for _, rt := range routes {
			if err := h.mux.HandlePath(rt.Method, rt.Template, h.serve(rt, s.conn)); err != nil {
				return nil, fmt.Errorf("serve %s at %s: %w", rt.RPC.FullName(), rt.Template, err)
			}
		}
		h.routes = append(h.routes, routes...)
	}
	return h, nil
}

// Routes returns the routes that the handler serves, in the order of the protos.
func (h *Handler) Routes() []*Route { return slices.Clone(h.routes) }

// ServeHTTP serves one call.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// serve returns the handler of a route.
func (h *Handler) serve(rt *Route, conn grpc.ClientConnInterface) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, variables map[string]string) {
		if found, probing := r.Context().Value(probeKey{}).(*bool); probing {
			*found = areIDs(variables)
			return
		}
		if !areIDs(variables) {
			h.notRouted(w, r)
			return
		}
		r, body, held, ok := h.Receive(w, r, Incoming{Conn: conn, MaxBody: int64(serve.MaxRequest(rt.RPC)), Streams: rt.Streams(), Fail: problem.Write})
		if !ok {
			return
		}
		defer held.Release()
		in, err := read(r, rt, body, variables)
		if err != nil {
			problem.Write(w, err)
			return
		}
		held.Shrink(serve.CallBytes(rt.Streams(), int64(proto.Size(in))))
		if rt.Streams() {
			h.streams.Serve(w, r, stream.Call{Conn: conn, Method: rt.FullMethod(), RPC: rt.RPC, In: in})
			return
		}
		out := rt.output.New().Interface()
		if err := conn.Invoke(r.Context(), rt.FullMethod(), in, out); err != nil {
			problem.Write(w, err)
			return
		}
		writeAnswer(w, out)
	}
}

// read builds the request message of a route.
func read(r *http.Request, rt *Route, body []byte, variables map[string]string) (proto.Message, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, invalid("the query %q cannot be read: %w; in its names and values, percent-encode all characters except letters and digits", r.URL.RawQuery, err)
	}
	if query, err = maskedQuery(rt, body, query); err != nil {
		return nil, err
	}
	return rt.message(variables, body, query)
}

// writeAnswer answers with a message and a newline for terminals. Caches must not store the answer: it belongs to one user and may change.
func writeAnswer(w http.ResponseWriter, m proto.Message) {
	data, err := stream.JSON(m)
	if err != nil {
		problem.Write(w, err)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	_, _ = w.Write(append(data, '\n')) // the client may be gone
}

// areIDs reports whether the variables of a path can be ids: they are not empty, as in `/v1/tasks/`, and have no colon, as in `abc:resume`.
func areIDs(variables map[string]string) bool {
	for _, value := range variables {
		if value == "" || strings.Contains(value, ":") {
			return false
		}
	}
	return true
}

// probeKey is the context key of a *bool in a probe, the request with which notRouted tries a method. The handler of a probe only sets the bool:
// to true if it could serve the request.
type probeKey struct{}

// notRouted answers a request without a route: 405 if the path has a route for other methods, else 404.
func (h *Handler) notRouted(w http.ResponseWriter, r *http.Request) {
	if r.Context().Value(probeKey{}) != nil {
		return
	}
	var allow []string
	for _, method := range []string{http.MethodDelete, http.MethodGet, http.MethodPatch, http.MethodPost, http.MethodPut} {
		found := false
		probe := r.Clone(context.WithValue(r.Context(), probeKey{}, &found))
		probe.Method = method
		if h.mux.ServeHTTP(w, probe); found {
			allow = append(allow, method)
		}
	}
	if len(allow) > 0 {
		problem.MethodNotAllowed(w, r, allow...)
		return
	}
	problem.New(http.StatusNotFound, commonv1.ErrorReason_ERROR_REASON_ROUTE_NOT_FOUND,
		"there is no %s here; /docs lists all paths", strings.ToValidUTF8(r.URL.Path, string(utf8.RuneError))).Write(w)
}
