package registry

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/store"
	"pawl.dev/services/humantime"
)

const (
	// maxEntries bounds the variables of an environment and the headers.
	maxEntries = 200
	maxRoots   = 100
	maxRootLen = 4096
	maxServer  = 256 << 10 // bytes of a registration, as stored
)

// MostServers is how many servers a plain user may register.
const MostServers = 100

// Limits of the operators' settings.
const (
	MostConnections    = 100_000
	LongestCache       = 24 * time.Hour
	MostSampleTokens   = 1_000_000
	MostSampleRequests = 1000
)

// protocolHeaders are set by the protocol; a registered header of that name would break it.
var protocolHeaders = []string{
	"Accept", "Connection", "Content-Length", "Content-Type", "Last-Event-Id", "Mcp-Protocol-Version", "Mcp-Session-Id",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// Invalid is the error for a field of a server that cannot be used.
type Invalid struct{ Field, Problem string }

func (e *Invalid) Error() string { return e.Field + ": " + e.Problem }

func invalid(field, format string, args ...any) *Invalid {
	return &Invalid{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// Validate returns an *Invalid if the registration cannot work. It does not look at the programs, addresses and secrets that the
// registration names.
func (s *Server) Validate() error {
	if !IsSlug(s.ID) {
		return invalid("id", "%q is not a slug: lower-case letters, digits, hyphens and underscores, 64 at most", s.ID)
	}
	if err := s.validateBounds(); err != nil {
		return err
	}
	if size := len(store.Encode(s)); size > maxServer {
		return invalid("transport", "with all settings has %d KiB; it may have %d KiB", size>>10, maxServer>>10)
	}
	switch {
	case s.Stdio != nil && s.HTTP == nil && s.Builtin == nil:
		return s.Stdio.validate()
	case s.Stdio == nil && s.HTTP != nil && s.Builtin == nil:
		return s.HTTP.validate()
	case s.Stdio == nil && s.HTTP == nil && s.Builtin != nil:
		return s.Builtin.validate()
	default:
		return invalid("transport", "give exactly one of stdio, http and builtin")
	}
}

// validateBounds checks the settings of tools, connections, cached results and models.
func (s *Server) validateBounds() error {
	for name, p := range s.Policies {
		if name == "" || commonv1.Effect_name[int32(p.Effect)] == "" || commonv1.RiskLevel_name[int32(p.RiskFloor)] == "" {
			return invalid("tool_policies", "the policy of tool %q cannot be used", name)
		}
	}
	switch p := s.Sampling; {
	case s.MaxConnections < 0 || s.MaxConnections > MostConnections:
		return invalid("max_connections", "is not between 0 and %d", MostConnections)
	case s.CacheTTL < 0 || s.CacheTTL > LongestCache:
		return invalid("cache_ttl", "is not between 0 and %s", humantime.Text(LongestCache))
	case p == nil:
		return nil
	case len(p.Model) > 200:
		return invalid("sampling.model", "has more than 200 characters")
	case p.MaxTokens < 0 || p.MaxTokens > MostSampleTokens:
		return invalid("sampling.max_tokens", "is not between 0 and %d", MostSampleTokens)
	case p.MaxRequests < 0 || p.MaxRequests > MostSampleRequests:
		return invalid("sampling.max_requests", "is not between 0 and %d", MostSampleRequests)
	}
	return nil
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
		if slices.Contains(protocolHeaders, http.CanonicalHeaderKey(name)) {
			return invalid("http.headers", "%q is set by the protocol itself; leave it out", name)
		}
		if t.OAuth != nil && http.CanonicalHeaderKey(name) == "Authorization" {
			return invalid("http.headers", "%q is set by logins (oauth); leave out one of the two", name)
		}
	}
	return t.OAuth.validate()
}

func (o *OAuth) validate() error {
	switch {
	case o == nil:
		return nil
	case o.Grant != GrantLogin && o.Grant != GrantClientCredentials:
		return invalid("http.oauth.grant", "%q is not known", o.Grant)
	case o.Grant == GrantClientCredentials && (o.ClientID == "" || o.ClientSecret == ""):
		return invalid("http.oauth", "client credentials need a client_id and a client_secret; give both")
	case o.ClientID == "" && o.ClientSecret != "":
		return invalid("http.oauth.client_id", "is missing; a client_secret needs one")
	}
	for _, scope := range o.Scopes {
		if scope == "" {
			return invalid("http.oauth.scopes", "one is empty")
		}
		if strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
			return invalid("http.oauth.scopes", "%q is not a scope", scope)
		}
	}
	return nil
}

func (t *Builtin) validate() error {
	if t.Name != BuiltinWorkspace {
		return invalid("builtin.name", "there is no built-in server %q; the only one is %q", t.Name, BuiltinWorkspace)
	}
	if !filepath.IsAbs(t.Root) {
		return invalid("builtin.root", "%q is not an absolute path", t.Root)
	}
	if t.Workspace == nil {
		return nil
	}
	for _, command := range t.Workspace.Commands {
		if command == "" || strings.ContainsFunc(command, func(r rune) bool { return r <= ' ' }) {
			return invalid("builtin.workspace.commands", "%q is not the name of a program; give names without arguments, such as `go`", command)
		}
	}
	if t.Workspace.CommandTimeout < 0 {
		return invalid("builtin.workspace.command_timeout", "is negative")
	}
	return nil
}

// BuiltinWorkspace is the name of the built-in server that serves the files of a folder.
const BuiltinWorkspace = "workspace"

// isToken reports whether s can be a header's name (RFC 9110).
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r) })
}

// ReadRoots returns folders, given as file URIs or absolute paths, as file URIs. The error is *Invalid.
func ReadRoots(folders []string) ([]string, error) {
	if len(folders) > maxRoots {
		return nil, invalid("roots", "holds more than %d folders", maxRoots)
	}
	var roots []string
	for _, folder := range folders {
		uri := folder
		if filepath.IsAbs(folder) {
			uri = (&url.URL{Scheme: "file", Path: toURIPath(folder)}).String()
		}
		u, err := url.Parse(uri)
		if err != nil || u.Scheme != "file" || !strings.HasPrefix(u.Path, "/") || len(folder) > maxRootLen || strings.ContainsRune(folder, 0) {
			return nil, invalid("roots", "%.200q is neither an absolute path nor a file: URI", folder)
		}
		roots = append(roots, uri)
	}
	return roots, nil
}

// toURIPath returns a path in the form of URIs: with slashes, also before a drive letter.
func toURIPath(path string) string {
	path = filepath.ToSlash(filepath.Clean(path))
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return path
}

// maxID is the longest id of a server.
const maxID = 64

var (
	slugPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$`)
	notInSlug   = regexp.MustCompile(`[^a-z0-9_]+`)
)

// IsSlug reports whether s can be a server's id.
func IsSlug(s string) bool { return slugPattern.MatchString(s) }

// Slug derives an id from a name: its letters a to z in lower case, digits and underscores, with a hyphen for each run of other characters.
// It is empty if nothing is left.
func Slug(name string) string {
	s := strings.Trim(notInSlug.ReplaceAllString(strings.ToLower(name), "-"), "-_")
	return strings.Trim(s[:min(len(s), maxID)], "-_")
}
