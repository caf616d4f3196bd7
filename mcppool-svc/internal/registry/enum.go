package registry

// Isolation says who shares a connection to a server.
type Isolation string

// The isolations.
const (
	// PerUser gives each user one connection.
	PerUser Isolation = ""
	// PerTask gives each session of each user one, which closes when the session is released.
	PerTask Isolation = "task"
	// Shared gives all users the same one; for servers that keep nothing between calls.
	Shared Isolation = "shared"
)

// Pinning says which tools need an approval before they are used, once the tools of a server were seen for the first time.
type Pinning string

// The ways to pin.
const (
	// PinChanges lets neither changed tools nor new ones through: a changed tool under a new name is a new tool.
	PinChanges Pinning = ""
	// PinAllowNew lets new tools through when they are first seen, and no changed ones.
	PinAllowNew Pinning = "allow_new"
	// PinNothing lets everything through. Approvals are not looked at, and are kept for when they are again.
	PinNothing Pinning = "trust_all"
)

// Grant is how the pool gets tokens for a server.
type Grant string

// The grants.
const (
	GrantLogin             Grant = ""                   // each user logs in, where the server asks for it
	GrantClientCredentials Grant = "client_credentials" // the pool does, for all users
)

// Decision is what decides about a call.
type Decision string

// The decisions.
const (
	Allow Decision = "allow"
	Ask   Decision = "ask" // the call is made, at a risk that makes tasks ask
	Deny  Decision = "deny"
)
