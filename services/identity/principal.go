package identity

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

// Role is a set of rights.
type Role string

// The roles.
const (
	RoleUser     Role = "user"     // has tasks, agents and servers of its own
	RoleOperator Role = "operator" // also configures what all users share
	RoleService  Role = "service"  // may act on behalf of the users that its Rights allow
)

// Principal identifies the caller. Its roles must not be changed.
type Principal struct {
	Sub      string // the user's stable id
	Roles    []Role
	KeyID    string    // the API key of the call; empty if none
	Issuer   string    // of the token of the call; empty if none
	Expires  time.Time // of the credential; zero: never
	OnBehalf bool      // a service acts on behalf of Sub
	Rights   Rights    // of the credential
}

// Has reports whether the principal has a role.
func (p Principal) Has(r Role) bool { return slices.Contains(p.Roles, r) }

// IsOperator reports whether the principal may configure what all users share.
func (p Principal) IsOperator() bool { return p.Has(RoleOperator) }

// SeesDetails reports whether the principal sees the installation's addresses and paths in errors: operators do, and everyone if there are no
// credentials.
func (p Principal) SeesDetails() bool { return p.IsOperator() || p.KeyID == "" && p.Issuer == "" }

// Explain returns the text of an error as the principal may see it.
func (p Principal) Explain(err error) string {
	if p.SeesDetails() {
		return err.Error()
	}
	return errs.PublicText(err)
}

// ErrorFor returns an error as the caller of ctx may see it.
func ErrorFor(ctx context.Context, err error) *errs.Error {
	e := errs.From(err)
	if p, err := FromContext(ctx); err == nil && p.SeesDetails() {
		return e
	}
	return e.Public()
}

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

// CheckSub returns an error unless a user id has 1 to 200 printable characters without spaces.
func CheckSub(sub string) error {
	const limit = 200
	unfit := func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) }
	if sub == "" || !utf8.ValidString(sub) || utf8.RuneCountInString(sub) > limit || strings.ContainsFunc(sub, unfit) {
		return fmt.Errorf("the user id %.100q must have 1 to %d printable characters without spaces", sub, limit)
	}
	return nil
}

func unauthenticated(format string, args ...any) *errs.Error {
	return errs.New(codes.Unauthenticated, commonv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED, format, args...)
}

func denied(format string, args ...any) *errs.Error {
	return errs.New(codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED, format, args...)
}

// Authenticator identifies the caller by its token; "" if it sent none. Errors are UNAUTHENTICATED.
type Authenticator interface {
	Authenticate(ctx context.Context, token string) (Principal, error)
}

// LocalSub is the only user of an installation without API keys.
const LocalSub = "local"

// Local returns the authenticator of an installation that can only be reached from its own machine: everyone is the user
// `local` and may do everything. Tokens are ignored.
func Local() Authenticator { return local{} }

type local struct{}

// Roles that principals share. They are never changed, and have no spare capacity for append.
var (
	allRoles  = []Role{RoleUser, RoleOperator, RoleService}
	userRoles = []Role{RoleUser}
)

func (local) Authenticate(context.Context, string) (Principal, error) {
	return Principal{Sub: LocalSub, Roles: allRoles}, nil
}

// delegate returns the principal of the user on whose behalf the caller acts, with the roles of a plain user. Only services may do so.
func delegate(a Authenticator, caller Principal, sub string) (Principal, error) {
	if a == Local() && sub != LocalSub {
		return Principal{}, denied("there is no user %q here: without API keys everyone is %q; start with a key file "+
			"to have several users", sub, LocalSub)
	}
	if !caller.Has(RoleService) {
		return Principal{}, denied("only a key with role %q may act on behalf of a user; leave out %s", RoleService, onBehalfKey)
	}
	if !caller.Rights.allowUser(sub) {
		return Principal{}, denied("the key %s may not act on behalf of %q; an operator can create one whose on_behalf_of has that user", caller.KeyID, sub)
	}
	caller.Sub, caller.Roles, caller.OnBehalf = sub, userRoles, true
	return caller, nil
}
