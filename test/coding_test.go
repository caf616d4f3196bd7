package test

import (
	"bytes"
	gocmp "cmp"
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	"pawl.dev/executor-svc/executor/executortest"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/test/modelserver/modeltest"
	"pawl.dev/test/rig"
	testcasev1 "pawl.dev/test/testcase/v1"
)

// TestCodingCases runs every file of cases/coding/ in one process and in four, over both protocols, with scripted models of both providers.
func TestCodingCases(t *testing.T) {
	files, err := filepath.Glob("cases/coding/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for name, start := range map[string]func(testing.TB, rig.Options) *rig.Target{
		"in-process":     rig.InProcess,
		"four-processes": func(t testing.TB, o rig.Options) *rig.Target { return rig.FourProcesses(t, binaries, o) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			coders := &modeltest.Coders{}
			model, config := models(t, &modeltest.Script{Window: 128_000, Play: coders.Play}, "")
			target := start(t, rig.Options{Workspace: workspace(t), Models: config})
			clients := map[string]rig.Client{"grpc": rig.NewGRPC(target.Executor), "rest": rig.REST{Base: target.HTTP}}
			for i, file := range files {
				for j, protocol := range []string{"grpc", "rest"} {
					if c := readCase(t, file, ""); c.GetExpect().GetMended() && (i+j)%2 == len(target.Processes)%4 {
						continue // takes long: each such case runs over one protocol in one process, and over the other one in four
					}
					t.Run(protocol+"/"+strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
						t.Parallel()
						p := &play{t: t, client: clients[protocol], rest: protocol == "rest"}
						p.code(target, coders, modelNames[j], file)
					})
				}
			}
			t.Cleanup(func() { rejected(t, model) }) // after the cases, which run in parallel
		})
	}
}

// repository is a git repository in which a task works.
type repository struct {
	dir string
	// want is the diff that makes its tests pass.
	want string
	// model is a script that does so.
	model string
	// server is its workspace's registration in pool.
	server string
	pool   mcppoolv1.McpPoolServiceClient
}

// newRepository makes a repository with the files of testdata/repos/NAME.txtar in dir.
func newRepository(t testing.TB, name, dir string) repository {
	t.Helper()
	path := filepath.Join("testdata", "repos", name+".txtar")
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := modeltest.WriteRepository(path, dir); err != nil {
		t.Fatal(err)
	}
	r := repository{dir: dir}
	for _, f := range archive.Files {
		switch f.Name {
		case "want.diff":
			r.want = string(f.Data)
		case "model.yaml":
			r.model = string(f.Data)
		}
	}
	r.git(t, "init", "-q")
	r.git(t, "add", "-A")
	r.git(t, "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "-qm", "before")
	return r
}

func (r repository) git(t testing.TB, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// diff returns what has changed since the repository was made, with new files.
func (r repository) diff(t testing.TB) string {
	t.Helper()
	r.git(t, "add", "-A", "-N")
	return r.git(t, "diff", "--no-color", "--abbrev=7")
}

// checkMended checks that the repository is as it should be at the end, and that its tests pass.
func (r repository) checkMended(t testing.TB) {
	t.Helper()
	if d := cmp.Diff(r.want, r.diff(t)); d != "" {
		t.Errorf("the repository's diff (-want +got):\n%s", d)
	}
	cmd := exec.Command("go", "test", "./...")
	if _, err := os.Stat(filepath.Join(r.dir, "package.json")); err == nil {
		cmd = exec.Command("node", "--test")
	}
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the tests: %v\n%s", err, out)
	}
}

// checkBackups checks that the first backup of each file holds what the file held before the task.
func (r repository) checkBackups(t testing.TB, changes []*executorv1.FileChange) {
	t.Helper()
	seen := map[string]bool{}
	for _, f := range changes {
		if seen[f.GetPath()] || f.GetType() == executorv1.FileChangeType_FILE_CHANGE_TYPE_CREATED {
			seen[f.GetPath()] = true
			continue
		}
		seen[f.GetPath()] = true
		kept, err := os.ReadFile(filepath.Join(r.dir, filepath.FromSlash(f.GetBackupPath())))
		if before := r.git(t, "show", "HEAD:"+f.GetPath()); err != nil || f.GetBackupPath() == "" || string(kept) != before {
			t.Errorf("the backup of %v: %v:\n%s", f, err, kept)
		}
	}
}

// register registers the repository as a workspace that may be written and may run programs, and returns the server's id.
func (r *repository) register(t testing.TB, pool grpc.ClientConnInterface) string {
	t.Helper()
	r.pool, r.server = mcppoolv1.NewMcpPoolServiceClient(pool), "repo-"+uuid.NewString()[:8]
	allowed := &mcppoolv1.Workspace{Write: true, Commands: []string{"go", "node", "note", "hold"}}
	if _, err := r.pool.CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServerId: r.server, McpServer: &mcppoolv1.McpServer{
		DisplayName: "repository", OnlyWhenNamed: true,
		Transport: &mcppoolv1.McpServer_Builtin{Builtin: &mcppoolv1.BuiltinTransport{Name: "workspace", Root: r.dir, Workspace: allowed}},
	}}); err != nil {
		t.Fatal(err)
	}
	if err := r.reregister(t.Context(), testcasev1.Registration_REGISTRATION_ACTIVATE); err != nil {
		t.Fatal(err)
	}
	return r.server
}

// reregister changes the registration.
func (r *repository) reregister(ctx context.Context, to testcasev1.Registration) (err error) {
	switch to {
	case testcasev1.Registration_REGISTRATION_ACTIVATE:
		_, err = r.pool.ActivateMcpServer(ctx, &mcppoolv1.ActivateMcpServerRequest{Id: r.server})
	case testcasev1.Registration_REGISTRATION_DEACTIVATE:
		_, err = r.pool.DeactivateMcpServer(ctx, &mcppoolv1.DeactivateMcpServerRequest{Id: r.server})
	case testcasev1.Registration_REGISTRATION_DELETE:
		_, err = r.pool.DeleteMcpServer(ctx, &mcppoolv1.DeleteMcpServerRequest{Id: r.server})
	}
	return err
}

// script returns the repository's script with the parts of a case's model in place of its own.
func (r repository) script(t testing.TB, c *testcasev1.Case) *modeltest.Coding {
	t.Helper()
	script, err := modeltest.ParseCoding(r.model)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := protojson.Marshal(c.GetModel())
	if err != nil {
		t.Fatal(err)
	}
	own, err := modeltest.ParseCoding(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	if len(own.Plans) > 0 {
		return own
	}
	script.Risk, script.Answer = gocmp.Or(own.Risk, script.Risk), gocmp.Or(own.Answer, script.Answer)
	maps.Copy(script.Subtasks, own.Subtasks)
	return script
}

// code runs a case of the flow `coding`.
func (p *play) code(target *rig.Target, coders *modeltest.Coders, model, file string) {
	ctx, cancel := context.WithTimeout(p.t.Context(), caseTimeout)
	defer cancel()
	dir := p.t.TempDir()
	c := readCase(p.t, file, dir)
	p.repo = newRepository(p.t, c.GetRepo(), dir)
	coders.Add(dir, p.repo.script(p.t, c))
	c.GetTask().Flow, c.GetTask().Model, c.GetTask().McpIds = "coding", model, []string{p.repo.register(p.t, target.Pool)}
	if c.GetAgent() != nil {
		c.GetTask().AgentId = p.agent(ctx, c.GetAgent())
	}
	task, err := p.client.Create(ctx, c.GetTask())
	if err != nil {
		p.t.Fatalf("creating the task: %v", err)
	}
	events := p.reply(ctx, task.GetId(), c)
	for _, problem := range coders.Problems(dir) {
		p.t.Errorf("a request to the model: %s", problem)
	}
	p.checkCoding(ctx, task.GetId(), events, c.GetExpect())
	if c.GetExport() {
		p.export(ctx, task.GetId(), events)
	}
	if f := c.GetFork(); f != nil {
		fork := p.forkTask(ctx, task.GetId(), events, f).GetId()
		p.checkCoding(ctx, fork, p.reply(ctx, fork, &testcasev1.Case{Replies: c.GetReplies()}), f.GetExpect())
	}
	if p.t.Failed() {
		for _, e := range events {
			p.t.Logf("%s %s %s", e.GetType(), e.GetSubtaskId(), e.GetStepError())
		}
	}
}

// reply reads the task's events, and each time that the task stops gives all open waits, in any order, the first reply that fits.
func (p *play) reply(ctx context.Context, id string, c *testcasev1.Case) (events []*executorv1.ExecutorEvent) {
	p.t.Helper()
	used := make([]int32, len(c.GetReplies()))
	meanwhile := c.GetMeanwhile()
	for last := uint64(0); ; {
		stopped := false
		err := p.client.Watch(ctx, id, last, func(e *executorv1.ExecutorEvent) bool {
			if e.GetSeq() != last+1 {
				p.t.Errorf("seq %d after %d", e.GetSeq(), last)
			}
			events, last = append(events, e), e.GetSeq()
			meanwhile = p.act(ctx, e, meanwhile)
			stopped = e.GetType() == executorv1.EventType_EVENT_TYPE_FLOW_STOP
			return !stopped
		})
		if err != nil {
			p.t.Fatalf("watching: %v; %v", err, events)
		}
		if !stopped {
			return events
		}
		task, err := p.client.Get(ctx, id)
		if err != nil {
			p.t.Fatal(err)
		}
		waits := task.GetWaits()
		rand.Shuffle(len(waits), func(i, j int) { waits[i], waits[j] = waits[j], waits[i] })
		if c.GetNewestFirst() {
			slices.SortFunc(waits, func(a, b *executorv1.Wait) int { return b.GetCreateTime().AsTime().Compare(a.GetCreateTime().AsTime()) })
		}
		for _, w := range waits {
			p.replyTo(ctx, task, w, c.GetReplies(), used)
		}
	}
}

// replyTo answers a wait.
func (p *play) replyTo(ctx context.Context, task *executorv1.Task, w *executorv1.Wait, replies []*testcasev1.Reply, used []int32) {
	p.t.Helper()
	for i, r := range replies {
		if r.GetKind() != 0 && r.GetKind() != w.GetKind() || r.GetSubtaskId() != "" && r.GetSubtaskId() != w.GetSubtaskId() ||
			!strings.HasSuffix(w.GetToolId(), r.GetTool()) || r.GetTimes() > 0 && used[i] == r.GetTimes() {
			continue
		}
		used[i]++
		if err := p.send(ctx, task.GetId(), w.GetId(), r.GetAnswer()); err != nil {
			p.t.Fatalf("answering %v: %v", w, err)
		}
		return
	}
	p.t.Fatalf("no reply fits %v", w)
}

// checkCoding compares a task and its repository with what is expected.
func (p *play) checkCoding(ctx context.Context, id string, events []*executorv1.ExecutorEvent, want *testcasev1.Expect) {
	p.t.Helper()
	task, err := p.client.Get(ctx, id)
	if err != nil {
		p.t.Fatal(err)
	}
	want.Events = kinds(events) // lanes run at once
	checkTask(p.t, want, task, events)
	result, err := p.client.Result(ctx, id)
	if err != nil {
		p.t.Fatal(err)
	}
	if result.GetSuccess() != want.GetSuccess() || result.GetDuration().AsDuration() <= 0 || len(result.GetToolCalls()) == 0 && want.GetMended() {
		p.t.Errorf("the result is %v, want success %v", result, want.GetSuccess())
	}
	if want.GetSuccess() && result.GetResponse() != task.GetFullAnswer() {
		p.t.Errorf("the response is %q, the answer %q", result.GetResponse(), task.GetFullAnswer())
	}
	checkSubtasks(p.t, want.GetSubtasks(), result.GetPlan().GetSubtasks())
	var changed []string
	for _, f := range result.GetFilesChanged() {
		if kind := strings.TrimPrefix(f.GetType().String(), "FILE_CHANGE_TYPE_"); !slices.Contains(changed, kind+" "+f.GetPath()) {
			changed = append(changed, kind+" "+f.GetPath())
		}
	}
	slices.Sort(changed)
	if d := cmp.Diff(want.GetFilesChanged(), changed); d != "" {
		p.t.Errorf("changed files (-want +got):\n%s", d)
	}
	p.repo.checkBackups(p.t, result.GetFilesChanged())
	for _, problem := range executortest.Violations(events) {
		p.t.Error(problem)
	}
	p.checkEvents(events, want.GetEventsContain())
	for _, f := range want.GetFiles() {
		if raw, err := os.ReadFile(filepath.Join(p.repo.dir, f.GetPath())); err != nil || string(raw) != f.GetContent() {
			p.t.Errorf("%s holds %q, want %q; %v", f.GetPath(), raw, f.GetContent(), err)
		}
	}
	switch diff := p.repo.diff(p.t); {
	case want.GetMended():
		p.repo.checkMended(p.t)
	case len(want.GetDiffContains()) == 0 && diff != "":
		p.t.Errorf("the repository changed:\n%s", diff)
	default:
		for _, part := range want.GetDiffContains() {
			if !strings.Contains(diff, part) {
				p.t.Errorf("the diff does not hold %q:\n%s", part, diff)
			}
		}
	}
}

func checkSubtasks(t *testing.T, want []*testcasev1.ExpectSubtask, got []*executorv1.Subtask) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d subtasks, want %d: %v", len(got), len(want), got)
		return
	}
	for i, w := range want {
		if g := got[i]; g.GetId() != w.GetId() || g.GetStatus() != w.GetStatus() || !strings.Contains(g.GetSummary(), w.GetSummaryContains()) {
			t.Errorf("subtask %d: %v, want %v", i+1, g, w)
		}
	}
}

// checkEvents checks that texts occur in the events, in this order.
func (p *play) checkEvents(events []*executorv1.ExecutorEvent, want []string) {
	p.t.Helper()
	for _, e := range events {
		raw, err := protojson.Marshal(e)
		if err != nil {
			p.t.Fatal(err)
		}
		var compact bytes.Buffer // protojson writes spaces at random
		if err := json.Compact(&compact, raw); err != nil {
			p.t.Fatal(err)
		}
		if len(want) > 0 && strings.Contains(compact.String(), want[0]) {
			want = want[1:]
		}
	}
	if len(want) > 0 {
		p.t.Errorf("no event, or none after those before, holds %q", want[0])
	}
}
