package ledger

import (
	"crypto/sha256"
	"strings"
)

// key names something of one user's, in constant space: what clients choose may be long, and is kept by the 100,000.
type key [16]byte

// keyOf is injective but for collisions of the hash: a user id holds no NUL.
func keyOf(user, id string) key {
	sum := sha256.Sum256([]byte(user + "\x00" + id))
	return key(sum[:])
}

// Hash says what a call is of: the same for the same server, tool and input.
type Hash [sha256.Size]byte

// HashOf is what the contract calls a request hash, from the input's JSON text.
func HashOf(server, tool, input string) Hash {
	return sha256.Sum256([]byte(server + "\x00" + tool + "\x00" + input))
}

// unnamed begins the ids that the pool makes up. Nobody can attach to such a call once it is over, so nothing can be
// proven of it.
const unnamed = "unnamed-"

// Unnamed makes an id for a call without one, out of something unique.
func Unnamed(unique string) string { return unnamed + unique }

func isUnnamed(id string) bool { return strings.HasPrefix(id, unnamed) }
