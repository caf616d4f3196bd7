package conn

import "pawl.dev/mcppool-svc/internal/registry"

// key tells connections apart.
type key struct {
	server   string // registry.Server.UID
	user     string // empty where all users share it
	session  string // where each session has its own
	revision string
	nth      int // 0: the first; further ones are for calls that need one to themselves
}

// keyOf says which connection a use is of.
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

// place is what failures are remembered by: a server that cannot be reached is so for all of a user's sessions. That there can
// be no further connection says nothing of the first.
func (k key) place() key {
	k.session, k.nth = "", min(k.nth, 1)
	return k
}

// at is the nth connection beside the first.
func (k key) at(nth int) key {
	k.nth = nth
	return k
}

// hold is one session's use of a connection. Sessions of different users may have one name.
type hold struct{ user, session string }

// ofSession says whether a connection ends with a session.
func (e *entry) ofSession() bool { return e.session != "" }
