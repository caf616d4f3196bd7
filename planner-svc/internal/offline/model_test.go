package offline

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/model"
)

// A3: name and risk of the flow.
func TestFlow(t *testing.T) {
	for _, tc := range []struct{ goal, name, risk string }{
		{"please count the Go files.", `{"name":"Count the Go files"}`, `{"level":"LOW","reason":"It only reads."}`},
		{"请帮我统计 Go 文件", `{"name":"统计 Go 文件"}`, `{"level":"LOW","reason":"只读取，不做更改。"}`},
		{"count the Go files and delete the path docs/old", `{"name":"Count the Go files and delete the path…"}`, `{"level":"MEDIUM","reason":"delete_path may change something."}`},
		{"tell me a joke", `{"name":"A joke"}`, `{"level":"LOW","reason":"No tool is called."}`},
		{"", `{"name":"Nothing to do"}`, `{"level":"LOW","reason":"No tool is called."}`},
	} {
		f := model.Facts{Context: &plannerv1.TaskContext{Goal: tc.goal, Tools: everywhere(t)}}
		if got := ask(t, model.FlowName, f); got != tc.name {
			t.Errorf("%q: %s, want %s", tc.goal, got, tc.name)
		}
		if got := ask(t, model.FlowRisk, f); got != tc.risk {
			t.Errorf("%q: %s, want %s", tc.goal, got, tc.risk)
		}
	}
}

func TestPurposes(t *testing.T) {
	all := everywhere(t)
	facts := func(goal, tool, in, failure string) model.Facts {
		return model.Facts{Context: &plannerv1.TaskContext{Goal: goal, Tools: all}, ToolID: tool, InputJSON: in, Error: failure}
	}
	withContent := facts("x", "workspace/search_code", `{"query":"a"}`, "")
	withContent.ContentJSON, withContent.Description = `{"max_results":"3","regex":null}`, "path=docs"
	described := facts("count the Go files", "workspace/read_file", "", "")
	described.Description = "Read go.mod"
	for _, tc := range []struct {
		purpose model.Purpose
		facts   model.Facts
		want    string
	}{
		{model.NextStep, facts("count the Go files", "", "", ""), `{"description":"Count the Go files","tool_id":"workspace/search_files"}`},
		{model.NextStep, facts("tell me a joke", "", "", ""), `{"description":"Nothing is left to do.","tool_id":"FINAL"}`},
		// A7
		{model.InputParams, facts("count the Go files", "workspace/search_files", "", ""), `{"input":{"pattern":"**/*.go"},"missing":[]}`},
		{model.InputParams, described, `{"input":{"path":"go.mod"},"missing":[]}`},
		{model.InputParams, facts("say hi", "workspace/read_file", "", ""), `{"input":{},"missing":["path"]}`},
		// A11
		{model.InputParams, facts("count the Go files", "workspace/search_files", `{"pattern":"*.go","depth":3}`, "unknown property depth"), `{"input":{"pattern":"*.go"},"missing":[]}`},
		// A10
		{model.FillParams, withContent, `{"input":{"query":"a","path":"docs","max_results":3}}`},
		// A8
		{model.ToolRisk, facts("x", "other/delete_path", `{"path":"/"}`, ""), `{"level":"HIGH","reason":"delete_path would delete everything in a folder."}`},
		{model.ToolRisk, facts("x", "workspace/read_file", `{"path":"/"}`, ""), `{"level":"LOW","reason":"read_file only reads."}`},
		// A15
		{model.IsParamError, facts("x", "workspace/read_file", `{"path":"x"}`, `"x" does not exist`), `{"is_param_error":true}`},
		{model.IsParamError, facts("x", "workspace/read_file", `{"path":"x"}`, "connection reset"), `{"is_param_error":false}`},
		// A16
		{model.DescribeError, facts("x", "workspace/read_file", `{"path":"x.md"}`, `"x.md" does not exist`), `{"message":"\"x.md\" was not found. Give another."}`},
		{model.MissingParams, facts("x", "other/fetch", `{}`, "url is required"), `{"schema":{"type":"object","properties":{"url":{"type":["string","null"],"format":"uri","description":"URL to fetch"}},"required":[]}}`},
	} {
		if got := ask(t, tc.purpose, tc.facts); got != tc.want {
			t.Errorf("%s %s:\n%s\nwant\n%s", tc.purpose, tc.facts.ToolID, got, tc.want)
		}
	}
}

func TestUnknownToolIsAnError(t *testing.T) {
	_, err := New().Generate(t.Context(), &model.Request{Purpose: model.ToolRisk, Facts: model.Facts{Context: &plannerv1.TaskContext{}, ToolID: "a/b"}}, func(string) error { return nil })
	if err == nil || !strings.Contains(err.Error(), `"a/b"`) {
		t.Errorf("got %v", err)
	}
}

// succeeded is a step of the history.
func succeeded(tool, in, out string) *plannerv1.HistoryEntry {
	return &plannerv1.HistoryEntry{ToolId: tool, InputJson: in, OutputJson: out, Description: "Do it", Result: plannerv1.StepResult_STEP_RESULT_SUCCESS}
}

// A person may edit an approved input, and other steps may be in the history: both are kept, nothing is repeated.
func TestReplay(t *testing.T) {
	tc := &plannerv1.TaskContext{Goal: "Read go.mod, then count the Go files", Tools: everywhere(t), History: []*plannerv1.HistoryEntry{
		succeeded("workspace/read_file", `{"path":"other.mod"}`, `{"message":"m"}`),
		succeeded("everything/echo", `{"message":"x"}`, `{"message":"an echo"}`),
	}}
	if st := nextOf(t, tc); st.ToolID != "workspace/search_files" {
		t.Errorf("next is %+v", st)
	}
	tc.History = append(tc.History, succeeded("workspace/search_files", `{"pattern":"*"}`, `{"structured":{"files":["a"],"count":1}}`))
	if st := nextOf(t, tc); st.ToolID != model.Final {
		t.Errorf("next is %+v", st)
	}
	if answer := ask(t, model.Answer, model.Facts{Context: tc}); !strings.Contains(answer, "everything/echo: an echo") || !strings.Contains(answer, "There is 1 Go file") {
		t.Errorf("the answer:\n%s", answer)
	}
}

// A22: the answer says why the task ended early, what failed, and what is not known.
func TestAnswerIsHonest(t *testing.T) {
	failed := succeeded("everything/echo", `{"message":"x"}`, "")
	failed.Result, failed.Error, failed.Outcome = plannerv1.StepResult_STEP_RESULT_ERROR, "connection closed", commonv1.Outcome_OUTCOME_UNKNOWN
	cancelled := succeeded("everything/get-sum", `{"a":2,"b":3}`, "")
	cancelled.Result = plannerv1.StepResult_STEP_RESULT_CANCELLED
	tc := &plannerv1.TaskContext{Goal: "echo x, then add 2 and 3, then read LICENSE", Tools: everywhere(t), History: []*plannerv1.HistoryEntry{failed, cancelled}}
	answer := ask(t, model.Answer, model.Facts{Context: tc, CutShort: "the limit of 25 steps was reached"})
	want := "The task ended early: the limit of 25 steps was reached\n\n" +
		"Do it (everything/echo): it is not known whether the call took effect. connection closed\n\n" +
		"Do it (everything/get-sum) was cancelled.\n\n" +
		"Not reached: \"read LICENSE\".\n\n" + signedEN
	if d := cmp.Diff(want, answer); d != "" {
		t.Error(d)
	}
}

// A step that a person said to go on without stops nothing, and is told as what it is.
func TestSkippedStepIsNotFailed(t *testing.T) {
	skipped := succeeded("everything/get-sum", `{"a":2,"b":3}`, "")
	skipped.Result, skipped.Error, skipped.Outcome = plannerv1.StepResult_STEP_RESULT_SKIPPED, "I looked; it is not known whether the tool ran", commonv1.Outcome_OUTCOME_UNKNOWN
	tc := &plannerv1.TaskContext{Goal: "add 2 and 3, then echo x", Tools: everywhere(t), History: []*plannerv1.HistoryEntry{skipped}}
	if st := nextOf(t, tc); st.ToolID != "everything/echo" {
		t.Errorf("behind a skipped step comes %+v", st)
	}
	tc.History = append(tc.History, succeeded("everything/echo", `{"message":"x"}`, `{"message":"x"}`))
	if answer := ask(t, model.Answer, model.Facts{Context: tc}); !strings.Contains(answer, "Do it (everything/get-sum) was skipped: I looked") {
		t.Errorf("the answer:\n%s", answer)
	}
}

func TestAnswerShapes(t *testing.T) {
	long := strings.Repeat("a line of text\n", 1000)
	for _, tc := range []struct{ goal, tool, out, want string }{
		{"which file mentions \"x\"", "workspace/search_code", `{"structured":{"match_count":0,"file_count":0,"files":[],"matches":[]}}`, `No file mentions "x".`},
		{"count the Go files", "workspace/search_files", `{"structured":{"files":["a"],"count":900,"truncated":true}}`, "There are 900 Go files (**/*.go)."},
		{"count the Go files", "workspace/search_files", `{"structured":{"files":["a","b","c","d","e","f"],"truncated":true}}`, "There are at least 6 Go files (**/*.go)."},
		{"Read a.txt", "workspace/read_file", `{"structured":{"path":"a.txt","content":` + quote(long) + `,"start_line":1,"end_line":1000,"total_lines":1000}}`, "```\n\n(The first 4000 of 15000 characters are shown.)"},
		{"Read a.txt", "workspace/read_file", `{"structured":{"path":"a.txt","content":"` + "````" + `\n","start_line":1,"end_line":1,"total_lines":1}}`, "`````txt\n````\n`````"},
		{"Read a.txt", "workspace/read_file", `{"structured":{"path":"a.txt","content":"","start_line":0,"end_line":0,"total_lines":0}}`, "a.txt: empty."},
		{"Read a.txt", "workspace/read_file", `{"message":"unstructured"}`, "a.txt:\n\n```txt\nunstructured\n```"},
		{"get a tiny image", "everything/get-tiny-image", `{"message":"","media":[{"type":"image","mimeType":"image/png"}]}`, "everything/get-tiny-image also returned: image image/png"},
		{"get a tiny image", "everything/get-tiny-image", `{"message":""}`, "everything/get-tiny-image succeeded and returned nothing."},
		{"read the graph", "memory/read_graph", `{"message":"a\nb"}`, "memory/read_graph returned:\n\n```\na\nb\n```"},
	} {
		ctx := &plannerv1.TaskContext{Goal: tc.goal, Tools: everywhere(t)}
		in := nextOf(t, ctx)
		ctx.History = []*plannerv1.HistoryEntry{succeeded(tc.tool, string(in.Input), tc.out)}
		if got := ask(t, model.Answer, model.Facts{Context: ctx}); !strings.Contains(got, tc.want) {
			t.Errorf("%q:\n%s\nlacks\n%s", tc.goal, got, tc.want)
		}
	}
}

func quote(s string) string { return fmt.Sprintf("%q", s) }

// Pieces come paragraph by paragraph, and an error of the reader ends the answer.
func TestAnswerIsStreamed(t *testing.T) {
	tc := &plannerv1.TaskContext{Goal: "tell me a joke", Tools: everywhere(t)}
	var pieces []string
	stop := fmt.Errorf("enough")
	_, err := New().Generate(t.Context(), &model.Request{Purpose: model.Answer, Facts: model.Facts{Context: tc}}, func(p string) error {
		if pieces = append(pieces, p); len(pieces) == 3 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || len(pieces) != 3 {
		t.Errorf("%d pieces, %v", len(pieces), err)
	}
}

func BenchmarkPlanSteps(b *testing.B) {
	tc := &plannerv1.TaskContext{Goal: "which files mention \"ratchet\" and how many Go files are there", Tools: everywhere(b)}
	for b.Loop() {
		nextOf(b, tc)
	}
}
