package registry

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// maxEntries bounds an environment and a header list.
const maxEntries = 200

// ownHeaders are the protocol's; a registered header of that name would break it.
var ownHeaders = []string{
	"Accept", "Connection", "Content-Length", "Content-Type", "Last-Event-Id", "Mcp-Protocol-Version", "Mcp-Session-Id",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// Invalid says which field of a server cannot be used, and why.
type Invalid struct{ Field, Problem string }

func (e *Invalid) Error() string { return e.Field + ": " + e.Problem }

func invalid(field, format string, args ...any) *Invalid {
	return &Invalid{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// Validate says what is wrong with a server; the error is *Invalid. It looks at the registration alone, not at what it
// refers to.
func (s *Server) Validate() error {
	if !IsSlug(s.ID) {
		return invalid("id", "%q is not a slug: lower-case letters, digits, hyphens and underscores, 64 at most", s.ID)
	}
	set := 0
	for _, is := range []bool{s.Stdio != nil, s.HTTP != nil, s.Builtin != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		return invalid("transport", "give exactly one of stdio, http and builtin")
	}
	for name, p := range s.Policies {
		if name == "" || p.Effect < 0 || p.Effect > 3 || p.RiskFloor < 0 || p.RiskFloor > 3 {
			return invalid("tool_policies", "the policy of tool %q cannot be used", name)
		}
	}
	if err := s.validateSharing(); err != nil {
		return err
	}
	switch {
	case s.Stdio != nil:
		return s.Stdio.validate()
	case s.HTTP != nil:
		return s.HTTP.validate()
	default:
		return s.Builtin.validate()
	}
}

func (t *Stdio) validate() error {
	if strings.TrimSpace(t.Command) == "" {
		return invalid("stdio.command", "is empty")
	}
	for _, text := range append([]string{t.Command, t.Dir}, t.Args...) {
		if strings.ContainsRune(text, 0) {
			return invalid("stdio", "%q holds a NUL character", text)
		}
	}
	if t.Dir != "" && !filepath.IsAbs(t.Dir) {
		return invalid("stdio.cwd", "%q is not an absolute path", t.Dir)
	}
	if len(t.Env) > maxEntries {
		return invalid("stdio.env", "holds more than %d variables", maxEntries)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(t.Env[name], 0) {
			return invalid("stdio.env", "the variable %q cannot be set", name)
		}
	}
	return nil
}

func (t *HTTP) validate() error {
	u, err := url.Parse(t.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return invalid("http.url", "is not an http or https address")
	case u.Fragment != "":
		return invalid("http.url", "has a fragment (#…)")
	case len(t.Headers) > maxEntries:
		return invalid("http.headers", "holds more than %d headers", maxEntries)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		if !isToken(name) || strings.ContainsAny(t.Headers[name], "\r\n\x00") {
			return invalid("http.headers", "the header %q cannot be sent", name)
		}
		if slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)) {
			return invalid("http.headers", "%q is set by the protocol itself; leave it out", name)
		}
		if t.OAuth != nil && http.CanonicalHeaderKey(name) == "Authorization" {
			return invalid("http.headers", "%q is what logins (oauth) set; leave one of the two out", name)
		}
	}
	return t.OAuth.validate()
}

func (t *Builtin) validate() error {
	if t.Name != BuiltinWorkspace {
		return invalid("builtin.name", "there is no built-in server %q; there is %q", t.Name, BuiltinWorkspace)
	}
	if !filepath.IsAbs(t.Root) {
		return invalid("builtin.root", "%q is not an absolute path", t.Root)
	}
	return nil
}

// BuiltinWorkspace is the built-in server that shows the files of a folder.
const BuiltinWorkspace = "workspace"

// isToken reports whether s can be a header's name (RFC 9110).
func isToken(s string) bool {
	for _, r := range s {
		if r <= ' ' || r >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r) {
			return false
		}
	}
	return s != ""
}
