package registry

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/services/humantime"
)

// httpTypes are the values of `type` for a server with a `url`, in the spellings that clients use.
var httpTypes = []string{"", "http", "streamable-http", "streamablehttp", "streamable_http", sseType}

// stdioType and sseType are the values of `type` for a program and for the older HTTP transport.
const stdioType, sseType = "stdio", "sse"

// server returns the registration in a stanza.
func (r Reader) server(st stanza, dir string) (Entry, error) {
	if st.err != nil {
		return Entry{}, st.err
	}
	f := &fields{dir: dir}
	if err := json.Unmarshal(st.raw, &f.unread); err != nil || f.unread == nil {
		return Entry{}, errors.New("it is not a JSON object")
	}
	s := &Server{FromConfig: true, ByOperator: true, AutoActivate: r.AutoActivate, ID: st.name}
	if !IsSlug(st.name) {
		s.ID = Slug(st.name)
		if s.ID == "" {
			return Entry{}, errors.New("its name has no letters or digits to make an id of; rename it")
		}
		s.DisplayName = st.name
		r.Log.Info("the name of an MCP server cannot be its id, so the id is derived from the name", "server", st.name, "mcp_id", s.ID)
	}
	if err := f.read(s); err != nil {
		return Entry{}, err
	}
	s.UID = configUID(st, s.ID, s.Owner)
	unknown := slices.Sorted(maps.Keys(f.unread))
	for _, key := range unknown {
		r.Log.Warn("a key of an MCP server's configuration is not known and has no effect", "server", st.name, "key", key)
	}
	return Entry{Server: s, Unknown: unknown}, s.Validate()
}

// fields holds the members of a stanza that have not been read yet. Relative folders in them are relative to dir.
type fields struct {
	unread map[string]json.RawMessage
	dir    string
}

// take decodes a member into dst. A member that is missing or null leaves *dst unchanged. what describes a valid member, for the error.
func take[T any](f *fields, key, what string, dst *T) error {
	raw, ok := f.unread[key]
	delete(f.unread, key)
	if !ok || string(raw) == "null" {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(dst); err != nil {
		return fmt.Errorf("%q is not %s", key, what)
	}
	return nil
}

// choice reads a member that is one of several names. The first name is the default.
func choice[T ~string](f *fields, key string, to *T, names ...string) error {
	name := names[0]
	if err := take(f, key, "a text", &name); err != nil {
		return err
	}
	if !slices.Contains(names, name) {
		return fmt.Errorf("%q must be one of %s", key, strings.Join(names, ", "))
	}
	if name != names[0] {
		*to = T(name)
	}
	return nil
}

// read reads all members and returns the first error.
func (f *fields) read(s *Server) error {
	enabled := true
	err := cmp.Or(
		take(f, "disabled", "true or false", &s.Disabled),
		take(f, "enabled", "true or false", &enabled),
		take(f, "trusted", "true or false", &s.Trusted),
		take(f, "autoActivate", "true or false", &s.AutoActivate),
		take(f, "onlyWhenNamed", "true or false", &s.OnlyWhenNamed),
		take(f, "description", "a text", &s.Description),
		take(f, "owner", "a user's name", &s.Owner),
		f.duration("timeout", 24*time.Hour, &s.CallTimeout),
		f.duration("startTimeout", 10*time.Minute, &s.StartTimeout),
		f.policies(s),
		choice(f, "pinning", &s.Pinning, "approve_changes", string(PinAllowNew), string(PinNothing)),
		f.permissions(s),
		choice(f, "isolation", &s.Isolation, "user", string(PerTask), string(Shared)),
		take(f, "maxConnections", "a whole number", &s.MaxConnections),
		f.duration("cacheTtl", LongestCache, &s.CacheTTL),
		f.sampling(s),
		f.transport(s),
		f.roots(s),
	)
	s.Disabled = s.Disabled || !enabled
	return err
}

// duration reads seconds or a Go duration.
func (f *fields) duration(key string, limit time.Duration, to *time.Duration) error {
	var v any
	err := take(f, key, "a duration", &v)
	if v == nil || err != nil {
		return err
	}
	if seconds, ok := v.(float64); ok {
		// Compared as seconds: a large number would overflow a Duration.
		if seconds > limit.Seconds() {
			return fmt.Errorf("%q is more than %s; it counts seconds", key, humantime.Text(limit))
		}
		*to = time.Duration(seconds * float64(time.Second))
	} else if text, ok := v.(string); !ok {
		err = errors.New("it is no text")
	} else {
		*to, err = time.ParseDuration(text)
	}
	switch {
	case err != nil:
		return fmt.Errorf(`%q is neither a number of seconds nor a duration such as "90s"`, key)
	case *to <= 0 || *to > limit:
		return fmt.Errorf("%q must be more than 0 and at most %s", key, humantime.Text(limit))
	}
	return nil
}

// transport reads the transport. A type that contradicts the other members is an error.
func (f *fields) transport(s *Server) error {
	var kind string
	if err := take(f, "type", "a text", &kind); err != nil {
		return err
	}
	_, command := f.unread["command"]
	_, url := f.unread["url"]
	kind = strings.ToLower(kind)
	isHTTP := slices.Contains(httpTypes, kind)
	switch {
	case kind != stdioType && !isHTTP:
		return fmt.Errorf(`"type": %q is not known; use "stdio", "http" or "sse"`, kind)
	case command && url:
		return errors.New(`it has both "command" and "url"; give one of them`)
	case !command && !url:
		return errors.New(`it has neither "command" (a program to start) nor "url" (an address)`)
	case command && isHTTP && kind != "":
		return fmt.Errorf(`"type": %q does not go with "command"; use "url", or leave the type out`, kind)
	case url && kind == stdioType:
		return fmt.Errorf(`"type": %q does not go with "url"; use "command", or leave the type out`, kind)
	case url:
		s.HTTP = &HTTP{SSE: kind == sseType}
		return cmp.Or(
			take(f, "url", "an address", &s.HTTP.URL),
			take(f, "headers", "an object of texts", &s.HTTP.Headers),
			f.oauth(s.HTTP),
		)
	}
	s.Stdio = &Stdio{}
	err := cmp.Or(
		take(f, "command", "a text", &s.Stdio.Command),
		take(f, "args", "a list of texts", &s.Stdio.Args),
		take(f, "env", "an object of texts", &s.Stdio.Env),
		take(f, "cwd", "a path", &s.Stdio.Dir),
		take(f, "user", "a text", &s.Stdio.User),
	)
	if s.Stdio.Dir != "" && !filepath.IsAbs(s.Stdio.Dir) {
		s.Stdio.Dir = filepath.Join(f.dir, s.Stdio.Dir)
	}
	return err
}

// oauth reads the settings of logins.
func (f *fields) oauth(t *HTTP) error {
	var o *struct {
		Grant        Grant    `json:"grant"`
		ClientID     string   `json:"clientId"`
		ClientSecret string   `json:"clientSecret"`
		Scopes       []string `json:"scopes"`
	}
	const what = `an object such as {"clientId": "…", "clientSecret": "${env:NAME}", "scopes": ["…"], "grant": "client_credentials"}`
	if err := take(f, "oauth", what, &o); o == nil || err != nil {
		return err
	}
	switch t.OAuth = (*OAuth)(o); o.Grant {
	case "authorization_code":
		o.Grant = GrantLogin
	case GrantLogin, GrantClientCredentials:
	default:
		return fmt.Errorf(`"oauth": the "grant" %q must be authorization_code or client_credentials`, o.Grant)
	}
	return nil
}

// roots reads the folders that the server gets on roots/list.
func (f *fields) roots(s *Server) error {
	var folders []string
	if err := take(f, "roots", `a list of folders such as ["/srv/project", "file:///srv/data"]`, &folders); err != nil {
		return err
	}
	for i, folder := range folders {
		if !filepath.IsAbs(folder) && !strings.HasPrefix(folder, "file:") {
			folders[i] = filepath.Join(f.dir, folder)
		}
	}
	var err error
	s.Roots, err = ReadRoots(folders)
	return err
}

// sampling reads `sampling`: whether a server may ask models, and the limits.
func (f *fields) sampling(s *Server) error {
	var bounds *struct {
		Model       string `json:"model"`
		MaxTokens   int    `json:"maxTokens"`
		MaxRequests int    `json:"maxRequests"`
	}
	switch raw := f.unread["sampling"]; string(raw) {
	case "true":
		f.unread["sampling"] = json.RawMessage("{}")
	case "false":
		delete(f.unread, "sampling")
	}
	err := take(f, "sampling", `true, false, or an object such as {"model": "fast", "maxTokens": 1024, "maxRequests": 10}`, &bounds)
	s.Sampling = (*Sampling)(bounds)
	return err
}

// policies reads `tools`, the operator's policies.
func (f *fields) policies(s *Server) error {
	var tools map[string]struct {
		Effect     string `json:"effect"`
		Idempotent bool   `json:"idempotent"`
		Risk       string `json:"risk"`
	}
	const what = `an object such as {"name": {"effect": "read", "idempotent": true, "risk": "low"}}`
	if err := take(f, "tools", what, &tools); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		t := tools[name]
		p := Policy{Effect: effect(t.Effect), Idempotent: t.Idempotent}
		p.RiskFloor = commonv1.RiskLevel(commonv1.RiskLevel_value["RISK_LEVEL_"+strings.ToUpper(t.Risk)])
		switch {
		case p.Effect == 0:
			return fmt.Errorf(`"tools": the "effect" of %q must be read, write or destructive`, name)
		case t.Risk != "" && p.RiskFloor == 0:
			return fmt.Errorf(`"tools": the "risk" of %q must be low, medium or high`, name)
		case s.Policies == nil:
			s.Policies = make(map[string]Policy, len(tools))
		}
		s.Policies[name] = p
	}
	return nil
}

// permissions reads the permission rules.
func (f *fields) permissions(s *Server) error {
	const what = `a list such as [{"users": ["ann"], "tools": ["delete_*"], "effects": ["destructive"], "decision": "deny"}]`
	if err := take(f, "permissions", what, &s.Permissions); err != nil {
		return err
	}
	for i, r := range s.Permissions {
		switch {
		case r.Decision != Allow && r.Decision != Ask && r.Decision != Deny:
			return fmt.Errorf(`"permissions": the "decision" of rule %d must be allow, ask or deny`, i+1)
		case slices.Contains(r.Users, "") || slices.Contains(r.Tools, ""):
			return fmt.Errorf(`"permissions": rule %d names a user or a tool that is empty`, i+1)
		case slices.Contains(r.Effects, 0):
			return fmt.Errorf(`"permissions": the "effects" of rule %d must be read, write or destructive`, i+1)
		}
	}
	return nil
}
