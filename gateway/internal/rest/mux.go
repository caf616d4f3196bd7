package rest

import (
	"context"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/gateway/internal/problem"
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

// marshaler is protojson with its defaults: lowerCamel names, enums by name, fields at their default left out, unknown
// fields refused. Answers end with a newline, for terminals.
type marshaler struct{ runtime.JSONPb }

func (m *marshaler) Marshal(v any) ([]byte, error) {
	data, err := m.JSONPb.Marshal(v)
	return append(data, '\n'), err
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
	problem.New(status, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "%s %s is not served", r.Method, r.URL.Path).Write(w)
}
