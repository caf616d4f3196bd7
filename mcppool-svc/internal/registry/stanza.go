package registry

import (
	"bytes"
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

// stdioType and httpType are what `type` may say, in the spellings that are about.
var (
	stdioTypes = []string{"stdio"}
	httpTypes  = []string{"http", "streamable-http", "streamablehttp", "streamable_http", sseType}
)

// sseType is the older HTTP transport.
const sseType = "sse"

// server makes a registration of a stanza.
func (r Reader) server(st stanza, dir string) (Entry, error) {
	if st.err != nil {
		return Entry{}, st.err
	}
	f, err := fieldsOf(st.raw)
	if err != nil {
		return Entry{}, err
	}
	s := &Server{FromConfig: true, ByOperator: true, AutoActivate: r.AutoActivate, ID: st.name}
	if !IsSlug(st.name) {
		s.ID = Slug(st.name)
		if s.ID == "" {
			return Entry{}, errors.New("its name has no letters or digits to make an id of; rename it")
		}
		s.DisplayName = st.name
		r.Log.Info("an MCP server's name is no id; it has another one here", "server", st.name, "mcp_id", s.ID)
	}
	if err := f.common(s); err != nil {
		return Entry{}, err
	}
	if err := f.transport(s, dir); err != nil {
		return Entry{}, err
	}
	if err := f.roots(s, dir); err != nil {
		return Entry{}, err
	}
	s.UID = digest(st, s.ID, s.Owner)
	unknown := slices.Sorted(maps.Keys(f.left))
	for _, key := range unknown {
		r.Log.Warn("a key of an MCP server's configuration is not known and has no effect", "server", st.name, "key", key)
	}
	return Entry{Server: s, Unknown: unknown}, s.Validate()
}

// fields are a stanza's members that were not read yet.
type fields struct{ left map[string]json.RawMessage }

func fieldsOf(raw json.RawMessage) (*fields, error) {
	f := &fields{}
	if err := json.Unmarshal(raw, &f.left); err != nil || f.left == nil {
		return nil, errors.New("it is not a JSON object")
	}
	return f, nil
}

// take reads a member into a value; false if there is none.
func take[T any](f *fields, key, what string, to *T) (bool, error) {
	raw, ok := f.left[key]
	delete(f.left, key)
	if !ok || string(raw) == "null" {
		return false, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		return false, fmt.Errorf("%q is not %s", key, what)
	}
	return true, nil
}

// common reads what all transports have.
func (f *fields) common(s *Server) error {
	enabled := true
	for _, step := range []func() (bool, error){
		func() (bool, error) { return take(f, "disabled", "true or false", &s.Disabled) },
		func() (bool, error) { return take(f, "enabled", "true or false", &enabled) },
		func() (bool, error) { return take(f, "trusted", "true or false", &s.Trusted) },
		func() (bool, error) { return take(f, "autoActivate", "true or false", &s.AutoActivate) },
		func() (bool, error) { return take(f, "onlyWhenNamed", "true or false", &s.OnlyWhenNamed) },
		func() (bool, error) { return take(f, "description", "a text", &s.Description) },
		func() (bool, error) { return take(f, "owner", "a user's name", &s.Owner) },
		func() (bool, error) { return f.duration("timeout", 24*time.Hour, &s.CallTimeout) },
		func() (bool, error) { return f.duration("startTimeout", 10*time.Minute, &s.StartTimeout) },
		func() (bool, error) { return f.policies(s) },
		func() (bool, error) { return f.pinning(s) },
		func() (bool, error) { return f.permissions(s) },
		func() (bool, error) { return f.sharing(s) },
		func() (bool, error) { return f.sampling(s) },
	} {
		if _, err := step(); err != nil {
			return err
		}
	}
	s.Disabled = s.Disabled || !enabled
	return nil
}

// duration reads seconds or a Go duration.
func (f *fields) duration(key string, most time.Duration, to *time.Duration) (bool, error) {
	var v any
	ok, err := take(f, key, "a duration", &v)
	if !ok || err != nil {
		return false, err
	}
	var d time.Duration
	switch v := v.(type) {
	case float64:
		// Compared as seconds: a large number would overflow a Duration.
		if v > most.Seconds() {
			return false, fmt.Errorf("%q is more than %s; it counts seconds", key, humantime.Text(most))
		}
		d = time.Duration(v * float64(time.Second))
	case string:
		if d, err = time.ParseDuration(v); err != nil {
			return false, fmt.Errorf(`%q is neither a number of seconds nor a duration such as "90s"`, key)
		}
	default:
		return false, fmt.Errorf(`%q is neither a number of seconds nor a duration such as "90s"`, key)
	}
	if d <= 0 || d > most {
		return false, fmt.Errorf("%q is not between 0 and %s", key, humantime.Text(most))
	}
	*to = d
	return true, nil
}

// pinning reads which tools need an approval.
func (f *fields) pinning(s *Server) (bool, error) {
	var name string
	ok, err := take(f, "pinning", "a text", &name)
	if !ok || err != nil {
		return false, err
	}
	if s.Pinning, ok = ParsePinning(name); !ok {
		return false, fmt.Errorf(`"pinning" must be one of %s`, strings.Join(Pinnings(), ", "))
	}
	return true, nil
}

// transport reads how the server is reached: C1, a type that does not fit its fields is an error.
func (f *fields) transport(s *Server, dir string) error {
	var kind string
	if _, err := take(f, "type", "a text", &kind); err != nil {
		return err
	}
	_, command := f.left["command"]
	_, url := f.left["url"]
	kind = strings.ToLower(kind)
	switch {
	case kind != "" && !slices.Contains(stdioTypes, kind) && !slices.Contains(httpTypes, kind):
		return fmt.Errorf(`"type": %q is not known; use "stdio", "http" or "sse"`, kind)
	case command && url:
		return errors.New(`it has both "command" and "url"; give one of them`)
	case !command && !url:
		return errors.New(`it has neither "command" (a program to start) nor "url" (an address)`)
	case command && slices.Contains(httpTypes, kind):
		return fmt.Errorf(`"type": %q does not go with "command"; use "url", or leave the type out`, kind)
	case url && slices.Contains(stdioTypes, kind):
		return fmt.Errorf(`"type": %q does not go with "url"; use "command", or leave the type out`, kind)
	case command:
		return f.stdio(s, dir)
	default:
		err := f.http(s)
		s.HTTP.SSE = kind == sseType
		return err
	}
}

func (f *fields) stdio(s *Server, dir string) error {
	s.Stdio = &Stdio{}
	for _, step := range []func() (bool, error){
		func() (bool, error) { return take(f, "command", "a text", &s.Stdio.Command) },
		func() (bool, error) { return take(f, "args", "a list of texts", &s.Stdio.Args) },
		func() (bool, error) { return take(f, "env", "an object of texts", &s.Stdio.Env) },
		func() (bool, error) { return take(f, "cwd", "a path", &s.Stdio.Dir) },
	} {
		if _, err := step(); err != nil {
			return err
		}
	}
	if s.Stdio.Dir != "" && !filepath.IsAbs(s.Stdio.Dir) {
		s.Stdio.Dir = filepath.Join(dir, s.Stdio.Dir)
	}
	return nil
}

func (f *fields) http(s *Server) error {
	s.HTTP = &HTTP{}
	if _, err := take(f, "url", "an address", &s.HTTP.URL); err != nil {
		return err
	}
	if _, err := take(f, "headers", "an object of texts", &s.HTTP.Headers); err != nil {
		return err
	}
	return f.oauth(s.HTTP)
}

// policies reads `tools`: what the operator says of them.
func (f *fields) policies(s *Server) (bool, error) {
	var tools map[string]struct {
		Effect     string `json:"effect"`
		Idempotent bool   `json:"idempotent"`
		Risk       string `json:"risk"`
	}
	const what = `an object such as {"name": {"effect": "read", "idempotent": true, "risk": "low"}}`
	ok, err := take(f, "tools", what, &tools)
	if !ok || err != nil {
		return false, err
	}
	s.Policies = make(map[string]Policy, len(tools))
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		t := tools[name]
		effect, ok := commonv1.Effect_value["EFFECT_"+strings.ToUpper(t.Effect)]
		if !ok || effect == 0 {
			return false, fmt.Errorf(`"tools": the "effect" of %q must be read, write or destructive`, name)
		}
		risk, ok := commonv1.RiskLevel_value["RISK_LEVEL_"+strings.ToUpper(t.Risk)]
		if t.Risk != "" && (!ok || risk == 0) {
			return false, fmt.Errorf(`"tools": the "risk" of %q must be low, medium or high`, name)
		}
		s.Policies[name] = Policy{
			Effect: commonv1.Effect(effect), Idempotent: t.Idempotent, RiskFloor: commonv1.RiskLevel(risk),
		}
	}
	return true, nil
}
