package rest

import (
	"crypto/sha256"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	identityv1 "pawl.dev/proto/gen/pawl/identity/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/serve"
)

const (
	// acceptedFor is how long an accepted credential is not checked again before a body is read. The service checks it with every call.
	acceptedFor = 2 * time.Second
	maxAccepted = 4096
)

// authenticator asks the service of a route whether it accepts the caller's credential, before the gateway reads the body of a request.
type authenticator struct {
	mu       sync.Mutex
	accepted map[[sha256.Size]byte]time.Time // by credential: when it was accepted
}

func newAuthenticator() *authenticator {
	return &authenticator{accepted: map[[sha256.Size]byte]time.Time{}}
}

// check returns an error if the service behind conn refuses the caller. Otherwise the bounds of unknown callers' connections end for
// the caller's connection. The context of r is one of NewContext.
func (a *authenticator) check(r *http.Request, conn grpc.ClientConnInterface) error {
	values := r.Header.Values("Authorization")
	if len(values) > 1 {
		return errs.New(codes.Unauthenticated, commonv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED,
			"the request has %d Authorization headers; send one", len(values))
	}
	credential := sha256.Sum256([]byte(r.Header.Get("Authorization")))
	if !a.knows(credential) {
		if _, err := identityv1.NewIdentityServiceClient(conn).WhoAmI(r.Context(), &identityv1.WhoAmIRequest{}); err != nil {
			return err
		}
		a.remember(credential)
	}
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		serve.Trust(local)
	}
	return nil
}

func (a *authenticator) knows(credential [sha256.Size]byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Since(a.accepted[credential]) < acceptedFor
}

func (a *authenticator) remember(credential [sha256.Size]byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.accepted) >= maxAccepted {
		maps.DeleteFunc(a.accepted, func(_ [sha256.Size]byte, at time.Time) bool { return time.Since(at) >= acceptedFor })
	}
	if len(a.accepted) < maxAccepted {
		a.accepted[credential] = time.Now()
	}
}
