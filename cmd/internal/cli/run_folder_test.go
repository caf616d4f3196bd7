package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"pawl.dev/cmd/internal/clitest"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

// The folder's own server is registered once and given to the task beside all other servers that are active, and no
// other folder is.
func TestRunGivesTheFolder(t *testing.T) {
	w := newWorld(t)
	root := chdir(t, "My App")
	w.register(
		&mcppoolv1.McpServer{Id: "github", Active: true, Transport: &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: "http://x"}}},
		&mcppoolv1.McpServer{Id: "idle", Transport: &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: "http://y"}}},
		workspace("workspace", t.TempDir()), workspace("workspace-other-000000", t.TempDir()),
	)
	w.executor.OnCreate = answers
	for range 2 {
		w.pawl("run", "find").expect(t, 0, "", "")
	}
	ids := w.executor.Created[1].GetMcpIds()
	if len(ids) != 2 || !strings.HasPrefix(ids[0], "workspace-my-app-") || ids[1] != "github" {
		t.Fatalf("servers: %q", ids)
	}
	if s := w.pool.Server(ids[0]); s.GetBuiltin().GetRoot() != root || !s.GetActive() || s.GetAutoActivate() {
		t.Errorf("registered: %v", s)
	}
	w.pawl("run", "find", "--mcp", "workspace", "--mcp", "idle").expect(t, 0, "", "")
	if diff := cmp.Diff([]string{ids[0], "idle"}, w.executor.Created[2].GetMcpIds()); diff != "" {
		t.Error(diff)
	}
	w.pawl("run", "find", "--no-workspace").expect(t, 0, "", "")
	if got := w.executor.Created[3].GetMcpIds(); len(got) > 0 {
		t.Errorf("servers without the folder: %q", got)
	}
}

func workspace(id, root string) *mcppoolv1.McpServer {
	return &mcppoolv1.McpServer{Id: id, Active: true, Transport: &mcppoolv1.McpServer_Builtin{
		Builtin: &mcppoolv1.BuiltinTransport{Name: "workspace", Root: root},
	}}
}

func TestRunUsesTheServersWorkspaceWhereItIsThisFolder(t *testing.T) {
	w := newWorld(t)
	root := chdir(t, "app")
	w.register(workspace("workspace", root))
	w.executor.OnCreate = answers
	w.pawl("run", "find").expect(t, 0, "", "")
	if diff := cmp.Diff([]string{"workspace"}, w.executor.Created[0].GetMcpIds()); diff != "" {
		t.Error(diff)
	}
}

func TestRunAsAnAgentUsesItsServers(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.agents = clitest.NewAgents(t, &executorv1.Agent{Id: "reader", McpIds: []string{"files"}}, &executorv1.Agent{Id: "any"})
	w.executor.OnCreate = answers
	for _, tc := range []struct {
		args []string
		want int
	}{
		{[]string{"--agent", "reader"}, 0}, // as the agent says
		{[]string{"--agent", "reader", "--workspace", "."}, 2},
		{[]string{"--agent", "any"}, 1},
	} {
		w.pawl(append([]string{"run", "find"}, tc.args...)...).expect(t, 0, "", "")
		if got := w.executor.Created[len(w.executor.Created)-1].GetMcpIds(); len(got) != tc.want {
			t.Errorf("%q: %q", tc.args, got)
		}
	}
	w.pawl("run", "find", "--agent", "nosuch").expect(t, 1, "", "next: pawl agents list")
}

// The task of a user who may not register servers runs without the folder, and the command says so.
func TestRunWithoutTheRightToTheFolder(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	clitest.On(w.pool.Script, func(*mcppoolv1.CreateMcpServerRequest, func() (*mcppoolv1.McpServer, error)) (*mcppoolv1.McpServer, error) {
		return nil, errs.New(codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED, "only operators register such servers")
	})
	w.executor.OnCreate = answers
	w.pawl("run", "find").expect(t, 0, "It is there.", "! this folder is not offered to the task: only operators")
	w.pawl("run", "find", "--workspace", ".").expect(t, 1, "", "pawl: only operators")
}

// In a playbook too, `workspace` means the folder's own server.
func TestRunPlaybook(t *testing.T) {
	w := newWorld(t)
	dir := chdir(t, "app")
	file := filepath.Join(dir, "p.yaml")
	text := "steps:\n  - tool: workspace/search_code\n  - id: b\n    tool: \"workspace/read_file\"\n    input: {text: \"tool: workspace/x\"}\n  - {id: c, tool: workspace/find_files}\n  - {tool: 'workspace/list_files'}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.executor.OnCreate = answers
	w.pawl("run", "--playbook", file).expect(t, 0, "", "")
	req := w.executor.Created[0]
	id := req.GetMcpIds()[0]
	want := strings.NewReplacer("- tool: workspace/", "- tool: "+id+"/", `tool: "workspace/`, `tool: "`+id+"/", "c, tool: workspace/", "c, tool: "+id+"/", "{tool: 'workspace/", "{tool: '"+id+"/").Replace(text)
	if diff := cmp.Diff(want, req.GetPlaybook()); diff != "" {
		t.Error(diff)
	}
}

// A playbook may come over standard input.
func TestRunPlaybookFromStandardInput(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.executor.OnCreate = answers
	text := "steps:\n  - tool: files/read\n    input: {text: äöü}\n"
	w.typed = strings.NewReader(text)
	w.pawl("run", "--playbook", "-").expect(t, 0, "It is there.", "")
	if got := w.executor.Created[0].GetPlaybook(); got != text {
		t.Errorf("%q", got)
	}
}

// A file that cannot be a playbook is refused before a server is started.
func TestRunWithAFileThatIsNoPlaybook(t *testing.T) {
	w := newWorld(t)
	dir := chdir(t, "app")
	for name, c := range map[string]struct{ text, says string }{
		"binary":    {"\x7fELF\x02\x01\xff\xfe", "is not UTF-8 text\n  next: give a YAML file"},
		"UTF-16":    {"\xff\xfes\x00t\x00", "is not UTF-8 text"},
		"empty":     {" \n", "is empty\n  next: write its steps"},
		"too large": {strings.Repeat("#", 256<<10) + "é", "has more than 262144 bytes\n  next: "},
	} {
		file := filepath.Join(dir, "p.yaml")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		w.pawl("run", "--playbook", file).expect(t, 64, "", "pawl: the playbook "+file+" "+c.says)
		w.typed = strings.NewReader(c.text)
		if got := w.pawl("run", "--playbook", "-"); got.code != 64 || !strings.Contains(got.err, "pawl: the playbook on standard input "+c.says) {
			t.Errorf("%s: %s", name, got.whole())
		}
	}
	w.tty = true
	w.pawl("run", "--playbook", "-").expect(t, 64, "", "there is no playbook on standard input, which is a terminal\n  next: pawl run --playbook FILE")
	if len(w.suites) > 0 {
		t.Error("a wrong playbook started a server")
	}
}
