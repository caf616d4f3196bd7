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
	return mapSecrets(address, func(string, string) string { return Hidden })
}

// UnmaskURL puts the old address's secrets where an address that was shown comes back. Secrets do not move to another host. The error
// is *Invalid.
func UnmaskURL(address, old string) (string, error) {
	kept := make(map[string]string)
	if hostOf(address) == hostOf(old) {
		kept = secretsOf(old)
	}
	var missing string
	address = mapSecrets(address, func(place, value string) string {
		switch before, known := kept[place]; {
		case value != Hidden:
			return value
		case known:
			return before
		}
		if place != userPlace {
			missing, _, _ = strings.Cut(place, "=")
		}
		return value
	})
	if missing != "" {
		return "", invalid("http.url", "its parameter %q has no value to keep; send one instead of %s", missing, Hidden)
	}
	return address, nil
}

// Secrets returns the values of headers, and those of the address that MaskURL hides, as they are written and as they are sent.
func (t *HTTP) Secrets(headers map[string]string) map[string]string {
	all := make(map[string]string, len(headers))
	maps.Copy(all, headers)
	for place, value := range secretsOf(t.URL) {
		all["?"+place] = value
		if place == userPlace {
			_, all["?:"], _ = strings.Cut(value, ":")
		} else if plain, err := url.QueryUnescape(value); err == nil {
			all["?"+place+"+"] = plain
		}
	}
	return all
}

// HasUser reports whether an address names a user, or a password.
func HasUser(address string) bool { return secretsOf(address)[userPlace] != "" }

// secretsOf returns the secrets of an address by their places.
func secretsOf(address string) map[string]string {
	all := make(map[string]string)
	mapSecrets(address, func(place, value string) string {
		all[place] = value
		return value
	})
	return all
}

// userPlace is the place of user and password; that of a parameter is its name and number, as in "key=0".
const userPlace = "@"

// addressPieces are scheme, user, @, host, path, query and fragment, each as it was written: parsing and writing a URL would change more
// than its secrets. They fit any text.
var addressPieces = regexp.MustCompile(`(?s)^([^?#]*?://)?(?:([^/?#]*)(@))?([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?$`)

func hostOf(address string) string {
	m := addressPieces.FindStringSubmatch(address)
	return m[1] + m[4]
}

// mapSecrets returns an address with each secret in it replaced.
func mapSecrets(address string, replace func(place, value string) string) string {
	m := addressPieces.FindStringSubmatch(address)
	if m[2] != "" {
		m[2] = replace(userPlace, m[2])
	}
	parameters := strings.Split(m[6], "&")
	seen := make(map[string]int)
	for i, parameter := range parameters {
		name, value, _ := strings.Cut(parameter, "=")
		name = strings.TrimPrefix(name, "?")
		if value != "" && isSecret(name) {
			parameters[i] = strings.TrimSuffix(parameter, value) + replace(name+"="+strconv.Itoa(seen[name]), value)
		}
		seen[name]++
	}
	m[6] = strings.Join(parameters, "&")
	return strings.Join(m[1:], "")
}

// isSecret reports whether a parameter's value is a secret, by its name. In doubt it is: what is hidden by mistake is kept all the same.
func isSecret(name string) bool {
	name, err := url.QueryUnescape(name)
	name = strings.ToLower(name)
	return err != nil || slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(name, word) })
}
