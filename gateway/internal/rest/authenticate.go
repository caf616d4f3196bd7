package rest

import (
	"crypto/sha256"
	"maps"
	"net"
	"net/http"
	"slices"
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
	accepted map[[sha256.Size]byte]acceptance // by credential
}

// acceptance says when a credential was accepted, and whose budget its requests use.
type acceptance struct {
	at   time.Time
	user string // "" for services
}

func newAuthenticator() *authenticator {
	return &authenticator{accepted: map[[sha256.Size]byte]acceptance{}}
}

// check returns an error if the service behind conn refuses the caller. Otherwise it returns the user whose budget the request uses, and
// lifts the bounds of the caller's connection. The context of r is one of NewContext.
func (a *authenticator) check(r *http.Request, conn grpc.ClientConnInterface) (user string, err error) {
	values := r.Header.Values("Authorization")
	if len(values) > 1 {
		return "", errs.New(codes.Unauthenticated, commonv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED,
			"the request has %d Authorization headers; send one", len(values))
	}
	credential := sha256.Sum256([]byte(r.Header.Get("Authorization")))
	user, known := a.find(credential)
	if !known {
		who, err := identityv1.NewIdentityServiceClient(conn).WhoAmI(r.Context(), &identityv1.WhoAmIRequest{})
		if err != nil {
			return "", err
		}
		if !who.GetOnBehalf() && !slices.Contains(who.GetRoles(), identityv1.Role_ROLE_SERVICE) {
			user = who.GetSub()
		}
		a.remember(credential, user)
	}
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		return user, serve.Trust(local, user)
	}
	return user, nil
}

func (a *authenticator) find(credential [sha256.Size]byte) (user string, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := a.accepted[credential]
	return found.user, time.Since(found.at) < acceptedFor
}

func (a *authenticator) remember(credential [sha256.Size]byte, user string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.accepted) >= maxAccepted {
		maps.DeleteFunc(a.accepted, func(_ [sha256.Size]byte, found acceptance) bool { return time.Since(found.at) >= acceptedFor })
	}
	if len(a.accepted) < maxAccepted {
		a.accepted[credential] = acceptance{time.Now(), user}
	}
}
