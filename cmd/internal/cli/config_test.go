package cli_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"pawl.dev/cmd/internal/clitest"
	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/suite"
	"pawl.dev/executor-svc/executor"
	"pawl.dev/mcppool-svc/mcppool"
	"pawl.dev/services/serve"
)

func TestAgents(t *testing.T) {
	w := newWorld(t)
	w.agents = clitest.NewAgents(t)
	w.serveElsewhere()
	w.pawl("agents").expect(t, 0, "", "no agents")
	w.golden("agents create", w.pawl("agents", "create", "reader", "--confirm", "by-risk", "--mcp", "files", "--mcp", "search",
		"--description", "reads\x1b", "--name", "Reader", "--max-steps", "50"))
	w.pawl("agents", "create", "any").expect(t, 0, "agent any is created", "")
	w.golden("agents list", w.pawl("agents", "list"))
	w.golden("agents json", w.pawl("agents", "list", "--json").anyTime())
	w.pawl("agents", "show", "reader").expect(t, 0, "files, search", "")
	w.pawl("agents", "update", "reader", "--description", "", "--max-failed-steps", "1").expect(t, 0, "agent reader is changed", "")
	w.pawl("agents", "update", "reader", "--all-servers").expect(t, 0, "", "")
	w.pawl("agents", "update", "reader", "--all-servers", "--mcp", "x").expect(t, 64, "", "can't be used together")
	if diff := cmp.Diff([][]string{{"description", "max_failed_steps"}, {"mcp_ids"}}, masks(w)); diff != "" {
		t.Error(diff)
	}
	w.pawl("agents", "delete", "reader").expect(t, 0, "agent reader is deleted\n", "")
	w.pawl("agents", "show", "reader").expect(t, 1, "", "next: pawl agents list")
	if got := w.pawl("agents", "create", "x", "--confirm", "sometimes"); got.code != 64 {
		t.Error(got.whole())
	}
	if w.pawl("agents", "show", "any", "--json").out == "" {
		t.Error("no JSON")
	}
}

func TestKeys(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "keys.yaml")
	t.Setenv("PAWL_KEYS", file)
	w.pawl("keys").expect(t, 0, "", "no keys")
	added := w.pawl("keys", "add", "alice", "--role", "user", "--role", "operator", "--note", "laptop", "--json")
	var key struct{ ID, Token string }
	if err := json.Unmarshal([]byte(added.out), &key); err != nil || !strings.HasPrefix(key.Token, "pawl_") {
		t.Fatalf("%v: %s", err, added.whole())
	}
	plain := w.pawl("keys", "add", "bob")
	if !strings.HasPrefix(plain.out, "pawl_") || strings.Count(plain.out, "\n") != 1 {
		t.Error(plain.whole())
	}
	list := w.pawl("keys", "list")
	list.expect(t, 0, "user,operator", "")
	if strings.Contains(list.out, key.Token) || !strings.Contains(list.out, "laptop") {
		t.Error(list.whole())
	}
	w.pawl("keys", "list", "--json").expect(t, 0, `"sub": "bob"`, "")
	w.pawl("keys", "remove", key.ID).expect(t, 0, "is removed\n", "")
	w.pawl("keys", "remove", key.ID).expect(t, 1, "", "there is no API key with the id")
	w.pawl("keys", "remove", key.ID, "--json").expect(t, 1, "", "next: pawl keys list")
	w.pawl("keys", "add", "svc", "--role", "service", "--methods", "nonsense.*").expect(t, 64, "", "matches no method")
	w.pawl("keys", "add", "carol", "--expires", "87600h", "--json").expect(t, 0, `"expires": "`, "")
	w.pawl("keys", "add", "carol", "--expires=-1h").expect(t, 64, "", "choose a time in the future")
	if got := w.pawl("keys", "add", "eve", "--role", "king"); got.code != 64 {
		t.Error(got.whole())
	}
	w.pawl("keys", "add", "two words").expect(t, 64, "", "printable characters without spaces")
	if raw, err := os.ReadFile(file); err != nil || strings.Contains(string(raw), key.Token) {
		t.Errorf("%v, %s", err, raw)
	}
}

func TestModelsAndVersion(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	w.golden("models", w.pawl("models"))
	w.pawl("models", "--json").expect(t, 0, `"isDefault": true`, "")
	w.env = map[string]string{"PAWL_MODEL": "fast"}
	w.golden("models_chosen", w.pawl("models"))
	w.env = map[string]string{"PAWL_MODEL": "none"}
	w.golden("models_wrong", w.pawl("models"))
	if got := w.pawl("models", "--server", "127.0.0.1:1"); got.code == 0 || strings.Contains(got.err, "PAWL_MODEL") {
		t.Errorf("the server, not the model, is missing: %s", got.whole())
	}
	w.pawl("version").expect(t, 0, "pawl v1.2.3 (go", "")
	w.pawl("version", "--json").expect(t, 0, `"version": "v1.2.3"`, "")
}

func TestHelp(t *testing.T) {
	w := newWorld(t)
	w.golden("help", w.pawl())
	w.golden("help", w.pawl("help"))
	w.pawl("help", "run").expect(t, 0, "Usage: pawl run", "")
	for _, command := range [][]string{
		{"up"}, {"run"}, {"tasks"}, {"show"}, {"watch"}, {"approve"}, {"reject"}, {"params"}, {"input"}, {"outcome"}, {"pause"}, {"unpause"}, {"cancel"}, {"fork"}, {"export"}, {"delete"}, {"models"}, {"version"}, {"completion"},
		{"mcp", "list"}, {"mcp", "add"}, {"mcp", "remove"}, {"mcp", "activate"}, {"mcp", "deactivate"}, {"mcp", "tools"}, {"mcp", "approve"}, {"mcp", "call"}, {"mcp", "workspace"},
		{"agents", "list"}, {"agents", "show"}, {"agents", "create"}, {"agents", "update"}, {"agents", "delete"},
		{"store", "info"}, {"store", "compact"}, {"store", "check"}, {"keys", "add"}, {"keys", "list"}, {"keys", "remove"}, {"certs", "dev"},
	} {
		w.pawl(append(command, "--help")...).expect(t, 0, "Examples:\n\n    ", "")
	}
}

func TestUp(t *testing.T) {
	w := newWorld(t)
	root := chdir(t, "app")
	up := w.start("up", "--http", "127.0.0.1:1", "--grpc", "127.0.0.1:2", "--keys", "keys.yaml", "--mcp-config", mcpConfig(t), "--model", "offline", "--allow-host", "h", "--allow-origin", "o")
	for len(w.built()) == 0 || !strings.Contains(up.out.String(), "curl") {
		<-up.out.new
	}
	s := w.built()[0]
	<-s.started
	w.signals <- syscall.SIGTERM
	got := up.wait()
	got.out = strings.ReplaceAll(got.out, root, "ROOT")
	w.golden("up", got)
	want := suite.Config{
		DataDir: w.data, HTTPAddr: "127.0.0.1:1", GRPCAddr: "127.0.0.1:2", KeysFile: root + "/keys.yaml", MCPConfigs: s.cfg.MCPConfigs,
		Workspace: root, DefaultModel: "offline", ModelTries: 3, MaxModelRequests: 64, TLS: serve.TLS{ClientAuth: "require", MinVersion: "1.3"}, Limits: serve.Limits{}.WithDefaults(), Executor: defaults(), Version: "v1.2.3", AllowHosts: []string{"h"}, AllowOrigins: []string{"o"},
	}
	if diff := cmp.Diff(want, s.cfg); diff != "" || len(s.cfg.MCPConfigs) != 1 {
		t.Error(diff)
	}
}

// defaults returns the executor's settings if no flag sets them (A18, A21, A28).
func defaults() executor.Config {
	return executor.Config{
		MaxRunning: 30, MaxRequests: 5, RequestWindow: 15 * time.Second, MaxPosts: 30, MaxCompletions: 64, Retention: 720 * time.Hour,
		MaxSteps: 25, MaxFailedSteps: 3, MaxAttempts: 5, MaxRecoveries: 5, DrainTimeout: 8 * time.Second, WatchBytes: 64 << 20,
	}
}

// The executor's settings are flags of `pawl up`; inside other commands they are the defaults (A28).
func TestExecutorSettings(t *testing.T) {
	w := newWorld(t)
	t.Setenv("PAWL_MAX_STEPS", "7")
	up := w.start("up", "--no-workspace", "--max-running", "2", "--max-requests", "0", "--request-window", "1s", "--retention", "0", "--max-attempts", "1")
	for len(w.built()) == 0 {
		<-up.out.new
	}
	w.signals <- syscall.SIGTERM
	up.wait().expect(t, 0, "", "")
	w.pawl("tasks").expect(t, 0, "", "")
	want := defaults()
	want.MaxRunning, want.MaxRequests, want.RequestWindow, want.Retention, want.MaxAttempts, want.MaxSteps = 2, 0, time.Second, 0, 1, 7
	if diff := cmp.Diff(want, w.built()[0].cfg.Executor); diff != "" {
		t.Errorf("pawl up: %s", diff)
	}
	if diff := cmp.Diff(defaults(), w.built()[1].cfg.Executor); diff != "" {
		t.Errorf("inside a command: %s", diff)
	}
}

// The pool's settings are flags of `pawl up` beside the executor's; inside other commands they are the pool's own.
func TestPoolSettings(t *testing.T) {
	w := newWorld(t)
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	t.Setenv("PAWL_MAX_CALLS", "7")
	t.Setenv("PAWL_AUDIT", audit)
	up := w.start("up", "--no-workspace", "--allow-addresses", "10.1.0.0/16", "--allow-addresses", "fd00::/8", "--max-child-files", "64",
		"--max-tool-result-bytes", "1000", "--break-for", "1m", "--drain-timeout", "1s", "--pool-drain-timeout", "2s")
	for len(w.built()) == 0 {
		<-up.out.new
	}
	w.signals <- syscall.SIGTERM
	up.wait().expect(t, 0, "", "")
	w.pawl("tasks").expect(t, 0, "", "")
	want := mcppool.Config{
		Audit: audit, AllowAddresses: []string{"10.1.0.0/16", "fd00::/8"}, MaxChildFiles: 64, MaxToolResultBytes: 1000,
		MaxCalls: 7, BreakFor: time.Minute, DrainTimeout: 2 * time.Second,
	}
	if diff := cmp.Diff(want, w.built()[0].cfg.Pool); diff != "" {
		t.Errorf("pawl up: %s", diff)
	}
	if got := w.built()[0].cfg.Executor; got.DrainTimeout != time.Second || got.Audit != audit {
		t.Errorf("the executor drains for %v, and its audit is %q", got.DrainTimeout, got.Audit)
	}
	if diff := cmp.Diff(mcppool.Config{}, w.built()[1].cfg.Pool); diff != "" {
		t.Errorf("inside a command: %s", diff)
	}
}

// Every flag of the pool is a flag of `pawl up`.
func TestAllPoolSettingsAreFlags(t *testing.T) {
	help := newWorld(t).pawl("up", "--help").out
	parser, err := kong.New(&mcppool.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range parser.Model.Flags {
		if !strings.Contains(help, "--"+f.Name) {
			t.Errorf("pawl up has no --%s", f.Name)
		}
	}
}

func mcpConfig(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (w *world) built() []*fakeSuite {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.suites
}

// Flags override the environment, which overrides the file.
func TestUpConfiguration(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	file := filepath.Join(t.TempDir(), "pawl.yaml")
	if err := os.WriteFile(file, []byte("http: 127.0.0.1:10\ngrpc: none\nmodel: of-file\nno-workspace: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PAWL_MODEL", "of-env")
	up := w.start("up", "--config", file, "--http", "127.0.0.1:30", "--json")
	for !strings.Contains(up.out.String(), "}") {
		<-up.out.new
	}
	<-w.built()[0].started
	w.signals <- os.Interrupt
	up.wait().expect(t, 0, `"http": "127.0.0.1:30"`, "")
	if cfg := w.built()[0].cfg; cfg.GRPCAddr != "" || cfg.DefaultModel != "of-env" || cfg.Workspace != "" {
		t.Errorf("%+v", cfg)
	}
	if err := os.WriteFile(file, []byte("htp: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.pawl("up", "--config", file).expect(t, 64, "", "unknown settings: htp (line 1)")
}

func TestUpThatFails(t *testing.T) {
	w := newWorld(t)
	w.newErr = errLocked
	w.pawl("up").expect(t, 1, "", "is in use by another process")
	if err := discover.WriteServerFile(w.data, discover.ServerInfo{PID: 7, GRPC: "127.0.0.1:1", HTTP: "127.0.0.1:2"}); err != nil {
		t.Fatal(err)
	}
	w.pawl("up").expect(t, 1, "", "is in use by another pawl: pid 7, gRPC 127.0.0.1:1, http://127.0.0.1:2\n  next: use that server")
	w.newErr = errors.New("the address 127.0.0.1:7410 is in use; choose another with the flag")
	w.pawl("up").expect(t, 1, "", "pawl: the address 127.0.0.1:7410 is in use")
	w.newErr = &fs.PathError{Op: "write", Path: "journal.db", Err: syscall.ENOSPC}
	w.pawl("up").expect(t, 1, "", "no space left on device\n  next: make room on the disk of "+w.data)
	w.pawl("up", "--server", "x:1").expect(t, 64, "", "pawl up is the server")
	w.pawl("up", "--workspace", ".", "--no-workspace").expect(t, 64, "", "can't be used together")
}

// Where data is kept: the flag, PAWL_DATA, the XDG folder, the home folder.
func TestDataFolder(t *testing.T) {
	w := newWorld(t)
	home, state := t.TempDir(), t.TempDir()
	for _, tc := range []struct {
		name, flag, env, xdg, want string
	}{
		{"the flag", "/f", "/e", state, "/f"},
		{"the environment", "", "/e", state, "/e"},
		{"XDG", "", "", state, state + "/pawl"},
		{"XDG of no use", "", "", "relative", home + "/.local/state/pawl"},
		{"home", "", "", "", home + "/.local/state/pawl"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("HOME", home)
			t.Setenv("XDG_STATE_HOME", tc.xdg)
			t.Setenv("PAWL_DATA", tc.env)
			if tc.env == "" {
				os.Unsetenv("PAWL_DATA")
			}
			args := []string{"up", "--json"}
			if tc.flag != "" {
				args = append(args, "--data", tc.flag)
			}
			up := w.start(args...)
			for !strings.Contains(up.out.String(), "}") {
				<-up.out.new
			}
			w.signals <- os.Interrupt
			up.wait().expect(t, 0, `"data": "`+tc.want+`"`, "")
		})
	}
	t.Setenv("HOME", "")
	t.Setenv("XDG_STATE_HOME", "")
	os.Unsetenv("PAWL_DATA")
	w.pawl("up").expect(t, 1, "", "there is no home folder to keep data in")
}

// Output that cannot be written is an error.
func TestOutputThatCannotBeWritten(t *testing.T) {
	w := newWorld(t)
	w.broken = errors.New("no space left")
	w.pawl("version").expect(t, 1, "", "write the output: no space left")
}

// Four processes: with the executor's address and the others', every command finds its own.
func TestFourProcesses(t *testing.T) {
	w := newWorld(t)
	w.agents = clitest.NewAgents(t)
	executor, pool, planner := clitest.Serve(t, w.executor, w.agents), clitest.Serve(t, w.pool), clitest.Serve(t, w.planner)
	flags := []string{"--server", executor.Addr, "--pool", pool.Addr, "--planner", planner.Addr}
	for _, tt := range []struct {
		args []string
		out  string
	}{
		{[]string{"mcp", "add", "files", "--", "x"}, "files is registered"}, {[]string{"mcp", "list"}, "files"}, {[]string{"models"}, "offline"}, {[]string{"agents", "list", "--json"}, "{"},
	} {
		w.pawl(append(flags[:6:6], tt.args...)...).expect(t, 0, tt.out, "")
	}
	t.Setenv("PAWL_POOL", pool.Addr+",127.0.0.1:1") // as an executor has it
	w.pawl("mcp", "list", "--server", executor.Addr).expect(t, 0, "files", "")
	w.pawl("mcp", "list", "--server", executor.Addr, "--pool", planner.Addr).expect(t, 1, "", "no MCP pool answers at "+planner.Addr)
}

// The models to compare are arguments; a flag that would be ignored is an error.
func TestEvalModels(t *testing.T) {
	w := newWorld(t)
	for want, args := range map[string][]string{
		"--compare takes the models without --model\n  next: pawl eval FILE --compare a b c": {"--compare", "a", "b", "--model", "c"},
		"--compare needs two models": {"--compare", "a"},
		`"a" is not expected`:        {"a"},
	} {
		w.pawl(append([]string{"eval", filepath.Join(w.wd, "config_test.go")}, args...)...).expect(t, 64, "", want)
	}
}
