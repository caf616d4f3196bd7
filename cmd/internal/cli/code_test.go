package cli_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"

	"pawl.dev/cmd/internal/clitest"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

// The folder is registered for writing beside its read-only server, once per set of permissions.
func TestCodeGivesTheFolder(t *testing.T) {
	w := newWorld(t)
	root := chdir(t, "app")
	w.executor.OnCreate, w.agents = answers, clitest.NewAgents(t, &executorv1.Agent{Id: "coder"})
	w.pawl("run", "find").expect(t, 0, "", "")
	w.pawl("code", "Make the tests pass").expect(t, 0, "", "")
	w.pawl("code", "Make the tests pass", "--allow-command", "make", "--parallel", "2", "--max-loops", "9", "--confirm-plan", "never").expect(t, 0, "", "")
	w.pawl("code", "x", "--network", "--allow-command", "deno", "--no-yes-safe", "--mcp", "github").expect(t, 0, "", "")
	w.pawl("code", "x", "--agent", "coder").expect(t, 0, "", "")
	ids := make([]string, 5)
	for i, req := range w.executor.Created {
		ids[i] = req.GetMcpIds()[0]
	}
	if ids[0] == ids[1] || ids[1] != ids[2] || ids[2] == ids[3] || ids[4] != ids[1] {
		t.Fatalf("servers: %q", ids)
	}
	if s := w.pool.Server(ids[0]).GetBuiltin(); s.GetWorkspace() != nil {
		t.Errorf("the folder of pawl run may be written: %v", s)
	}
	s := w.pool.Server(ids[3])
	allowed := s.GetBuiltin().GetWorkspace()
	if s.GetBuiltin().GetRoot() != root || !s.GetActive() || !s.GetOnlyWhenNamed() || !allowed.GetWrite() || !allowed.GetNetwork() || !strings.Contains(strings.Join(allowed.GetCommands(), " "), "deno git go") {
		t.Errorf("registered: %v", s)
	}
	req := w.executor.Created[2]
	if o := req.GetPlanOptions(); req.GetFlow() != "coding" || !req.GetAutoExecute() || o.GetMaxParallel() != 2 || o.GetMaxLoops() != 9 || o.GetConfirm() != executorv1.ConfirmPlan_CONFIRM_PLAN_NEVER {
		t.Errorf("asked for: %v", req)
	}
	if req := w.executor.Created[3]; req.GetAutoExecute() || len(req.GetMcpIds()) != 2 {
		t.Errorf("asked for: %v", req)
	}
	if req := w.executor.Created[4]; req.AutoExecute != nil {
		t.Errorf("the agent's policy is overridden: %v", req)
	}
	w.pawl("code", " ").expect(t, 64, "", "there is no goal")
	w.pawl("code", "x", "--plan-only", "-d").expect(t, 64, "", "cannot be used with --detach")
	server := clitest.Serve(t, w.services()...)
	w.pawl("code", "x", "--server", server.Addr).expect(t, 64, "", "works in a folder of this machine")
	w.pawl("code", "x", "--server", server.Addr, "--mcp", "there").expect(t, 0, "", "")
	if diff := cmp.Diff([]string{"there"}, w.executor.Created[5].GetMcpIds()); diff != "" {
		t.Error(diff)
	}
	for _, args := range [][]string{{"--parallel", "0"}, {"--parallel", "33"}, {"--max-loops", "1001"}, {"--max-subtasks", "0"}} {
		w.pawl(append([]string{"code", "x"}, args...)...).expect(t, 64, "", "pawl: "+args[0]+" "+args[1]+": it must be ")
	}
	for _, n := range []string{"-1", "5000000000", "two"} {
		w.pawl("code", "x", "--parallel="+n).expect(t, 64, "", `--parallel: "`+n+`" is negative, too large, or no whole number`)
		w.pawl("code", "x", "--parallel", n).expect(t, 64, "", `--parallel: "`+n+`" is negative, too large, or no whole number`)
	}
	w.pawl("code", "x", "--allow-command", "").expect(t, 64, "", "--allow-command is empty")
	w.pawl("agents", "update", "coder", "--parallel", "2").expect(t, 64, "", "add --flow coding")
	w.pawl("agents", "create", "other", "--max-loops", "2", "--flow", "agent").expect(t, 64, "", "add --flow coding")
	w.pawl("agents", "create", "other", "--max-loops", "0", "--flow", "coding").expect(t, 64, "", "--max-loops 0")
	w.serveElsewhere()
	w.pawl("code", "x", "--key", "k").expect(t, 64, "", "the folder must be named")
}

// A server with the folder's id that allows something else is not used.
func TestCodeRefusesAnotherRegistration(t *testing.T) {
	for name, change := range map[string]func(*mcppoolv1.BuiltinTransport){
		"root":     func(b *mcppoolv1.BuiltinTransport) { b.Root = filepath.Dir(b.GetRoot()) },
		"network":  func(b *mcppoolv1.BuiltinTransport) { b.Workspace.Network = true },
		"commands": func(b *mcppoolv1.BuiltinTransport) { b.Workspace.Commands = append(b.Workspace.Commands, "sh") },
		"reading":  func(b *mcppoolv1.BuiltinTransport) { b.Workspace = nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			chdir(t, "app")
			w.executor.OnCreate = answers
			w.pawl("code", "x").expect(t, 0, "", "")
			server := w.pool.Server(w.executor.Created[0].GetMcpIds()[0])
			w.pool = clitest.NewPool(t)
			change(server.GetBuiltin())
			w.register(server)
			w.pawl("code", "x").expect(t, 1, "", "is registered, but not for")
			if len(w.executor.Created) > 1 {
				t.Error("the task was started")
			}
		})
	}
}

// The folder of a task that changes files is neither the home folder nor one that contains it.
func TestCodeRefusesTheHomeFolder(t *testing.T) {
	w := newWorld(t)
	w.executor.OnCreate = answers
	home := chdir(t, "me")
	link := filepath.Join(t.TempDir(), "link")
	project := filepath.Join(home, "project")
	for _, err := range []error{os.Symlink(home, link), os.Mkdir(project, 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", link+"/")
	for _, dir := range []string{".", link, filepath.Dir(home), "/"} {
		w.pawl("code", "x", "--workspace", dir).expect(t, 1, "", "holds your home folder")
	}
	w.pawl("code", "x", "--workspace", project).expect(t, 0, "", "")
}

var plan = []*executorv1.Subtask{
	{Id: "parser", Title: "Fix the parser", Description: "It drops the last token.", Acceptance: "TestParser passes."}, clitest.Subtask("tests", "Run all tests", "parser"),
}

func TestCodePlanOnly(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.executor.OnCreate = func(tape *clitest.Tape, req *executorv1.CreateTaskRequest) {
		if req.GetPlanOptions().GetConfirm() != executorv1.ConfirmPlan_CONFIRM_PLAN_ALWAYS {
			t.Error("the plan might not be confirmed")
		}
		tape.Wait(clitest.PlanWait()).Play(clitest.AskPlan("Make the tests pass", plan...), clitest.Stop("plan"))
	}
	cancelled := 0
	w.executor.OnCancel = func(tape *clitest.Tape, req *executorv1.CancelTaskRequest) {
		cancelled++
		tape.Play(clitest.Cancelled(req.GetReason()))
	}
	w.golden("code plan only", w.pawl("code", "Make the tests pass", "--plan-only"))
	w.golden("code plan only json", w.pawl("code", "Make the tests pass", "--plan-only", "--json"))
	if cancelled != 2 {
		t.Errorf("cancelled %d times", cancelled)
	}
	w.executor.OnCreate = func(tape *clitest.Tape, _ *executorv1.CreateTaskRequest) {
		tape.Update(func(task *executorv1.Task) { task.Model = "offline" }).Play(clitest.Failed("a language model is needed to plan this"))
	}
	w.golden("code plan only fails", w.pawl("code", "Make the tests pass", "--plan-only"))
}

// A plan is approved as shown, edited as YAML, or refused; a plan that is not understood is asked for again.
func TestCodeConfirmPlan(t *testing.T) {
	const less = "mainTask: Less\nsubtasks:\n- {id: a, title: Only this, dependsOn: []}\n"
	for name, tc := range map[string]struct {
		typed  string
		edited []string
	}{
		"approved":  {typed: "y\n"},
		"refused":   {typed: "n\ntoo much\n"},
		"edited":    {typed: "e\ny\n", edited: []string{less}},
		"mistaken":  {typed: "e\nd\n", edited: []string{"subtasks: [{id: a, titel: x}]"}},
		"corrected": {typed: "e\ny\n", edited: []string{"subtasks: [{id: a, titel: x}]", "subtasks: oh", "mainTask: Nothing\n", less}},
		"unchanged": {typed: "e\ny\n"},
		"cycle":     {typed: "e\ny\ny\n", edited: []string{"subtasks: [{id: loop, title: x, dependsOn: [loop]}]", less}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			chdir(t, "app")
			w.tty, w.typed = true, strings.NewReader(tc.typed)
			w.edit = editor(t, tc.edited...)
			w.executor.OnCreate = func(tape *clitest.Tape, _ *executorv1.CreateTaskRequest) {
				tape.Wait(clitest.PlanWait()).Play(clitest.AskPlan("Make the tests pass", plan...), clitest.Stop("plan"))
			}
			w.executor.OnResume = func(tape *clitest.Tape, req *executorv1.ResumeTaskRequest) error {
				if req.GetReject() != nil {
					tape.Play(clitest.Cancelled(req.GetReject().GetReason()))
					return nil
				}
				if plan := req.GetApprove().GetPlan(); plan.GetSubtasks() != nil && plan.GetSubtasks()[0].GetId() == "loop" {
					return aCycle()
				}
				tape.Resume().Play(clitest.Success("Done: " + req.GetApprove().GetPlan().GetMainTask()))
				return nil
			}
			w.golden("code plan "+name, w.pawl("code", "Make the tests pass"))
		})
	}
}

func aCycle() error {
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "the plan has a cycle: loop → loop")
}

// The commands that answer a plan elsewhere.
func TestApprovePlan(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.serveElsewhere()
	tape := w.executor.Add("Make the tests pass")
	tape.Wait(clitest.PlanWait()).Play(clitest.AskPlan("Make the tests pass", plan...), clitest.Stop("plan"))
	w.executor.OnResume = func(*clitest.Tape, *executorv1.ResumeTaskRequest) error { return nil }
	w.golden("show plan", w.pawl("show", "last"))
	w.pawl("approve", "last", "-d", "--input", `{"subtasks":[{"id":"a","title":"A"}]}`).expect(t, 0, "", "")
	w.pawl("approve", "last", "-d", "--input", `{"steps":[]}`).expect(t, 1, "", "not understood")
	w.tty, w.edit = true, editor(t, "subtasks:\n- {id: loop, title: B}\n", "subtasks:\n- {id: b, title: B}\n")
	w.executor.OnResume = func(_ *clitest.Tape, req *executorv1.ResumeTaskRequest) error {
		if req.GetApprove().GetPlan().GetSubtasks()[0].GetId() == "loop" {
			return aCycle()
		}
		return nil
	}
	w.pawl("approve", "last", "-d", "--edit").expect(t, 0, "", "")
	w.edit = editor(t)
	w.executor.OnResume = func(*clitest.Tape, *executorv1.ResumeTaskRequest) error { return nil }
	w.pawl("approve", "last", "-d", "--edit").expect(t, 0, "", "")
	w.pawl("reject", "last", "-d").expect(t, 0, "", "")
	var got []string
	for _, req := range w.executor.Resumed {
		id := "reject"
		if plan := req.GetApprove().GetPlan(); req.GetReject() == nil {
			id = "as shown"
			if plan != nil {
				id = plan.GetSubtasks()[0].GetId()
			}
		}
		got = append(got, id)
	}
	if diff := cmp.Diff([]string{"a", "loop", "b", "as shown", "reject"}, got); diff != "" {
		t.Error(diff)
	}
}

// While one subtask waits for a person, the lines of the other are shown above the question; the waits are answered one after the other, each
// alone.
func TestCodeSeveralWaits(t *testing.T) {
	w := newWorld(t)
	dir := chdir(t, "app")
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	typed, keyboard := io.Pipe()
	defer keyboard.Close()
	w.tty, w.typed = true, typed
	step := func(subtask, id, tool, input string) (*executorv1.ExecutorEvent, *executorv1.Wait) {
		tool = w.executor.Created[0].GetMcpIds()[0] + "/" + tool
		wait := clitest.ApprovalWait(id, tool, input, commonv1.RiskLevel_RISK_LEVEL_MEDIUM)
		wait.SubtaskId = subtask
		return clitest.Of(subtask, clitest.AskApproval(id, tool, input, wait.GetRisk())), wait
	}
	var first, second *executorv1.Wait
	var secondAsks *executorv1.ExecutorEvent
	w.executor.OnCreate = func(tape *clitest.Tape, _ *executorv1.CreateTaskRequest) {
		var firstAsks *executorv1.ExecutorEvent
		firstAsks, first = step("a", "s1", "write_file", `{"path":"a.txt","content":"one\n2\n","base_sha256":"x"}`)
		secondAsks, second = step("b", "s2", "apply_patch", `{"patch":"--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-`+strings.Repeat(`x\n-`, 60)+`y\n"}`)
		tape.Wait(first).Play(clitest.PlanCreated("x", clitest.Subtask("a", "A"), clitest.Subtask("b", "B")),
			clitest.SubtaskChanged("a", executorv1.SubtaskStatus_SUBTASK_STATUS_IN_PROGRESS, ""),
			clitest.SubtaskChanged("b", executorv1.SubtaskStatus_SUBTASK_STATUS_IN_PROGRESS, ""), firstAsks)
	}
	var answered []string
	w.executor.OnResume = func(tape *clitest.Tape, req *executorv1.ResumeTaskRequest) error {
		answered = append(answered, req.GetWaitId())
		if len(answered) == 1 {
			tape.Wait(second).Play(clitest.FileChanged("a", &executorv1.FileChange{Path: "a.txt", Type: executorv1.FileChangeType_FILE_CHANGE_TYPE_MODIFIED}))
			return nil
		}
		tape.Resume().Play(clitest.Of("b", clitest.StepCancel("s2", "x", "Cancelled by user: "+req.GetReject().GetReason())), clitest.Success("Both are done."))
		return nil
	}
	run := w.start("code", "x")
	run.saw("[d]etach, ?: ")
	tape := w.executor.Tape(clitest.ID(1))
	tape.Wait(first, second).Play(clitest.Reflection("b", "b goes on", "patch"), secondAsks, clitest.Stop("s1", "s2"))
	run.saw("[b] workspace/apply_patch")
	typeLine(t, keyboard, "a")
	run.saw("[v]iew all")
	typeLine(t, keyboard, "v")
	typeLine(t, keyboard, "r")
	run.saw("reason")
	typeLine(t, keyboard, "not this")
	got := run.wait()
	if diff := cmp.Diff([]string{"wait-s1", "wait-s2"}, answered); diff != "" {
		t.Error(diff)
	}
	got.expect(t, 0, "Both are done.", "b goes on → patch")
	got.expect(t, 0, "", "-two\n+2\n")
	got.expect(t, 0, "", "… 24 more lines")
	if n := strings.Count(got.err, "is to run with"); n != 2 {
		t.Errorf("%d questions:\n%s", n, got.err)
	}
}

// editor is an editor that replaces the text, by another one each time. The last one stays.
func editor(t *testing.T, edited ...string) func(context.Context, string) (string, error) {
	times := 0
	return func(_ context.Context, text string) (string, error) {
		times++
		switch wrong := strings.Contains(text, "\n# Correct it, or leave"); {
		case wrong && (times == 1 || !strings.HasSuffix(text, edited[times-2])), !wrong && !strings.Contains(text, "dependsOn: [parser]"):
			t.Errorf("the editor got %q", text)
		case times > len(edited):
			return text, nil
		}
		return edited[times-1], nil
	}
}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// The change that a call would make is shown without a terminal, too.
func TestDiffBeforeAnApproval(t *testing.T) {
	w := newWorld(t)
	dir := chdir(t, "app")
	w.serveElsewhere()
	w.executor.OnCreate = func(tape *clitest.Tape, req *executorv1.CreateTaskRequest) {
		tool, input := req.GetMcpIds()[0]+"/write_file", `{"path":"`+filepath.Join(dir, "a.txt")+`","content":"one\n"}`
		wait := clitest.ApprovalWait("s1", tool, input, commonv1.RiskLevel_RISK_LEVEL_MEDIUM)
		tape.Wait(wait).Play(clitest.PlanCreated("x", clitest.Subtask("a", "A")), clitest.AskApproval("s1", tool, input, wait.GetRisk()), clitest.Stop("s1"))
	}
	const diff = "+++ b/a.txt\n@@ -0,0 +1,1 @@\n+one\n"
	w.pawl("code", "x").expect(t, 2, "", diff)
	w.pawl("code", "x", "--json").expect(t, 2, "", diff)
	w.pawl("show", "last").expect(t, 0, diff, "")

	// A folder that cannot be written is noticed before the approval; root can write to this one.
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Chmod(dir, 0o700) }()
	_, err := os.CreateTemp(dir, "")
	if shown := w.pawl("show", "last").out; strings.Contains(shown, "cannot be written") != (err != nil) {
		t.Errorf("writing fails with %v, shown:\n%s", err, shown)
	}
}

// After a lost connection, the open question is shown again.
func TestQuestionAfterALostConnection(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	server := w.serveElsewhere()
	typed, keyboard := io.Pipe()
	defer keyboard.Close()
	w.tty, w.typed = true, typed
	w.executor.OnCreate, w.executor.OnResume = asks(commonv1.RiskLevel_RISK_LEVEL_MEDIUM)
	run := w.start("run", "write", "--no-workspace")
	run.saw("[d]etach, ?: ")
	server.Stop()
	run.saw("went away")
	w.serveElsewhere()
	run.saw("connected again\n  ? [a]pprove, ")
	typeLine(t, keyboard, "a")
	run.wait().expect(t, 0, "Written.", "")
}

func typeLine(t *testing.T, keyboard io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(keyboard, text+"\n"); err != nil {
		t.Fatal(err)
	}
}

// coded is a world with a task that has changed files of a folder through its workspace server.
type coded struct {
	*world
	dir, server string
	tape        *clitest.Tape
}

func newCoded(t *testing.T) *coded {
	w := newWorld(t)
	c := &coded{world: w, dir: chdir(t, "app")}
	w.serveElsewhere()
	for name, text := range map[string]string{"a.txt": "one\ntwo\nthree\n", "gone.txt": "old\n", "moved.txt": "m\n"} {
		c.write(name, text)
	}
	w.executor.OnCreate = func(tape *clitest.Tape, _ *executorv1.CreateTaskRequest) { c.tape = tape }
	w.pawl("code", "-d", "x").expect(t, 0, "", "")
	c.server = w.executor.Created[0].GetMcpIds()[0]
	return c
}

func (c *coded) write(name, text string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// call calls a tool as the task's step, with the events of the changes.
func (c *coded) call(tool string, input map[string]any) {
	c.t.Helper()
	raw, err := json.Marshal(input)
	if err != nil {
		c.t.Fatal(err)
	}
	got := c.pawl("mcp", "call", c.server+"/"+tool, "--input", string(raw), "--json")
	msg := &mcppoolv1.CallToolResponse{}
	if err := protojson.Unmarshal([]byte(got.out), msg); err != nil || got.code != 0 {
		c.t.Fatalf("%s: %v\n%s", tool, err, got.whole())
	}
	var out struct {
		Changes []struct{ Path, Change, From, Backup, SHA256 string }
	}
	if err := json.Unmarshal([]byte(msg.GetResult().GetStructuredJson()), &out); err != nil {
		c.t.Fatal(err)
	}
	for _, ch := range out.Changes {
		c.tape.Play(clitest.FileChanged("s", &executorv1.FileChange{
			Path: ch.Path, Type: executorv1.FileChangeType(executorv1.FileChangeType_value["FILE_CHANGE_TYPE_"+strings.ToUpper(ch.Change)]),
			FromPath: ch.From, BackupPath: ch.Backup, Sha256: ch.SHA256, ToolId: c.server + "/" + tool,
		}))
	}
}

// files returns the folder's files without the server's own.
func (c *coded) files() map[string]string {
	c.t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(c.dir, func(path string, entry os.DirEntry, err error) error {
		rel, _ := filepath.Rel(c.dir, path)
		if err != nil || entry.IsDir() || strings.HasPrefix(rel, ".pawl") {
			return err
		}
		text, err := os.ReadFile(path)
		files[rel] = string(text)
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return files
}

// edited is the state after a task that changed, created, deleted and moved files.
func edited(t *testing.T) (c *coded, before map[string]string) {
	c = newCoded(t)
	before = c.files()
	c.call("write_file", map[string]any{"path": "a.txt", "content": "one\n2\nthree\n", "base_sha256": sumOf("one\ntwo\nthree\n")})
	c.call("write_file", map[string]any{"path": "a.txt", "content": "one\n2\nthree\nfour", "base_sha256": sumOf("one\n2\nthree\n")})
	c.call("create_directory", map[string]any{"path": "new"})
	c.call("write_file", map[string]any{"path": "new/b.txt", "content": "b\n"})
	c.call("delete_file", map[string]any{"path": "gone.txt", "base_sha256": sumOf("old\n")})
	c.call("move_file", map[string]any{"path": "moved.txt", "to": "there.txt"})
	c.call("write_file", map[string]any{"path": "passing.txt", "content": "x"})
	c.call("delete_file", map[string]any{"path": "passing.txt", "base_sha256": sumOf("x")})
	return c, before
}

// D6, D12: the diff of a task's files, as text and JSON.
func TestDiff(t *testing.T) {
	c, _ := edited(t)
	c.golden("diff", c.pawl("diff", "last"))
	c.golden("diff stat", c.pawl("diff", "last", "--stat"))
	c.golden("diff json", c.pawl("diff", "last", "--json", "a.txt"))
	c.golden("diff folder", c.pawl("diff", "last", "new"))
	c.pawl("diff", "last", "nowhere.txt").expect(t, 1, "", "changed no file nowhere.txt")
	c.tty = true
	c.golden("diff tty", c.pawl("diff", "last", "a.txt"))
	c.write("a.txt", "\x00binary")
	c.pawl("diff", "last", "a.txt").expect(t, 0, "differ", "")
	if err := os.RemoveAll(filepath.Join(c.dir, ".pawl", "backups")); err != nil {
		t.Fatal(err)
	}
	c.pawl("diff", "last", "a.txt").expect(t, 1, "", "the backup of a.txt from before the task is gone")
	c.tape.Play(clitest.Success("Done."))
	c.pawl("undo", "last", "-y", "a.txt").expect(t, 1, "", "the backup of a.txt from before the task is gone")
}

// D12: an undo brings all bytes back, and can itself be undone.
func TestUndo(t *testing.T) {
	c, before := edited(t)
	after := c.files()
	c.pawl("undo", "last").expect(t, 1, "", "has not ended")
	c.tape.Play(clitest.Success("Done."))
	c.golden("undo dry run", c.pawl("undo", "last", "--dry-run"))
	if diff := cmp.Diff(after, c.files()); diff != "" {
		t.Fatal(diff)
	}
	c.tty, c.typed = true, strings.NewReader("n\ny\n")
	c.pawl("undo", "last", "a.txt").expect(t, 2, "", "nothing was changed")
	c.tty = false
	c.golden("undo", c.pawl("undo", "last"))
	if diff := cmp.Diff(before, c.files()); diff != "" {
		t.Fatal(diff)
	}
	c.pawl("undo", "last").expect(t, 0, "they are as before it", "")
	c.call("restore_file", map[string]any{"path": "a.txt", "base_sha256": sumOf(before["a.txt"])})
	if got := c.files()["a.txt"]; got != after["a.txt"] {
		t.Errorf("undone: %q", got)
	}
}

// A file that a person changed after the task is left alone, and so are the others.
func TestUndoRefuses(t *testing.T) {
	c, before := edited(t)
	c.tape.Play(clitest.Success("Done."))
	c.write("a.txt", "mine\n")
	c.write("there.txt", "mine too\n")
	mine := c.files()
	c.pawl("undo", "last").expect(t, 1, "", "file tools: there.txt, a.txt; nothing was undone")
	if diff := cmp.Diff(mine, c.files()); diff != "" {
		t.Fatal(diff)
	}
	c.pawl("undo", "last", "gone.txt", "--json").expect(t, 0, `"action": "restore"`, "")
	if c.files()["gone.txt"] != "old\n" || c.files()["a.txt"] != "mine\n" {
		t.Error(c.files())
	}
	c.pawl("undo", "last", "--force").expect(t, 0, "as before task", "what a.txt held is kept in .pawl/backups/a.txt/")
	if diff := cmp.Diff(before, c.files()); diff != "" {
		t.Error(diff)
	}
	got := c.pawl("mcp", "call", c.server+"/restore_file", "path=a.txt", "base_sha256="+sumOf(before["a.txt"]))
	if got.code != 0 || c.files()["a.txt"] != "mine\n" {
		t.Errorf("the person's content is lost: %v %s", c.files(), got.whole())
	}
}

// D12: what a person wrote between two changes of the task is not discarded unasked.
func TestUndoRefusesWhatWasChangedMeanwhile(t *testing.T) {
	c := newCoded(t)
	before := c.files()
	c.call("write_file", map[string]any{"path": "a.txt", "content": "task", "base_sha256": sumOf(before["a.txt"])})
	c.write("a.txt", "person")
	c.call("write_file", map[string]any{"path": "a.txt", "content": "person and task", "base_sha256": sumOf("person")})
	c.tape.Play(clitest.Success("Done."))
	c.pawl("undo", "last").expect(t, 1, "", "file tools: a.txt; nothing was undone")
	if got := c.files()["a.txt"]; got != "person and task" {
		t.Errorf("undone: %q", got)
	}
	c.pawl("undo", "last", "--force").expect(t, 0, "as before task", "")
	if diff := cmp.Diff(before, c.files()); diff != "" {
		t.Error(diff)
	}
}

// A name with spaces is one that patch understands.
func TestDiffOfANameWithSpaces(t *testing.T) {
	c := newCoded(t)
	c.call("write_file", map[string]any{"path": "b c.txt", "content": "b\n"})
	got := c.pawl("diff", "last")
	got.expect(t, 0, "+++ b/b c.txt\t\n@@", "")
	if err := os.Remove(filepath.Join(c.dir, "b c.txt")); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"git", "apply"}, {"patch", "-p1", "-R", "-f"}} {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir, cmd.Stdin = c.dir, strings.NewReader(got.out)
		if out, err := cmd.CombinedOutput(); err != nil && !errors.Is(err, exec.ErrNotFound) {
			t.Errorf("%v: %v\n%s", command, err, out)
		}
	}
}

// D12: a connection that breaks during an undo does not change what is undone, and another undo goes on.
func TestUndoAfterALostConnection(t *testing.T) {
	for name, times := range map[string]int{"once": 1, "at every call": 100} {
		t.Run(name, func(t *testing.T) {
			c, before := edited(t)
			c.tape.Play(clitest.Success("Done."))
			c.pool.Lose = func(*mcppoolv1.CallToolRequest) bool { times--; return times >= 0 }
			c.pawl("undo", "last").expect(t, 0, "as before task", "")
			if diff := cmp.Diff(before, c.files()); diff != "" {
				t.Error(diff)
			}
			c.pawl("undo", "last").expect(t, 0, "they are as before it", "")
		})
	}
}

// D12: a file whose lines are too many to compare can be undone.
func TestUndoALargeFile(t *testing.T) {
	c := newCoded(t)
	c.write("large.txt", strings.Repeat("line\n", 4<<20))
	before := c.files()
	c.call("delete_file", map[string]any{"path": "large.txt", "base_sha256": sumOf(before["large.txt"])})
	c.tape.Play(clitest.Success("Done."))
	c.pawl("diff", "last").expect(t, 0, "Binary files a/large.txt and /dev/null differ", "")
	c.pawl("undo", "last").expect(t, 0, "as before task", "")
	if c.files()["large.txt"] != before["large.txt"] {
		t.Error("the file was not restored")
	}
}

// If one file cannot be undone, those before are as they were.
func TestUndoIsAllOrNothing(t *testing.T) {
	c, _ := edited(t)
	c.tape.Play(clitest.Success("Done."))
	after := c.files()
	backups, err := filepath.Glob(filepath.Join(c.dir, ".pawl", "backups", "a.txt", "*"))
	if err != nil || len(backups) != 2 {
		t.Fatal(backups, err)
	}
	if err := os.WriteFile(backups[0], []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.pawl("undo", "last").expect(t, 1, "", "a.txt could not be undone, so nothing was")
	if diff := cmp.Diff(after, c.files()); diff != "" {
		t.Error(diff)
	}
}

// D7: one subtask is cancelled.
func TestCancelSubtask(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	w.executor.Add("x").Play(clitest.PlanCreated("x", clitest.Subtask("a", "A"), clitest.Subtask("b", "B", "a")))
	w.executor.OnCancel = func(tape *clitest.Tape, req *executorv1.CancelTaskRequest) {
		tape.Play(clitest.SubtaskChanged(req.GetSubtaskId(), executorv1.SubtaskStatus_SUBTASK_STATUS_CANCELLED, req.GetReason()))
	}
	w.pawl("cancel", "last", "--subtask", "a", "-d").expect(t, 0, "subtask a of task a0000001 ends when its running call ends", "")
	w.pawl("cancel", "last", "--subtask", "a").expect(t, 0, "⊘ subtask a of task a0000001 is cancelled, and so are those that depend on it", "")
	w.executor.OnCancel = func(tape *clitest.Tape, req *executorv1.CancelTaskRequest) {
		go tape.Play(clitest.SubtaskChanged("b", executorv1.SubtaskStatus_SUBTASK_STATUS_CANCELLED, "")).
			Play(clitest.SubtaskChanged(req.GetSubtaskId(), executorv1.SubtaskStatus_SUBTASK_STATUS_COMPLETED, "done"))
	}
	w.pawl("cancel", "last", "--subtask", "a").expect(t, 1, "subtask a of task a0000001 ended before it could be cancelled: completed", "")
}

// A command that follows a task from the middle knows the plan and the files from before.
func TestFollowAPlanFromTheMiddle(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.serveElsewhere()
	wait := clitest.ApprovalWait("s1", tool, `{}`, commonv1.RiskLevel_RISK_LEVEL_MEDIUM)
	wait.SubtaskId = "a"
	w.executor.Add("x").Wait(wait).Play(clitest.PlanCreated("x", clitest.Subtask("a", "Do A")),
		clitest.SubtaskChanged("a", executorv1.SubtaskStatus_SUBTASK_STATUS_IN_PROGRESS, ""),
		clitest.FileChanged("a", &executorv1.FileChange{Path: "early.txt", Type: executorv1.FileChangeType_FILE_CHANGE_TYPE_CREATED, Sha256: "x"}),
		clitest.Of("a", clitest.AskApproval("s1", tool, `{}`, nil)), clitest.Stop("s1"))
	w.executor.OnResume = func(tape *clitest.Tape, _ *executorv1.ResumeTaskRequest) error {
		tape.Resume().Play(clitest.SubtaskChanged("a", executorv1.SubtaskStatus_SUBTASK_STATUS_COMPLETED, "done"), clitest.Success("Done."))
		return nil
	}
	w.pawl("approve", "last").expect(t, 0, "Done.", "└ ✓ a: Do A  done\n+ early.txt\n")
}
