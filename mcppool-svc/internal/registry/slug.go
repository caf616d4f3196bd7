package registry

import (
	"regexp"
	"strings"
)

// maxID is the longest id of a server.
const maxID = 64

var slugPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$`)

// IsSlug reports whether s can be a server's id.
func IsSlug(s string) bool { return slugPattern.MatchString(s) }

// Slug makes an id of a name: lower case, everything else hyphens. It is empty if nothing is left.
func Slug(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_':
			b.WriteRune(r)
		default:
			b.WriteByte('-')
		}
	}
	s := strings.Trim(collapse(b.String()), "-_")
	if len(s) > maxID {
		s = strings.Trim(s[:maxID], "-_")
	}
	return s
}

// collapse makes one hyphen of several.
func collapse(s string) string {
	for strings.Contains(s, "--") {
		s = strings.ReplaceAll(s, "--", "-")
	}
	return s
}
