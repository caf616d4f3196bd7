package mcppool

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/mcppool-svc/internal/sealed"
	"pawl.dev/mcppool-svc/internal/store"
)

// secretText occurs in each secret of the tests below.
const secretText = "hunter2-hunter2"

// secretWeb serves the fake MCP server to requests with the header and the parameter. Others get them back in a refusal, as from a careless server.
func secretWeb(t *testing.T) (url string, refused *atomic.Int64) {
	t.Helper()
	refused = new(atomic.Int64)
	inner := mcptest.Web(mcptest.Good)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header, key := r.Header.Get("X-Any-Name"), r.URL.Query().Get("api_key")
		if header != "h-"+secretText || key != "q-"+secretText {
			refused.Add(1)
			http.Error(w, fmt.Sprintf("not with header %q and key %q", header, key), http.StatusForbidden)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/mcp?api_key=q-" + secretText, refused
}

// seen collects what clients get.
type seen struct{ strings.Builder }

func (s *seen) add(message any, err error) { fmt.Fprintf(s, "%v %v\n", message, err) }

// Secrets of registrations (issue 13): all header values, the environment of programs, secrets in addresses and of clients are stored encrypted, and no
// answer, log line or audit record holds them, also not for operators. An update that sends them back masked keeps them.
func TestSecretsAreSealedAndNotShown(t *testing.T) {
	url, refused := secretWeb(t)
	var log bytes.Buffer
	cfg := Config{DataDir: t.TempDir(), Audit: filepath.Join(t.TempDir(), "audit.jsonl"), AllowAddresses: []string{"127.0.0.0/8"}}
	deps := Deps{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	answers := &seen{}

	t.Run("registered", func(t *testing.T) {
		s := startWith(t, cfg, deps)
		program := fake("program", mcptest.Good)
		program.GetStdio().Env["HARMLESS_NAME"] = "e-" + secretText
		answers.add(create(t, s.as("op"), program), nil)
		anns := web("anns", url, map[string]string{"X-Any-Name": "h-" + secretText})
		answers.add(create(t, s.as("ann"), anns), nil)
		client := web("client", "https://a.example/mcp", nil)
		client.GetHttp().Oauth = &mcppoolv1.OAuth{ClientId: "c", ClientSecret: "c-" + secretText}
		answers.add(create(t, s.as("op"), client), nil)
		wrong := web("wrong", strings.ReplaceAll(url, "q-", "wrong-"), map[string]string{"X-Any-Name": "wrong-" + secretText})
		answers.add(create(t, s.as("ann"), wrong), nil)
		useSecrets(t, s, answers)
		if refused.Load() == 0 {
			t.Error("the server saw no wrong secret")
		}

		shown, err := s.as("ann").GetMcpServer(t.Context(), &mcppoolv1.GetMcpServerRequest{Id: "anns"})
		if err != nil || shown.GetHttp().GetHeaders()["X-Any-Name"] != "***" || !strings.HasSuffix(shown.GetHttp().GetUrl(), "api_key=***") {
			t.Fatalf("shown: %v, %v", shown, err)
		}
		shown.Description = "changed"
		updated, err := s.as("ann").UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: shown})
		answers.add(updated, err)
		program.GetStdio().Env["HARMLESS_NAME"], program.GetStdio().Env["NEW"] = "***", "1"
		updated, err = s.as("op").UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{
			McpServer: program, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"stdio.env"}},
		})
		if err != nil || updated.GetStdio().GetEnv()["NEW"] != "***" {
			t.Errorf("updated: %v, %v", updated, err)
		}
		answers.add(updated, err)
		useSecrets(t, s, answers)
	})
	t.Run("after a restart", func(t *testing.T) { useSecrets(t, startWith(t, cfg, deps), answers) })

	for name, text := range map[string]string{"an answer": answers.String(), "the log": log.String(), "the audit": readText(t, cfg.Audit)} {
		if strings.Contains(text, secretText) || text == "" {
			t.Errorf("%s shows a secret, or is empty:\n%s", name, text)
		}
	}
	files, err := os.ReadDir(cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.Contains(readText(t, filepath.Join(cfg.DataDir, f.Name())), secretText) {
			t.Errorf("%s in the data folder shows a secret", f.Name())
		}
	}
}

// useSecrets checks that the servers get their secrets, and collects all that the pool says of them.
func useSecrets(t *testing.T, s *suite, answers *seen) {
	t.Helper()
	ann := s.as("ann")
	if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "program", Name: "env"}); !strings.Contains(o.text(), "HARMLESS_NAME=e-"+secretText) {
		t.Errorf("the program did not get its secret: %v", o.err)
	}
	answers.add(ann.ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "anns"}))
	if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "anns", Name: "echo", InputJson: `{"text":"hello"}`}); o.err != nil {
		t.Errorf("a call with the secrets: %v", o.err)
	}
	if o := invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "wrong", Name: "echo", InputJson: `{"text":"hello"}`}); o.err == nil {
		t.Error("wrong secrets were accepted")
	} else {
		answers.add(o.result, o.err)
	}
	for user, client := range s.users {
		if user == "svc" {
			continue
		}
		answers.add(client.ListMcpServers(t.Context(), &mcppoolv1.ListMcpServersRequest{}))
		for _, id := range []string{"program", "anns", "client", "wrong"} {
			answers.add(client.GetMcpServer(t.Context(), &mcppoolv1.GetMcpServerRequest{Id: id}))
			answers.add(client.GetMcpServerLog(t.Context(), &mcppoolv1.GetMcpServerLogRequest{Id: id}))
			answers.add(client.TestMcpServer(t.Context(), &mcppoolv1.TestMcpServerRequest{Id: id}))
		}
	}
	watch, err := ann.WatchMcpServers(t.Context(), &mcppoolv1.WatchMcpServersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		answers.add(watch.Recv())
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Without the key the pool does not start, says why, and changes nothing; with the key it starts again. Without it, a reader of the store
// that does not know encryption is told that the store is too new.
func TestMissingKey(t *testing.T) {
	cfg := Config{DataDir: t.TempDir()}
	t.Run("registered", func(t *testing.T) {
		create(t, start(t, cfg).as("op"), web("web", "https://a.example/mcp", map[string]string{"A": secretText}))
	})
	key := filepath.Join(cfg.DataDir, sealed.KeyFile)
	if err := os.Rename(key, key+".moved"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first start creates another key
		s, err := New(t.Context(), cfg, Deps{})
		if err == nil {
			_ = s.Close()
			t.Fatal("the pool started without its key")
		}
		for _, want := range []string{"another key", "--token-key", sealed.KeyFile, store.FileName} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not in: %v", want, err)
			}
		}
	}
	if err := os.Rename(key+".moved", key); err != nil {
		t.Fatal(err)
	}
	stored, err := start(t, cfg).registry.Lookup("ann", "web")
	if err != nil || stored.HTTP.Headers["A"] != secretText {
		t.Errorf("after the key was restored: %v, %v", stored, err)
	}
}

// A program runs as the user of its registration; a user that does not exist is an error that says so.
func TestUserOfAProgram(t *testing.T) {
	s := start(t, Config{})
	program := fake("program", mcptest.Good)
	program.GetStdio().User = "no-such-user-here"
	if got := create(t, s.as("op"), program).GetStdio().GetUser(); got != program.GetStdio().GetUser() {
		t.Errorf("user %q", got)
	}
	_, err := s.as("op").ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "program"})
	wantReason(t, err, "MCP_SERVER_UNAVAILABLE", "correct `user`")
	if os.Getuid() != 0 {
		return
	}
	self, err := os.ReadFile(program.GetStdio().GetCommand())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program.GetStdio().User, program.GetStdio().Cwd, program.GetStdio().Command = "nobody", "/", filepath.Join(dir, "server")
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program.GetStdio().GetCommand(), self, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := s.as("op").UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: program}); err != nil {
		t.Fatal(err)
	}
	if o := invoke(t, s.as("op"), &mcppoolv1.CallToolRequest{McpId: "program", Name: "env"}); !strings.Contains(o.text(), "USER=nobody") {
		t.Errorf("the program's environment: %s, %v", o.text(), o.err)
	}
	tested, err := s.as("op").TestMcpServer(t.Context(), &mcppoolv1.TestMcpServerRequest{Id: "program"})
	if err != nil || !strings.Contains(tested.String(), filepath.Join(dir, "server")) {
		t.Errorf("tested: %v, %v", tested, err)
	}
}
