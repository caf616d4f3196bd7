package registry

import (
	"errors"
	"strings"
	"testing"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

func TestSlug(t *testing.T) {
	for name, want := range map[string]string{
		"files": "files", "My Server!": "my-server", "a/b::c": "a-b-c", "--x--": "x", "文件": "", "_a_": "a",
		strings.Repeat("ab", 50): strings.Repeat("ab", 32),
	} {
		got := Slug(name)
		if got != want {
			t.Errorf("Slug(%q) = %q, want %q", name, got, want)
		}
		if got != "" && !IsSlug(got) {
			t.Errorf("Slug(%q) = %q, which is not a slug", name, got)
		}
	}
}

func FuzzSlug(f *testing.F) {
	f.Add("My Server")
	f.Fuzz(func(t *testing.T, name string) {
		if got := Slug(name); got != "" && !IsSlug(got) {
			t.Errorf("Slug(%q) = %q, which is not a slug", name, got)
		}
	})
}

func TestValidate(t *testing.T) {
	stdio := func(s Stdio) *Server { return &Server{ID: "a", Stdio: &s} }
	web := func(h HTTP) *Server { return &Server{ID: "a", HTTP: &h} }
	tests := []struct {
		server *Server
		field  string // "": valid
	}{
		{stdio(Stdio{Command: "x", Dir: "/tmp", Env: map[string]string{"A": "b"}}), ""},
		{web(HTTP{URL: "https://a.example/mcp?x=1", Headers: map[string]string{"X-Key": "v"}}), ""},
		{&Server{ID: "a", Builtin: &Builtin{Name: "workspace", Root: "/"}}, ""},
		{&Server{ID: "A", Stdio: &Stdio{Command: "x"}}, "id"},
		{&Server{ID: "a"}, "transport"},
		{&Server{ID: "a", Stdio: &Stdio{Command: "x"}, HTTP: &HTTP{}}, "transport"},
		{stdio(Stdio{Command: " "}), "stdio.command"},
		{stdio(Stdio{Command: "x", Args: []string{"a\x00"}}), "stdio"},
		{stdio(Stdio{Command: "x", Dir: "rel"}), "stdio.cwd"},
		{stdio(Stdio{Command: "x", Env: map[string]string{"A=B": ""}}), "stdio.env"},
		{web(HTTP{URL: "/mcp"}), "http.url"},
		{web(HTTP{URL: "https://a/#x"}), "http.url"},
		{web(HTTP{URL: "https://a", Headers: map[string]string{"A": "x\r\nB: y"}}), "http.headers"},
		{web(HTTP{URL: "https://a", Headers: map[string]string{"A B": "x"}}), "http.headers"},
		{web(HTTP{URL: "https://a", Headers: map[string]string{"content-type": "x"}}), "http.headers"},
		{&Server{ID: "a", Builtin: &Builtin{Name: "x", Root: "/"}}, "builtin.name"},
		{&Server{ID: "a", Builtin: &Builtin{Name: "workspace", Root: "x"}}, "builtin.root"},
		{&Server{ID: "a", Stdio: &Stdio{Command: "x"}, Policies: map[string]Policy{"": {}}}, "tool_policies"},
	}
	for _, tt := range tests {
		err := tt.server.Validate()
		var invalid *Invalid
		if tt.field == "" && err != nil || tt.field != "" && (!errors.As(err, &invalid) || invalid.Field != tt.field) {
			t.Errorf("%+v: %v, want field %q", tt.server, err, tt.field)
		}
	}
}

func TestPolicy(t *testing.T) {
	yes, no := true, false
	const read, write, destructive = commonv1.Effect_EFFECT_READ, commonv1.Effect_EFFECT_WRITE, commonv1.Effect_EFFECT_DESTRUCTIVE
	const low, medium, high = commonv1.RiskLevel_RISK_LEVEL_LOW, commonv1.RiskLevel_RISK_LEVEL_MEDIUM, commonv1.RiskLevel_RISK_LEVEL_HIGH
	trusted := &Server{Trusted: true}
	tests := []struct {
		name   string
		server *Server
		hints  Hints
		want   Policy
	}{
		{"not trusted", &Server{}, Hints{ReadOnly: &yes}, Policy{write, false, medium}},
		{"trusted, no hints", trusted, Hints{}, Policy{write, false, medium}},
		{"trusted, read-only", trusted, Hints{ReadOnly: &yes}, Policy{read, true, low}},
		{"trusted, not read-only", trusted, Hints{ReadOnly: &no}, Policy{destructive, false, high}},
		{"trusted, not destructive", trusted, Hints{ReadOnly: &no, Destructive: &no, Idempotent: &yes}, Policy{write, true, medium}},
		{"builtin", &Server{Builtin: &Builtin{}}, Hints{ReadOnly: &yes}, Policy{read, true, low}},
		{"a policy overrides hints", &Server{Trusted: true, Policies: map[string]Policy{"t": {Effect: destructive}}}, Hints{ReadOnly: &yes}, Policy{destructive, false, high}},
		{"for any tool", &Server{Policies: map[string]Policy{"*": {Effect: read, RiskFloor: high}, "u": {Effect: write}}}, Hints{}, Policy{read, false, high}},
		{"a policy without an effect", &Server{Policies: map[string]Policy{"t": {Idempotent: true}}}, Hints{}, Policy{write, true, medium}},
	}
	for _, tt := range tests {
		if got := tt.server.Policy("t", tt.hints); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestRevisionAndEtag(t *testing.T) {
	s := &Server{UID: "u", ID: "a", Stdio: &Stdio{Command: "x", Env: map[string]string{"A": "1"}}, Generation: 1}
	same := s.Clone()
	same.Description, same.Generation = "new", 2
	if same.Revision() != s.Revision() {
		t.Error("a description changed the revision")
	}
	if same.Etag() == s.Etag() {
		t.Error("a change did not change the etag")
	}
	other := s.Clone()
	other.Stdio.Env["A"] = "2"
	if other.Revision() == s.Revision() || s.Stdio.Env["A"] != "1" {
		t.Error("another environment has the same revision, or Clone shares the environment")
	}
	if s.CallLimit() != DefaultCallTimeout || (&Server{CallTimeout: time.Second}).CallLimit() != time.Second {
		t.Error("CallLimit is wrong")
	}
	programs := &Server{Builtin: &Builtin{Workspace: &Workspace{}}}
	if programs.CallLimit() != DefaultCommandTimeout+stopTime {
		t.Errorf("CallLimit of a workspace that runs programs is %v", programs.CallLimit())
	}
	programs.Builtin.Workspace.CommandTimeout = time.Hour
	if programs.CallLimit() != time.Hour+stopTime {
		t.Errorf("CallLimit of a workspace that runs long programs is %v", programs.CallLimit())
	}
}
