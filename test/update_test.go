package test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pawl.dev/test/rig"
)

// A server that is registered wrongly is put right, over REST and by the command line, and no change is lost (C2).
func TestUpdateServer(t *testing.T) {
	target := rig.Binary(t, binaries, rig.Options{Workspace: workspace(t)})
	dir := t.TempDir()
	wrong := filepath.Join(dir, "server") // all that is wrong with the first registration
	send := func(method, path, body string) (int, map[string]any) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, target.HTTP+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		code, text := get(t, req)
		var doc map[string]any
		if err := json.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatalf("%d %s", code, text)
		}
		return code, doc
	}
	code, first := send(http.MethodPost, "/v1/mcpServers?mcpServerId=own",
		`{"autoActivate": true, "stdio": {"command": "`+wrong+`", "env": {"`+rig.ServerVariable+`": "1", "SECRET": "hush"}}}`)
	if code != http.StatusOK {
		t.Fatal(code, first)
	}
	if code, doc := send(http.MethodGet, "/v1/mcpServers/own/tools", ""); code != http.StatusServiceUnavailable {
		t.Fatal(code, doc)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	etag, _ := first["etag"].(string)
	code, now := send(http.MethodPatch, "/v1/mcpServers/own?updateMask=stdio.command", `{"etag": "`+etag+`", "stdio": {"command": "`+exe+`"}, "trusted": true}`)
	if code != http.StatusOK || now["etag"] == etag || now["trusted"] == true || now["stdio"].(map[string]any)["env"] == nil {
		t.Errorf("%d %v; want another command and nothing else", code, now)
	}
	if code, doc := send(http.MethodGet, "/v1/mcpServers/own/tools", ""); code != http.StatusOK {
		t.Errorf("%d %v; want tools", code, doc)
	}
	if code, doc := send(http.MethodPatch, "/v1/mcpServers/own?updateMask=trusted", `{"etag": "`+etag+`", "trusted": true}`); code != http.StatusConflict {
		t.Errorf("%d %v; want a refusal: the etag is an old one", code, doc)
	}
	pawl := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), binaries.Pawl, append([]string{"--server", target.Executor.Target(), "--json"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.Output()
		return string(out), err
	}
	out, err := pawl("mcp", "update", "own", "--env", "OTHER=1", "--call-timeout", "5s")
	if err != nil || !strings.Contains(out, `"callTimeout": "5s"`) || !strings.Contains(out, "SECRET") || !strings.Contains(out, "OTHER") {
		t.Errorf("%s, %v", out, err)
	}
	if out, err := pawl("mcp", "call", "own/echo", "text=it works"); err != nil || !strings.Contains(out, "it works") {
		t.Errorf("%s, %v", out, err)
	}
	if out, err := pawl("mcp", "update", "own", "--", "./no-such-program"); err == nil || !json.Valid([]byte(out)) {
		t.Errorf("%s, %v; want the server as JSON, and a failure", out, err)
	}
}
