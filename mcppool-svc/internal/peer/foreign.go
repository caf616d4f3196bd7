package peer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"pawl.dev/services/errs"
)

// foreign says that another replica has another key: neither ever hears what the other writes.
type foreign string

func (f foreign) Error() string { return string(f) }

// keyDiffers marks the same in what a replica answers to another.
const keyDiffers = "peer_key_differs"

// isForeign reports whether a contact failed for the keys.
func isForeign(err error) bool {
	var f foreign
	return errors.As(err, &f) || errs.From(err).Metadata[keyDiffers] != ""
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
		if p.foreign {
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
