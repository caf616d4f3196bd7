package offline

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/plan"
	"pawl.dev/planner-svc/internal/result"
	"pawl.dev/planner-svc/internal/risk"
)

// A3: name and risk of the flow.
func TestFlow(t *testing.T) {
	for _, tc := range []struct{ goal, name, risk, reason string }{
		{"please count the Go files.", "Please count the Go files", "LOW", "It only reads."},
		{"请帮我统计 Go 文件", "请帮我统计 Go 文件", "LOW", "只读取，不做更改。"},
		{"count the Go files and delete the path docs/old", "Count the Go files and delete the path…", "MEDIUM", "delete_path may change something."},
		{"tell me a joke", "Tell me a joke", "LOW", "No tool is called."},
		{"", "Nothing to do", "LOW", "No tool is called."},
	} {
		c := &plannerv1.TaskContext{Goal: tc.goal, Tools: everywhere(t)}
		res, err := New().PlanSteps(t.Context(), &plannerv1.PlanStepsRequest{Context: c, Begin: true}, nil)
		if err != nil || res.GetFlowName() != tc.name || risk.Name(res.GetFlowRisk().GetLevel()) != tc.risk || res.GetFlowRisk().GetReason() != tc.reason {
			t.Errorf("%q: %v, %v, want %q, %s %s", tc.goal, res, err, tc.name, tc.risk, tc.reason)
		}
	}
}

func TestQuestionsAboutCalls(t *testing.T) {
	all, p := everywhere(t), New()
	in := func(goal string) *plannerv1.TaskContext { return &plannerv1.TaskContext{Goal: goal, Tools: all} }
	for _, tc := range []struct {
		req  *plannerv1.GetFirstInputParamsRequest
		want string
	}{
		// A7
		{&plannerv1.GetFirstInputParamsRequest{Context: in("count the Go files"), ToolId: "workspace/search_files"}, `{"pattern":"**/*.go"} []`},
		{&plannerv1.GetFirstInputParamsRequest{Context: in("count the Go files"), ToolId: "workspace/read_file", Description: "Read go.mod"}, `{"path":"go.mod"} []`},
		{&plannerv1.GetFirstInputParamsRequest{Context: in("say hi"), ToolId: "workspace/read_file"}, `{} [path]`},
		// A11
		{&plannerv1.GetFirstInputParamsRequest{Context: in("count the Go files"), ToolId: "workspace/search_files", FailedInputJson: `{"pattern":"*.go","depth":3}`,
			Error: "unknown property depth"}, `{"pattern":"*.go"} []`},
	} {
		if res, err := p.GetFirstInputParams(t.Context(), tc.req); err != nil || fmt.Sprint(res.GetInputJson(), " ", res.GetMissing()) != tc.want {
			t.Errorf("%s: %v, %v, want %s", tc.req.GetToolId(), res, err, tc.want)
		}
	}
	// A10
	fill, err := p.FillParams(t.Context(), &plannerv1.FillParamsRequest{Context: in("x"), ToolId: "workspace/search_code", InputJson: `{"query":"a"}`,
		ContentJson: `{"max_results":"3","regex":null}`, Description: "path=docs"})
	if err != nil || fill.GetInputJson() != `{"query":"a","path":"docs","max_results":3}` {
		t.Errorf("%v, %v", fill, err)
	}
	// A8
	for tool, want := range map[string]string{"other/delete_path": "HIGH delete_path would delete everything in a folder.", "workspace/read_file": "LOW read_file only reads."} {
		res, err := p.AssessToolRisk(t.Context(), &plannerv1.AssessToolRiskRequest{Context: in("x"), ToolId: tool, InputJson: `{"path":"/"}`})
		if got := risk.Name(res.GetRisk().GetLevel()) + " " + res.GetRisk().GetReason(); err != nil || got != want {
			t.Errorf("%s: %s, %v", tool, got, err)
		}
	}
	// A15
	for problem, want := range map[string]bool{`"x" does not exist`: true, "connection reset": false} {
		res, err := p.IsParamError(t.Context(), &plannerv1.IsParamErrorRequest{Context: in("x"), ToolId: "workspace/read_file", InputJson: `{"path":"x"}`, Error: problem})
		if err != nil || res.GetIsParamError() != want {
			t.Errorf("%s: %v, %v", problem, res, err)
		}
	}
	// A16
	said, err := p.DescribeError(t.Context(), &plannerv1.DescribeErrorRequest{Context: in("x"), ToolId: "workspace/read_file", InputJson: `{"path":"x.md"}`, Error: `"x.md" does not exist`})
	if err != nil || said.GetMessage() != `read_file failed: "x.md" does not exist` {
		t.Errorf("%v, %v", said, err)
	}
	form, err := p.GetMissingParams(t.Context(), &plannerv1.GetMissingParamsRequest{Context: in("x"), ToolId: "other/fetch", Error: "url is required"})
	if err != nil || form.GetSchemaJson() != `{"type":"object","properties":{"url":{"type":["string","null"],"format":"uri","description":"URL to fetch"}},"required":[]}` {
		t.Errorf("%v, %v", form, err)
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
	if st := nextOf(t, tc); st.GetToolId() != "workspace/search_files" {
		t.Errorf("next is %+v", st)
	}
	tc.History = append(tc.History, succeeded("workspace/search_files", `{"pattern":"*"}`, `{"structured":{"files":["a"],"count":1}}`))
	if st := nextOf(t, tc); st.GetToolId() != plan.Final {
		t.Errorf("next is %+v", st)
	}
	if text := answer(t, tc, ""); !strings.Contains(text, "everything/echo: an echo") || !strings.Contains(text, "There is 1 Go file") {
		t.Errorf("the answer:\n%s", text)
	}
}

// A22: the answer says why the task ended early, what failed, and what is not known.
func TestAnswerIsHonest(t *testing.T) {
	failed := succeeded("everything/echo", `{"message":"x"}`, "")
	failed.Result, failed.Error, failed.Outcome = plannerv1.StepResult_STEP_RESULT_ERROR, "connection closed", commonv1.Outcome_OUTCOME_UNKNOWN
	cancelled := succeeded("everything/get-sum", `{"a":2,"b":3}`, "")
	cancelled.Result = plannerv1.StepResult_STEP_RESULT_CANCELLED
	tc := &plannerv1.TaskContext{Goal: "echo x, then add 2 and 3, then read LICENSE", Tools: everywhere(t), History: []*plannerv1.HistoryEntry{failed, cancelled}}
	text := answer(t, tc, "the limit of 25 steps was reached")
	want := "The task ended early: the limit of 25 steps was reached\n\n" +
		"Do it (everything/echo): it is not known whether the call took effect. connection closed\n\n" +
		"Do it (everything/get-sum) was cancelled.\n\n" +
		"Not reached: \"read LICENSE\".\n\n" + signedEN
	if d := cmp.Diff(want, text); d != "" {
		t.Error(d)
	}
}

// A step that a person said to go on without stops nothing, and is told as what it is.
func TestSkippedStepIsNotFailed(t *testing.T) {
	skipped := succeeded("everything/get-sum", `{"a":2,"b":3}`, "")
	skipped.Result, skipped.Error, skipped.Outcome = plannerv1.StepResult_STEP_RESULT_SKIPPED, "I looked; it is not known whether the tool ran", commonv1.Outcome_OUTCOME_UNKNOWN
	tc := &plannerv1.TaskContext{Goal: "add 2 and 3, then echo x", Tools: everywhere(t), History: []*plannerv1.HistoryEntry{skipped}}
	if st := nextOf(t, tc); st.GetToolId() != "everything/echo" {
		t.Errorf("behind a skipped step comes %+v", st)
	}
	tc.History = append(tc.History, succeeded("everything/echo", `{"message":"x"}`, `{"message":"x"}`))
	if text := answer(t, tc, ""); !strings.Contains(text, "Do it (everything/get-sum) was skipped: I looked") {
		t.Errorf("the answer:\n%s", text)
	}
}

func TestAnswerShapes(t *testing.T) {
	long := strings.Repeat("a line of text\n", 1000)
	for _, tc := range []struct{ goal, tool, out, want string }{
		{"count the Go files", "workspace/search_files", `{"structured":{"files":["a"],"count":900,"truncated":true}}`, "There are 900 Go files.\n\n(Written"},
		{"count the Go files", "workspace/search_files", `{"structured":{"files":["a","b","c","d","e","f"],"truncated":true}}`, "How many Go files there are is not in the result of workspace/search_files:"},
		{"How many folders are there?", "workspace/list_directory", `{"structured":{"entries":[{"name":"a","type":"directory"},{"name":"b.md","type":"file"}]}}`, "There is 1 folder.\n\nentries: a (directory), b.md (file)."},
		{"Read a.txt", "workspace/read_file", `{"structured":{"path":"a.txt","content":` + quote(long) + `,"start_line":1}}`, "```\n\n(The first 4000 of 14999 characters are shown.)"},
		{"Read a.txt", "workspace/read_file", `{"structured":{"content":"` + "````\\n````" + `\n"}}`, "`````\n````\n````\n`````"},
		{"Read a.txt", "workspace/read_file", `{"message":"unstructured"}`, "unstructured"},
		{"get a tiny image", "everything/get-tiny-image", `{"message":"","media":[{"type":"image","mimeType":"image/png"}]}`, "[image]  image/png"},
		{"get a tiny image", "everything/get-tiny-image", `{"message":""}`, "Done."},
	} {
		ctx := &plannerv1.TaskContext{Goal: tc.goal, Tools: everywhere(t)}
		in := nextOf(t, ctx)
		ctx.History = []*plannerv1.HistoryEntry{succeeded(tc.tool, in.GetInputJson(), tc.out)}
		if got := answer(t, ctx, ""); !strings.Contains(got, tc.want) {
			t.Errorf("%q:\n%s\nlacks\n%s", tc.goal, got, tc.want)
		}
	}
}

// Folders are not counted as files. The types of other things say nothing of what they are.
func TestCount(t *testing.T) {
	for _, tc := range []struct {
		out, noun string
		want      int
	}{
		{`{"count":2,"entries":[{"name":"a","type":"directory"},{"name":"b.md","type":"file"}]}`, "file", 1},
		{`{"entries":[{"name":"a","type":"directory"}]}`, "file", 0},
		{`{"files":["a","b"]}`, "file", 2},
		{`{"issues":[{"type":"bug"},{"type":"task"}]}`, "issu", 2},
	} {
		if got, ok := count(result.Of(succeeded("t/list", "{}", `{"structured":`+tc.out+`}`)), tc.noun); !ok || got != tc.want {
			t.Errorf("%s: %+v %v, want %d", tc.out, got, ok, tc.want)
		}
	}
}

func quote(s string) string { return fmt.Sprintf("%q", s) }

// Pieces come paragraph by paragraph, and an error of the reader ends the answer.
func TestAnswerIsStreamed(t *testing.T) {
	tc := &plannerv1.TaskContext{Goal: "tell me a joke", Tools: everywhere(t)}
	var pieces []string
	stop := fmt.Errorf("enough")
	_, err := New().GenerateAnswer(t.Context(), &plannerv1.GenerateAnswerRequest{Context: tc}, func(p string) error {
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

// BenchmarkAmong500 is a decision among 500 tools.
func BenchmarkAmong500(b *testing.B) {
	all := everywhere(b)
	tc := &plannerv1.TaskContext{Goal: "which files mention \"ratchet\""}
	for i := range 500 {
		t := proto.CloneOf(all[i%len(all)])
		if i >= len(all) {
			t.Id, t.Name = fmt.Sprint(t.Id, i), fmt.Sprint(t.Name, "_", i)
		}
		tc.Tools = append(tc.Tools, t)
	}
	p := New()
	for b.Loop() {
		if _, err := p.PlanSteps(b.Context(), &plannerv1.PlanStepsRequest{Context: tc}, nil); err != nil {
			b.Fatal(err)
		}
	}
}
