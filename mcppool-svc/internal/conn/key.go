package conn

import "pawl.dev/mcppool-svc/internal/registry"

// key identifies a connection.
type key struct {
	server   string // registry.Server.UID
	user     string // empty if all users share it
	session  string // empty unless each session has its own
	revision string
	nth      int // 0: the first; further ones are for calls that need one of their own
}

// keyOf returns the key of a use's first connection.
func keyOf(use Use) key {
	k := key{server: use.Server.UID, user: use.User, revision: use.Server.Revision()}
	switch use.Server.Isolation {
	case registry.PerTask:
		k.session = use.Session // calls without one share one among themselves
	case registry.Shared:
		k.user = ""
	case registry.PerUser:
	}
	return k
}

// failureKey is the key of failures: a server that cannot be reached cannot be for all of a user's sessions. A failure to make a further
// connection says nothing about the first.
func (k key) failureKey() key {
	k.session, k.nth = "", min(k.nth, 1)
	return k
}

// at returns the key of the nth connection.
func (k key) at(nth int) key {
	k.nth = nth
	return k
}

// sessionKey identifies a session: sessions of different users may have the same name.
type sessionKey struct{ user, session string }

// ofSession reports whether a connection ends with a session.
func (e *entry) ofSession() bool { return e.session != "" }
