package registry

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// reference matches a reference to a secret in the pool's environment or in a file. References are resolved when a connection is made.
var reference = regexp.MustCompile(`\$\{(env|file):([^}]*)\}`)

// maxSecret is the longest secret that a file may hold, in bytes.
const maxSecret = 64 << 10

// HasReference reports whether a value refers to the pool's environment or to a file.
func HasReference(value string) bool { return reference.MatchString(value) }

// Expand replaces ${env:NAME} and ${file:PATH} in values of the server's configuration, if an operator wrote it.
func (s *Server) Expand(values map[string]string, getenv func(string) (string, bool)) (map[string]string, error) {
	if !s.ByOperator {
		return values, nil
	}
	out := make(map[string]string, len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		var failed error
		out[key] = reference.ReplaceAllStringFunc(values[key], func(match string) string {
			parts := reference.FindStringSubmatch(match)
			value, err := secret(parts[1], parts[2], getenv)
			if err != nil && failed == nil {
				failed = fmt.Errorf("MCP server %s: %q refers to %w", s.ID, key, err)
			}
			return value
		})
		if failed != nil {
			return nil, failed
		}
	}
	return out, nil
}

// secret returns the secret of one reference. Its error names what the reference refers to, and why that cannot be used.
func secret(kind, name string, getenv func(string) (string, bool)) (string, error) {
	if kind == "file" {
		return secretFile(name)
	}
	value, ok := getenv(name)
	if !ok {
		return "", fmt.Errorf("the environment variable %s, which the pool does not have; set it where the pool is started", name)
	}
	return value, nil
}

// secretFile reads a secret from a file, such as container platforms mount. Line breaks at the end are not part of the secret.
func secretFile(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("the file %q; give its absolute path", path)
	}
	f, err := os.Open(path)
	if err != nil {
		var why *os.PathError
		if errors.As(err, &why) {
			err = why.Err
		}
		return "", fmt.Errorf("the file %s, which the pool cannot read: %w", path, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("the file %s, which the pool cannot read: %w", path, err)
	case len(text) > maxSecret:
		return "", fmt.Errorf("the file %s, which has more than %d KiB; a secret is shorter", path, maxSecret>>10)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// Hidden replaces secrets in responses. In a request it means the current value.
const Hidden = "***"

// secretWords occur in the names of query parameters whose values are secrets.
var secretWords = []string{"key", "token", "secret", "password", "passwd", "pwd", "auth", "sig", "credential"}

// MaskURL masks the secrets in an address: user and password, and the values of query parameters with names such as `api_key`. The rest
// is unchanged.
func MaskURL(address string) string {
	return mapSecrets(address, func(string, string) string { return Hidden })
}

// UnmaskURL restores the secrets of the old address in a masked address that a client sent back, unless scheme or host differ. The error is
// *Invalid.
func UnmaskURL(address, old string) (string, error) {
	secrets := make(map[string]string)
	if schemeAndHost(address) == schemeAndHost(old) {
		secrets = secretsOf(old)
	}
	var missing string
	address = mapSecrets(address, func(place, value string) string {
		switch before, known := secrets[place]; {
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

// minSegment is the length from which a segment of a path may be a token.
const minSegment = 12

// Secrets returns the texts to hide in messages, by keys without a meaning: the values of headers, the secrets of the address, its password
// alone, its secret parameters unescaped, its path and query, and their longer parts.
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
	u, err := url.Parse(t.URL)
	if err != nil {
		return all
	}
	all["/"], all["/+"], all["?"] = u.EscapedPath(), u.Path, u.RawQuery
	parts := strings.Split(u.EscapedPath()+"/"+u.Path, "/")
	for _, values := range u.Query() {
		parts = append(parts, values...)
	}
	for _, part := range parts {
		if len(part) >= minSegment {
			all["/"+part] = part
		}
	}
	return all
}

// HasUser reports whether an address has a user name or a password.
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

// addressPieces matches scheme, user, @, host, path, query and fragment of any text. It keeps them as written: parsing and formatting a URL
// would change more than its secrets.
var addressPieces = regexp.MustCompile(`(?s)^([^?#]*?://)?(?:([^/?#]*)(@))?([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?$`)

func schemeAndHost(address string) string {
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

// isSecret reports whether the value of a parameter with this name is a secret. In doubt it is: masking never loses a value.
func isSecret(name string) bool {
	name, err := url.QueryUnescape(name)
	name = strings.ToLower(name)
	return err != nil || slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(name, word) })
}
