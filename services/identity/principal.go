package identity

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

// Role is a set of rights beyond the use of one's own objects.
type Role string

// The roles there are.
const (
	RoleUser     Role = "user"     // has tasks, agents and servers of its own
	RoleOperator Role = "operator" // also configures what all users share
	RoleService  Role = "service"  // may speak for any user
)

// Principal identifies the caller. Its roles must not be changed.
type Principal struct {
	Sub      string // the user's stable id
	Roles    []Role
	KeyID    string // the API key that proved it; empty if none
	OnBehalf bool   // a service speaks for Sub
}

// Has reports whether the principal has that role.
func (p Principal) Has(r Role) bool { return slices.Contains(p.Roles, r) }

// IsOperator reports whether the principal may configure what all users share.
func (p Principal) IsOperator() bool { return p.Has(RoleOperator) }

type principalKey struct{}

// principalContext does in one allocation what context.WithValue does in two.
type principalContext struct {
	context.Context
	principal Principal
}

func (c *principalContext) Value(key any) any {
	if key == (principalKey{}) {
		return &c.principal
	}
	return c.Context.Value(key)
}

// NewContext returns a context that carries the principal.
func NewContext(ctx context.Context, p Principal) context.Context {
	return &principalContext{Context: ctx, principal: p}
}

// FromContext returns the principal of the call; UNAUTHENTICATED if none.
func FromContext(ctx context.Context) (Principal, error) {
	p, ok := ctx.Value(principalKey{}).(*Principal)
	if !ok {
		return Principal{}, unauthenticated("the call has no principal; send `authorization: Bearer` with an API key")
	}
	return *p, nil
}

// CheckSub returns an error unless a user id has 1 to 200 printable characters and no spaces.
func CheckSub(sub string) error {
	const most = 200
	unfit := func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) }
	if sub == "" || !utf8.ValidString(sub) || utf8.RuneCountInString(sub) > most || strings.ContainsFunc(sub, unfit) {
		return fmt.Errorf("the user id %.100q must be printable and without spaces, of 1 to %d characters", sub, most)
	}
	return nil
}

func unauthenticated(format string, args ...any) *errs.Error {
	return errs.New(codes.Unauthenticated, commonv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED, format, args...)
}

func denied(format string, args ...any) *errs.Error {
	return errs.New(codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED, format, args...)
}

// Authenticator identifies the caller by the token that it sent; "" if none was sent. Errors are UNAUTHENTICATED.
type Authenticator interface {
	Authenticate(ctx context.Context, token string) (Principal, error)
}

// LocalSub is the one user of an installation without configured identities.
const LocalSub = "local"

// Local returns the authenticator of an installation that only its own machine reaches: everyone is the user `local`
// and may do everything. A token that is sent all the same is ignored.
func Local() Authenticator { return local{} }

type local struct{}

// The roles of principals that are made for each call. They have no room to append to, and are never changed.
var (
	everyRole = []Role{RoleUser, RoleOperator, RoleService}
	plainUser = []Role{RoleUser}
)

func (local) Authenticate(context.Context, string) (Principal, error) {
	return Principal{Sub: LocalSub, Roles: everyRole}, nil
}

// delegate returns the principal of a user for whom the caller speaks: only services speak for others, and then only as a plain user.
func delegate(a Authenticator, caller Principal, sub string) (Principal, error) {
	if a == Local() && sub != LocalSub {
		return Principal{}, denied("there is no user %q here: without API keys everyone is %q; start with a key file "+
			"to have several users", sub, LocalSub)
	}
	if !caller.Has(RoleService) {
		return Principal{}, denied("only a key with role %q may act on behalf of a user; leave out %s", RoleService, onBehalfKey)
	}
	return Principal{Sub: sub, Roles: plainUser, KeyID: caller.KeyID, OnBehalf: true}, nil
}
