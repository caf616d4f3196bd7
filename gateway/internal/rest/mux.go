package rest

import (
	"context"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/gateway/internal/problem"
	"pawl.dev/gateway/internal/wire"
)

// newMux makes grpc-gateway's mux: JSON alone, whatever Accept says, and nothing of the HTTP headers in the metadata or
// of the metadata in the headers (package forward sets the former).
func newMux() *runtime.ServeMux {
	return runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, &marshaler{}),
		runtime.WithIncomingHeaderMatcher(noHeader),
		runtime.WithOutgoingHeaderMatcher(noHeader),
		runtime.WithOutgoingTrailerMatcher(noHeader),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithForwardResponseOption(notStored),
		runtime.WithErrorHandler(writeError),
		runtime.WithRoutingErrorHandler(writeRoutingError),
	)
}

// marshaler reads requests as grpc-gateway does, unknown fields refused, and writes answers as package wire does, with a
// newline for terminals.
type marshaler struct{ runtime.JSONPb }

func (m *marshaler) Marshal(v any) ([]byte, error) {
	message, ok := v.(proto.Message)
	if !ok {
		return m.JSONPb.Marshal(v)
	}
	data, err := wire.JSON(message)
	if err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}

func noHeader(string) (string, bool) { return "", false }

// notStored keeps answers out of caches: they are one user's, and the next one differs.
func notStored(_ context.Context, w http.ResponseWriter, _ proto.Message) error {
	w.Header().Set("Cache-Control", "no-store")
	return nil
}

func writeError(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, _ *http.Request, err error) {
	problem.Write(w, err)
}

// writeRoutingError answers where the mux finds no handler for a route that the contracts have; only a path that the two
// read differently could do that.
func writeRoutingError(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, status int) {
	problem.New(status, commonv1.ErrorReason_ERROR_REASON_ROUTE_NOT_FOUND, "%s %s is not served", r.Method, r.URL.Path).Write(w)
}
