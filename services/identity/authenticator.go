package identity

import "context"

// Authenticator says who sent a token; "" if none was sent. Errors are UNAUTHENTICATED.
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
