package crash

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/test/mcpserver"
)

// planted is a task of one WRITE step without a violation; each case of the test adds one.
type planted struct {
	run   *run
	res   result
	lines []mcpserver.Line
}

func newPlanted(t *testing.T) *planted {
	p := &planted{run: newRun(flow{name: "x"}, "write", filepath.Join(t.TempDir(), "lines"), "", nil)}
	p.lines = []mcpserver.Line{{Call: "task/step-1/1", Key: "key", Line: "step-1"}}
	of := func(kind executorv1.EventType, step string, attempt uint32) *event {
		return &event{TaskId: "task", Type: kind, Flow: &executorv1.Flow{StepId: step}, Attempt: attempt, Time: timestamppb.Now()}
	}
	end := of(executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS, "", 0)
	end.Payload = &executorv1.ExecutorEvent_FlowSuccess{FlowSuccess: &executorv1.FlowSuccess{}}
	p.res = result{
		events: []*event{
			of(executorv1.EventType_EVENT_TYPE_FLOW_START, "", 0), of(stepInit, "step-1", 0), of(stepInput, "step-1", 1), of(stepOutput, "step-1", 1), end,
		},
		task:  &executorv1.Task{Status: executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS, EndTime: timestamppb.New(time.Now().Add(time.Hour))},
		steps: []*executorv1.Step{{Id: "step-1", Status: executorv1.StepStatus_STEP_STATUS_SUCCESS}},
	}
	for i, e := range p.res.events {
		e.Seq = uint64(i + 1)
		p.run.seen = append(p.run.seen, proto.Clone(e).(*event))
	}
	return p
}

// problems returns the findings of the checks.
func (p *planted) problems(t *testing.T) []string {
	t.Helper()
	var raw []byte
	for _, l := range p.lines {
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		raw = append(append(raw, text...), '\n')
	}
	if err := os.WriteFile(p.run.path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	problems := append(p.run.check(p.res), noUnknown(p.res, false)...)
	if p.run.flow.name == "cancelled" {
		problems = append(problems, cancelledAt(p.res, time.Now().Add(-time.Minute))...)
	}
	return problems
}

// errorEvent makes the outcome of the step's attempt an error.
func (p *planted) errorEvent(e *executorv1.StepError) {
	for _, events := range [][]*event{p.res.events, p.run.seen} {
		events[3].Type, events[3].Payload = stepError, &executorv1.ExecutorEvent_StepError{StepError: e}
	}
}

// paused makes the step begin while the task is paused.
func (p *planted) paused() {
	for _, events := range [][]*event{p.res.events, p.run.seen} {
		events[1].Type = executorv1.EventType_EVENT_TYPE_STATUS_CHANGED
		events[1].Payload = &executorv1.ExecutorEvent_StatusChanged{StatusChanged: &executorv1.StatusChanged{Reason: "paused"}}
	}
}

// Each check finds a violation of its own, and none if nothing is wrong.
func TestChecksFindWhatIsWrong(t *testing.T) {
	if problems := newPlanted(t).problems(t); len(problems) > 0 {
		t.Fatalf("nothing is wrong, but: %v", problems)
	}
	for want, plant := range map[string]func(*planted){
		"was shown and is lost": func(p *planted) { p.res.events = p.res.events[:4] },
		"was not shown":         func(p *planted) { p.run.seen = p.run.seen[:4] },
		"was shown as":          func(p *planted) { p.run.seen[3].Attempt = 7 },
		"has seq":               func(p *planted) { p.res.events = slices.Delete(p.res.events, 2, 3) },
		"was made twice":        func(p *planted) { p.lines = append(p.lines, p.lines[0]) },
		"without an intent":     func(p *planted) { p.lines[0].Call = "task/step-1/2" },
		"said not to have been": func(p *planted) { p.errorEvent(&executorv1.StepError{Outcome: notExecuted}) },
		"pool knows it":         func(p *planted) { p.errorEvent(&executorv1.StepError{Outcome: unknown}) },
		"has run 2 times": func(p *planted) {
			p.lines = append(p.lines, mcpserver.Line{Call: "task/step-1/2", Key: "key", Line: "step-1"})
		},
		"idempotency key": func(p *planted) {
			p.lines = append(p.lines, mcpserver.Line{Call: "task/step-1/2", Key: "other", Line: "step-1"})
		},
		"with the input of":       func(p *planted) { p.lines[0].Line = "step-2" },
		"without having run":      func(p *planted) { p.lines = nil },
		"while the task is pause": (*planted).paused,
		"it failed":               func(p *planted) { p.res.task.Status = executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR },
		"was stored, and it is":   func(p *planted) { p.run.flow.name = "cancelled" },
		"was stored, and event 3": func(p *planted) { p.run.flow.name = "cancelled" },
	} {
		t.Run(want, func(t *testing.T) {
			p := newPlanted(t)
			plant(p)
			problems := p.problems(t)
			if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, want) }) {
				t.Errorf("found %q", problems)
			}
		})
	}
}
