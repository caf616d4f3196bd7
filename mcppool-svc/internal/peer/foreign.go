package peer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"pawl.dev/services/errs"
)

// keyMismatchError says that another replica has another key: neither of the two learns what the other one writes.
type keyMismatchError string

func (e keyMismatchError) Error() string { return string(e) }

// keyDiffers marks the same in what a replica answers to another.
const keyDiffers = "peer_key_differs"

// isKeyMismatch reports whether a contact failed because the keys differ.
func isKeyMismatch(err error) bool {
	var e keyMismatchError
	return errors.As(err, &e) || errs.From(err).Metadata[keyDiffers] != ""
}

// ErrKeys says that this replica is alone for its key.
var ErrKeys = errors.New("other replicas of the MCP pool have another --token-key than this one")

// Writable reports whether what is written here can be heard of elsewhere. Replicas that are out of reach hear of it when they are back; those with
// another key never do. A replica that no other one agrees with takes nothing, and one that some agree with leaves it to them to be right: which of
// two keys is the wrong one cannot be told. One that agreed and is out of reach still does, until it says otherwise. The error wraps ErrKeys.
func (s *Set) Writable() error {
	var strangers []string
	agreed := false
	for _, p := range s.some(func(p *peer) bool { return !p.self }) {
		s.mu.Lock()
		agreed = agreed || p.agrees
		if p.keyMismatch {
			strangers = append(strangers, p.addr)
		}
		s.mu.Unlock()
	}
	if agreed || len(strangers) == 0 {
		return nil
	}
	slices.Sort(strangers)
	return fmt.Errorf("%w: %s", ErrKeys, strings.Join(strangers, ", "))
}
