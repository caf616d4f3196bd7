package test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/executor-svc/executor/executortest"
	"pawl.dev/test/modelserver/modeltest"
	"pawl.dev/test/rig"
)

// brokenModule are the files of a Go module of which two functions are wrong.
var brokenModule = map[string]string{
	"go.mod":       "module calc\n\ngo 1.21\n",
	"add.go":       "package calc\n\n// Add adds.\nfunc Add(a, b int) int {\n\treturn a - b\n}\n",
	"mul.go":       "package calc\n\n// Mul multiplies.\nfunc Mul(a, b int) int {\n\treturn a + b\n}\n",
	"calc_test.go": "package calc\n\nimport \"testing\"\n\nfunc Test(t *testing.T) {\n\tif Add(2, 3) != 5 || Mul(2, 3) != 6 {\n\t\tt.Error(Add(2, 3), Mul(2, 3))\n\t}\n}\n",
}

// repaired is what the files of brokenModule must become.
var repaired = map[string][2]string{"add.go": {"a - b", "a + b"}, "mul.go": {"a + b", "a * b"}}

// repository writes brokenModule into a new git repository, and returns its folder.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range brokenModule {
		write(t, filepath.Join(dir, name), []byte(text))
	}
	git(t, dir, "init", "-q")
	git(t, dir, "add", ".")
	git(t, dir, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "broken")
	return dir
}

func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return string(out)
}

// servers counts the registered workspace servers.
var servers atomic.Uint32

// codingServer registers a folder's workspace server that may write and run programs, and returns its id.
func codingServer(t testing.TB, target *rig.Target, dir string) string {
	t.Helper()
	pool, id := mcppoolv1.NewMcpPoolServiceClient(target.Pool), fmt.Sprintf("code%d", servers.Add(1))
	server := &mcppoolv1.McpServer{DisplayName: "code", OnlyWhenNamed: true, Transport: &mcppoolv1.McpServer_Builtin{Builtin: &mcppoolv1.BuiltinTransport{
		Name: "workspace", Root: dir, Workspace: &mcppoolv1.Workspace{Write: true, Commands: []string{"go"}},
	}}}
	if _, err := pool.CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServerId: id, McpServer: server}); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.ActivateMcpServer(t.Context(), &mcppoolv1.ActivateMcpServerRequest{Id: id}); err != nil {
		t.Fatal(err)
	}
	return id
}

var workingOn = regexp.MustCompile(`The subtask that you work on: (\w+),`)

// repairs plays a model that repairs brokenModule: both files at once, then the tests. wrong makes the first patch of add.go wrong.
func repairs(wrong bool) func(*modeltest.Request) *modeltest.Turn {
	return func(r *modeltest.Request) *modeltest.Turn {
		all := r.System + strings.Join(r.Texts, "\n")
		subtask := workingOn.FindStringSubmatch(all)
		switch {
		case r.Format == "create_plan":
			return &modeltest.Turn{JSON: json.RawMessage(`{"main_task":"Make the tests pass","risk":"LOW","subtasks":[` + planItem("add") + `,` + planItem("mul") + `,` + planItem("check", "add", "mul") + `]}`)}
		case r.Format != "":
			return &modeltest.Turn{JSON: json.RawMessage(`{"level":"LOW","reason":"a test"}`)}
		case subtask == nil:
			return &modeltest.Turn{Text: "The tests pass."}
		case subtask[1] == "check":
			return checks(r, all)
		}
		return repairsFile(r, all, subtask[1]+".go", wrong && subtask[1] == "add")
	}
}

func planItem(id string, needs ...string) string {
	raw, err := json.Marshal(map[string]any{"id": id, "title": "do " + id, "description": "Do " + id, "acceptance": "It is right", "depends_on": append([]string{}, needs...), "tool_ids": []string{}})
	if err != nil {
		panic(err) // it is nothing but texts
	}
	return string(raw)
}

func reflects(done bool, summary string) modeltest.Call {
	return toolCall("reflect", map[string]any{"done": done, "summary": summary, "next": map[bool]string{false: "go on"}[done]})
}

func toolCall(name string, args map[string]any) modeltest.Call {
	if name != "reflect" {
		args["pawl_why"], args["pawl_risk"] = "to repair it", "LOW"
	}
	raw, err := json.Marshal(args)
	if err != nil {
		panic(err) // it is nothing but texts
	}
	return modeltest.Call{Name: name, Arguments: raw}
}

// repairsFile reads a file, patches it, and reads it again to see that the patch is right.
func repairsFile(r *modeltest.Request, all, file string, wrong bool) *modeltest.Turn {
	change := repaired[file]
	patch := func(from, to string) modeltest.Call {
		return toolCall("apply_patch", map[string]any{"patch": fmt.Sprintf("--- a/%[1]s\n+++ b/%[1]s\n@@ -4,3 +4,3 @@\n func %[2]s(a, b int) int {\n-\treturn %[3]s\n+\treturn %[4]s\n }\n",
			file, strings.ToUpper(file[:1])+file[1:3], from, to)})
	}
	read := toolCall("read_file", map[string]any{"path": file})
	switch {
	case r.Results == 0:
		return &modeltest.Turn{Text: "I look.", Calls: []modeltest.Call{reflects(false, "nothing yet"), read, toolCall("get_file_info", map[string]any{"path": file})}}
	case !strings.Contains(all, "@@ -4,3"):
		to := change[1]
		if wrong {
			to = "b - a"
		}
		return &modeltest.Turn{Text: "It is wrong.", Calls: []modeltest.Call{reflects(false, "found it"), patch(change[0], to), read}}
	case wrong && !strings.Contains(all, "return "+change[1]):
		return &modeltest.Turn{Text: "My patch was wrong.", Calls: []modeltest.Call{reflects(false, "once more"), patch("b - a", change[1]), read}}
	}
	return &modeltest.Turn{Text: "It is right now.", Calls: []modeltest.Call{reflects(true, file+" is repaired")}}
}

// checks runs the tests.
func checks(r *modeltest.Request, all string) *modeltest.Turn {
	if r.Results == 0 {
		return &modeltest.Turn{Text: "I run the tests.", Calls: []modeltest.Call{reflects(false, "not run yet"), toolCall("run_tests", map[string]any{})}}
	}
	return &modeltest.Turn{Text: "They ran.", Calls: []modeltest.Call{reflects(strings.Contains(all, "1 passed"), "the tests ran")}}
}

// TestCodingRepairs repairs a repository through a plan, subtasks at once, patches, tests and reflection (D1, D3, D4, D6, D7, D12).
func TestCodingRepairs(t *testing.T) {
	for name, wrong := range map[string]bool{"at once": false, "after a wrong patch": true} {
		t.Run(name, func(t *testing.T) {
			model, file := models(t, &modeltest.Script{Play: repairs(wrong)}, "")
			target := rig.InProcess(t, rig.Options{Models: file})
			for _, name := range modelNames {
				for protocol, c := range map[string]rig.Client{"grpc": rig.NewGRPC(target.Executor), "rest": rig.REST{Base: target.HTTP}} {
					t.Run(name+"/"+protocol, func(t *testing.T) {
						dir := repository(t)
						auto := true
						f := carry(t, c, &executorv1.CreateTaskRequest{
							Goal: "Make the tests pass", Flow: "coding", Model: name, McpIds: []string{codingServer(t, target, dir)}, AutoExecute: &auto,
						}, approves)
						for _, problem := range executortest.Violations(f.events) {
							t.Error(problem)
						}
						checkRepaired(t, target, f, dir, map[bool]int{false: 2, true: 3}[wrong])
					})
				}
			}
			rejected(t, model)
		})
	}
}

func approves(executorv1.EventType) *executorv1.ResumeTaskRequest {
	return &executorv1.ResumeTaskRequest{Answer: &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{}}}
}

// checkRepaired checks the tree, the result and the events of a repair with that number of changes.
func checkRepaired(t *testing.T, target *rig.Target, f finished, dir string, changes int) {
	t.Helper()
	checkTree(t, f, dir)
	res, err := executorv1.NewExecutorServiceClient(target.Executor).GetTaskResult(t.Context(), &executorv1.GetTaskResultRequest{Id: f.GetId()})
	if err != nil {
		t.Fatal(err)
	}
	if !res.GetSuccess() || res.GetResponse() != "The tests pass." || len(res.GetPlan().GetSubtasks()) != 3 || len(res.GetToolCalls()) != len(f.steps) || res.GetDuration() == nil {
		t.Errorf("%v", res)
	}
	for _, s := range res.GetPlan().GetSubtasks() {
		if s.GetStatus() != executorv1.SubtaskStatus_SUBTASK_STATUS_COMPLETED || s.GetSummary() == "" || s.GetLoops() == 0 {
			t.Errorf("%v", s)
		}
	}
	if n := len(res.GetFilesChanged()); n != changes {
		t.Errorf("%d files changed, want %d: %v", n, changes, res.GetFilesChanged())
	}
	for _, c := range res.GetFilesChanged() {
		old, err := os.ReadFile(filepath.Join(dir, c.GetBackupPath()))
		if err != nil || c.GetType() != executorv1.FileChangeType_FILE_CHANGE_TYPE_MODIFIED || c.GetSubtaskId()+".go" != c.GetPath() || !strings.Contains(string(old), "package calc") {
			t.Errorf("%v: %v", c, err)
		}
	}
	seen := map[executorv1.EventType]int{}
	for _, e := range f.events {
		seen[e.GetType()]++
	}
	for _, kind := range []executorv1.EventType{executorv1.EventType_EVENT_TYPE_PLAN_CREATED, executorv1.EventType_EVENT_TYPE_THOUGHT, executorv1.EventType_EVENT_TYPE_REFLECTION} {
		if seen[kind] == 0 {
			t.Errorf("no %s", kind)
		}
	}
}

// checkTree checks that the task succeeded, and that the repository is repaired and nothing else changed.
func checkTree(t *testing.T, f finished, dir string) {
	t.Helper()
	if f.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS {
		t.Errorf("%v", f)
	}
	for name, text := range brokenModule {
		if c, ok := repaired[name]; ok {
			text = strings.Replace(text, c[0], c[1], 1)
		}
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != text {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if stat := git(t, dir, "status", "--porcelain"); strings.Join(strings.Fields(stat), " ") != "M add.go M mul.go" {
		t.Errorf("git status: %s", stat)
	}
}

// TestCodingKilled kills the executor, the pool and the planner at random points of repairs: each ends as it does without a kill, and the first
// backup of each file has its original bytes.
func TestCodingKilled(t *testing.T) {
	const kills = 24
	_, file := models(t, &modeltest.Script{Play: repairs(true)}, "")
	target := rig.FourProcesses(t, binaries, rig.Options{Models: file, Workspace: workspace(t)})
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	for n := 0; n < kills; {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		dir, c, auto := repository(t), rig.NewGRPC(target.Executor), true
		task, err := c.Create(ctx, &executorv1.CreateTaskRequest{
			Goal: "Make the tests pass", Flow: "coding", Model: modelNames[n%2], McpIds: []string{codingServer(t, target, dir)}, AutoExecute: &auto,
		})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan finished, 1)
		var problem atomic.Value
		go func() { ended <- through(ctx, c, task.GetId(), &problem) }()
		for at := uint64(0); ; {
			at += uint64(1 + random.IntN(30))
			if !awaitEvent(ctx, c, task.GetId(), at) {
				break
			}
			target.Restart(t, []string{"executor-svc", "mcppool-svc", "planner-svc"}[random.IntN(3)])
			n++
		}
		f := <-ended
		if ctx.Err() != nil {
			t.Errorf("after %d kills a task does not end: %v; %v", n, problem.Load(), f)
		}
		cancel()
		checkTree(t, f, dir)
		for name := range repaired {
			backups, err := filepath.Glob(filepath.Join(dir, ".pawl", "backups", name+"*", "*"))
			slices.Sort(backups)
			if err != nil || len(backups) == 0 {
				t.Fatalf("no backups of %s: %v", name, err)
			}
			if old, err := os.ReadFile(backups[0]); err != nil || string(old) != brokenModule[name] {
				t.Errorf("the first of the backups %v of %s is %q: %v", backups, name, old, err)
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
}

// awaitEvent waits until a task has an event with this seq, over restarts of the executor. It returns false once the task has ended.
func awaitEvent(ctx context.Context, c rig.Client, id string, seq uint64) bool {
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		reached := false
		err := c.Watch(ctx, id, seq-1, func(*executorv1.ExecutorEvent) bool {
			reached = true
			return false
		})
		if task, getErr := c.Get(ctx, id); ctx.Err() != nil || getErr == nil && task.GetEndTime() != nil {
			return false
		} else if reached && err == nil {
			return true
		}
		<-again.C
	}
}
