package oauth

import (
	"net/http"
	"strings"
)

const (
	// maxHeader bounds what is read of WWW-Authenticate headers.
	maxHeader = 16 << 10
	// maxScopes and maxScope bound what a server can ask for.
	maxScopes = 100
	maxScope  = 500
)

// challenge is what a server says when it refuses a request (RFC 6750, RFC 9728).
type challenge struct {
	metadata string   // where the metadata of the protected resource are; empty: not said
	scopes   []string // what the request needs
	err      string   // such as insufficient_scope
}

// scheme says which kinds of credentials a response asks for.
type scheme int

const (
	unsaid scheme = iota // none is named
	bearer
	foreign // others alone
)

// challengeOf reads the WWW-Authenticate headers of a response.
func challengeOf(h http.Header) (challenge, scheme) {
	kind, budget := unsaid, maxHeader
	for _, value := range h.Values("WWW-Authenticate") {
		if budget -= len(value); budget < 0 {
			break
		}
		for _, c := range parseChallenges(value) {
			if !strings.EqualFold(c.scheme, "Bearer") {
				kind = max(kind, foreign)
				continue
			}
			return challenge{
				metadata: c.params["resource_metadata"], err: c.params["error"], scopes: scopesOf(c.params["scope"]),
			}, bearer
		}
	}
	return challenge{}, kind
}

// scopesOf splits a list of scopes and drops what cannot be one (RFC 6749, 3.3).
func scopesOf(text string) []string {
	var scopes []string
	for scope := range strings.FieldsSeq(text) {
		if isScope(scope) && len(scopes) < maxScopes {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

func isScope(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\' {
			return false
		}
	}
	return s != "" && len(s) <= maxScope
}

// rawChallenge is one challenge of a header (RFC 9110, 11.6.1); names of parameters are in lower case, and of those that
// come twice the first counts.
type rawChallenge struct {
	scheme string
	params map[string]string
}

// parseChallenges reads as far as it understands.
func parseChallenges(text string) []rawChallenge {
	var list []rawChallenge
	s := scanner{rest: text}
	for {
		s.skip(" \t,")
		name := s.token()
		if name == "" {
			return list
		}
		spaced := s.skip(" \t")
		if len(list) > 0 && s.peek() == '=' {
			value, ok := s.value()
			if !ok {
				return list
			}
			if params := list[len(list)-1].params; params[strings.ToLower(name)] == "" {
				params[strings.ToLower(name)] = value
			}
			continue
		}
		if s.peek() == '=' {
			return list // a parameter of nothing
		}
		list = append(list, rawChallenge{scheme: name, params: map[string]string{}})
		if spaced {
			s.token68()
		}
	}
}

type scanner struct{ rest string }

func (s *scanner) peek() byte {
	if s.rest == "" {
		return 0
	}
	return s.rest[0]
}

// skip reports whether there was anything to skip.
func (s *scanner) skip(set string) bool {
	before := len(s.rest)
	s.rest = strings.TrimLeft(s.rest, set)
	return len(s.rest) < before
}

func (s *scanner) while(is func(byte) bool) string {
	n := 0
	for n < len(s.rest) && is(s.rest[n]) {
		n++
	}
	out := s.rest[:n]
	s.rest = s.rest[n:]
	return out
}

func (s *scanner) token() string { return s.while(isTokenByte) }

// token68 skips the credential-like text that a scheme may have instead of parameters.
func (s *scanner) token68() {
	before := s.rest
	found := s.while(func(b byte) bool { return isTokenByte(b) || b == '/' })
	s.skip("=")
	s.skip(" \t")
	if found == "" || s.rest != "" && s.peek() != ',' {
		s.rest = before
	}
}

// value reads `= value`, a token or a quoted text.
func (s *scanner) value() (string, bool) {
	s.rest = s.rest[1:]
	s.skip(" \t")
	if s.peek() != '"' {
		value := s.token()
		return value, value != ""
	}
	var b strings.Builder
	for i := 1; i < len(s.rest); i++ {
		switch c := s.rest[i]; c {
		case '"':
			s.rest = s.rest[i+1:]
			return b.String(), true
		case '\\':
			if i++; i < len(s.rest) {
				b.WriteByte(s.rest[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

func isTokenByte(b byte) bool {
	return b > ' ' && b < 0x7f && !strings.ContainsRune("\"(),/:;<=>?@[\\]{}", rune(b))
}
