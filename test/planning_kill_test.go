package test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/test/modelserver/modeltest"
	"pawl.dev/test/rig"
)

// interrupted is a task of a scripted model, of which one model call never gets its answer: a process is killed during it.
type interrupted struct {
	// at is the model call, counted from 1.
	at int
	// stream: the killed call gets the beginning of its answer.
	stream bool
	// play answers the other calls. effects is the file of append.
	play func(effects string) func(*modeltest.Request) *modeltest.Turn
	// server is the one that the task uses; "" for w, whose append runs without an approval.
	server string
	// manual tasks ask before each step.
	manual bool
	budget *executorv1.Budget
	model  string // "" for either provider
	// ends is the status that the task ends with; 0 for SUCCESS.
	ends executorv1.ExecutorStatus
}

// interruptions are the scenarios of the other planning tests; most of them write lines.
func interruptions() map[string]interrupted {
	answerAfter := func(results int, calls ...modeltest.Call) func(*modeltest.Request) *modeltest.Turn {
		return func(r *modeltest.Request) *modeltest.Turn {
			if r.Results >= results {
				return &modeltest.Turn{Text: "It is written."}
			}
			return &modeltest.Turn{Calls: calls}
		}
	}
	return map[string]interrupted{
		"ten steps": {at: 6, play: func(effects string) func(*modeltest.Request) *modeltest.Turn {
			return func(r *modeltest.Request) *modeltest.Turn {
				return answerAfter(10, appendCall("w__append", effects, fmt.Sprint(r.Results+1)))(r)
			}
		}},
		"parallel calls": {at: 2, play: func(effects string) func(*modeltest.Request) *modeltest.Turn {
			return answerAfter(1, appendCall("w__append", effects, "one"), appendCall("w__append", effects, "two"), appendCall("w__append", effects, "${step-1.message} again"))
		}},
		"correction": {at: 2, play: func(effects string) func(*modeltest.Request) *modeltest.Turn {
			return func(r *modeltest.Request) *modeltest.Turn {
				switch last := r.Texts[len(r.Texts)-1]; {
				case r.Results == 0:
					return &modeltest.Turn{Calls: []modeltest.Call{{Name: "w__ecko", Arguments: json.RawMessage(`{"text":"x"}`)}}}
				case strings.Contains(last, "w__echo") && !strings.Contains(last, "wrote"):
					return &modeltest.Turn{Calls: []modeltest.Call{appendCall("w__append", effects, "right")}}
				}
				return &modeltest.Turn{Text: "It is written."}
			}
		}},
		"500 tools": {at: 2, server: "many", play: func(string) func(*modeltest.Request) *modeltest.Turn { return findsTool }},
		"history beyond the window": {at: 9, server: "many", play: func(string) func(*modeltest.Request) *modeltest.Turn {
			return turnsPages(14)
		}},
		"rest of an output": {at: 2, server: "many", play: func(string) func(*modeltest.Request) *modeltest.Turn { return readsOn }},
		"approval": {at: 2, server: "t", play: func(effects string) func(*modeltest.Request) *modeltest.Turn {
			return func(r *modeltest.Request) *modeltest.Turn {
				return answerAfter(2, appendCall("t__append", effects, fmt.Sprint(r.Results+1)))(r)
			}
		}},
		"missing parameters": {at: 2, server: "t", manual: true, play: func(string) func(*modeltest.Request) *modeltest.Turn { return lacksParams }},
		"budget": {at: 2, budget: &executorv1.Budget{MaxModelCalls: 4}, ends: executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR,
			play: func(effects string) func(*modeltest.Request) *modeltest.Turn {
				return func(r *modeltest.Request) *modeltest.Turn {
					return answerAfter(10, appendCall("w__append", effects, fmt.Sprint(r.Results+1)))(r)
				}
			}},
		"fallback": {at: 4, model: "overloaded", play: func(effects string) func(*modeltest.Request) *modeltest.Turn {
			return func(r *modeltest.Request) *modeltest.Turn {
				if r.Provider == "openai" {
					return &modeltest.Turn{Error: 529}
				}
				return answerAfter(2, appendCall("w__append", effects, fmt.Sprint(r.Results+1)))(r)
			}
		}},
		"middle of an answer": {at: 2, stream: true, play: func(effects string) func(*modeltest.Request) *modeltest.Turn {
			return answerAfter(1, appendCall("w__append", effects, "one"))
		}},
	}
}

func appendCall(tool, path, line string) modeltest.Call {
	args, err := json.Marshal(map[string]any{"path": path, "line": line, "pawl_why": "to keep it", "pawl_risk": "LOW"})
	if err != nil {
		panic(err) // it is nothing but texts
	}
	return modeltest.Call{Name: tool, Arguments: args}
}

// stage is a model whose play is set by each test, and that withholds one answer.
type stage struct {
	mu      sync.Mutex // guards the fields below
	play    func(*modeltest.Request) *modeltest.Turn
	calls   int
	at      int
	stream  bool
	reached chan struct{}
}

// set begins a scenario. The answer of the call `at` is withheld; 0: none is. The channel is closed when that call is there.
func (s *stage) set(play func(*modeltest.Request) *modeltest.Turn, at int, stream bool) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.play, s.calls, s.at, s.stream, s.reached = play, 0, at, stream, make(chan struct{})
	return s.reached
}

func (s *stage) answer(r *modeltest.Request) *modeltest.Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls++; s.calls != s.at {
		return s.play(r)
	}
	const hour = modeltest.Seconds(time.Hour)
	close(s.reached)
	if s.stream {
		return &modeltest.Turn{Text: strings.Repeat("Half of it, ", 20), Pause: hour}
	}
	return &modeltest.Turn{Text: "Too late.", Delay: hour}
}

// TestKilledWhileAModelThinks kills the executor and the planner in the middle of each scenario: the task ends as it does without, and no call
// that has an effect is made twice.
func TestKilledWhileAModelThinks(t *testing.T) {
	play := &stage{}
	_, file := models(t, &modeltest.Script{Window: 16_000, Play: play.answer}, ", maxTokens: 1000")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	overloaded := regexp.MustCompile(`(?m)^- \{name: gpt(.*)\}$`).FindSubmatch(raw)
	write(t, file, append(raw, fmt.Sprintf("- {name: overloaded%s, fallback: claude}\n", overloaded[1])...))
	servers := manyTools(t, 500)
	servers["w"] = map[string]any{"command": os.Args[0], "env": map[string]string{rig.ServerVariable: "1"}, "tools": map[string]any{
		"*": map[string]string{"effect": "read"}, "append": map[string]string{"effect": "write", "risk": "low"},
	}}
	target := rig.FourProcesses(t, binaries, rig.Options{Models: file, Servers: servers, Workspace: workspace(t)})
	top := t // processes live as long as this test
	for name, s := range interruptions() {
		t.Run(name, func(t *testing.T) {
			want := s.carry(t, target, play, "gpt", nil)
			if end := cmp.Or(s.ends, executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS); want.GetStatus() != end {
				t.Fatalf("without a kill: %v", want)
			}
			for victim, model := range map[string]string{"executor-svc": "gpt", "planner-svc": "claude"} {
				t.Run(victim, func(t *testing.T) {
					got := s.carry(t, target, play, model, func() { target.Restart(top, victim) })
					if got.GetStatus() != want.GetStatus() || got.GetFullAnswer() != want.GetFullAnswer() {
						t.Errorf("killed: %v\nelse: %v", got, want)
					}
					if s.budget == nil && !slices.Equal(got.kinds(), want.kinds()) {
						t.Errorf("killed: %v\nelse: %v", got, want)
					}
				})
			}
		})
	}
}

// kinds returns the steps' tools and statuses.
func (f finished) kinds() []string {
	var all []string
	for _, s := range f.steps {
		all = append(all, s.GetToolId()+" "+s.GetStatus().String())
	}
	return all
}

// carry runs the scenario, kills during the model call, unless kill is nil, and checks that no line was written twice.
func (s interrupted) carry(t *testing.T, target *rig.Target, play *stage, model string, kill func()) finished {
	t.Helper()
	effects, at := filepath.Join(t.TempDir(), "effects"), s.at
	if kill == nil {
		at = 0
	}
	reached := play.set(s.play(effects), at, s.stream)
	auto := !s.manual
	req := &executorv1.CreateTaskRequest{Goal: "Write it down", Model: model, McpIds: []string{"w"}, AutoExecute: &auto, Budget: s.budget}
	if s.model != "" {
		req.Model = s.model
	}
	if s.server != "" {
		req.McpIds = []string{s.server}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c := rig.NewGRPC(target.Executor)
	task, err := c.Create(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan finished, 1)
	var problem atomic.Value
	go func() { ended <- through(ctx, c, task.GetId(), &problem) }()
	if kill != nil {
		select {
		case <-reached:
			kill()
		case f := <-ended:
			t.Fatalf("it ended before model call %d: %v", at, f)
		}
	}
	f := <-ended
	if ctx.Err() != nil {
		t.Fatalf("it does not end: %v; %v", problem.Load(), f)
	}
	written, _ := os.ReadFile(effects) // a scenario without effects has no file
	seen := map[string]bool{}
	for _, line := range lines(string(written)) {
		if seen[line] {
			t.Errorf("%q was written twice:\n%s", line, written)
		}
		seen[line] = true
	}
	for _, step := range f.steps {
		if strings.HasSuffix(step.GetToolId(), "/append") && step.GetStatus() == executorv1.StepStatus_STEP_STATUS_SUCCESS && len(seen) == 0 {
			t.Errorf("step %s succeeded without its effect", step.GetId())
		}
	}
	return f
}

// through follows a task to its end over restarts of the executor, and answers its waits.
func through(ctx context.Context, c rig.Client, id string, problem *atomic.Value) (f finished) {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	last, answered := uint64(0), map[string]bool{}
	for {
		var err error
		if f.Task, err = c.Get(ctx, id); err == nil {
			for _, w := range f.GetWaits() {
				if !answered[w.GetId()] {
					_, err = c.Resume(ctx, answerTo(id, w))
					answered[w.GetId()] = err == nil
				}
			}
			err = c.Watch(ctx, id, last, func(e *executorv1.ExecutorEvent) bool {
				last = e.GetSeq()
				return e.GetType() != executorv1.EventType_EVENT_TYPE_FLOW_STOP
			})
		}
		if err == nil {
			if f.Task, err = c.Get(ctx, id); err == nil && f.GetEndTime() != nil {
				if f.steps, err = c.Steps(ctx, id); err == nil {
					return f
				}
			}
		}
		if err != nil {
			problem.Store(err.Error())
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return f
		}
	}
}

// answerTo approves, and supplies the parameter that lacksParams leaves out.
func answerTo(id string, w *executorv1.Wait) *executorv1.ResumeTaskRequest {
	req := &executorv1.ResumeTaskRequest{Id: id, WaitId: w.GetId()}
	if w.GetKind() == executorv1.WaitKind_WAIT_KIND_PARAMS {
		req.Answer = &executorv1.ResumeTaskRequest_Params{Params: &executorv1.Params{ContentJson: `{"b":2}`}}
	} else {
		req.Answer = &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{}}
	}
	return req
}
