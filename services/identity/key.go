package identity

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	tokenPrefix  = "pawl_"
	idLen        = 8
	idCharacters = "-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// Key is an entry of the key file. Only the holder of the token knows the secret.
type Key struct {
	ID      string    `yaml:"id"`
	Sub     string    `yaml:"sub"`
	Roles   []Role    `yaml:"roles,flow"`
	Hash    digest    `yaml:"sha256"`
	Note    string    `yaml:"note,omitempty"`
	Created time.Time `yaml:"created"`
	Expires time.Time `yaml:"expires,omitempty"` // zero: never
	Request string    `yaml:"request_id,omitempty"`
	Rights  `yaml:",inline"`
}

// digest is the SHA-256 of a secret, in hex as text.
type digest [sha256.Size]byte

// MarshalText implements encoding.TextMarshaler.
func (d digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler. Text that is not a SHA-256 in hex becomes the zero digest, which Key.check refuses.
func (d *digest) UnmarshalText(text []byte) error {
	*d = digest{}
	if sum, err := hex.DecodeString(string(text)); err == nil && len(sum) == len(d) {
		copy(d[:], sum)
	}
	return nil
}

// newKey completes a key that has a sub, roles and, optionally, rights, a note, an expiry and a request id, and makes its token.
func newKey(k Key, now time.Time) (token string, _ Key, err error) {
	if err := cmp.Or(CheckSub(k.Sub), checkRoles(k.Roles), k.Rights.check(k.Roles)); err != nil {
		return "", Key{}, err
	}
	if !k.Expires.IsZero() && !k.Expires.After(now) {
		return "", Key{}, fmt.Errorf("the key would have expired at %s already; choose a time in the future", k.Expires.Format(time.RFC3339))
	}
	// The secret has over 256 random bits, so password hashing is not needed.
	secret := strings.ToLower(rand.Text() + rand.Text())
	k.ID, k.Hash = strings.ToLower(rand.Text()[:idLen]), sha256.Sum256([]byte(secret))
	k.Roles, k.Created = slices.Clone(k.Roles), now.UTC().Truncate(time.Second)
	return k.Prefix() + secret, k, nil
}

// Prefix returns the beginning of the key's token, up to its secret.
func (k Key) Prefix() string { return tokenPrefix + k.ID + "_" }

// check returns an error that names the first field that is wrong.
func (k Key) check() error {
	// An underscore separates id and secret in tokens.
	if k.ID == "" || len(k.ID) > 64 || strings.Trim(k.ID, idCharacters) != "" {
		return fmt.Errorf("field id: %q must be 1 to 64 letters, digits or hyphens", k.ID)
	}
	if err := CheckSub(k.Sub); err != nil {
		return fmt.Errorf("field sub: %w", err)
	}
	if err := checkRoles(k.Roles); err != nil {
		return fmt.Errorf("field roles: %w", err)
	}
	if err := k.Rights.check(k.Roles); err != nil {
		return err
	}
	if k.Hash == (digest{}) {
		return fmt.Errorf("field sha256: must be %d hex digits, the SHA-256 of the secret", 2*len(k.Hash))
	}
	return nil
}

func checkRoles(roles []Role) error {
	if len(roles) == 0 {
		return fmt.Errorf("a key needs at least one role of %s, %s and %s", RoleUser, RoleOperator, RoleService)
	}
	for _, r := range roles {
		if !slices.Contains(allRoles, r) {
			return fmt.Errorf("unknown role %q; the roles are %s, %s and %s", r, RoleUser, RoleOperator, RoleService)
		}
	}
	return nil
}

// splitToken splits a token of the form `pawl_<id>_<secret>`.
func splitToken(token string) (id, secret string, ok bool) {
	rest, ok := strings.CutPrefix(token, tokenPrefix)
	if !ok {
		return "", "", false
	}
	id, secret, ok = strings.Cut(rest, "_")
	return id, secret, ok && id != "" && secret != ""
}

func (k Key) proves(secret string) bool {
	sum := sha256.Sum256([]byte(secret))
	return subtle.ConstantTimeCompare(sum[:], k.Hash[:]) == 1
}

func (k Key) principal() Principal {
	return Principal{Sub: k.Sub, Roles: slices.Clip(k.Roles), KeyID: k.ID, Expires: k.Expires, Rights: k.Rights}
}
