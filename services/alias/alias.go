// Package alias names things within the characters that model providers allow for functions.
package alias

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

var (
	endsInHash = regexp.MustCompile(`_[0-9a-f]{16}$`)
	notInNames = regexp.MustCompile(`[^A-Za-z0-9_-]`)
)

// Of returns the alias of an id of the form SCOPE/NAME: SCOPE__NAME in letters, digits, _ and -, at most 64 of them. Different ids have different aliases: an alias
// that could stand for several ids ends with a part of the id's hash.
func Of(id string) string {
	const most, hashed = 64, 16
	scope, name, _ := strings.Cut(id, "/")
	alias := notInNames.ReplaceAllString(scope, "_") + "__" + notInNames.ReplaceAllString(name, "_")
	if alias == scope+"__"+name && !strings.Contains(scope, "__") && !strings.HasSuffix(scope, "_") && len(alias) <= most && !endsInHash.MatchString(alias) {
		return alias
	}
	sum := sha256.Sum256([]byte(id))
	return alias[:min(len(alias), most-hashed-1)] + "_" + hex.EncodeToString(sum[:])[:hashed]
}
