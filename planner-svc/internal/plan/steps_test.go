package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/planner-svc/internal/llm"
)

// A3, A7, A8: one model call names the flow, chooses the step and its input, and assesses the risk.
func TestFirstStep(t *testing.T) {
	f := native(calls("fs__write", `{"pawl_why":"Save  it","pawl_risk":"LOW","pawl_task":{"name":"Copy a file","risk":"HIGH"},"path":"b.txt","content":"${HOME} 9007199254740993"}`))
	got := one(t, f, task())
	want := &plannerv1.PlanStepsResponse{
		Steps: []*plannerv1.PlannedStep{{ToolId: "fs/write", Description: "Save it", InputJson: `{"path":"b.txt","content":"${HOME} 9007199254740993"}`,
			Risk: &commonv1.Risk{Level: commonv1.RiskLevel_RISK_LEVEL_MEDIUM, Reason: "write may change something."}}},
		FlowName: "Copy a file", FlowRisk: &commonv1.Risk{Level: commonv1.RiskLevel_RISK_LEVEL_HIGH, Reason: "The model rates the whole task HIGH."},
		Usage: &commonv1.Usage{InputTokens: 100, OutputTokens: 10, ModelCalls: 1, CostNanoUsd: proto.Uint64(300_000)},
	}
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Error(d)
	}
	// A low risk has the reason of the first step; an answer calls no tool.
	for reason, reply := range map[string]replyFunc{"read only reads.": calls("fs__read", `{"path":"a.txt"}`), "No tool is called.": says("Hello.")} {
		if r := one(t, native(reply), task()).GetFlowRisk(); r.GetLevel() != commonv1.RiskLevel_RISK_LEVEL_LOW || r.GetReason() != reason {
			t.Errorf("%q: %v", reason, r)
		}
	}
}

// DESIGN 5: a task of N steps takes N + 1 model calls, the answer included, and each prompt is the beginning of the next.
func TestPromptsGrowAtTheEnd(t *testing.T) {
	const n = 10
	var replies []replyFunc
	for i := range n {
		replies = append(replies, calls("fs__read", fmt.Sprintf(`{"pawl_why":"Look","pawl_risk":"LOW","path":"%d"}`, i)))
	}
	f := native(append(replies, says("All read."))...)
	tc := task()
	for i := range n {
		res := one(t, f, tc)
		st := res.GetSteps()[0]
		tc.History = append(tc.History, done(i+1, st.GetToolId(), st.GetInputJson(), strings.Repeat("x", i*1000)))
	}
	res, pieces, err := planSteps(t, f, tc)
	if err != nil || res.GetSteps()[0].GetToolId() != Final || res.GetAnswer() != "All read." || strings.Join(pieces, "") != "All read." ||
		res.GetGoalResult() != plannerv1.GoalResult_GOAL_RESULT_FULFILLED {
		t.Errorf("%v %q %v", res, pieces, err)
	}
	if len(f.requests) != n+1 {
		t.Errorf("%d model calls", len(f.requests))
	}
	for i := 1; i < len(f.requests); i++ {
		before, now := f.requests[i-1], f.requests[i]
		if !strings.HasPrefix(show(now), show(before)) {
			t.Errorf("prompt %d does not begin with the one before", i)
		}
		if !slices.Contains(now.CacheHere, len(now.Messages)-1) || now.CacheKey != "t1" {
			t.Errorf("prompt %d is not marked for the provider's cache", i)
		}
	}
}

// A reply that failed in the middle may start again as long as nothing of it was shown; then only the new one is shown.
func TestRestartedReply(t *testing.T) {
	begins := func(text string, whole replyFunc) replyFunc {
		return func(r *llm.Request, emit func(llm.Delta) error) (*llm.Reply, error) {
			if err := emit(llm.Delta{Text: text}); err != nil {
				return nil, err
			}
			if !r.Restart() {
				return nil, errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, "cut off")
			}
			return whole(r, emit)
		}
	}
	res, pieces, err := planSteps(t, native(begins("It is d", says("It is done."))), task())
	if got := strings.Join(pieces, ""); err != nil || got != "It is done." || res.GetAnswer() != got {
		t.Errorf("%q, %v, %v", got, res, err)
	}
	if _, pieces, err = planSteps(t, native(begins(strings.Repeat("x", holdBack), says("no"))), task()); err == nil || len(pieces) != 1 {
		t.Errorf("%q, %v", pieces, err)
	}
}

// Text is shown as it comes once it is long enough to be an answer; a remark before a call is not shown.
func TestStreaming(t *testing.T) {
	long := strings.Repeat("word ", 60)
	for name, tc := range map[string]struct {
		reply  replyFunc
		pieces int // 0: nothing may be shown
		answer string
	}{
		"a long answer":  {says(long), 20, strings.TrimSpace(long)},
		"a short answer": {says("Yes, it is."), 1, "Yes, it is."},
		"spaces around":  {says("\n " + long + "\n\n"), 20, strings.TrimSpace(long)},
		"a remark":       {remarks("I read the file now.", "fs__read", `{"path":"a"}`), 0, ""},
		"finish":         {remarks(strings.TrimSpace(long)+"\n", "finish", `{"answer":"No."}`), 2, strings.TrimSpace(long) + "\n\nNo."},
		"cut off":        {cutOff(says("Once upon")), 1, "Once upon\n\n[The answer was cut off at the token limit.]"},
		"cut off, shown": {cutOff(says(long)), 20, strings.TrimSpace(long) + "\n\n[The answer was cut off at the token limit.]"},
	} {
		res, pieces, err := planSteps(t, native(tc.reply), task())
		if err != nil || res.GetAnswer() != tc.answer || len(pieces) < tc.pieces || tc.pieces == 0 && len(pieces) > 0 || strings.Join(pieces, "") != tc.answer ||
			strings.HasPrefix(name, "cut off") != (res.GetGoalResult() == plannerv1.GoalResult_GOAL_RESULT_NOT_FULFILLED && name != "finish") {
			t.Errorf("%s: %q, %d pieces %q, %v", name, res.GetAnswer(), len(pieces), pieces, err)
		}
	}
	// A remark that was shown before a wrong call is a part of the answer that follows.
	res, pieces, err := planSteps(t, native(remarks(long, "fs__nope", `{}`), says("Never mind.")), task())
	if want := strings.TrimSpace(long) + "\n\nNever mind."; err != nil || res.GetAnswer() != want || strings.Join(pieces, "") != want {
		t.Errorf("%q %q %v", res.GetAnswer(), pieces, err)
	}
	stop := errors.New("enough")
	_, err = planner(t, native(says(long))).PlanSteps(t.Context(), &plannerv1.PlanStepsRequest{Context: task()}, func(string) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("an error of the reader: %v", err)
	}
}

// Parallel calls become steps in their order. Later ones may refer to earlier outputs.
func TestParallelCalls(t *testing.T) {
	f := native(calls("fs__read", `{"path":"${step-1.message}"}`, "fs__write", `{"path":"b.txt","content":"${step-2.message}$${x}","pawl_why":"${y}"}`,
		"fs__read", `{"path":"b.txt"}`, "finish", `{"answer":"too early"}`))
	got := one(t, f, task(done(1, "fs/read", `{}`, "a.txt")))
	var steps []string
	for _, st := range got.GetSteps() {
		steps = append(steps, fmt.Sprint(st.GetToolId(), " ", st.GetInputJson(), " ", st.GetUnresolved(), " ", st.GetDescription()))
	}
	want := []string{`fs/read {"path":"a.txt"} false `, `fs/write {"path":"b.txt","content":"${step-2.message}$${x}"} true $${y}`, `fs/read {"path":"b.txt"} false `}
	if d := cmp.Diff(want, steps); d != "" || got.Answer != nil {
		t.Errorf("%s %v", d, got)
	}
}

// A18: wrong calls go back with the problem; the third wrong reply is an error with its reason, the last reply and the usage.
func TestCorrections(t *testing.T) {
	right := calls("fs__read", `{"path":"a.txt"}`)
	for name, tc := range map[string]struct {
		wrong replyFunc
		says  string
	}{
		"no JSON":           {calls("fs__read", `{"path":`), "not a JSON object"},
		"an array":          {calls("fs__read", `[1]`), "not a JSON object"},
		"a key twice":       {calls("fs__read", `{"path":"a","path":"b"}`), "not a JSON object"},
		"an unknown tool":   {calls("fs__raed", `{}`), `there is no tool "fs__raed"; the nearest are fs__read`},
		"a wrong type":      {calls("fs__read", `{"path":5}`), "must be a string, is a number"},
		"a wrong property":  {calls("fs__read", `{"path":"a","file":"b"}`), "file"},
		"a future step":     {calls("fs__read", `{"path":"${step-1.message}"}`), `there is no value named "step-1"`},
		"its own step":      {calls("fs__read", `{"path":"a"}`, "fs__read", `{"path":"${step-2.message}"}`), `there is no value named "step-2"`},
		"an empty reply":    {says(" "), "Your reply was empty"},
		"a bare finish":     {calls("finish", `{}`), "`answer` is missing"},
		"an output unknown": {calls("read_output", `{"step":"step-7","offset":0}`), `there is no finished step "step-7"`},
	} {
		f := native(tc.wrong, right)
		got, _, err := planSteps(t, f, task())
		if err != nil || len(got.GetSteps()) != 1 || got.GetSteps()[0].GetInputJson() != `{"path":"a.txt"}` || got.GetUsage().GetModelCalls() != 2 {
			t.Errorf("%s: %v %v", name, got, err)
			continue
		}
		if second := show(f.requests[1]); !strings.Contains(second, tc.says) || !strings.HasPrefix(second, show(f.requests[0])) {
			t.Errorf("%s: the second prompt lacks %q:\n%s", name, tc.says, second[len(show(f.requests[0])):])
		}
		f = native(tc.wrong, tc.wrong, tc.wrong, right)
		_, _, err = planSteps(t, f, task())
		e := errs.From(err)
		if e == nil || e.Reason != commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR || e.Code != codes.FailedPrecondition || len(f.requests) != 3 || e.Usage.GetModelCalls() != 3 ||
			!strings.Contains(e.Message, "in 3 tries") {
			t.Errorf("%s three times: %d requests, %v", name, len(f.requests), err)
		}
	}
}

// What the model cannot know it leaves out: a person is asked.
func TestMissingPropertyIsNoMistake(t *testing.T) {
	got := one(t, native(calls("fs__write", `{"path":"b.txt"}`)), task())
	if st := got.GetSteps()[0]; !slices.Equal(st.GetMissing(), []string{"content"}) {
		t.Error(st)
	}
}

// Issue 11: a task whose purpose failed does not end as done.
func TestFinish(t *testing.T) {
	res, pieces, err := planSteps(t, native(remarks("Sorry.", "finish", `{"answer":"There is no tool to copy."}`)), task())
	if err != nil || res.GetAnswer() != "There is no tool to copy." || strings.Join(pieces, "") != res.GetAnswer() ||
		res.GetGoalResult() != plannerv1.GoalResult_GOAL_RESULT_NOT_FULFILLED || res.GetSteps()[0].GetToolId() != Final {
		t.Errorf("%v %q %v", res, pieces, err)
	}
}

// A29: a model can raise a risk, never lower it.
func TestRiskIsNeverBelowTheFloor(t *testing.T) {
	for _, tc := range []struct{ tool, said, want string }{
		{"fs__read", "LOW", "LOW"}, {"fs__read", "HIGH", "HIGH"}, {"fs__write", "LOW", "MEDIUM"}, {"fs__write", "", "MEDIUM"}, {"fs__write", "none", "MEDIUM"},
		{Alias("fs.eu/delete file"), "LOW", "HIGH"},
	} {
		got := one(t, native(calls(tc.tool, `{"pawl_risk":"`+tc.said+`"}`)), task())
		if level := strings.TrimPrefix(got.GetSteps()[0].GetRisk().GetLevel().String(), "RISK_LEVEL_"); level != tc.want {
			t.Errorf("%s, said %s: %s, want %s", tc.tool, tc.said, level, tc.want)
		}
	}
}

// A property that a tool has itself stays in its input.
func TestExtrasOfToolsThatHaveThem(t *testing.T) {
	got := one(t, native(calls(Alias("fs.eu/delete file"), `{"pawl_why":"its own","pawl_risk":"HIGH","path":"a"}`)), task())
	if st := got.GetSteps()[0]; st.GetInputJson() != `{"pawl_why":"its own","path":"a"}` || st.GetToolId() != "fs.eu/delete file" {
		t.Error(st)
	}
}

// Output of a long result is cut, and the rest can be asked for.
func TestReadOutput(t *testing.T) {
	long := strings.Repeat("é", 20_000)
	tc := task(done(1, "fs/read", `{"path":"a"}`, long))
	f := native(calls("read_output", `{"step":"step-1","offset":16000,"pawl_why":"more"}`))
	got := one(t, f, tc)
	want := &plannerv1.PlannedStep{ToolId: "pawl/read_output", FromHistory: true, InputJson: `{"step":"step-1","offset":16000,"limit":15800}`, Description: "Read on in the output of step-1",
		Risk: &commonv1.Risk{Level: commonv1.RiskLevel_RISK_LEVEL_LOW, Reason: "It only reads what is known already."}}
	if d := cmp.Diff(want, got.GetSteps()[0], protocmp.Transform()); d != "" {
		t.Error(d)
	}
	if p := show(f.requests[0]); !strings.Contains(p, `[cut: 24000 of 40000 bytes are left; read_output {"step": "step-1", "offset": 16000} reads on]`) || len(p) > 30_000 {
		t.Error("the output is not cut")
	}
	// Afterwards it is a step like others.
	tc.History = append(tc.History, done(2, "pawl/read_output", got.GetSteps()[0].GetInputJson(), "the rest"))
	f = native(says("ok"))
	one(t, f, tc)
	if p := show(f.requests[0]); !strings.Contains(p, `call call_2 read_output {"pawl_why":"Because","step":"step-1","offset":16000,"limit":15800}`) {
		t.Error(p)
	}
}

// A skipped step is no success: it is shown as what it is.
func TestSkippedStepIsShownAsSkipped(t *testing.T) {
	skipped := done(1, "fs/write", `{"path":"b"}`, "")
	skipped.Result, skipped.OutputJson, skipped.Error = plannerv1.StepResult_STEP_RESULT_SKIPPED, "", "the connection was lost"
	skipped.Outcome = commonv1.Outcome_OUTCOME_UNKNOWN
	f := native(says("ok"))
	one(t, f, task(skipped))
	if p := show(f.requests[0]); strings.Contains(p, "step-1 succeeded") || !strings.Contains(p, "step-1 was skipped: it is not known whether the call took effect") || !strings.Contains(p, "the connection was lost") {
		t.Error(p)
	}
}

// Models without native tools plan in JSON, and those without schemas get the schema in the prompt.
func TestModelsWithoutTools(t *testing.T) {
	for _, schema := range []bool{true, false} {
		f := native(says("Sure!\n```json\n"+`{"calls":[{"tool":"fs__read","why":"Look","risk":"LOW","input":{"path":"a.txt"}}],"task":{"name":"Copy","risk":"LOW"}}`+"\n```"),
			says(`{"calls":[{"tool":"fs__nope","input":{}}]}`), says(`{"answer":"Cannot.","fulfilled":false}`))
		f.info.Tools, f.info.Schema = false, schema
		tc := task()
		first := one(t, f, tc)
		if st := first.GetSteps()[0]; st.GetToolId() != "fs/read" || st.GetDescription() != "Look" || first.GetFlowName() != "Copy" {
			t.Error(first)
		}
		tc.History = append(tc.History, done(1, "fs/read", `{"path":"a.txt"}`, "hello"))
		res, pieces, err := planSteps(t, f, tc)
		if err != nil || res.GetAnswer() != "Cannot." || res.GetGoalResult() != plannerv1.GoalResult_GOAL_RESULT_NOT_FULFILLED || len(pieces) != 1 {
			t.Errorf("%v %q %v", res, pieces, err)
		}
		if r := f.requests[0]; len(r.Tools) != 0 || (r.Output == nil) == schema || strings.Contains(r.System, "JSON Schema") == schema {
			t.Errorf("%v: %s", schema, show(r))
		}
		if !strings.HasPrefix(show(f.requests[1]), show(f.requests[0])) || !strings.Contains(show(f.requests[2]), "there is no tool") {
			t.Errorf("%v: the prompts do not grow at their end:\n%s", schema, show(f.requests[2]))
		}
	}
	// The schemas in the prompt lack the properties of native calls, and those of found tools come with the answer to find_tools.
	f := native(says(`{"calls":[{"tool":"find_tools","input":{"query":"translate text"}}]}`), says(`{"answer":"Done."}`))
	f.info.Tools = false
	one(t, f, many(500))
	if p := show(f.requests[1]); strings.Contains(p, "pawl_why") || strings.Contains(p, finish) || !strings.Contains(p, "lang__translate") || !strings.Contains(p, `"text":{"type":"string"`) {
		t.Error(p)
	}
}
