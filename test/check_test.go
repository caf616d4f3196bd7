package test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/test/rig"
	testcasev1 "pawl.dev/test/testcase/v1"
)

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
	var waits []executorv1.WaitKind
	for _, w := range task.GetWaits() {
		waits = append(waits, w.GetKind())
	}
	if d := cmp.Diff(want.GetWaits(), waits); d != "" {
		t.Errorf("open waits (-want +got):\n%s", d)
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

// kinds leaves out bookkeeping events, and counts an answer once however many pieces it came in.
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
