package planner_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/grpctest"
	"pawl.dev/services/identity"
	"pawl.dev/services/serve"

	"pawl.dev/planner-svc/planner"
)

func with(t testing.TB, cfg planner.Config) plannerv1.PlannerServiceClient {
	t.Helper()
	s, err := planner.New(t.Context(), cfg, planner.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	return plannerv1.NewPlannerServiceClient(grpctest.Serve(t, s.Register, serve.Options{}))
}

func plan(ctx context.Context, t testing.TB, c plannerv1.PlannerServiceClient, tc *plannerv1.TaskContext) *plannerv1.PlanStepsResponse {
	t.Helper()
	p, err := c.PlanSteps(ctx, &plannerv1.PlanStepsRequest{Context: tc})
	if err != nil {
		t.Fatal(err)
	}
	if p.GetContextName() == "" {
		t.Fatal("the context has no name")
	}
	return p
}

func isMissing(t testing.TB, what string, err error) {
	t.Helper()
	if e := errs.From(err); e == nil || e.Code != codes.FailedPrecondition || e.Reason != commonv1.ErrorReason_ERROR_REASON_CONTEXT_MISSING {
		t.Errorf("%s: %v", what, err)
	}
}

// calls are all that take a context; each returns the whole response.
func calls(ctx context.Context, t testing.TB, c plannerv1.PlannerServiceClient) map[string]func(tc *plannerv1.TaskContext) (proto.Message, error) {
	const tool, input = "ws/search_files", `{"path":"."}`
	return map[string]func(tc *plannerv1.TaskContext) (proto.Message, error){
		"GetFlowName": func(tc *plannerv1.TaskContext) (proto.Message, error) {
			return c.GetFlowName(ctx, &plannerv1.GetFlowNameRequest{Context: tc})
		},
		"AssessFlowRisk": func(tc *plannerv1.TaskContext) (proto.Message, error) {
			return c.AssessFlowRisk(ctx, &plannerv1.AssessFlowRiskRequest{Context: tc})
		},
		"PlanSteps": func(tc *plannerv1.TaskContext) (proto.Message, error) {
			return c.PlanSteps(ctx, &plannerv1.PlanStepsRequest{Context: tc, Begin: true})
		},
		"CreateNextStep": func(tc *plannerv1.TaskContext) (proto.Message, error) {
			return c.CreateNextStep(ctx, &plannerv1.CreateNextStepRequest{Context: tc})
		},
		"GetFirstInputParams": func(tc *plannerv1.TaskContext) (proto.Message, error) {
			return c.GetFirstInputParams(ctx, &plannerv1.GetFirstInputParamsRequest{Context: tc, ToolId: tool})
		},
		"FillParams": func(tc *plannerv1.TaskContext) (proto.Message, error) {
			return c.FillParams(ctx, &plannerv1.FillParamsRequest{Context: tc, ToolId: tool, InputJson: input, ContentJson: `{"pattern":"*"}`})
		},
		"AssessToolRisk": func(tc *plannerv1.TaskContext) (proto.Message, error) {
			return c.AssessToolRisk(ctx, &plannerv1.AssessToolRiskRequest{Context: tc, ToolId: tool, InputJson: input})
		},
		"IsParamError": func(tc *plannerv1.TaskContext) (proto.Message, error) {
			return c.IsParamError(ctx, &plannerv1.IsParamErrorRequest{Context: tc, ToolId: tool, InputJson: input, Error: "pattern is required"})
		},
		"DescribeError": func(tc *plannerv1.TaskContext) (proto.Message, error) {
			return c.DescribeError(ctx, &plannerv1.DescribeErrorRequest{Context: tc, ToolId: tool, InputJson: input, Error: "pattern is required"})
		},
		"GetMissingParams": func(tc *plannerv1.TaskContext) (proto.Message, error) {
			return c.GetMissingParams(ctx, &plannerv1.GetMissingParamsRequest{Context: tc, ToolId: tool, InputJson: input, Error: "pattern is required"})
		},
		"GenerateAnswer": func(tc *plannerv1.TaskContext) (proto.Message, error) {
			text, _, usage, err := answerAs(ctx, t, c, &plannerv1.GenerateAnswerRequest{Context: tc, CutShort: "enough"})
			return &plannerv1.GenerateAnswerResponse{Text: text, Usage: usage}, err
		},
	}
}

// Every call can go on from a context that was sent before, and answers what it answers to the whole one. Another user's, and
// one that is not there, are missing.
func TestContextsAreKept(t *testing.T) {
	keys, err := identity.OpenKeyFile(t.TempDir() + "/keys.yaml")
	if err != nil {
		t.Fatal(err)
	}
	token := keys.Ephemeral("executor", []identity.Role{identity.RoleService})
	c := plannerv1.NewPlannerServiceClient(grpctest.Server(t, service(t).Register, serve.Options{Auth: keys})(token))
	alice, bob := identity.OnBehalfOf(t.Context(), "alice"), identity.OnBehalfOf(t.Context(), "bob")

	begun, whole := task("How many Go files are there?"), task("How many Go files are there?")
	done := []*plannerv1.HistoryEntry{{ToolId: "ws/search_files", Result: plannerv1.StepResult_STEP_RESULT_SUCCESS, InputJson: `{"pattern":"**/*.go"}`,
		OutputJson: `{"message":"…","structured":{"pattern":"**/*.go","files":["a.go"],"count":1,"truncated":false}}`}}
	whole.History = done
	asBob := calls(bob, t, c)
	for rpc, call := range calls(alice, t, c) {
		name := plan(alice, t, c, begun).GetContextName()
		want, err := call(whole)
		if err != nil {
			t.Errorf("%s: %v", rpc, err)
			continue
		}
		got, err := call(&plannerv1.TaskContext{Base: name, History: done})
		if d := cmp.Diff(want, got, protocmp.Transform(), protocmp.IgnoreFields(&plannerv1.PlanStepsResponse{}, "context_name")); d != "" || err != nil {
			t.Errorf("%s: %v %s", rpc, err, d)
		}
		if rpc == "GenerateAnswer" { // the task's end
			_, err = call(&plannerv1.TaskContext{Base: name, History: done})
			isMissing(t, rpc+" once more", err)
			name = plan(alice, t, c, begun).GetContextName()
		}
		_, err = asBob[rpc](&plannerv1.TaskContext{Base: name})
		isMissing(t, rpc+" by another user", err)
		_, err = call(&plannerv1.TaskContext{Base: "nonsense"})
		isMissing(t, rpc+" on nothing", err)
	}
}

// Planners share nothing: what one keeps is missing at another, also after a restart.
func TestContextsOfTwoPlanners(t *testing.T) {
	one, two, tc := client(t), client(t), task("How many Go files are there?")
	name := plan(t.Context(), t, one, tc).GetContextName()
	_, err := two.PlanSteps(t.Context(), &plannerv1.PlanStepsRequest{Context: &plannerv1.TaskContext{Base: name}})
	isMissing(t, "at another planner", err)
	plan(t.Context(), t, two, &plannerv1.TaskContext{Base: plan(t.Context(), t, two, tc).GetContextName()})
}

func TestContextsAreBounded(t *testing.T) {
	few := with(t, planner.Config{KeptContexts: 1})
	name := plan(t.Context(), t, few, task("How many Go files are there?")).GetContextName()
	plan(t.Context(), t, few, &plannerv1.TaskContext{Base: name})
	plan(t.Context(), t, few, task("How many Python files are there?"))
	_, err := few.PlanSteps(t.Context(), &plannerv1.PlanStepsRequest{Context: &plannerv1.TaskContext{Base: name}})
	isMissing(t, "what was dropped", err)
	for _, cfg := range []planner.Config{{KeptContexts: -1}, {KeptContextBytes: 100}} {
		if p, err := with(t, cfg).PlanSteps(t.Context(), &plannerv1.PlanStepsRequest{Context: task("How many Go files are there?")}); err != nil || p.GetContextName() != "" {
			t.Errorf("%+v: %v %v", cfg, p, err)
		}
	}
}

// A playbook is planned in one request, and answered in another one that sends what was done alone. Tasks at once, with repeated
// requests, get each its own.
func TestAPlaybookInTwoRequests(t *testing.T) {
	c := client(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			begin, end := tenSteps(1, 0), tenSteps(1, 10)
			begin.TaskId = fmt.Sprint("task", i/2)
			begin.Goal = begin.GetTaskId()
			end.TaskId, end.Goal = begin.GetTaskId(), begin.GetGoal()
			p, err := c.PlanSteps(t.Context(), &plannerv1.PlanStepsRequest{Context: begin, Begin: true})
			if err != nil {
				t.Error(err)
				return
			}
			steps := p.GetSteps()
			if len(steps) != 11 || steps[10].GetToolId() != "FINAL" || steps[0].GetInputJson() != `{"text":"`+begin.GetGoal()+`","n":1}` || steps[0].GetUnresolved() ||
				steps[9].GetInputJson() != `{"text":"after ${step-9.message}","n":10}` || !steps[9].GetUnresolved() {
				t.Errorf("%v", steps)
			}
			if p.GetFlowName() != "Ten steps" || p.GetFlowRisk().GetLevel() != commonv1.RiskLevel_RISK_LEVEL_LOW || !proto.Equal(p.GetUsage(), &commonv1.Usage{}) {
				t.Errorf("A3: %q %v %v", p.GetFlowName(), p.GetFlowRisk(), p.GetUsage())
			}
			last := end.GetHistory()[9]
			last.OutputJson = `{"message":"` + begin.GetTaskId() + `"}`
			text, _, _, err := answer(t, c, &plannerv1.GenerateAnswerRequest{Context: &plannerv1.TaskContext{Base: p.GetContextName(), History: end.GetHistory()}})
			if err != nil { // the other request of this task was answered before
				isMissing(t, "the second answer", err)
				text, _, _, err = answer(t, c, &plannerv1.GenerateAnswerRequest{Context: end})
			}
			if err != nil || text != "The last step said: "+begin.GetTaskId() {
				t.Errorf("A22: %q %v", text, err)
			}
		})
	}
	all.Wait()
}
