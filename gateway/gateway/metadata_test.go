package gateway_test

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"pawl.dev/gateway/gateway"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
)

// keys is an authenticator that knows these tokens.
type keys map[string]identity.Principal

func (k keys) Authenticate(_ context.Context, token string) (identity.Principal, error) {
	if p, ok := k[token]; ok {
		return p, nil
	}
	return identity.Principal{}, errs.New(codes.Unauthenticated, commonv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED, "no such key; send one that is known")
}

// TestOnlyCredentialAndTraceArePassedOn: no header of a client becomes metadata that services trust, on either way
// through the gateway.
func TestOnlyCredentialAndTraceArePassedOn(t *testing.T) {
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	sent := header{
		"Authorization": "Bearer pawl_x", "Traceparent": trace, "Tracestate": "a=b", "Baggage": "user=root",
		"Grpc-Metadata-X-Pawl-On-Behalf-Of": "root", "Grpc-Metadata-Authorization": "Bearer pawl_root",
		"Grpc-Timeout": "1n", "X-Forwarded-For": "10.0.0.1", "X-Forwarded-Host": "evil", "Cookie": "a=b", "User-Agent": "curl",
		"Grpc-Metadata-X-Bin-Bin": "!!", "X-HTTP-Method-Override": "DELETE",
	}
	want := map[string][]string{"authorization": {"Bearer pawl_x"}, "traceparent": {trace}, "tracestate": {"a=b"}}
	b := start(t, gateway.Config{})
	for name, path := range map[string]string{"unary": "/v1/tasks/" + taskID, "stream": "/v1/tasks/" + taskID + "/events"} {
		t.Run(name, func(t *testing.T) {
			b := b.in(t)
			if resp, text := b.text("GET", path, "", sent); resp.StatusCode != http.StatusOK {
				t.Fatalf("status %d: %s", resp.StatusCode, text)
			}
			calls := b.journal.take()
			if len(calls) != 1 {
				t.Fatalf("%d calls, want 1", len(calls))
			}
			got := maps.Clone(calls[0].md)
			for _, own := range []string{":authority", "content-type", "user-agent", "grpc-accept-encoding"} { // of gRPC itself
				delete(got, own)
			}
			if diff := cmp.Diff(want, map[string][]string(got)); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}
			if agent := calls[0].md.Get("user-agent"); slices.ContainsFunc(agent, func(s string) bool { return strings.Contains(s, "curl") }) {
				t.Errorf("user-agent %v is the client's", agent)
			}
		})
	}
}

// TestOnBehalfIsRefused: the header is not ignored, because the request would be made for another user than the caller wants (issue 13).
func TestOnBehalfIsRefused(t *testing.T) {
	b := start(t, gateway.Config{})
	for _, user := range []string{"root", "%zz"} {
		if resp, text := b.text("GET", "/v1/tasks", "", header{"X-Pawl-On-Behalf-Of": user}); resp.StatusCode != http.StatusBadRequest || !strings.Contains(text, "gRPC") {
			t.Errorf("%q: status %d: %s", user, resp.StatusCode, text)
		}
	}
	if calls := b.journal.take(); len(calls) > 0 {
		t.Errorf("calls %v", calls)
	}
}

// TestUnprintableCredential: a header that gRPC cannot carry is no credential, and does not cost the connection.
func TestUnprintableCredential(t *testing.T) {
	b := start(t, gateway.Config{})
	if resp, text := b.text("GET", "/v1/tasks", "", header{"Authorization": "Bearer schlüssel"}); resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %s", resp.StatusCode, text)
	}
	if calls := b.journal.take(); len(calls) != 1 || len(calls[0].md.Get("authorization")) > 0 {
		t.Errorf("calls %v, want one without a credential", calls)
	}
}
