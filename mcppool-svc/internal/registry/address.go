package registry

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Hidden stands for a secret in what is shown. Sent back, it means the old value.
const Hidden = "***"

// secretWords are in the names of query parameters whose values are secrets.
var secretWords = []string{"key", "token", "secret", "password", "passwd", "pwd", "auth", "sig", "credential"}

// MaskURL is an address without what may be secret in it: user and password, and query values that are called like keys. The rest
// stays as it was written.
func MaskURL(address string) string {
	a := cutAddress(address)
	if a.user != "" {
		a.user = Hidden
	}
	for i, p := range a.query {
		if p.secret() {
			a.query[i].value = Hidden
		}
	}
	return a.String()
}

// UnmaskURL puts the old address's secrets where an address that was shown comes back. Secrets do not move to another host. The error
// is *Invalid.
func UnmaskURL(address, old string) (string, error) {
	a, before := cutAddress(address), cutAddress(old)
	if a.scheme+a.host != before.scheme+before.host {
		before = writtenAddress{}
	}
	if a.user == Hidden && before.user != "" {
		a.user = before.user
	}
	seen := make(map[string]int)
	for i, p := range a.query {
		nth := seen[p.name]
		seen[p.name]++
		if p.value != Hidden || !p.secret() {
			continue
		}
		value, ok := before.value(p.name, nth)
		if !ok {
			return "", invalid("http.url", "its parameter %q has no value to keep; send one instead of %s", p.name, Hidden)
		}
		a.query[i].value = value
	}
	return a.String(), nil
}

// Secrets are the values of headers, and those of the address that MaskURL hides, as they are written and as they are sent.
func (t *HTTP) Secrets(headers map[string]string) map[string]string {
	all := make(map[string]string, len(headers))
	maps.Copy(all, headers)
	a := cutAddress(t.URL)
	_, password, _ := strings.Cut(a.user, ":")
	all["@"], all["@:"] = a.user, password
	for i, p := range a.query {
		if !p.secret() {
			continue
		}
		at := "?" + strconv.Itoa(i)
		all[at] = p.value
		if plain, err := url.QueryUnescape(p.value); err == nil {
			all[at+"+"] = plain
		}
	}
	return all
}

// HasUser reports whether an address names a user, or a password.
func HasUser(address string) bool { return cutAddress(address).user != "" }

// writtenAddress is a URL in pieces, each as it was written: parsing and writing it would change more than its secrets.
type writtenAddress struct {
	scheme string // with ://
	user   string // without the @
	at     string // the @, where there is one
	host   string
	path   string
	query  []param
	hasAny bool   // there is a ?
	rest   string // from the # on
}

// param is one piece of a query.
type param struct {
	name, value string
	equals      bool
}

func cutAddress(address string) writtenAddress {
	var a writtenAddress
	if i := strings.IndexByte(address, '#'); i >= 0 {
		address, a.rest = address[:i], address[i:]
	}
	address, query, hasAny := strings.Cut(address, "?")
	a.hasAny = hasAny
	if query != "" {
		for piece := range strings.SplitSeq(query, "&") {
			var p param
			p.name, p.value, p.equals = strings.Cut(piece, "=")
			a.query = append(a.query, p)
		}
	}
	if scheme, after, ok := strings.Cut(address, "://"); ok {
		a.scheme, address = scheme+"://", after
	}
	a.host = address
	if i := strings.IndexByte(address, '/'); i >= 0 {
		a.host, a.path = address[:i], address[i:]
	}
	if i := strings.LastIndexByte(a.host, '@'); i >= 0 {
		a.user, a.at, a.host = a.host[:i], "@", a.host[i+1:]
	}
	return a
}

// String puts the pieces together.
func (a writtenAddress) String() string {
	text := a.scheme + a.user + a.at + a.host + a.path
	pieces := make([]string, 0, len(a.query))
	for _, p := range a.query {
		piece := p.name
		if p.equals {
			piece += "=" + p.value
		}
		pieces = append(pieces, piece)
	}
	if a.hasAny {
		text += "?" + strings.Join(pieces, "&")
	}
	return text + a.rest
}

// secret reports whether a parameter's value is one, by its name. Rather one too many: what is hidden by mistake is kept all the same.
func (p param) secret() bool {
	if p.value == "" {
		return false
	}
	name, err := url.QueryUnescape(p.name)
	name = strings.ToLower(name)
	return err != nil || slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(name, word) })
}

// value is that of the nth parameter of a name.
func (a writtenAddress) value(name string, nth int) (string, bool) {
	for _, p := range a.query {
		if p.name != name {
			continue
		}
		if nth == 0 {
			return p.value, p.value != ""
		}
		nth--
	}
	return "", false
}
