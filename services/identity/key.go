package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	tokenPrefix = "pawl_"
	secretBytes = 32 // 256 bits: no password hashing is needed, nor would it help
	idBytes     = 5
)

// lowerBase32 has no character that needs escaping anywhere, nor the `_` that separates a token's parts.
var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Key is an API key as it is shown to people. The secret itself is known only to the holder of the token.
type Key struct {
	ID      string
	Sub     string
	Roles   []Role
	Note    string
	Created time.Time
}

// hashedKey is a key with what proves it.
type hashedKey struct {
	Key
	hash [sha256.Size]byte
}

// newKey makes a key and the one token that proves it.
func newKey(sub string, roles []Role, note string, now time.Time) (token string, k hashedKey, err error) {
	if err := CheckSub(sub); err != nil {
		return "", hashedKey{}, err
	}
	if err := checkRoles(roles); err != nil {
		return "", hashedKey{}, err
	}
	id, secret := randomText(idBytes), randomText(secretBytes)
	k = hashedKey{
		Key: Key{ID: id, Sub: sub, Roles: slices.Clone(roles), Note: note,
			Created: now.UTC().Truncate(time.Second)},
		hash: sha256.Sum256([]byte(secret)),
	}
	return tokenPrefix + id + "_" + secret, k, nil
}

func checkRoles(roles []Role) error {
	if len(roles) == 0 {
		return fmt.Errorf("a key needs at least one role of %s, %s and %s", RoleUser, RoleOperator, RoleService)
	}
	for _, r := range roles {
		if _, err := ParseRole(string(r)); err != nil {
			return err
		}
	}
	return nil
}

// randomText never fails: crypto/rand ends the process if the system has no randomness.
func randomText(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return lowerBase32.EncodeToString(b)
}

// splitToken takes `pawl_<id>_<secret>` apart.
func splitToken(token string) (id, secret string, ok bool) {
	rest, ok := strings.CutPrefix(token, tokenPrefix)
	if !ok {
		return "", "", false
	}
	id, secret, ok = strings.Cut(rest, "_")
	return id, secret, ok && id != "" && secret != ""
}

func (k hashedKey) proves(secret string) bool {
	sum := sha256.Sum256([]byte(secret))
	return subtle.ConstantTimeCompare(sum[:], k.hash[:]) == 1
}

func (k hashedKey) principal() Principal {
	return Principal{Sub: k.Sub, Roles: slices.Clip(k.Roles), KeyID: k.ID}
}
