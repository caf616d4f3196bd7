package registry

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

// parse reads a text as Read reads a file.
func parse(text, name, dir string, log *slog.Logger) ([]*Server, error) {
	entries, err := Reader{AutoActivate: true, Log: log}.Parse([]byte(text), name, dir)
	var servers []*Server
	for _, entry := range entries {
		servers = append(servers, entry.Server)
	}
	return servers, err
}

func TestParse(t *testing.T) {
	const text = "\xef\xbb\xbf" + `{
  "globalShortcut": "not ours",
  "mcpServers": {
    "files": {"command": "npx", "args": ["-y", "server", "/data"], "env": {"TOKEN": "${env:TOKEN}"}, "cwd": "sub", "user": "mcp"},
    "Web Search!": {
      "type": "streamable-http", "url": "https://a.example/mcp", "headers": {"Authorization": "Bearer x"},
      "trusted": true, "autoActivate": false, "timeout": 90, "startTimeout": "5s", "description": "finds things", "owner": "ann",
      "pinning": "allow_new", "permissions": [{"users": ["bob"], "tools": ["s*"], "effects": ["read", "write"], "decision": "ask"}],
      "tools": {"search": {"effect": "read", "idempotent": true, "risk": "low"}, "*": {"effect": "destructive"}}
    },
    "login": {"url": "https://b.example/mcp", "oauth": {"clientId": "c", "clientSecret": "${env:S}", "scopes": ["a"], "grant": "client_credentials"}},
    "off": {"command": "x", "disabled": true, "sampling": false},
    "models": {"command": "x", "sampling": true},
    "model": {"command": "x", "sampling": {"model": "fast", "maxTokens": 9, "maxRequests": 3}},
    "off2": {"command": "x", "enabled": false, "autoApprove": []}
  }
}`
	var log bytes.Buffer
	got, err := parse(text, "mcp.json", "/etc/pawl", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	config := Server{FromConfig: true, ByOperator: true, AutoActivate: true}
	files, search, off, off2 := config, config, config, config
	files.ID = "files"
	files.Stdio = &Stdio{Command: "npx", Args: []string{"-y", "server", "/data"}, Env: map[string]string{"TOKEN": "${env:TOKEN}"}, Dir: "/etc/pawl/sub", User: "mcp"}
	search.ID, search.DisplayName, search.Description, search.Owner = "web-search", "Web Search!", "finds things", "ann"
	search.HTTP = &HTTP{URL: "https://a.example/mcp", Headers: map[string]string{"Authorization": "Bearer x"}}
	search.Trusted, search.AutoActivate = true, false
	search.CallTimeout, search.StartTimeout = 90*time.Second, 5*time.Second
	search.Policies = map[string]Policy{
		"search": {Effect: commonv1.Effect_EFFECT_READ, Idempotent: true, RiskFloor: commonv1.RiskLevel_RISK_LEVEL_LOW},
		"*":      {Effect: commonv1.Effect_EFFECT_DESTRUCTIVE},
	}
	search.Pinning = PinAllowNew
	search.Permissions = []Rule{{
		Users: []string{"bob"}, Tools: []string{"s*"}, Decision: Ask,
		Effects: []commonv1.Effect{commonv1.Effect_EFFECT_READ, commonv1.Effect_EFFECT_WRITE},
	}}
	login := config
	login.ID, login.HTTP = "login", &HTTP{URL: "https://b.example/mcp", OAuth: &OAuth{
		ClientID: "c", ClientSecret: "${env:S}", Scopes: []string{"a"}, Grant: GrantClientCredentials,
	}}
	off.ID, off.Stdio, off.Disabled = "off", &Stdio{Command: "x"}, true
	off2.ID, off2.Stdio, off2.Disabled = "off2", &Stdio{Command: "x"}, true
	models, model := config, config
	models.ID, models.Stdio, models.Sampling = "models", &Stdio{Command: "x"}, &Sampling{}
	model.ID, model.Stdio, model.Sampling = "model", &Stdio{Command: "x"}, &Sampling{Model: "fast", MaxTokens: 9, MaxRequests: 3}
	want := []*Server{&files, &search, &login, &off, &models, &model, &off2}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Server{}, "UID"), cmpopts.IgnoreUnexported(Server{})); diff != "" {
		t.Error(diff)
	}
	for _, words := range []string{"key=autoApprove", "mcp_id=web-search"} {
		if !strings.Contains(log.String(), words) {
			t.Errorf("the log lacks %q:\n%s", words, log.String())
		}
	}
}

func TestParseUIDsFollowTheText(t *testing.T) {
	uid := func(text string) string {
		t.Helper()
		got, err := parse(text, "f", "/", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return got[0].UID
	}
	a, again, b := uid(`{"mcpServers":{"a":{"command":"x"}}}`), uid(`{"mcpServers":{"a":{"command":"x"}}}`), uid(`{"mcpServers":{"a":{"command":"y"}}}`)
	if a != again || a == b {
		t.Errorf("UIDs %s, %s, %s", a, again, b)
	}
}

// C1: a type that does not fit its fields is an error.
func TestC1ParseErrors(t *testing.T) {
	tests := []struct{ name, stanza, want string }{
		{"both", `{"command":"x","url":"http://a"}`, "both"},
		{"neither", `{"args":[]}`, "neither"},
		{"http with command", `{"type":"http","command":"x"}`, "does not go with"},
		{"stdio with url", `{"type":"stdio","url":"http://a"}`, "does not go with"},
		{"sse with command", `{"type":"sse","command":"x"}`, "does not go with"},
		{"roots", `{"command":"x","roots":"/a"}`, `"roots" is not a list`},
		{"sampling", `{"command":"x","sampling":"fast"}`, `"sampling" is not true, false`},
		{"sampling tokens", `{"command":"x","sampling":{"maxTokens":-1}}`, "sampling.max_tokens"},
		{"sampling requests", `{"command":"x","sampling":{"maxRequests":1001}}`, "sampling.max_requests"},
		{"sampling key", `{"command":"x","sampling":{"tokens":1}}`, `"sampling" is not true, false`},
		{"no folder", `{"command":"x","roots":["file:a"]}`, "neither an absolute path nor a file: URI"},
		{"unknown type", `{"type":"websocket","url":"ws://a"}`, `"websocket"`},
		{"args", `{"command":"x","args":"y"}`, `"args" is not a list of texts`},
		{"env", `{"command":"x","env":{"A":1}}`, `"env" is not an object of texts`},
		{"timeout", `{"command":"x","timeout":600000}`, "counts seconds"},
		{"timeout text", `{"command":"x","timeout":"soon"}`, "90s"},
		{"timeout negative", `{"command":"x","timeout":-1}`, "more than 0"},
		{"timeout type", `{"command":"x","timeout":true}`, "90s"},
		{"effect", `{"command":"x","tools":{"a":{"effect":"maybe"}}}`, "read, write or destructive"},
		{"risk", `{"command":"x","tools":{"a":{"effect":"read","risk":"some"}}}`, "low, medium or high"},
		{"tools", `{"command":"x","tools":{"a":{"efect":"read"}}}`, `"tools" is not`},
		{"pinning", `{"command":"x","pinning":"sometimes"}`, "approve_changes, allow_new, trust_all"},
		{"decision", `{"command":"x","permissions":[{"decision":"allow"},{"decision":"maybe"}]}`, "rule 2 must be allow, ask or deny"},
		{"effects of a rule", `{"command":"x","permissions":[{"effects":["unspecified"],"decision":"deny"}]}`, "read, write or destructive"},
		{"empty user", `{"command":"x","permissions":[{"users":[""],"decision":"deny"}]}`, "empty"},
		{"permissions", `{"command":"x","permissions":[{"user":"ann","decision":"deny"}]}`, `"permissions" is not`},
		{"grant", `{"url":"http://a","oauth":{"grant":"password"}}`, "authorization_code or client_credentials"},
		{"oauth", `{"url":"http://a","oauth":{"client_id":"x"}}`, `"oauth" is not an object`},
		{"half a client", `{"url":"http://a","oauth":{"clientSecret":"x"}}`, "client_id"},
		{"url", `{"url":"example.com"}`, "http or https"},
		{"not an object", `"x"`, "not a JSON object"},
		{"null", `null`, "not a JSON object"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := "{\"mcpServers\": {\n  \"good\": {\"command\": \"x\"},\n  \"bad\": " + tt.stanza + "\n}}"
			_, err := parse(text, "mcp.json", "/", slog.New(slog.DiscardHandler))
			if err == nil || !strings.HasPrefix(err.Error(), `mcp.json:3: MCP server "bad": `) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want one of line 3 with %q", err, tt.want)
			}
		})
	}
}

func TestParseFileErrors(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"broken", "{\n \"mcpServers\": {\n  \"a\": {,\n", "mcp.json:3:9: this is not valid JSON"},
		{"cut off", "{\"mcpServers\": {", "mcp.json:1:17: this is not valid JSON"},
		{"empty", "", "mcp.json:1:1: this is not valid JSON"},
		{"list", "[]", "not a JSON object"},
		{"other key", `{"servers": {}}`, `no "mcpServers" object`},
		{"no object", "{\n\"mcpServers\": 3}", `mcp.json:2: "mcpServers" is not an object`},
		{"same slug", `{"mcpServers":{"a b":{"command":"x"},"A-B":{"command":"x"}}}`, `both have the id "a-b"`},
		{"same name", "{\"mcpServers\":{\n\"a\":{\"command\":\"x\"},\n\"b\":{\"command\":\"x\"},\n\"a\":{\"command\":\"y\"}}}", `mcp.json:4: MCP server "a": it is there twice, first in line 2;`},
		{"same name written otherwise", `{"mcpServers":{"a":{"command":"x"},"\u0061":{"command":"y"}}}`, `it is there twice, first in line 1`},
		{"servers twice", "{\"mcpServers\":{},\n\"mcpServers\":{}}", `mcp.json:2: "mcpServers" is there twice, first in line 1`},
		{"key twice", "{\"mcpServers\":{\"a\":{\n\"command\":\"x\",\"args\":[{},\"command\"],\n\"command\":\"command\"}}}", `MCP server "a": line 3: the key "command" comes twice`},
		{"variable twice", `{"mcpServers":{"a":{"command":"x","env":{"A":"1","B":"A","a":"2","A":"3"}}}}`, `the key "A" comes twice`},
		{"all of them", "{\"mcpServers\":{\"a\":{},\n\"b\":{\"command\":\"x\"},\n\"c\":3}}", "mcp.json:1: MCP server \"a\": it has neither \"command\" (a program to start) nor \"url\" (an address)\nmcp.json:3: MCP server \"c\": it is not a JSON object"},
		{"no slug", `{"mcpServers":{"文件":{"command":"x"}}}`, "rename it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(tt.text, "mcp.json", "/", slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want one with %q", err, tt.want)
			}
		})
	}
}

// C2: registering the same name twice replaces the old configuration.
func TestC2LaterConfigurationsReplaceEarlierOnes(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for name, text := range map[string]string{
		"1.json": `{"mcpServers":{"a":{"command":"one"},"b":{"command":"b"}}}`,
		"2.json": `{"mcpServers":{"a":{"command":"two"}}}`,
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	if paths[0] > paths[1] {
		paths[0], paths[1] = paths[1], paths[0]
	}
	got, err := Read(paths, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, s := range got {
		commands = append(commands, s.ID+"="+s.Stdio.Command)
	}
	if diff := cmp.Diff([]string{"a=two", "b=b"}, commands); diff != "" {
		t.Error(diff)
	}
}

// Only chooses a server by its name, or else by its id. Errors in others do not matter.
func TestParseOnlyOne(t *testing.T) {
	const text = `{"mcpServers":{"bad":{},"My Files":{"command":"m"},"a-b":{"command":"1"},"A B":{"command":"2"},"c d":{"command":"3"},"C D":{"command":"4"},"bad":3}}`
	for only, want := range map[string]string{
		"My Files": "m", "my-files": "m", "a-b": "1", "A B": "2", "none": "", "c d": "3",
		"c-d": `would both have the id "c-d"`, "bad": `it is there twice`,
	} {
		entries, err := Reader{Log: slog.New(slog.DiscardHandler), Only: only}.Parse([]byte(text), "mcp.json", "/")
		got := ""
		for _, e := range entries {
			got += e.Stdio.Command
		}
		if err == nil && got != want || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %q, %v; want %q", only, got, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"mcpServers":{"a":{"command":"x","timeout":"1s","tools":{"*":{"effect":"read"}}}}}`)
	f.Add(`{"mcpServers":{"a":{"url":"http://x","headers":{}}},"mcpServers":{}}`)
	f.Fuzz(func(t *testing.T, text string) {
		servers, err := parse(text, "f", "/", slog.New(slog.DiscardHandler))
		if err != nil {
			return
		}
		for _, s := range servers {
			if err := s.Validate(); err != nil {
				t.Errorf("parsed what is not valid: %v", err)
			}
		}
	})
}
