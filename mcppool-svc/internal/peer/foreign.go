package peer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"pawl.dev/services/errs"
)

// keyMismatchError reports that another replica has another key, so that neither receives the other's writes.
type keyMismatchError string

func (e keyMismatchError) Error() string { return string(e) }

// keyDiffers marks a key mismatch in a replica's response.
const keyDiffers = "peer_key_differs"

// isKeyMismatch reports whether a contact failed because the keys differ.
func isKeyMismatch(err error) bool {
	var e keyMismatchError
	return errors.As(err, &e) || errs.From(err).Metadata[keyDiffers] != ""
}

// ErrKeys reports that no peer shares this replica's key.
var ErrKeys = errors.New("other replicas of the MCP pool have another --token-key than this one")

// Writable returns an error that wraps ErrKeys if writes here cannot reach any peer, because all peers that answered have another key.
// Unreachable peers receive writes when they are back. With at least one peer of the same key, writes are accepted, because it cannot be
// known which of two keys is wrong. A peer that had the same key and became unreachable still counts.
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
