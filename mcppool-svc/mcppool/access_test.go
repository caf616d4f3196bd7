package mcppool

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mcpserver "github.com/mark3labs/mcp-go/server"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/mcppool-svc/internal/registry"
)

func TestWhoMayRegisterWhat(t *testing.T) {
	s := start(t, Config{})
	root := t.TempDir()
	builtin := func(name, root string) *mcppoolv1.McpServer {
		return &mcppoolv1.McpServer{Id: "b", Transport: &mcppoolv1.McpServer_Builtin{Builtin: &mcppoolv1.BuiltinTransport{Name: name, Root: root}}}
	}
	allowing := func(m *mcppoolv1.McpServer, command string) *mcppoolv1.McpServer {
		m.GetBuiltin().Workspace = &mcppoolv1.Workspace{Write: true, Commands: []string{command}, CommandTimeout: durationpb.New(time.Minute)}
		return m
	}
	with := func(m *mcppoolv1.McpServer, edit func(*mcppoolv1.McpServer)) *mcppoolv1.McpServer {
		edit(m)
		return m
	}
	tests := []struct {
		name, user string
		server     *mcppoolv1.McpServer
		want       codes.Code
	}{
		{"user, stdio", "ann", fake("x1", mcptest.Good), codes.PermissionDenied},
		{"user, builtin", "ann", builtin("workspace", root), codes.PermissionDenied},
		{"user, trusted", "ann", with(web("x2", "https://a.example/mcp", nil), func(m *mcppoolv1.McpServer) { m.Trusted = true }), codes.PermissionDenied},
		{"user, policies", "ann", with(web("x3", "https://a.example/mcp", nil), func(m *mcppoolv1.McpServer) {
			m.ToolPolicies = map[string]*mcppoolv1.ToolPolicy{"*": {Effect: commonv1.Effect_EFFECT_READ}}
		}), codes.PermissionDenied},
		{"user, for another", "ann", with(web("x4", "https://a.example/mcp", nil), func(m *mcppoolv1.McpServer) { m.OwnerSub = "bob" }), codes.PermissionDenied},
		{"user, the pool's secrets", "ann", web("x5", "https://a.example/mcp", map[string]string{"A": "${env:HOME}"}), codes.PermissionDenied},
		{"service, stdio", "svc", fake("x6", mcptest.Good), codes.PermissionDenied},
		{"user, http", "ann", web("ok1", "https://a.example/mcp", nil), codes.OK},
		{"operator, stdio", "op", fake("ok2", mcptest.Good), codes.OK},
		{"operator, builtin", "op", with(builtin("workspace", root), func(m *mcppoolv1.McpServer) { m.Id = "ok3" }), codes.OK},
		{"operator, a workspace that is written", "op", with(allowing(builtin("workspace", root), "go"), func(m *mcppoolv1.McpServer) { m.Id = "ok5" }), codes.OK},
		{"user, a workspace that is written", "ann", allowing(builtin("workspace", root), "go"), codes.PermissionDenied},
		{"a command with arguments", "op", allowing(builtin("workspace", root), "go test"), codes.InvalidArgument},
		{"operator, for another", "op", with(fake("ok4", mcptest.Good), func(m *mcppoolv1.McpServer) { m.OwnerSub = "bob" }), codes.OK},
		{"no transport", "op", &mcppoolv1.McpServer{Id: "x7"}, codes.InvalidArgument},
		{"no id", "op", web("", "https://a.example/mcp", nil), codes.InvalidArgument},
		{"not a slug", "op", web("A b", "https://a.example/mcp", nil), codes.InvalidArgument},
		{"not http", "op", web("x8", "ftp://a.example/mcp", nil), codes.InvalidArgument},
		{"header of the protocol", "op", web("x9", "https://a.example/mcp", map[string]string{"mcp-session-id": "1"}), codes.InvalidArgument},
		{"mask without a stored value", "op", web("x9", "https://a.example/mcp", map[string]string{"A": "***"}), codes.InvalidArgument},
		{"unknown builtin", "op", builtin("nope", root), codes.InvalidArgument},
		{"builtin without a folder", "op", builtin("workspace", filepath.Join(root, "none")), codes.InvalidArgument},
		{"id exists", "op", fake("ok2", mcptest.Good), codes.AlreadyExists},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := s.as(tt.user).CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: tt.server})
			if status.Code(err) != tt.want {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
		})
	}
	// Only the operator sees the workspace that is written.
	for user, want := range map[string][]string{"ann": {"ok1", "ok2", "ok3"}, "bob": {"ok2", "ok3", "ok4"}, "op": {"ok2", "ok3", "ok5"}} {
		if diff := cmp.Diff(want, ids(t, s.as(user), false)); diff != "" {
			t.Errorf("%s: %s", user, diff)
		}
	}
}

// A workspace that may be changed neither contains the pool's data nor is in it.
func TestDataFolderIsNoWorkspace(t *testing.T) {
	base := t.TempDir()
	data, beside, link := filepath.Join(base, "state", "pawl"), filepath.Join(base, "app"), filepath.Join(base, "link")
	for _, dir := range []string{filepath.Join(data, "x"), beside} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Dir(data), link); err != nil {
		t.Fatal(err)
	}
	s := start(t, Config{DataDir: data})
	number := 0
	register := func(root string, allowed *mcppoolv1.Workspace) (*mcppoolv1.McpServer, error) {
		number++
		return s.as("op").CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: &mcppoolv1.McpServer{
			Id:        fmt.Sprintf("w%d", number),
			Transport: &mcppoolv1.McpServer_Builtin{Builtin: &mcppoolv1.BuiltinTransport{Name: "workspace", Root: root, Workspace: allowed}},
		}})
	}
	writes, runs := &mcppoolv1.Workspace{Write: true}, &mcppoolv1.Workspace{Commands: []string{"go"}}
	for _, root := range []string{"/", base, filepath.Dir(data), data, filepath.Join(data, "x"), link} {
		for _, allowed := range []*mcppoolv1.Workspace{writes, runs} {
			if _, err := register(root, allowed); status.Code(err) != codes.InvalidArgument {
				t.Errorf("%s, %v: %v", root, allowed, err)
			}
		}
	}
	if _, err := register(beside, writes); err != nil {
		t.Error(err)
	}
	reads, err := register(base, nil)
	if err != nil {
		t.Fatal(err)
	}
	reads.GetBuiltin().Workspace = writes
	if _, err := s.as("op").UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: reads}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("an update: %v", err)
	}
}

// A user neither sees another user's servers nor shares a process or a session with another user.
func TestUsersAreIsolated(t *testing.T) {
	s := start(t, Config{})
	for _, user := range []string{"ann", "bob"} {
		m := fake("mine", mcptest.Good)
		m.OwnerSub = user
		create(t, s.as("op"), m)
	}
	shared := fake("shared", mcptest.Good)
	create(t, s.as("op"), shared)
	m := fake("private", mcptest.Good)
	m.OwnerSub = "ann"
	create(t, s.as("op"), m)

	_, err := s.as("bob").GetMcpServer(t.Context(), &mcppoolv1.GetMcpServerRequest{Id: "private"})
	wantReason(t, err, "MCP_SERVER_NOT_FOUND", "private")
	_, err = s.as("bob").ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "private"})
	wantReason(t, err, "MCP_SERVER_NOT_FOUND", "private")
	_, err = s.as("bob").ActivateMcpServer(t.Context(), &mcppoolv1.ActivateMcpServerRequest{Id: "private"})
	wantReason(t, err, "MCP_SERVER_NOT_FOUND", "private")
	_, err = s.as("bob").DeleteMcpServer(t.Context(), &mcppoolv1.DeleteMcpServerRequest{Id: "private"})
	wantReason(t, err, "MCP_SERVER_NOT_FOUND", "private")

	// Each user and server has its own process, even if two users use the same registration.
	pids := make(map[string]string)
	for _, user := range []string{"ann", "bob"} {
		for _, id := range []string{"mine", "shared"} {
			o := invoke(t, s.as(user), &mcppoolv1.CallToolRequest{McpId: id, Name: "info", SessionId: "task"})
			if o.err != nil {
				t.Fatal(o.err)
			}
			if other, ok := pids[o.text()]; ok {
				t.Errorf("%s/%s and %s share a process", user, id, other)
			}
			pids[o.text()] = user + "/" + id
		}
	}
	// A session id belongs to its user: ann's session "task" is not bob's.
	for user, want := range map[string]uint32{"ann": 2, "bob": 2, "op": 0} {
		resp, err := s.as(user).ReleaseSession(t.Context(), &mcppoolv1.ReleaseSessionRequest{SessionId: "task"})
		if err != nil || resp.GetReleased() != want {
			t.Errorf("%s released %d, %v", user, resp.GetReleased(), err)
		}
	}
}

func TestOwnServerHidesSharedServer(t *testing.T) {
	s := start(t, Config{})
	create(t, s.as("ann"), web("both", "https://ann.example/mcp", nil))
	create(t, s.as("op"), web("both", "https://all.example/mcp", nil))
	for user, want := range map[string]string{"ann": "https://ann.example/mcp", "bob": "https://all.example"} {
		got, err := s.as(user).GetMcpServer(t.Context(), &mcppoolv1.GetMcpServerRequest{Id: "both"})
		if err != nil || got.GetHttp().GetUrl() != want {
			t.Errorf("%s sees %v, %v", user, got, err)
		}
		if list := ids(t, s.as(user), false); len(list) != 1 {
			t.Errorf("%s lists %v", user, list)
		}
	}
	_, err := s.as("bob").CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: web("both", "https://bob.example/mcp", nil)})
	wantReason(t, err, "ALREADY_EXISTS", "both")
}

// A shared server shows plain users its host or program, but neither arguments nor paths: these may hold secrets that its rules do not replace. Owners
// see their own servers, operators all.
func TestSharedServersShowNoDetails(t *testing.T) {
	s := start(t, Config{})
	program := fake("program", mcptest.Good)
	program.GetStdio().Args, program.GetStdio().Cwd, program.GetStdio().User = []string{"--api-key", secretText}, "/srv/private", "mcp"
	program.Roots = []string{"file:///srv/private"}
	create(t, s.as("op"), program)
	root := filepath.Join(t.TempDir(), "shared-files")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	create(t, s.as("op"), &mcppoolv1.McpServer{
		Id: "folder", Description: "The files of " + root,
		Transport: &mcppoolv1.McpServer_Builtin{Builtin: &mcppoolv1.BuiltinTransport{Name: "workspace", Root: root}},
	})
	create(t, s.as("op"), web("web", "https://a.example:8443/path-"+secretText+"/mcp?page="+secretText, nil))
	anns := web("anns", "https://a.example/path-"+secretText, nil)
	create(t, s.as("ann"), anns)
	for user, want := range map[string]int{"ann": 1, "bob": 0, "op": 3} {
		list, err := s.as(user).ListMcpServers(t.Context(), &mcppoolv1.ListMcpServersRequest{})
		if n := strings.Count(list.String(), secretText); err != nil || n != want {
			t.Errorf("%s sees %d secrets, want %d: %v, %v", user, n, want, list, err)
		}
		if shown := strings.Contains(list.String(), root); shown != (user == "op") || !strings.Contains(list.String(), "shared-files") {
			t.Errorf("%s sees the folder's path: %v: %v", user, shown, list)
		}
		if user == "bob" && (strings.Contains(list.String(), "/srv") || !strings.Contains(list.String(), `url:"https://a.example:8443"`)) {
			t.Errorf("bob: %v", list)
		}
	}
}

// A plain user's registrations are bounded, in number and size; they stay in memory for ever. Other users and operators do not notice.
func TestRegistrationsOfAUserAreBounded(t *testing.T) {
	s := start(t, Config{})
	for i := range registry.MostServers {
		create(t, s.as("ann"), web(fmt.Sprintf("s%d", i), "https://a.example/mcp", nil))
	}
	one := &mcppoolv1.CreateMcpServerRequest{McpServer: web("more", "https://a.example/mcp", nil)}
	_, err := s.as("ann").CreateMcpServer(t.Context(), one)
	wantReason(t, err, "LIMIT_REACHED", "remove one")
	for _, user := range []string{"bob", "op"} {
		if _, err := s.as(user).CreateMcpServer(t.Context(), one); err != nil {
			t.Errorf("%s: %v", user, err)
		}
	}
	if _, err := s.as("ann").DeleteMcpServer(t.Context(), &mcppoolv1.DeleteMcpServerRequest{Id: "s1"}); err != nil {
		t.Fatal(err)
	}
	large := web("large", "https://a.example/mcp", map[string]string{"A": strings.Repeat("x", 300<<10)})
	_, err = s.as("ann").CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: large})
	wantReason(t, err, "INVALID_REQUEST", "KiB")
	if _, err := s.as("ann").CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: web("again", "https://a.example/mcp", nil)}); err != nil {
		t.Error(err)
	}
}

func TestPlainUsersDoNotChangeSettingsOfOperators(t *testing.T) {
	s := start(t, Config{})
	create(t, s.as("op"), web("shared", "https://a.example/mcp", nil))
	m := web("anns", "https://a.example/mcp", map[string]string{"A": "${env:TOKEN}"})
	m.OwnerSub = "ann"
	create(t, s.as("op"), m)
	ann := s.as("ann")
	_, err := ann.UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: &mcppoolv1.McpServer{Id: "shared", Description: "x"}})
	wantReason(t, err, "PERMISSION_DENIED", "shared by all users")
	_, err = ann.DeleteMcpServer(t.Context(), &mcppoolv1.DeleteMcpServerRequest{Id: "shared"})
	wantReason(t, err, "PERMISSION_DENIED", "shared by all users")
	// Moving the operator's secret to another address would give it away.
	_, err = ann.UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{
		McpServer: web("anns", "https://evil.example/mcp", map[string]string{"A": "***"}),
	})
	wantReason(t, err, "PERMISSION_DENIED", "an operator set")
	if _, err = ann.UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: &mcppoolv1.McpServer{Id: "anns", Disabled: true}}); err != nil {
		t.Error(err)
	}
	// An operator reaches another's server by naming the owner.
	got, err := s.as("op").UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: &mcppoolv1.McpServer{
		Id: "anns", OwnerSub: "ann", Trusted: true,
	}})
	if err != nil || !got.GetTrusted() {
		t.Errorf("operator: %v, %v", got, err)
	}
}

// An operator names the owner of a server to see, list and delete it. Other users cannot.
func TestOwnerOfAServerIsNamed(t *testing.T) {
	s := start(t, Config{})
	for _, user := range []string{"ann", "op"} {
		m := web("same", "https://"+user+".example/mcp", nil)
		m.OwnerSub = user
		create(t, s.as("op"), m)
	}
	create(t, s.as("op"), web("shared", "https://a.example/mcp", nil))
	get := &mcppoolv1.GetMcpServerRequest{Id: "same", OwnerSub: "ann"}
	list := &mcppoolv1.ListMcpServersRequest{OwnerSub: "ann"}
	remove := &mcppoolv1.DeleteMcpServerRequest{Id: "same", OwnerSub: "ann"}
	_, err := s.as("bob").GetMcpServer(t.Context(), get)
	wantReason(t, err, "PERMISSION_DENIED", "only an operator")
	_, err = s.as("bob").ListMcpServers(t.Context(), list)
	wantReason(t, err, "PERMISSION_DENIED", "only an operator")
	_, err = s.as("bob").DeleteMcpServer(t.Context(), remove)
	wantReason(t, err, "PERMISSION_DENIED", "only an operator")
	for _, user := range []string{"ann", "op"} {
		if got, err := s.as(user).GetMcpServer(t.Context(), get); err != nil || got.GetHttp().GetUrl() != "https://ann.example/mcp" {
			t.Errorf("%s: %v, %v", user, got, err)
		}
		if got, err := s.as(user).ListMcpServers(t.Context(), list); err != nil || len(got.GetMcpServers()) != 1 || got.GetMcpServers()[0].GetOwnerSub() != "ann" {
			t.Errorf("%s: %v, %v", user, got, err)
		}
	}
	_, err = s.as("op").GetMcpServer(t.Context(), &mcppoolv1.GetMcpServerRequest{Id: "shared", OwnerSub: "ann"})
	wantReason(t, err, "MCP_SERVER_NOT_FOUND", "shared")
	if _, err := s.as("op").DeleteMcpServer(t.Context(), remove); err != nil {
		t.Error(err)
	}
	if got, err := s.as("op").GetMcpServer(t.Context(), &mcppoolv1.GetMcpServerRequest{Id: "same"}); err != nil || got.GetOwnerSub() != "op" {
		t.Errorf("the operator's own: %v, %v", got, err)
	}
}

func TestServersOfPlainUsersReachNoPrivateAddress(t *testing.T) {
	srv := httptest.NewServer(mcpserver.NewStreamableHTTPServer(mcpserver.NewMCPServer("web", "1")))
	t.Cleanup(srv.Close)
	s := start(t, Config{})
	for _, url := range []string{srv.URL, "https://10.1.2.3/mcp", "http://[::1]:80", "http://169.254.169.254/latest"} {
		_, err := s.as("ann").CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServer: web("anns", url, nil)})
		wantReason(t, err, "ADDRESS_REFUSED", "only an operator may register")
	}
	anns := create(t, s.as("ann"), web("anns", strings.Replace(srv.URL, "127.0.0.1", "localhost", 1), nil))
	anns.GetHttp().Url = srv.URL
	_, err := s.as("ann").UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: anns})
	wantReason(t, err, "ADDRESS_REFUSED", "only an operator may register")
	create(t, s.as("op"), web("ops", srv.URL, nil))
	_, err = s.as("ann").ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "anns"})
	wantReason(t, err, "ADDRESS_REFUSED", "only an operator may register")
	if _, err := s.as("op").ActivateMcpServer(t.Context(), &mcppoolv1.ActivateMcpServerRequest{Id: "ops"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.as("op").ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "ops"}); err != nil {
		t.Error(err)
	}
}

func TestLogsHoldNoSecrets(t *testing.T) {
	var buf bytes.Buffer
	stdio := mcptest.Stdio(mcptest.Exit)
	stdio.Env["SECRET_TOKEN"] = "hunter2-hunter2"
	path := writeConfig(t, map[string]any{"mcpServers": map[string]any{"bad": map[string]any{"command": stdio.Command, "env": stdio.Env}}})
	service, err := New(t.Context(), Config{MCPConfigs: []string{path}}, Deps{Log: slog.New(slog.NewTextHandler(&buf, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	server, err := service.registry.Lookup("ann", "bad")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := service.connector.Connect(t.Context(), server, "ann"); err == nil {
		t.Error("connected")
	}
	if err := service.Close(); err != nil {
		t.Error(err)
	}
	if strings.Contains(buf.String(), "hunter2") {
		t.Errorf("the log shows a secret:\n%s", buf.String())
	}
}
