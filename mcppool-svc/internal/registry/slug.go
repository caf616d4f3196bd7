package registry

import (
	"regexp"
	"strings"
)

// maxID is the longest id of a server.
const maxID = 64

var (
	slugPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$`)
	notInSlug   = regexp.MustCompile(`[^a-z0-9_]+`)
)

// IsSlug reports whether s can be a server's id.
func IsSlug(s string) bool { return slugPattern.MatchString(s) }

// Slug makes an id of a name: lower case, everything else hyphens. It is empty if nothing is left.
func Slug(name string) string {
	s := strings.Trim(notInSlug.ReplaceAllString(strings.ToLower(name), "-"), "-_")
	return strings.Trim(s[:min(len(s), maxID)], "-_")
}
