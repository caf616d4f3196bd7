package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pawl.dev/cmd/internal/fake"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

const tool = "files/write_file"

// answers plays a task that reads something and answers.
func answers(tape *fake.Tape, _ *executorv1.CreateTaskRequest) {
	tape.Play(
		fake.FlowStart("Find it", commonv1.RiskLevel_RISK_LEVEL_LOW),
		fake.StepInit("s1", "files/read_file"),
		fake.StepInput("s1", "files/read_file", `{"path":"a.txt"}`, 1),
		fake.StepOutput("s1", "files/read_file"),
		fake.StepInit("s2", "FINAL"),
		fake.Text("a", "It is "), fake.Text("a", "there."),
		fake.Success("It is there."),
	)
}

// asks plays a task that wants approval, and does what the answer says.
func asks(level commonv1.RiskLevel) (create func(*fake.Tape, *executorv1.CreateTaskRequest), resume func(*fake.Tape, *executorv1.ResumeTaskRequest) error) {
	create = func(tape *fake.Tape, _ *executorv1.CreateTaskRequest) {
		input := `{"path":"a.txt"}`
		tape.Wait(fake.ApprovalWait("s1", tool, input, level)).Play(
			fake.FlowStart("Write it", level),
			fake.StepInit("s1", tool),
			fake.AskApproval("s1", tool, input, &commonv1.Risk{Level: level}),
			fake.Stop("s1"),
		)
	}
	resume = func(tape *fake.Tape, req *executorv1.ResumeTaskRequest) error {
		tape.Resume()
		if req.GetReject() != nil {
			tape.Play(fake.StepCancel("s1", tool, req.GetReject().GetReason()), fake.Cancelled(req.GetReject().GetReason()))
			return nil
		}
		tape.Play(fake.StepInput("s1", tool, `{"path":"a.txt"}`, 1), fake.StepOutput("s1", tool), fake.Success("Written."))
		return nil
	}
	return create, resume
}

func TestRunToTheEnd(t *testing.T) {
	for name, tty := range map[string]bool{"run tty": true, "run plain": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			chdir(t, "my app")
			w.tty = tty
			w.executor.OnCreate = answers
			w.golden(name, w.pawl("run", "--auto", "--model", "offline", "--language", "zh", "find", "--no-workspace"))
			req := w.executor.Created[0]
			if !req.GetAutoExecute() || req.GetModel() != "offline" || req.GetLanguage() != commonv1.Language_LANGUAGE_ZH || req.GetRequestId() == "" {
				t.Errorf("request: %v", req)
			}
			select {
			case <-w.suites[0].stopped:
			default:
				t.Error("the suite runs on")
			}
		})
	}
}

func TestRunJSON(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.tty = true // --json is for programs: it never asks, wherever it runs
	w.executor.OnCreate, w.executor.OnResume = asks(commonv1.RiskLevel_RISK_LEVEL_MEDIUM)
	got := w.pawl("run", "write", "--json")
	w.golden("run json", got)
}

func TestExitCodes(t *testing.T) {
	for name, tc := range map[string]struct {
		last *executorv1.ExecutorEvent
		code int
	}{
		"done":      {fake.Success("x"), 0},
		"failed":    {fake.Failed("no"), 1},
		"cancelled": {fake.Cancelled("no"), 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			chdir(t, "app")
			w.executor.OnCreate = func(tape *fake.Tape, _ *executorv1.CreateTaskRequest) { tape.Play(tc.last) }
			if got := w.pawl("run", "x"); got.code != tc.code {
				t.Error(got.whole())
			}
			if got := w.pawl("watch", "last", "--after", "1"); got.code != tc.code { // its end was seen before
				t.Error(got.whole())
			}
		})
	}
}

// Without a terminal nothing is asked: the command says which commands go on, and ends with 2.
func TestRunWithoutATerminalNeverAsks(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.executor.OnCreate, w.executor.OnResume = asks(commonv1.RiskLevel_RISK_LEVEL_HIGH)
	got := w.pawl("run", "write")
	w.golden("run stops", got)
}

func TestRunAsksAtTheTerminal(t *testing.T) {
	for _, tc := range []struct {
		name, typed string
		code        int
		resumed     bool
	}{
		{"approve", "a\nyes\n", 0, true},
		{"reject", "r\nno\n", 2, true},
		{"detach", "d\n", 2, false},
		{"end of input", "", 2, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			chdir(t, "app")
			w.tty, w.typed = true, strings.NewReader(tc.typed)
			w.executor.OnCreate, w.executor.OnResume = asks(commonv1.RiskLevel_RISK_LEVEL_HIGH)
			got := w.pawl("run", "write")
			if got.code != tc.code || len(w.executor.Resumed) > 0 != tc.resumed {
				t.Error(got.whole())
			}
			w.golden("run asks "+tc.name, got)
		})
	}
}

// An answer that the service refuses is asked for again.
func TestRunAsksAgain(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.tty, w.typed = true, strings.NewReader("e\n{\"pth\": 1}\na\na\n")
	create, resume := asks(commonv1.RiskLevel_RISK_LEVEL_MEDIUM)
	w.executor.OnCreate = create
	w.executor.OnResume = func(tape *fake.Tape, req *executorv1.ResumeTaskRequest) error {
		if req.GetApprove().GetInputJson() != "" {
			return invalidInput()
		}
		return resume(tape, req)
	}
	w.pawl("run", "write").expect(t, 0, "Written.", "not taken: /: additional property pth is not allowed")
}

func TestRunUsage(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct {
		args []string
		says string
	}{
		{[]string{"run"}, "there is no goal"},
		{[]string{"run", "   "}, "there is no goal"},
		{[]string{"run", "x", "--language", "fr"}, "--language must be one of"},
		{[]string{"run", "x", "--playbook", "missing.yaml"}, "missing.yaml"},
		{[]string{"run", "x", "--workspace", "missing"}, "missing"},
		{[]string{"run", "x", "--workspace", ".", "--no-workspace"}, "exclude each other"},
		{[]string{"run", "x", "--nonsense"}, "unknown flag --nonsense"},
		{[]string{"rnu", "x"}, `unexpected argument rnu, did you mean "run"?`},
		{[]string{"tasks", "--status", "odd"}, "--status must be one of"},
		{[]string{"tasks", "--limit", "0"}, "--limit must be from 1 to 1000"},
		{[]string{"approve", "last", "--edit", "--input", "{}"}, "can't be used together"},
		{[]string{"approve", "last", "--input", "[1]"}, "JSON object"},
		{[]string{"params", "last"}, "there is nothing to supply"},
		{[]string{"mcp", "add", "x"}, "neither a command nor --url"},
		{[]string{"mcp", "add", "x", "--env", "A", "--", "cmd"}, "is not NAME=VALUE"},
		{[]string{"mcp", "add", "x", "--effect", "t=odd", "--", "cmd"}, "no such effect"},
		{[]string{"mcp", "call", "files"}, "names no tool"},
		{[]string{"keys", "list"}, "which key file?"},
		{[]string{"agents", "update", "x"}, "nothing is to be changed"},
		{[]string{"completion", "tcsh"}, "must be one of"},
	} {
		got := w.pawl(tc.args...)
		if got.code != 64 || !strings.Contains(got.err, tc.says) || !strings.Contains(got.err, "next: ") || got.out != "" {
			t.Errorf("%q: want %q, got\n%s", tc.args, tc.says, got.whole())
		}
	}
	if len(w.suites) > 0 {
		t.Error("a wrong command line started a server")
	}
}

// The folder's own server is registered once and given to the task beside all other servers that are active, and no
// other folder is.
func TestRunGivesTheFolder(t *testing.T) {
	w := newWorld(t)
	root := chdir(t, "My App")
	w.pool = fake.NewPool(
		&mcppoolv1.McpServer{Id: "github", Active: true, Transport: &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: "http://x"}}},
		&mcppoolv1.McpServer{Id: "idle", Transport: &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: "http://y"}}},
		workspace("workspace", "/elsewhere"), workspace("workspace-other-000000", "/other"),
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
	w.pool = fake.NewPool(workspace("workspace", root))
	w.executor.OnCreate = answers
	w.pawl("run", "find").expect(t, 0, "", "")
	if diff := cmp.Diff([]string{"workspace"}, w.executor.Created[0].GetMcpIds()); diff != "" {
		t.Error(diff)
	}
}

func TestRunAsAnAgentUsesItsServers(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.agents = fake.NewAgents(&executorv1.Agent{Id: "reader", McpIds: []string{"files"}}, &executorv1.Agent{Id: "any"})
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
	w.pawl("run", "find", "--agent", "nobody").expect(t, 1, "", "next: pawl agents list")
}

// Who may not register servers goes without the folder, and is told so.
func TestRunWithoutTheRightToTheFolder(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.pool.Deny = true
	w.executor.OnCreate = answers
	w.pawl("run", "find").expect(t, 0, "It is there.", "! this folder is not offered to the task: only operators")
	w.pawl("run", "find", "--workspace", ".").expect(t, 1, "", "pawl: only operators")
}

// In a playbook too, `workspace` means the folder's own server.
func TestRunPlaybook(t *testing.T) {
	w := newWorld(t)
	dir := chdir(t, "app")
	file := filepath.Join(dir, "p.yaml")
	text := "steps:\n  - tool: workspace/search_code\n  - id: b\n    tool: \"workspace/read_file\"\n    input: {text: \"tool: workspace/x\"}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.executor.OnCreate = answers
	w.pawl("run", "--playbook", file).expect(t, 0, "", "")
	req := w.executor.Created[0]
	id := req.GetMcpIds()[0]
	want := strings.NewReplacer("- tool: workspace/", "- tool: "+id+"/", `tool: "workspace/`, `tool: "`+id+"/").Replace(text)
	if diff := cmp.Diff(want, req.GetPlaybook()); diff != "" {
		t.Error(diff)
	}
}

func TestRunDetached(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.serveElsewhere()
	w.pawl("run", "find", "--detach").expect(t, 0, fake.ID(1)+"\n", "pawl watch a0000001 follows it")
	w.pawl("run", "find", "--detach", "--json").expect(t, 0, `"id": "`+fake.ID(2)+`"`, "")
}

func TestRunAgainWithItsRequestID(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.executor.OnCreate = answers
	for range 2 {
		w.pawl("run", "find", "--request-id", "r1").expect(t, 0, "It is there.", fake.ID(1))
	}
	if len(w.executor.Created) != 1 {
		t.Error("it was created twice")
	}
}

// One answer leads to the next question at once: parameters, then approval of what was made of them (A10). Each is asked
// once, after the events that lead to it.
func TestRunAsksOneAfterTheOther(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.tty, w.typed = true, strings.NewReader("b.txt\n\na\n")
	w.executor.OnCreate = func(tape *fake.Tape, _ *executorv1.CreateTaskRequest) {
		tape.Wait(fake.ParamsWait("s1", tool, "which file?", paramsSchema)).Play(
			fake.StepInit("s1", tool), fake.AskParams("s1", tool, "which file?", paramsSchema), fake.Stop("s1"))
	}
	_, resume := asks(commonv1.RiskLevel_RISK_LEVEL_LOW)
	w.executor.OnResume = func(tape *fake.Tape, req *executorv1.ResumeTaskRequest) error {
		if req.GetParams() == nil {
			return resume(tape, req)
		}
		input := req.GetParams().GetContentJson()
		wait := fake.ApprovalWait("s1", tool, input, commonv1.RiskLevel_RISK_LEVEL_LOW)
		wait.Id = "wait-again"
		tape.Resume().Wait(wait).Play(fake.AskApproval("s1", tool, input, nil), fake.Stop("again"))
		return nil
	}
	got := w.pawl("run", "write")
	got.expect(t, 0, "Written.", "")
	w.golden("run asks twice", got)
}
