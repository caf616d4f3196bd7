package offline

import (
	"fmt"
	"strings"
	"testing"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

func message(t *testing.T, text string, history ...*plannerv1.HistoryEntry) *plannerv1.TaskContext {
	return &plannerv1.TaskContext{Goal: text, AgentName: "helper", Speaker: "ada", Tools: everywhere(t), History: history}
}

// B2: without a model, only the agent's name says that a message is for it.
func TestDecide(t *testing.T) {
	for text, want := range map[string]plannerv1.Decision{
		"Helper, count the Go files": plannerv1.Decision_DECISION_REPLY, "what does helper say?": plannerv1.Decision_DECISION_REPLY, "请helper看一下": plannerv1.Decision_DECISION_REPLY,
		"count the Go files": plannerv1.Decision_DECISION_SILENT, "my helpers are away": plannerv1.Decision_DECISION_SILENT,
	} {
		res, err := New().Decide(t.Context(), &plannerv1.DecideRequest{Context: message(t, text)})
		if err != nil || res.GetDecision() != want || res.GetReason() == "" {
			t.Errorf("%q: %v %v", text, res, err)
		}
	}
	if res, err := New().Decide(t.Context(), &plannerv1.DecideRequest{Context: &plannerv1.TaskContext{Goal: "hello"}}); err != nil || res.GetDecision() != plannerv1.Decision_DECISION_SILENT {
		t.Errorf("without a name: %v %v", res, err)
	}
}

// B8, B9: the calls of a message, one at a time, until its words need no more.
func TestSelectTools(t *testing.T) {
	first := succeeded("workspace/read_file", `{"path":"go.mod"}`, `{"message":"module m"}`)
	second := succeeded("workspace/search_files", `{"pattern":"**/*.go"}`, `{"structured":{"files":["a.go"],"count":1}}`)
	const text = "@helper: read go.mod, then count the Go files"
	for want, tc := range map[string]*plannerv1.TaskContext{
		`workspace/read_file {"path":"go.mod"}`: message(t, text), `workspace/search_files {"pattern":"**/*.go"}`: message(t, text, first),
		" ": message(t, text, first, second), "  ": message(t, "helper, tell me a joke"), "   ": message(t, "@helper2 read go.mod"),
	} {
		res, err := New().SelectTools(t.Context(), &plannerv1.SelectToolsRequest{Context: tc})
		if err != nil || len(res.GetSteps()) > 1 {
			t.Fatalf("%q: %v %v", tc.GetGoal(), res, err)
		}
		got := " "
		for _, st := range res.GetSteps() {
			got = st.GetToolId() + " " + st.GetInputJson()
		}
		if strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("%q with %d steps: %s, want %s", tc.GetGoal(), len(tc.GetHistory()), got, want)
		}
	}
}

// B16: each call's message says again what is to be done; the reply follows their results.
func TestRespond(t *testing.T) {
	respond := func(tc *plannerv1.TaskContext, mustComplete bool) *plannerv1.RespondResponse {
		res, err := New().Respond(t.Context(), &plannerv1.RespondRequest{Context: tc, MustComplete: mustComplete})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	begun := respond(message(t, "helper: count the Go files"), false)
	if begun.GetDecision() != plannerv1.RespondDecision_RESPOND_DECISION_CONTINUE || begun.GetNextCall().GetToolId() != "workspace/search_files" {
		t.Fatal(begun)
	}
	found := succeeded("workspace/search_files", `{"pattern":"**/*.go"}`, `{"structured":{"files":["a.go"],"count":1}}`)
	if done := respond(message(t, begun.GetText(), found), false); done.GetDecision() != plannerv1.RespondDecision_RESPOND_DECISION_COMPLETE || !strings.Contains(done.GetText(), "There is 1 Go file") {
		t.Error(done)
	}
	if next := respond(message(t, "count the Go files, then read go.mod", found), false); next.GetNextCall().GetToolId() != "workspace/read_file" {
		t.Error(next)
	}
	if done := respond(message(t, "tell me a joke"), false); done.GetDecision() != plannerv1.RespondDecision_RESPOND_DECISION_COMPLETE || !strings.Contains(done.GetText(), "offline planner") {
		t.Error(done)
	}
	called := respond(message(t, "tell me a joke", succeeded("other/fetch", `{"url":"x"}`, `{"message":"knock knock"}`)), false)
	if text := called.GetText(); !strings.HasPrefix(text, "other/fetch: knock knock") || !strings.Contains(text, `Nothing else was called`) || strings.Contains(text, "nothing was called") {
		t.Errorf("a call that the message asked for: %s", text)
	}
	res, err := New().Respond(t.Context(), &plannerv1.RespondRequest{Context: message(t, "count the Go files"), MustComplete: true, Errors: []string{"The MCP server x failed: it is down"}})
	if err != nil || !strings.HasPrefix(res.GetText(), "The MCP server x failed: it is down") || !strings.Contains(res.GetText(), "pawl mcp list") {
		t.Errorf("%v %v", res, err)
	}
	if done := respond(message(t, "count the Go files"), true); done.GetDecision() != plannerv1.RespondDecision_RESPOND_DECISION_COMPLETE || !strings.Contains(done.GetText(), "Not reached") {
		t.Error(done)
	}
}

// B8, B13: a step becomes a line; a conversation needs no summary, as only its newest message is read.
func TestSummarizeMemory(t *testing.T) {
	failed := succeeded("other/fetch", `{}`, "")
	failed.Result, failed.Error = plannerv1.StepResult_STEP_RESULT_ERROR, "gone"
	tc := message(t, "x", succeeded("workspace/read_file", `{"path":"a"}`, fmt.Sprintf(`{"message":%q}`, strings.Repeat("long ", 500))), failed)
	tc.Memory = &plannerv1.Memory{Summary: "before"}
	res, err := New().SummarizeMemory(t.Context(), &plannerv1.SummarizeMemoryRequest{Context: tc})
	lines := strings.Split(res.GetSummary(), "\n")
	if err != nil || len(lines) != 3 || lines[0] != "before" || !strings.HasPrefix(lines[1], "workspace/read_file: long") || len(lines[1]) > 600 || !strings.Contains(lines[2], "failed: gone") {
		t.Errorf("%q %v", lines, err)
	}
	for range 100 {
		tc.Messages = append(tc.Messages, &plannerv1.ChatMessage{Sender: "ada", Text: strings.Repeat("x", 10_000)})
	}
	if res, err = New().SummarizeMemory(t.Context(), &plannerv1.SummarizeMemoryRequest{Context: tc, ContextShare: 0.1}); err != nil || res.GetSummary() != "" || res.GetCoveredMessages() != 0 {
		t.Errorf("%v %v", res, err)
	}
}

// B11: the reply says which servers failed, and what can be done.
func TestExplainError(t *testing.T) {
	text := ""
	_, err := New().GenerateAnswer(t.Context(), &plannerv1.GenerateAnswerRequest{Context: message(t, "count the Go files"), ExplainError: true,
		Subtasks: []*plannerv1.SubtaskState{{Id: "files", Title: "files", Status: "FAILED", Summary: "connection refused"}, {Id: "x", Title: "x", Status: "COMPLETED"}}}, func(s string) error {
		text += s
		return nil
	})
	if err != nil || !strings.HasPrefix(text, "The MCP server files failed: connection refused\n\nThe offline") || !strings.Contains(text, "pawl mcp list") {
		t.Errorf("%q %v", text, err)
	}
}
