package test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/executor/executortest"
	"pawl.dev/test/modelserver/modeltest"
	"pawl.dev/test/rig"
	testcasev1 "pawl.dev/test/testcase/v1"
)

// soakVariable set to 1 makes TestCodingKilled kill at 50 points.
const soakVariable = "PAWL_SOAK"

// killSeed is the first seed of TestCodingKilled.
const killSeed = 1

// TestCodingKilled kills the executor, the pool or the planner at random events of a repair in parallel lanes: the tree at the end is the same as
// without, the backups hold the original bytes, and no program with an effect runs twice (D6, D7, D12). Once it kills the pool while a program runs, so
// that at least one outcome is unknown, and a person is asked about it.
func TestCodingKilled(t *testing.T) {
	points := 4
	if os.Getenv(soakVariable) == "1" {
		points = 50
	}
	coders := &modeltest.Coders{}
	model, config := models(t, &modeltest.Script{Window: 128_000, Play: coders.Play}, "")
	target := rig.FourProcesses(t, binaries, rig.Options{Models: config, Workspace: workspace(t)})
	top := t // processes live as long as this test
	whole := (&killedRepair{t: t, target: target, at: -1}).run(coders)
	victims := []string{"executor-svc", "mcppool-svc", "planner-svc"}
	for i := range points {
		random := rand.New(rand.NewPCG(killSeed, uint64(i)))
		victim, at := victims[i%len(victims)], random.IntN(whole)
		t.Run(fmt.Sprintf("%d/%s/%d", i, victim, at), func(t *testing.T) {
			k := &killedRepair{t: t, target: target, at: at, kill: func() { target.Restart(top, victim) }}
			k.run(coders)
			t.Logf("unknown outcomes: %v", k.looked)
		})
	}
	t.Run("while a program runs", func(t *testing.T) {
		k := &killedRepair{t: t, target: target, at: -1, kill: func() { target.Restart(top, "mcppool-svc") }, inCall: true}
		k.run(coders)
		if len(k.looked) == 0 {
			t.Error("no outcome was unknown")
		}
	})
	rejected(t, model)
}

// killedRepair is one repair, during which a process is killed.
type killedRepair struct {
	t      *testing.T
	target *rig.Target
	at     int // the number of events before the kill; -1: none
	kill   func()
	// inCall: the kill comes while the first program runs, which has written its line.
	inCall bool

	r      repository
	events []*executorv1.ExecutorEvent
	// looked are the programs whose outcome was unknown.
	looked []string
}

// run carries out the repair and returns the number of its events.
func (k *killedRepair) run(coders *modeltest.Coders) int {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), 2*time.Minute)
	defer cancel()
	k.r = newRepository(k.t, "go", k.t.TempDir())
	script := notes(k.t, k.r)
	coders.Add(k.r.dir, script)
	if k.inCall {
		write(k.t, k.held(), nil)
	}
	c, auto := rig.NewGRPC(k.target.Executor), true
	task, err := c.Create(ctx, &executorv1.CreateTaskRequest{
		Goal: "Make the tests of " + k.r.dir + " pass", Flow: "coding", Model: "gpt", McpIds: []string{k.r.register(k.t, k.target.Pool)}, AutoExecute: &auto,
	})
	if err != nil {
		k.t.Fatal(err)
	}
	end := k.follow(ctx, c, task.GetId())
	if end.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS {
		k.t.Errorf("%s: %v; the last events: %v", end.GetStatus(), end.GetError(), k.events[max(0, len(k.events)-10):])
	}
	for _, problem := range append(coders.Problems(k.r.dir), executortest.Violations(k.events)...) {
		k.t.Error(problem)
	}
	k.check(ctx, c, task.GetId(), slices.Sorted(maps.Keys(script.Subtasks)))
	return len(k.events)
}

// notes returns the script of a repair that writes a line instead of running tests.
func notes(t testing.TB, r repository) *modeltest.Coding {
	t.Helper()
	script := r.script(t, &testcasev1.Case{})
	for id, thoughts := range script.Subtasks {
		for i := range thoughts {
			for j, call := range thoughts[i].Calls {
				if call.Name == "run_tests" {
					args, err := json.Marshal(map[string]any{"argv": []string{"note", id}})
					if err != nil {
						t.Fatal(err)
					}
					thoughts[i].Calls[j] = modeltest.Call{Name: "execute_command", Arguments: args}
				}
			}
		}
	}
	return script
}

// follow follows the task to its end over restarts, answers its waits, and kills at its point.
func (k *killedRepair) follow(ctx context.Context, c rig.Client, id string) *executorv1.Task {
	k.t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for last, answered := uint64(0), map[string]bool{}; ; {
		task, err := c.Get(ctx, id)
		if err == nil && task.GetEndTime() != nil && last == task.GetLastSeq() {
			return task
		}
		for _, w := range task.GetWaits() {
			if !answered[w.GetId()] {
				_, err := c.Resume(ctx, k.answer(id, w))
				answered[w.GetId()] = err == nil
			}
		}
		err = c.Watch(ctx, id, last, func(e *executorv1.ExecutorEvent) bool {
			k.events, last = append(k.events, e), e.GetSeq()
			switch {
			case len(k.events)-1 == k.at:
				k.kill()
			case k.inCall && e.GetType() == executorv1.EventType_EVENT_TYPE_STEP_INPUT && strings.Contains(e.GetStepInput().GetInputJson(), `"argv"`):
				k.killInCall(ctx)
			}
			return e.GetType() != executorv1.EventType_EVENT_TYPE_FLOW_STOP
		})
		select {
		case <-again.C:
		case <-ctx.Done():
			k.t.Fatalf("it does not end: %v; %v; the last events: %v", err, task, k.events[max(0, len(k.events)-10):])
		}
	}
}

// killInCall kills once the program that is about to start has written its line.
func (k *killedRepair) killInCall(ctx context.Context) {
	k.t.Helper()
	k.inCall = false
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for len(k.effects()) == 0 {
		select {
		case <-look.C:
		case <-ctx.Done():
			k.t.Fatal("the program does not run")
		}
	}
	k.kill()
	if err := os.Remove(k.held()); err != nil {
		k.t.Fatal(err)
	}
}

// held is the file that keeps programs from ending.
func (k *killedRepair) held() string { return filepath.Join(k.r.dir, "hold.log") }

// answer approves, and settles an unknown outcome by looking for the effect, as a person does.
func (k *killedRepair) answer(id string, w *executorv1.Wait) *executorv1.ResumeTaskRequest {
	if w.GetKind() != executorv1.WaitKind_WAIT_KIND_OUTCOME {
		return answerTo(id, w)
	}
	outcome := &executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Retry{Retry: &executorv1.OutcomeRetry{}}}
	for _, line := range k.effects() {
		if strings.Contains(w.GetInputJson(), `"`+line+`"`) {
			outcome = &executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Output{Output: &executorv1.OutcomeOutput{OutputJson: `{"message":"The line is there."}`}}}
		}
	}
	k.looked = append(k.looked, w.GetInputJson())
	return &executorv1.ResumeTaskRequest{Id: id, WaitId: w.GetId(), Answer: &executorv1.ResumeTaskRequest_Outcome{Outcome: outcome}}
}

func (k *killedRepair) effects() []string {
	raw, _ := os.ReadFile(filepath.Join(k.r.dir, "effects.log")) // there is none before the first effect
	return lines(string(raw))
}

// check checks the tree, the effects and the backups.
func (k *killedRepair) check(ctx context.Context, c rig.Client, id string, subtasks []string) {
	k.t.Helper()
	if d := cmp.Diff(k.r.want, k.r.diff(k.t)); d != "" {
		k.t.Errorf("the repository's diff (-want +got):\n%s", d)
	}
	effects := k.effects()
	slices.Sort(effects)
	if d := cmp.Diff(subtasks, effects); d != "" {
		k.t.Errorf("effects (-want +got):\n%s", d)
	}
	result, err := c.Result(ctx, id)
	if err != nil {
		k.t.Fatal(err)
	}
	k.r.checkBackups(k.t, result.GetFilesChanged())
	changed := map[string]bool{}
	for _, f := range result.GetFilesChanged() {
		changed[f.GetPath()] = true
	}
	for _, path := range strings.Fields(k.r.git(k.t, "diff", "--name-only")) {
		if !changed[path] {
			k.t.Errorf("the result does not tell of the change of %s: %v; unknown outcomes: %v", path, result.GetFilesChanged(), k.looked)
		}
	}
}
