package plan

import (
	"encoding/json"
	"strings"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/planner-svc/internal/llm"
)

// A7, A8, A10, A11, A15, A16 for a model.
func TestQuestionsAboutCalls(t *testing.T) {
	ctx := t.Context()
	ask := func(replies ...string) (*Model, *fakeModel) {
		f := native()
		for _, r := range replies {
			f.replies = append(f.replies, says(r))
		}
		return planner(t, f), f
	}
	m, f := ask(`{"input":{"path":1}}`, `{"input":{"path":"c"},"missing":["content","nonsense"]}`)
	first, err := m.GetFirstInputParams(ctx, &plannerv1.GetFirstInputParamsRequest{Context: task(), ToolId: "fs/write", Description: "Save it", FailedInputJson: `{"path":"b"}`, Error: "locked"})
	if err != nil || first.GetInputJson() != `{"path":"c"}` || strings.Join(first.GetMissing(), ",") != "content" || first.GetUsage().GetModelCalls() != 2 {
		t.Errorf("A7: %v %v", first, err)
	}
	if p := show(f.requests[1]); !strings.Contains(p, "must be a string, is a number") || !strings.Contains(p, "locked") || !strings.Contains(p, "Save it") {
		t.Error(p)
	}
	m, _ = ask(`{"input":{"path":"c","content":"x"}}`)
	fill, err := m.FillParams(ctx, &plannerv1.FillParamsRequest{Context: task(), ToolId: "fs/write", InputJson: `{"path":"b"}`, ContentJson: `{"path":"c"}`, Description: "to c"})
	if err != nil || fill.GetInputJson() != `{"path":"c","content":"x"}` {
		t.Errorf("A10: %v %v", fill, err)
	}
	m, _ = ask(`{"level":"LOW","reason":"harmless"}`)
	low, err := m.AssessToolRisk(ctx, &plannerv1.AssessToolRiskRequest{Context: task(), ToolId: "fs/write", InputJson: `{"path":"b"}`})
	if err != nil || low.GetRisk().GetLevel() != commonv1.RiskLevel_RISK_LEVEL_MEDIUM {
		t.Errorf("A29: %v %v", low, err)
	}
	m, _ = ask(`{"is_param_error":true}`)
	is, err := m.IsParamError(ctx, &plannerv1.IsParamErrorRequest{Context: task(), ToolId: "fs/write", Error: "no such file"})
	if err != nil || !is.GetIsParamError() {
		t.Errorf("A15: %v %v", is, err)
	}
	m, _ = ask(`{"message":"` + strings.Repeat("word ", 80) + `"}`)
	said, err := m.DescribeError(ctx, &plannerv1.DescribeErrorRequest{Context: task(), ToolId: "fs/write", InputJson: `{"path":"b","content":"x"}`, Error: "EACCES"})
	if err != nil || len(strings.Fields(said.GetMessage())) > 50 {
		t.Errorf("A16: %v %v", said, err)
	}
	m, f = ask(`{"properties":["nope"]}`, `{"properties":["path"]}`)
	form, err := m.GetMissingParams(ctx, &plannerv1.GetMissingParamsRequest{Context: task(), ToolId: "fs/write", InputJson: `{"path":"b","content":"x"}`, Error: "no such file"})
	if err != nil || form.GetSchemaJson() != `{"type":"object","properties":{"path":{"type":["string","null"]}},"required":[]}` || len(f.requests) != 2 {
		t.Errorf("A16: %v %v", form, err)
	}
}

// A10, A16: the schema says which required parameters are missing, so a model that gives no usable answers does not keep a person from
// being asked, nor the supplied values from being used.
func TestMissingParametersNeedNoModel(t *testing.T) {
	ctx, m := t.Context(), planner(t, native())
	const given, problem = `{"path":"b"}`, "required property is missing"
	said, err := m.DescribeError(ctx, &plannerv1.DescribeErrorRequest{Context: task(), ToolId: "fs/write", InputJson: given, Error: problem})
	if err != nil || !strings.Contains(said.GetMessage(), "content") {
		t.Errorf("%v %v", said, err)
	}
	form, err := m.GetMissingParams(ctx, &plannerv1.GetMissingParamsRequest{Context: task(), ToolId: "fs/write", InputJson: given, Error: problem})
	if err != nil || form.GetSchemaJson() != `{"type":"object","properties":{"content":{"type":["string","null"]}},"required":[]}` {
		t.Errorf("%v %v", form, err)
	}
	fill, err := m.FillParams(ctx, &plannerv1.FillParamsRequest{Context: task(), ToolId: "fs/write", InputJson: given, Error: problem, ContentJson: `{"content":"x"}`})
	if err != nil || fill.GetInputJson() != `{"path":"b","content":"x"}` {
		t.Errorf("%v %v", fill, err)
	}
}

// A18: a JSON answer that stays wrong is an error with the reason and the last answer, never {}.
func TestAnswerThatStaysWrong(t *testing.T) {
	f := native(says("I don't know"), says(`{"is_param_error":"yes"}`), says(`{}`), says(`{"is_param_error":true}`))
	_, err := planner(t, f).IsParamError(t.Context(), &plannerv1.IsParamErrorRequest{Context: task(), ToolId: "fs/write", Error: "x"})
	e := errs.From(err)
	if e == nil || len(f.requests) != 3 || !strings.Contains(e.Message, `required property "is_param_error" is missing`) || e.Metadata["last_reply"] != "{}" || e.Usage.GetModelCalls() != 3 {
		t.Errorf("%d requests: %v", len(f.requests), err)
	}
}

// D3, D4, B2, B8, B13.
func TestOtherQuestions(t *testing.T) {
	ctx := t.Context()
	var thought []string
	f := native(remarks("I look at it.", "fs__read", `{"path":"a"}`))
	res, err := planner(t, f).Think(ctx, &plannerv1.ThinkRequest{Context: task(), Subtask: "Read a", Observation: "nothing yet"}, func(s string) error {
		thought = append(thought, s)
		return nil
	})
	if err != nil || res.GetThought() != "I look at it." || strings.Join(thought, "") != res.GetThought() || res.GetSteps()[0].GetToolId() != "fs/read" {
		t.Errorf("D4: %v %q %v", res, thought, err)
	}
	if p := show(f.requests[0]); !strings.Contains(p, "Read a") || !strings.Contains(p, "nothing yet") {
		t.Error(p)
	}
	reflected, err := planner(t, native(says(`{"done":false,"summary":"s","next":""}`), says(`{"done":true,"summary":"s","next":"x"}`))).Reflect(ctx, &plannerv1.ReflectRequest{Context: task()})
	if err != nil || !reflected.GetDone() || reflected.GetNext() != "" || reflected.GetUsage().GetModelCalls() != 2 {
		t.Errorf("D3: %v %v", reflected, err)
	}
	decided, err := planner(t, native(says(`{"decision":"DELEGATE","reason":"r","delegate_to":"eve"}`), says(`{"decision":"DELEGATE","reason":"r","delegate_to":"bob","question":"?"}`))).
		Decide(ctx, &plannerv1.DecideRequest{Context: task(), Sender: "alice", Agents: []string{"bob"}})
	if err != nil || decided.GetDecision() != plannerv1.Decision_DECISION_DELEGATE || decided.GetDelegateTo() != "bob" || decided.GetQuestion() != "" {
		t.Errorf("B2: %v %v", decided, err)
	}
	for want, reply := range map[int]replyFunc{0: says("No tool is needed."), 2: calls("fs__read", `{"path":"a"}`, "fs__read", `{"path":"b"}`)} {
		selected, err := planner(t, native(reply)).SelectTools(ctx, &plannerv1.SelectToolsRequest{Context: task()})
		if err != nil || len(selected.GetSteps()) != want {
			t.Errorf("B8: %v %v", selected, err)
		}
	}
	f = native(says("steps and messages"))
	summary, err := planner(t, f).SummarizeMemory(ctx, &plannerv1.SummarizeMemoryRequest{Context: task(done(1, "fs/read", `{}`, "x")), Messages: []*plannerv1.ModelMessage{
		{Role: plannerv1.ModelRole_MODEL_ROLE_USER, Parts: []*plannerv1.ModelPart{{Part: &plannerv1.ModelPart_Text{Text: "hello there"}}}}}})
	if err != nil || summary.GetSummary() != "steps and messages" || !strings.Contains(show(f.requests[0]), "hello there") || !strings.Contains(show(f.requests[0]), "step-1 succeeded") {
		t.Errorf("B13: %v %v", summary, err)
	}
}

// An answer that is written early says so, and a model without tools writes it too.
func TestGenerateAnswer(t *testing.T) {
	for _, tools := range []bool{true, false} {
		f := native(says("Not finished."))
		f.info.Tools = tools
		text := ""
		res, err := planner(t, f).GenerateAnswer(t.Context(), &plannerv1.GenerateAnswerRequest{Context: task(done(1, "fs/read", `{"path":"a"}`, "x")), CutShort: "25 steps"}, func(s string) error {
			text += s
			return nil
		})
		if err != nil || text != "Not finished." || res.GetGoalResult() != plannerv1.GoalResult_GOAL_RESULT_NOT_FULFILLED || res.GetUsage().GetModelCalls() != 1 {
			t.Errorf("%v %q %v", res, text, err)
		}
		if r := f.requests[0]; r.ToolChoice != plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_NONE || !strings.Contains(show(r), "25 steps") || (len(r.Tools) > 0) != tools {
			t.Error(show(r))
		}
	}
}

// An answer that the limit of tokens cut off says so, and has not reached the goal.
func TestGenerateAnswerThatIsCutOff(t *testing.T) {
	tc, text := task(), ""
	tc.Language = commonv1.Language_LANGUAGE_ZH
	res, err := planner(t, native(cutOff(says("从前有")))).GenerateAnswer(t.Context(), &plannerv1.GenerateAnswerRequest{Context: tc}, func(s string) error {
		text += s
		return nil
	})
	if err != nil || text != "从前有\n\n［答案因达到 token 上限而被截断。］" || res.GetGoalResult() != plannerv1.GoalResult_GOAL_RESULT_NOT_FULFILLED {
		t.Errorf("%v %q %v", res, text, err)
	}
}

// Generate's structured output is validated by the caller's schema.
func TestStructured(t *testing.T) {
	f := native(says("no"), says(`Here: {"n": 5}`))
	emitted := ""
	emit := func(text string) error { emitted += text; return nil }
	reply, err := planner(t, f).Generate(t.Context(), &plannerv1.TaskContext{}, &llm.Request{Messages: []*plannerv1.ModelMessage{llm.UserText("five?")}},
		`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`, emit)
	if err != nil || reply.Text != `{"n": 5}` || emitted != reply.Text || reply.Usage.Requests != 2 {
		t.Errorf("%+v %v", reply, err)
	}
	if _, err := planner(t, f).Generate(t.Context(), &plannerv1.TaskContext{}, &llm.Request{}, `{"type":"no"}`, emit); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST {
		t.Error(err)
	}
}

func TestExtractJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1}`: `{"a":1}`, " \n{\"a\":1}\n": `{"a":1}`, "```json\n{\"a\":1}\n```": `{"a":1}`, "```\n{\"a\":1}```": `{"a":1}`, "```{\"a\":1}```": `{"a":1}`,
		"first ```{\"a\":0}``` then\n```json\n{\"a\":1}\n```\nend": `{"a":1}`, `Sure: {"a":{"b":[1,"}"]}} – done`: `{"a":{"b":[1,"}"]}}`,
		`{x} {"a":1} {"a":1,"b":2}`: `{"a":1,"b":2}`, "nothing": "nothing", `{"a":`: `{"a":`, "": "", "\uFEFF{}": "{}",
	} {
		if got := extractJSON(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzExtractJSON(f *testing.F) {
	for _, seed := range []string{`{"a":1}`, "```json\n{}\n```", `{{{"a":`, "x {\"a\":[1,2]} y", "``````"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := extractJSON(text)
		if json.Valid([]byte(got)) && strings.HasPrefix(got, "{") && !strings.Contains(text, got) {
			t.Errorf("%q is not in %q", got, text)
		}
	})
}
