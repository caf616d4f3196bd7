package reason

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/planner-svc/internal/model"
)

const goodSteps = `{"steps":[{"tool_id":"ws/find","description":"Find","input":{"pattern":"*.go"},"risk":{"level":"LOW","reason":"It only looks."}}]}`

// A18: a wrong answer is sent back with what is wrong, three tries in all.
func TestWrongAnswersAreSentBack(t *testing.T) {
	for name, wrong := range map[string]struct{ answer, problem string }{
		"no JSON":           {"I think we should look.", "not JSON"},
		"wrong shape":       {`{"steps":[]}`, "at least 1 item"},
		"unknown member":    {`{"steps":[{"tool_id":"ws/find","description":"","why":"x"}]}`, `"why"`},
		"unknown tool":      {`{"steps":[{"tool_id":"ws/fnid","description":""}]}`, `no tool "ws/fnid"; there are ws/find, ws/drop, FINAL`},
		"steps after FINAL": {`{"steps":[{"tool_id":"FINAL","description":""},{"tool_id":"ws/find","description":""}]}`, "no step can follow"},
		"input no object":   {`{"steps":[{"tool_id":"ws/find","description":"","input":[1]}]}`, "must be object"},
	} {
		m := &scripted{answers: []string{wrong.answer, wrong.answer, goodSteps}}
		steps, usage, err := reasoner(t, m).PlanSteps(t.Context(), task())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := []*plannerv1.PlannedStep{{ToolId: "ws/find", Description: "Find", InputJson: `{"pattern":"*.go"}`,
			Risk: &commonv1.Risk{Level: commonv1.RiskLevel_RISK_LEVEL_LOW, Reason: "It only looks."}}}
		if d := cmp.Diff(want, steps, protocmp.Transform()); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if d := cmp.Diff(model.Usage{InputTokens: 300, OutputTokens: 30, Calls: 3}, usage); d != "" {
			t.Errorf("%s: all tries cost: %s", name, d)
		}
		last := m.requests[2]
		if len(last.Corrections) != 2 || last.Corrections[1].Answer != wrong.answer || !strings.Contains(last.Corrections[1].Problem, wrong.problem) {
			t.Errorf("%s: the third try knows of %+v", name, last.Corrections)
		}
		p, err := last.Prompt()
		if err != nil || !strings.Contains(p.Messages[len(p.Messages)-1].Text, wrong.problem) {
			t.Errorf("%s: the prompt does not tell what is wrong: %v %v", name, p.Messages, err)
		}
	}
}

// A18: a generation that fails all tries is an error, never an empty answer.
func TestNeverEmpty(t *testing.T) {
	m := &scripted{answers: []string{"{}", "{}", "{}", goodSteps}}
	steps, usage, err := reasoner(t, m).PlanSteps(t.Context(), task())
	if steps != nil || errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR || !strings.Contains(err.Error(), "3 tries") {
		t.Errorf("got %v, %v", steps, err)
	}
	if usage.Calls != 3 || len(m.requests) != 3 {
		t.Errorf("%d calls, %d requests", usage.Calls, len(m.requests))
	}
}

func TestModelFailures(t *testing.T) {
	typed := errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED, "too much")
	for _, tc := range []struct {
		fail   error
		code   codes.Code
		reason commonv1.ErrorReason
	}{
		{errors.New("socket closed"), codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR},
		{typed, codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED},
	} {
		_, usage, err := reasoner(t, &scripted{fail: tc.fail}).FlowName(t.Context(), task())
		if e := errs.From(err); e.Code != tc.code || e.Reason != tc.reason || usage.Calls != 1 {
			t.Errorf("%v: %v %v, %d calls", tc.fail, e.Code, e.Reason, usage.Calls)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := reasoner(t, &scripted{fail: errors.New("stopped")}).FlowName(ctx, task()); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_CANCELLED {
		t.Errorf("cancelled: %v", err)
	}
}

func TestAnswersInCodeBlocks(t *testing.T) {
	for _, answer := range []string{"```json\n{\"name\":\"A  name\"}\n```", "```\n{\"name\":\"A name\"}```", "  {\"name\":\"A\\nname\"}\n"} {
		if name, _, err := reasoner(t, &scripted{answers: []string{answer}}).FlowName(t.Context(), task()); name != "A name" || err != nil {
			t.Errorf("%q: %q, %v", answer, name, err)
		}
	}
}

// A29: a model can raise a risk, never lower it.
func TestRiskIsNeverLowered(t *testing.T) {
	for _, tc := range []struct{ tool, said, want string }{
		{"ws/drop", "LOW", "RISK_LEVEL_HIGH"}, {"ws/find", "HIGH", "RISK_LEVEL_HIGH"}, {"ws/find", "LOW", "RISK_LEVEL_LOW"},
	} {
		m := &scripted{answers: []string{`{"level":"` + tc.said + `","reason":"because"}`}}
		risk, _, err := reasoner(t, m).ToolRisk(t.Context(), task(), tc.tool, `{}`)
		if err != nil || risk.GetLevel().String() != tc.want || risk.GetReason() == "" {
			t.Errorf("%s said %s: %v, %v", tc.tool, tc.said, risk, err)
		}
	}
	m := &scripted{answers: []string{`{"steps":[{"tool_id":"ws/drop","description":"Drop it"}]}`}}
	steps, _, err := reasoner(t, m).PlanSteps(t.Context(), task())
	if err != nil || steps[0].GetRisk().GetLevel() != commonv1.RiskLevel_RISK_LEVEL_HIGH || steps[0].GetInputJson() != "{}" {
		t.Errorf("a step without a risk: %v, %v", steps, err)
	}
}

// The required properties that an input lacks are named whatever the model said; numbers keep their digits.
func TestMissingAndExactness(t *testing.T) {
	m := &scripted{answers: []string{`{"input":{"depth":12345678901234567890},"missing":["depth","nonsense"]}`}}
	in, missing, _, err := reasoner(t, m).FirstInput(t.Context(), &plannerv1.GetFirstInputParamsRequest{Context: task(), ToolId: "ws/find"})
	if err != nil || in != `{"depth":12345678901234567890}` || !cmp.Equal(missing, []string{"pattern"}) {
		t.Errorf("%s %v %v", in, missing, err)
	}
}

// A16: at most 50 words, every field nullable, none required, whatever the model said.
func TestParamErrors(t *testing.T) {
	m := &scripted{answers: []string{
		`{"message":"` + strings.Repeat("word ", 70) + `"}`,
		`{"schema":{"type":"object","properties":{"nothing":{"type":"string"}}}}`,
		`{"schema":{"type":"object","properties":{"pattern":{"type":"string","title":"Pattern"}},"required":["pattern"]}}`,
		`{"is_param_error":true}`,
	}}
	r := reasoner(t, m)
	message, _, err := r.DescribeError(t.Context(), &plannerv1.DescribeErrorRequest{Context: task(), ToolId: "ws/find", Error: "no"})
	if n := len(strings.Fields(message)); err != nil || n != 50 {
		t.Errorf("%d words, %v", n, err)
	}
	form, _, err := r.MissingParams(t.Context(), &plannerv1.GetMissingParamsRequest{Context: task(), ToolId: "ws/find", Error: "no"})
	if want := `{"type":"object","properties":{"pattern":{"type":["string","null"],"title":"Pattern"}},"required":[]}`; err != nil || form != want {
		t.Errorf("%s, %v", form, err)
	}
	if problem := m.requests[2].Corrections[0].Problem; !strings.Contains(problem, `no property "nothing"`) {
		t.Errorf("a form for what the tool does not have: %s", problem)
	}
	if is, _, err := r.IsParamError(t.Context(), &plannerv1.IsParamErrorRequest{Context: task(), ToolId: "ws/find"}); !is || err != nil {
		t.Errorf("%v %v", is, err)
	}
}

func TestRequestsAreChecked(t *testing.T) {
	r := reasoner(t, &scripted{})
	for name, call := range map[string]func() error{
		"unknown tool":     func() error { _, _, err := r.ToolRisk(t.Context(), task(), "ws/none", "{}"); return err },
		"input no object":  func() error { _, _, err := r.ToolRisk(t.Context(), task(), "ws/find", "[]"); return err },
		"input no JSON":    func() error { _, _, err := r.ToolRisk(t.Context(), task(), "ws/find", "{"); return err },
		"duplicate member": func() error { _, _, err := r.ToolRisk(t.Context(), task(), "ws/find", `{"a":1,"a":2}`); return err },
		"content no JSON": func() error {
			_, _, err := r.FillParams(t.Context(), &plannerv1.FillParamsRequest{Context: task(), ToolId: "ws/find", ContentJson: "{"})
			return err
		},
	} {
		e := errs.From(call())
		if e == nil || e.Code != codes.InvalidArgument || e.Reason != commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST || len(e.Violations) != 1 {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestChoosingTheModel(t *testing.T) {
	r := reasoner(t, &scripted{})
	const book = "steps: [{tool: ws/find}]"
	for _, tc := range []struct{ model, playbook, want, says string }{
		{"", "", "scripted", ""},
		{"offline", "", "offline", ""},
		{"", book, "playbook", ""},
		{"playbook", book, "playbook", ""},
		{"playbook", "", "", "needs a playbook"},
		{"offline", book, "", "the task has a playbook"},
		{"gpt-0", "", "", "there is no model \"gpt-0\"; there are scripted, offline, playbook"},
	} {
		m, err := r.models.choose(&plannerv1.TaskContext{Model: tc.model, Playbook: tc.playbook})
		switch {
		case tc.want != "" && (err != nil || m.Info().Name != tc.want):
			t.Errorf("%+v: %v", tc, err)
		case tc.want == "" && (errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST || !strings.Contains(err.Error(), tc.says)):
			t.Errorf("%+v: %v", tc, err)
		}
	}
	if _, err := NewModels("none", &scripted{}); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_INVALID_CONFIG {
		t.Errorf("an unknown default: %v", err)
	}
}

// A22: the answer is streamed; what was sent is not asked for again.
func TestAnswer(t *testing.T) {
	m := &scripted{answers: []string{"half and half"}}
	var pieces []string
	usage, err := reasoner(t, m).Answer(t.Context(), &plannerv1.GenerateAnswerRequest{Context: task(), CutShort: "time is up"}, func(p string) error {
		pieces = append(pieces, p)
		return nil
	})
	if err != nil || strings.Join(pieces, "|") != "half a|nd half" || usage.Calls != 1 {
		t.Errorf("%q %v %v", pieces, usage, err)
	}
	if p, err := m.requests[0].Prompt(); err != nil || !strings.Contains(p.Messages[len(p.Messages)-1].Text, "time is up") || m.requests[0].Schema != "" {
		t.Errorf("the prompt: %v %v", p, err)
	}
	stop := errors.New("the reader has gone")
	if _, err := reasoner(t, &scripted{answers: []string{"text"}}).Answer(t.Context(), &plannerv1.GenerateAnswerRequest{Context: task()}, func(string) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	if _, err := reasoner(t, &scripted{}).Answer(t.Context(), &plannerv1.GenerateAnswerRequest{Context: task()}, func(string) error { return nil }); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR {
		t.Errorf("got %v", err)
	}
}

// A model that computes never renders a prompt, and costs nothing.
func TestComputingModelsCostNothing(t *testing.T) {
	tc := task()
	tc.Model, tc.Goal = "offline", "call ws/find with pattern=*.go"
	r := reasoner(t, &scripted{})
	steps, usage, err := r.PlanSteps(t.Context(), tc)
	if err != nil || usage != (model.Usage{}) || steps[0].GetToolId() != "ws/find" {
		t.Errorf("%v %v %v", steps, usage, err)
	}
}

func BenchmarkPlaybookStep(b *testing.B) {
	tc := task()
	tc.Playbook = "steps:\n- {tool: ws/find, input: {pattern: \"*.go\"}}\n- {tool: ws/find, input: {pattern: \"${step1.message}\"}}\n"
	tc.History = []*plannerv1.HistoryEntry{{ToolId: "ws/find", Result: plannerv1.StepResult_STEP_RESULT_SUCCESS, OutputJson: `{"message":"x"}`}}
	r := reasoner(b, &scripted{})
	for b.Loop() {
		if _, _, err := r.PlanSteps(b.Context(), tc); err != nil {
			b.Fatal(err)
		}
	}
}
