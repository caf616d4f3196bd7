package inflight

import (
	"crypto/sha256"
	"strings"
)

// key names a user's call or session in constant space: clients may choose long names, and 100,000 are kept.
type key [16]byte

// keyOf is injective up to hash collisions: a user id holds no NUL.
func keyOf(user, id string) key {
	sum := sha256.Sum256([]byte(user + "\x00" + id))
	return key(sum[:])
}

// Hash identifies server, tool and input of a call.
type Hash [sha256.Size]byte

// HashOf returns the contract's request hash; input is JSON text.
func HashOf(server, tool, input string) Hash {
	return sha256.Sum256([]byte(server + "\x00" + tool + "\x00" + input))
}

// unnamed is the prefix of ids that the pool makes up. Such a call cannot be attached to once it is over, so nothing can be proven of it.
const unnamed = "unnamed-"

// Unnamed returns the id of a call that the client gave none.
func Unnamed(unique string) string { return unnamed + unique }

func isUnnamed(id string) bool { return strings.HasPrefix(id, unnamed) }
