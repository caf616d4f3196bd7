package test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/test/rig"
	testcasev1 "pawl.dev/test/testcase/v1"
)

// caseTimeout bounds one case.
const caseTimeout = time.Minute

// TestCases runs every file of cases/ against every kind of installation, over both protocols.
func TestCases(t *testing.T) {
	targets := map[string]func(testing.TB, rig.Options) *rig.Target{
		"in-process":     rig.InProcess,
		"pawl-up":        func(t testing.TB, o rig.Options) *rig.Target { return rig.Binary(t, binaries, o) },
		"four-processes": func(t testing.TB, o rig.Options) *rig.Target { return rig.FourProcesses(t, binaries, o) },
	}
	files, err := filepath.Glob("cases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for name, start := range targets {
		t.Run(name, func(t *testing.T) {
			target := start(t, rig.Options{Workspace: workspace(t)})
			clients := map[string]rig.Client{"grpc": rig.NewGRPC(target.Executor), "rest": rig.REST{Base: target.HTTP}}
			for protocol, client := range clients {
				for _, file := range files {
					t.Run(protocol+"/"+strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
						runCase(t, client, protocol == "rest", file)
					})
				}
			}
		})
	}
}

func runCase(t *testing.T, client rig.Client, rest bool, file string) {
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	dir := t.TempDir()
	c := readCase(t, file, dir)
	task, err := client.Create(ctx, c.GetTask())
	if r := c.GetRefused(); r != nil {
		checkRefused(t, r, rest, err)
		return
	}
	if err != nil {
		t.Fatalf("creating the task: %v", err)
	}
	events := follow(ctx, t, client, task.GetId(), c.GetAnswers())
	if task, err = client.Get(ctx, task.GetId()); err != nil {
		t.Fatal(err)
	}
	steps, err := client.Steps(ctx, task.GetId())
	if err != nil {
		t.Fatal(err)
	}
	checkTask(t, c.GetExpect(), task, events)
	checkSteps(t, c.GetExpect().GetSteps(), steps)
	raw, _ := os.ReadFile(filepath.Join(dir, "effects.txt"))
	if d := cmp.Diff(c.GetExpect().GetEffects(), lines(string(raw))); d != "" {
		t.Errorf("effects (-want +got):\n%s", d)
	}
}

func readCase(t *testing.T, file, dir string) *testcasev1.Case {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := yaml.YAMLToJSON([]byte(strings.ReplaceAll(string(raw), "{{dir}}", dir)))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	c := &testcasev1.Case{}
	if err := protojson.Unmarshal(asJSON, c); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if len(c.GetShows()) == 0 || c.GetAbout() == "" {
		t.Fatalf("%s: say what it is about and which acceptance ids it shows", file)
	}
	return c
}

// follow reads the task's events and answers each time it stops.
func follow(ctx context.Context, t *testing.T, client rig.Client, id string, answers []*testcasev1.Answer) []*executorv1.ExecutorEvent {
	t.Helper()
	var events []*executorv1.ExecutorEvent
	last := func() uint64 {
		if len(events) == 0 {
			return 0
		}
		return events[len(events)-1].GetSeq()
	}
	for {
		stopped := false
		err := client.Watch(ctx, id, last(), func(e *executorv1.ExecutorEvent) bool {
			if e.GetSeq() != last()+1 {
				t.Errorf("seq %d after %d", e.GetSeq(), last())
			}
			events = append(events, e)
			stopped = e.GetType() == executorv1.EventType_EVENT_TYPE_FLOW_STOP
			return !stopped
		})
		if err != nil {
			t.Fatalf("watching: %v", err)
		}
		if !stopped {
			return events
		}
		if len(answers) == 0 {
			return events
		}
		answer(ctx, t, client, events[len(events)-1], answers[0])
		answers = answers[1:]
	}
}

func answer(ctx context.Context, t *testing.T, client rig.Client, stop *executorv1.ExecutorEvent, a *testcasev1.Answer) {
	t.Helper()
	req := &executorv1.ResumeTaskRequest{Id: stop.GetTaskId(), WaitId: stop.GetFlowStop().GetWaitIds()[0]}
	var err error
	switch a := a.GetAnswer().(type) {
	case *testcasev1.Answer_Cancel:
		_, err = client.Cancel(ctx, &executorv1.CancelTaskRequest{Id: stop.GetTaskId(), Reason: a.Cancel})
	case *testcasev1.Answer_Approve:
		req.Answer = &executorv1.ResumeTaskRequest_Approve{Approve: a.Approve}
		_, err = client.Resume(ctx, req)
	case *testcasev1.Answer_Reject:
		req.Answer = &executorv1.ResumeTaskRequest_Reject{Reject: a.Reject}
		_, err = client.Resume(ctx, req)
	case *testcasev1.Answer_Params:
		req.Answer = &executorv1.ResumeTaskRequest_Params{Params: a.Params}
		_, err = client.Resume(ctx, req)
	}
	if err != nil {
		t.Fatalf("answering: %v", err)
	}
}

func checkRefused(t *testing.T, want *testcasev1.Refusal, rest bool, err error) {
	t.Helper()
	var got *rig.Refused
	if !errors.As(err, &got) {
		t.Fatalf("%v, want a refusal", err)
	}
	if reason := strings.TrimPrefix(want.GetReason().String(), "ERROR_REASON_"); got.Reason != reason {
		t.Errorf("reason %s, want %s (%s)", got.Reason, reason, got.Message)
	}
	if !strings.Contains(got.Message, want.GetMessageContains()) {
		t.Errorf("message %q does not hold %q", got.Message, want.GetMessageContains())
	}
	if rest && got.HTTP != int(want.GetHttpStatus()) {
		t.Errorf("HTTP status %d, want %d", got.HTTP, want.GetHttpStatus())
	}
}

func checkTask(t *testing.T, want *testcasev1.Expect, task *executorv1.Task, events []*executorv1.ExecutorEvent) {
	t.Helper()
	if task.GetStatus() != want.GetStatus() {
		t.Errorf("status %s, want %s; error %v", task.GetStatus(), want.GetStatus(), task.GetError())
	}
	if d := cmp.Diff(names(want.GetEvents()), names(kinds(events))); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	for _, part := range want.GetAnswerContains() {
		if !strings.Contains(task.GetFullAnswer(), part) {
			t.Errorf("the answer does not hold %q:\n%s", part, task.GetFullAnswer())
		}
	}
	if task.GetError().GetReason() != want.GetErrorReason() || !strings.Contains(task.GetError().GetErrMsg(), want.GetErrorContains()) {
		t.Errorf("error %v, want %s with %q", task.GetError(), want.GetErrorReason(), want.GetErrorContains())
	}
	text := ""
	for _, e := range events {
		text += e.GetTextAdd().GetText()
		if e.GetType() == executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS && (e.GetFlowSuccess().GetFullAnswer() != text || task.GetFullAnswer() != text) {
			t.Errorf("the whole answer is not its pieces: %q, %q", e.GetFlowSuccess().GetFullAnswer(), text)
		}
	}
}

func checkSteps(t *testing.T, want []*testcasev1.ExpectStep, got []*executorv1.Step) {
	t.Helper()
	if len(want) == 0 {
		return
	}
	if len(got) != len(want) {
		t.Fatalf("%d steps, want %d: %v", len(got), len(want), got)
	}
	for i, w := range want {
		g := got[i]
		if g.GetToolId() != w.GetToolId() || g.GetStatus() != w.GetStatus() {
			t.Errorf("step %d: %s %s, want %s %s; error %v", i+1, g.GetToolId(), g.GetStatus(), w.GetToolId(), w.GetStatus(), g.GetError())
		}
		if w.GetOutcome() != commonv1.Outcome_OUTCOME_UNSPECIFIED && g.GetOutcome() != w.GetOutcome() {
			t.Errorf("step %d: outcome %s, want %s", i+1, g.GetOutcome(), w.GetOutcome())
		}
		if w.GetInputJson() != "" && g.GetInputJson() != w.GetInputJson() {
			t.Errorf("step %d: input %s, want %s", i+1, g.GetInputJson(), w.GetInputJson())
		}
		if !strings.Contains(g.GetOutputJson(), w.GetOutputContains()) || !strings.Contains(g.GetError().GetErrMsg(), w.GetErrorContains()) {
			t.Errorf("step %d: output %s, error %v", i+1, g.GetOutputJson(), g.GetError())
		}
	}
}

// kinds leaves out what is bookkeeping, and counts an answer once however many pieces it came in.
func kinds(events []*executorv1.ExecutorEvent) []executorv1.EventType {
	var all []executorv1.EventType
	for _, e := range events {
		switch e.GetType() {
		case executorv1.EventType_EVENT_TYPE_STATUS_CHANGED, executorv1.EventType_EVENT_TYPE_TOOLS_LOADED, executorv1.EventType_EVENT_TYPE_TOOL_PROGRESS:
			continue
		case executorv1.EventType_EVENT_TYPE_TEXT_ADD:
			if len(all) > 0 && all[len(all)-1] == e.GetType() {
				continue
			}
		}
		all = append(all, e.GetType())
	}
	return all
}

func names(types []executorv1.EventType) []string {
	var all []string
	for _, kind := range types {
		all = append(all, strings.TrimPrefix(kind.String(), "EVENT_TYPE_"))
	}
	return all
}

func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}
