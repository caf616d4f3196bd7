package reason

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/planner-svc/internal/model"
)

// several is a language model that is asked several things at once: its answers go by purpose.
type several struct {
	answers map[model.Purpose]string // where there is none, the call fails
	met     *sync.WaitGroup          // not nil: each call waits until all that are expected have come

	mu    sync.Mutex
	calls map[model.Purpose]int
}

func (s *several) Info() model.Info { return model.Info{Name: "several"} }

func (s *several) Generate(ctx context.Context, req *model.Request, emit func(string) error) (model.Usage, error) {
	s.mu.Lock()
	if s.calls == nil {
		s.calls = map[model.Purpose]int{}
	}
	s.calls[req.Purpose]++
	s.mu.Unlock()
	usage := model.Usage{InputTokens: 100, OutputTokens: 10, Calls: 1}
	if s.met != nil {
		s.met.Done()
		s.met.Wait()
	}
	answer, ok := s.answers[req.Purpose]
	switch {
	case !ok:
		return usage, errors.New("out of order")
	case answer == "wait":
		<-ctx.Done()
		return usage, ctx.Err()
	}
	return usage, emit(answer)
}

const goodName, goodRisk = `{"name":"Counting  files"}`, `{"level":"MEDIUM","reason":"It may change something."}`

// A3: the three are asked at once, and what they cost adds up.
func TestBegin(t *testing.T) {
	m := &several{answers: map[model.Purpose]string{model.PlanSteps: goodSteps, model.FlowName: goodName, model.FlowRisk: goodRisk}, met: &sync.WaitGroup{}}
	m.met.Add(3)
	b, err := reasoner(t, m).Begin(t.Context(), task())
	if err != nil || len(b.Steps) != 1 || b.Name != "Counting files" || b.Risk.GetLevel() != commonv1.RiskLevel_RISK_LEVEL_MEDIUM {
		t.Errorf("%+v %v", b, err)
	}
	if want := (model.Usage{InputTokens: 300, OutputTokens: 30, Calls: 3}); b != nil && b.Usage != want {
		t.Errorf("it cost %+v", b.Usage)
	}
}

// The plan counts by itself; without a plan, nothing is waited for.
func TestBeginNeedsThePlanAlone(t *testing.T) {
	m := &several{answers: map[model.Purpose]string{model.PlanSteps: goodSteps, model.FlowRisk: `{"level":"NONE","reason":"x"}`}}
	b, err := reasoner(t, m).Begin(t.Context(), task())
	if err != nil || len(b.Steps) != 1 || b.Name != "" || b.Risk.GetLevel() != commonv1.RiskLevel_RISK_LEVEL_UNSPECIFIED || b.Usage.Calls != 5 {
		t.Errorf("%+v %v", b, err)
	}
	m = &several{answers: map[model.Purpose]string{model.FlowName: "wait", model.FlowRisk: "wait"}}
	if _, err := reasoner(t, m).Begin(t.Context(), task()); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR || !strings.Contains(err.Error(), "out of order") {
		t.Error(err)
	}
	unknown := task()
	unknown.Model = "none"
	if _, err := reasoner(t, m).Begin(t.Context(), unknown); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST {
		t.Error(err)
	}
}

// Models that compute are asked the same.
func TestBeginOfComputingModels(t *testing.T) {
	for name, tc := range map[string]*plannerv1.TaskContext{
		"offline": {Model: "offline", Goal: "call ws/find with pattern=*.go", Tools: task().GetTools(), ModelCallsLeft: proto.Uint32(0)},
		"playbook": {Playbook: "name: call ws/find with pattern=*.go\nsteps: [{tool: ws/find, input: {pattern: \"*.go\"}}]", Tools: task().GetTools(),
			ModelCallsLeft: proto.Uint32(0)},
	} {
		r := reasoner(t, &scripted{})
		b, err := r.Begin(t.Context(), tc)
		if err != nil || b.Usage != (model.Usage{}) || b.Steps[0].GetInputJson() != `{"pattern":"*.go"}` || b.Name != "Call ws/find with pattern=*.go" ||
			b.Risk.GetLevel() != commonv1.RiskLevel_RISK_LEVEL_LOW {
			t.Errorf("%s: %+v %v", name, b, err)
			continue
		}
		flow, _, err := r.FlowName(t.Context(), tc)
		if flow != b.Name || err != nil {
			t.Errorf("%s: GetFlowName says %q, %v", name, flow, err)
		}
		risk, _, err := r.FlowRisk(t.Context(), tc)
		if !proto.Equal(risk, b.Risk) || err != nil {
			t.Errorf("%s: AssessFlowRisk says %v, %v", name, risk, err)
		}
	}
}

// A18: corrections end where the task may make no more model calls, and nothing is asked where it may make none.
func TestCallsLeft(t *testing.T) {
	for _, tc := range []struct {
		left  uint32
		calls int
		says  string // of the error; "": it succeeds
	}{
		{0, 0, "was not asked"}, {1, 1, "(try 1) was wrong"}, {2, 2, `no tool "ws/fnid"`}, {3, 3, ""},
	} {
		const wrong = `{"steps":[{"tool_id":"ws/fnid","description":""}]}`
		m := &scripted{answers: []string{wrong, wrong, goodSteps}}
		c := task()
		c.ModelCallsLeft = proto.Uint32(tc.left)
		_, usage, err := reasoner(t, m).PlanSteps(t.Context(), c)
		if len(m.requests) != tc.calls || int(usage.Calls) != tc.calls {
			t.Errorf("%d left: %d calls, %+v", tc.left, len(m.requests), usage)
		}
		if tc.says == "" {
			if err != nil {
				t.Errorf("%d left: %v", tc.left, err)
			}
			continue
		}
		if e := errs.From(err); e == nil || e.Code != codes.ResourceExhausted || e.Reason != commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED ||
			!strings.Contains(e.Message, tc.says) || int(e.Usage.GetModelCalls()) != map[int]int{1: 1, 2: 2}[tc.calls] || !strings.Contains(e.Message, "no more model calls") {
			t.Errorf("%d left: %v", tc.left, err)
		}
	}
	none := task()
	none.ModelCallsLeft = proto.Uint32(0)
	r, req := reasoner(t, &scripted{answers: []string{"text"}}), &plannerv1.GenerateAnswerRequest{Context: none}
	if _, err := r.Answer(t.Context(), req, func(string) error { return nil }); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED {
		t.Errorf("an answer: %v", err)
	}
	for name, call := range map[string]func() error{
		"NextStep": func() error { _, _, _, err := r.NextStep(t.Context(), none); return err },
		"ToolRisk": func() error { _, _, err := r.ToolRisk(t.Context(), none, "ws/find", "{}"); return err },
		"FlowName": func() error { _, _, err := r.FlowName(t.Context(), none); return err },
	} {
		if err := call(); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Where few calls are left at the beginning, the plan comes first, and its corrections before those of others.
func TestBeginSharesCalls(t *testing.T) {
	for left, want := range map[uint32]map[model.Purpose]int{
		0: nil, 1: {model.PlanSteps: 1}, 2: {model.PlanSteps: 1, model.FlowName: 1}, 3: {model.PlanSteps: 1, model.FlowName: 1, model.FlowRisk: 1},
		4: {model.PlanSteps: 2, model.FlowName: 1, model.FlowRisk: 1}, 9: {model.PlanSteps: 3, model.FlowName: 1, model.FlowRisk: 1},
	} {
		m := &several{answers: map[model.Purpose]string{model.PlanSteps: "wrong", model.FlowName: "wrong", model.FlowRisk: "wrong"}}
		plan, name, risk := shares(&left)
		r, tc := reasoner(t, m), task()
		r.planSteps(t.Context(), model.Facts{Context: tc, MostCalls: plan})
		r.flowName(t.Context(), model.Facts{Context: tc, MostCalls: name})
		r.flowRisk(t.Context(), model.Facts{Context: tc, MostCalls: risk})
		for _, p := range []model.Purpose{model.PlanSteps, model.FlowName, model.FlowRisk} {
			if m.calls[p] != want[p] {
				t.Errorf("%d left: %d calls for %s, want %d", left, m.calls[p], p, want[p])
			}
		}
	}
	m := &several{answers: map[model.Purpose]string{model.PlanSteps: goodSteps, model.FlowName: goodName, model.FlowRisk: goodRisk}}
	tc := task()
	tc.ModelCallsLeft = proto.Uint32(1)
	b, err := reasoner(t, m).Begin(t.Context(), tc)
	if err != nil || len(b.Steps) != 1 || b.Name != "" || b.Risk != nil || b.Usage.Calls != 1 {
		t.Errorf("one call is left: %+v %v", b, err)
	}
}
