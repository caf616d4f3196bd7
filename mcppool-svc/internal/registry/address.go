package registry

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Hidden stands for a secret in what is shown. Sent back, it means the old value.
const Hidden = "***"

// secretWords are in the names of query parameters whose values are secrets.
var secretWords = []string{"key", "token", "secret", "password", "passwd", "pwd", "auth", "sig", "credential"}

// MaskURL returns an address without what may be secret in it: user and password, and query values that are called like keys. The rest
// stays as it was written.
func MaskURL(address string) string {
	a := cutAddress(address)
	if a.user != "" {
		a.user = Hidden
	}
	a.replace(func(string, int, string) string { return Hidden })
	return a.String()
}

// UnmaskURL puts the old address's secrets where an address that was shown comes back. Secrets do not move to another host. The error
// is *Invalid.
func UnmaskURL(address, old string) (string, error) {
	a, before := cutAddress(address), cutAddress(old)
	if a.scheme+a.host != before.scheme+before.host {
		before = &writtenAddress{}
	}
	if a.user == Hidden && before.user != "" {
		a.user = before.user
	}
	kept := make(map[string]string)
	before.replace(func(name string, nth int, value string) string {
		kept[place(name, nth)] = value
		return value
	})
	missing := ""
	a.replace(func(name string, nth int, value string) string {
		if value != Hidden {
			return value
		}
		if kept[place(name, nth)] == "" {
			missing = name
		}
		return kept[place(name, nth)]
	})
	if missing != "" {
		return "", invalid("http.url", "its parameter %q has no value to keep; send one instead of %s", missing, Hidden)
	}
	return a.String(), nil
}

// Secrets returns the values of headers, and those of the address that MaskURL hides, as they are written and as they are sent.
func (t *HTTP) Secrets(headers map[string]string) map[string]string {
	all := make(map[string]string, len(headers))
	maps.Copy(all, headers)
	a := cutAddress(t.URL)
	_, password, _ := strings.Cut(a.user, ":")
	all["@"], all["@:"] = a.user, password
	a.replace(func(name string, nth int, value string) string {
		at := "?" + place(name, nth)
		all[at] = value
		if plain, err := url.QueryUnescape(value); err == nil {
			all[at+"+"] = plain
		}
		return value
	})
	return all
}

// HasUser reports whether an address names a user, or a password.
func HasUser(address string) bool { return cutAddress(address).user != "" }

// writtenAddress is a URL in pieces, each as it was written: parsing and writing it would change more than its secrets.
type writtenAddress struct {
	scheme   string // with ://
	user, at string // at is the @, if there is one
	host     string
	path     string
	query    string // with the ?
	fragment string // with the #
}

var addressPieces = regexp.MustCompile(`(?s)^([^?#]*?://)?(?:([^/?#]*)(@))?([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?$`)

func cutAddress(address string) *writtenAddress {
	m := addressPieces.FindStringSubmatch(address) // it fits any text
	return &writtenAddress{m[1], m[2], m[3], m[4], m[5], m[6], m[7]}
}

// String puts the pieces together.
func (a *writtenAddress) String() string {
	return a.scheme + a.user + a.at + a.host + a.path + a.query + a.fragment
}

// replace replaces the values of the parameters that are secrets; nth numbers those of one name, from 0.
func (a *writtenAddress) replace(with func(name string, nth int, value string) string) {
	pieces := strings.Split(a.query, "&")
	seen := make(map[string]int)
	for i, piece := range pieces {
		name, value, _ := strings.Cut(piece, "=")
		name = strings.TrimPrefix(name, "?")
		if value != "" && isSecret(name) {
			pieces[i] = strings.TrimSuffix(piece, value) + with(name, seen[name], value)
		}
		seen[name]++
	}
	a.query = strings.Join(pieces, "&")
}

// place names a parameter.
func place(name string, nth int) string { return name + "=" + strconv.Itoa(nth) }

// isSecret reports whether a parameter's value is a secret, by its name. In doubt it is: what is hidden by mistake is kept all the same.
func isSecret(name string) bool {
	name, err := url.QueryUnescape(name)
	name = strings.ToLower(name)
	return err != nil || slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(name, word) })
}
