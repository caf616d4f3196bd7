package planner_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func service(t testing.TB) *planner.Service {
	t.Helper()
	s, err := planner.New(t.Context(), planner.Config{}, planner.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func client(t testing.TB) plannerv1.PlannerServiceClient {
	t.Helper()
	return plannerv1.NewPlannerServiceClient(grpctest.Serve(t, service(t).Register, serve.Options{MaxRecvBytes: planner.MaxRequestBytes}))
}

func task(goal string) *plannerv1.TaskContext {
	return &plannerv1.TaskContext{TaskId: "t", Goal: goal, Tools: []*commonv1.Tool{
		{Id: "ws/search_files", McpId: "ws", Name: "search_files", Title: "Find files", Effect: commonv1.Effect_EFFECT_READ,
			InputSchemaJson: `{"type":"object","properties":{"pattern":{"type":"string","description":"A glob"},"path":{"type":"string","default":"."}},"required":["pattern"],"additionalProperties":false}`},
		{Id: "ws/write_file", McpId: "ws", Name: "write_file", Effect: commonv1.Effect_EFFECT_WRITE,
			InputSchemaJson: `{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"]}`},
	}}
}

func answer(t testing.TB, c plannerv1.PlannerServiceClient, req *plannerv1.GenerateAnswerRequest) (text string, pieces int, usage *commonv1.Usage, err error) {
	t.Helper()
	return answerAs(t.Context(), t, c, req)
}

func answerAs(ctx context.Context, t testing.TB, c plannerv1.PlannerServiceClient, req *plannerv1.GenerateAnswerRequest) (text string, pieces int, usage *commonv1.Usage, err error) {
	t.Helper()
	stream, err := c.GenerateAnswer(ctx, req)
	if err != nil {
		return "", 0, nil, err
	}
	var b strings.Builder
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return b.String(), pieces, usage, nil
		}
		if err != nil {
			return b.String(), pieces, usage, err
		}
		if usage != nil {
			t.Error("the usage came before the last piece")
		}
		b.WriteString(piece.GetText())
		usage = piece.GetUsage()
		pieces++
	}
}

// The whole way of a task, as an executor asks for it.
func TestATask(t *testing.T) {
	c, tc := client(t), task("How many Go files are there?")
	name, err := c.GetFlowName(t.Context(), &plannerv1.GetFlowNameRequest{Context: tc})
	if err != nil || name.GetName() != "How many Go files are there" || name.GetUsage() == nil {
		t.Errorf("A3: %v %v", name, err)
	}
	risk, err := c.AssessFlowRisk(t.Context(), &plannerv1.AssessFlowRiskRequest{Context: tc})
	if err != nil || risk.GetRisk().GetLevel() != commonv1.RiskLevel_RISK_LEVEL_LOW {
		t.Errorf("A3: %v %v", risk, err)
	}
	plan, err := c.PlanSteps(t.Context(), &plannerv1.PlanStepsRequest{Context: tc})
	want := &plannerv1.PlanStepsResponse{Usage: &commonv1.Usage{}, Steps: []*plannerv1.PlannedStep{{ToolId: "ws/search_files", Description: "How many Go files are there",
		InputJson: `{"pattern":"**/*.go"}`, Risk: &commonv1.Risk{Level: commonv1.RiskLevel_RISK_LEVEL_LOW, Reason: "search_files only reads."}}}}
	if d := cmp.Diff(want, plan, protocmp.Transform(), protocmp.IgnoreFields(plan, "context_name")); d != "" || err != nil || plan.GetContextName() == "" {
		t.Errorf("A7: %v %s", err, d)
	}
	next, err := c.CreateNextStep(t.Context(), &plannerv1.CreateNextStepRequest{Context: tc})
	if err != nil || next.GetToolId() != "ws/search_files" || next.GetDescription() != "How many Go files are there" {
		t.Errorf("A21: %v %v", next, err)
	}
	tc.History = []*plannerv1.HistoryEntry{{ToolId: "ws/search_files", Result: plannerv1.StepResult_STEP_RESULT_SUCCESS, InputJson: `{"pattern":"**/*.go"}`,
		OutputJson: `{"message":"…","structured":{"pattern":"**/*.go","files":["a.go"],"count":1,"truncated":false}}`}}
	plan, err = c.PlanSteps(t.Context(), &plannerv1.PlanStepsRequest{Context: tc})
	if err != nil || len(plan.GetSteps()) != 1 || plan.GetSteps()[0].GetToolId() != "FINAL" || plan.GetSteps()[0].GetRisk() != nil {
		t.Errorf("A21: %v %v", plan, err)
	}
	text, pieces, usage, err := answer(t, c, &plannerv1.GenerateAnswerRequest{Context: tc})
	if err != nil || !strings.HasPrefix(text, "There is 1 Go file.") || pieces < 2 || !proto.Equal(usage, &commonv1.Usage{}) {
		t.Errorf("A22: %d pieces, %v, %v:\n%s", pieces, usage, err, text)
	}
}

// What goes wrong with a step's input, as an executor asks about it.
func TestInputs(t *testing.T) {
	c, tc := client(t), task("write \"hi\" to a.txt")
	first, err := c.GetFirstInputParams(t.Context(), &plannerv1.GetFirstInputParamsRequest{Context: tc, ToolId: "ws/write_file"})
	if err != nil || first.GetInputJson() != `{"path":"a.txt","content":"hi"}` || len(first.GetMissing()) != 0 {
		t.Errorf("A7: %v %v", first, err)
	}
	first, err = c.GetFirstInputParams(t.Context(), &plannerv1.GetFirstInputParamsRequest{Context: task("x"), ToolId: "ws/write_file"})
	if err != nil || !cmp.Equal(first.GetMissing(), []string{"path", "content"}) {
		t.Errorf("A7, missing: %v %v", first, err)
	}
	first, err = c.GetFirstInputParams(t.Context(), &plannerv1.GetFirstInputParamsRequest{Context: tc, ToolId: "ws/search_files",
		FailedInputJson: `{"pattern":"*.go","depth":1}`, Error: `has unknown property "depth"`})
	if err != nil || first.GetInputJson() != `{"pattern":"*.go"}` {
		t.Errorf("A11: %v %v", first, err)
	}
	risk, err := c.AssessToolRisk(t.Context(), &plannerv1.AssessToolRiskRequest{Context: tc, ToolId: "ws/write_file", InputJson: `{"path":"a","content":""}`})
	if err != nil || risk.GetRisk().GetLevel() != commonv1.RiskLevel_RISK_LEVEL_MEDIUM || risk.GetRisk().GetReason() == "" {
		t.Errorf("A8: %v %v", risk, err)
	}
	is, err := c.IsParamError(t.Context(), &plannerv1.IsParamErrorRequest{Context: tc, ToolId: "ws/write_file", InputJson: `{}`, Error: "path is required"})
	if err != nil || !is.GetIsParamError() {
		t.Errorf("A15: %v %v", is, err)
	}
	described, err := c.DescribeError(t.Context(), &plannerv1.DescribeErrorRequest{Context: tc, ToolId: "ws/write_file", InputJson: `{}`, Error: "path is required"})
	if err != nil || described.GetMessage() != "write_file needs values for: path, content." {
		t.Errorf("A16: %v %v", described, err)
	}
	missing, err := c.GetMissingParams(t.Context(), &plannerv1.GetMissingParamsRequest{Context: tc, ToolId: "ws/write_file", InputJson: `{"path":"a"}`, Error: "content is required"})
	if want := `{"type":"object","properties":{"content":{"type":["string","null"]}},"required":[]}`; err != nil || missing.GetSchemaJson() != want {
		t.Errorf("A16: %v %v", missing, err)
	}
	filled, err := c.FillParams(t.Context(), &plannerv1.FillParamsRequest{Context: tc, ToolId: "ws/write_file", InputJson: `{"path":"a"}`, ContentJson: `{"content":"c","path":null}`})
	if err != nil || filled.GetInputJson() != `{"path":"a","content":"c"}` {
		t.Errorf("A10: %v %v", filled, err)
	}
}

// Tools are ranked by a text without a model. The limit counts, and words that no tool has match none.
func TestRankTools(t *testing.T) {
	c := client(t)
	tools := task("").GetTools()
	for range 20 {
		tools = append(tools, &commonv1.Tool{Id: fmt.Sprintf("many/file_%d", len(tools)), Name: fmt.Sprintf("file_%d", len(tools))})
	}
	for _, tt := range []struct {
		query string
		limit uint32
		first string // prefix of the first id
		n     int
	}{
		{"find all Markdown files", 1, "ws/search_files", 1}, {"write the content of a file", 0, "ws/write_file", 8}, {"写文件", 2, "ws/write_file", 2}, {"file", 100, "many/", 22}, {"the weather", 0, "", 0},
	} {
		got, err := c.RankTools(t.Context(), &plannerv1.RankToolsRequest{Tools: tools, Query: tt.query, Limit: tt.limit})
		if err != nil || len(got.GetToolIds()) != tt.n || tt.n > 0 && !strings.HasPrefix(got.GetToolIds()[0], tt.first) {
			t.Errorf("%q, at most %d: %v, %v", tt.query, tt.limit, got, err)
		}
	}
	for _, req := range []*plannerv1.RankToolsRequest{{}, {Query: "file", Limit: 1001}} {
		if _, err := c.RankTools(t.Context(), req); errs.From(err).Code != codes.InvalidArgument {
			t.Errorf("%v: %v", req, err)
		}
	}
}

func TestPlaybooks(t *testing.T) {
	c := client(t)
	checked, err := c.CheckPlaybook(t.Context(), &plannerv1.CheckPlaybookRequest{Playbook: "name: N\ngoal: G\nsteps:\n- {tool: ws/search_files}\n- {tool: ws/search_files}\n"})
	if d := cmp.Diff(&plannerv1.CheckPlaybookResponse{Name: "N", StepCount: 2, ToolIds: []string{"ws/search_files"}, Goal: "G"}, checked, protocmp.Transform()); d != "" || err != nil {
		t.Errorf("%v %s", err, d)
	}
	_, err = c.CheckPlaybook(t.Context(), &plannerv1.CheckPlaybookRequest{Playbook: "steps:\n- {tool: ws/x, input: {a: \"${later.b}\"}}\n"})
	if e := errs.From(err); e == nil || e.Code != codes.InvalidArgument || e.Reason != commonv1.ErrorReason_ERROR_REASON_INVALID_PLAYBOOK ||
		!strings.Contains(e.Message, "line 2") || e.Metadata["line"] != "2" || len(e.Violations) != 1 {
		t.Errorf("%+v", e)
	}
	tc := task("")
	tc.Playbook = "steps:\n- {id: s, tool: ws/search_files, input: {pattern: \"*\"}}\n- {tool: ws/write_file, input: {path: \"${s.structured.files.3}\", content: x}}\n"
	plan, err := c.PlanSteps(t.Context(), &plannerv1.PlanStepsRequest{Context: tc})
	if err != nil || plan.GetSteps()[0].GetInputJson() != `{"pattern":"*"}` {
		t.Errorf("%v %v", plan, err)
	}
	tc.History = []*plannerv1.HistoryEntry{{ToolId: "ws/search_files", Result: plannerv1.StepResult_STEP_RESULT_SUCCESS, OutputJson: `{"structured":{"files":["a"]}}`}}
	_, err = c.PlanSteps(t.Context(), &plannerv1.PlanStepsRequest{Context: tc})
	if e := errs.From(err); e == nil || e.Code != codes.FailedPrecondition || e.Reason != commonv1.ErrorReason_ERROR_REASON_INVALID_PLAYBOOK || !strings.Contains(e.Message, "step 2") {
		t.Errorf("%+v", e)
	}
}

// D1: without a language model, only a goal that takes one tool after the other has a plan, and a playbook has none.
func TestPlansWithoutAModel(t *testing.T) {
	c := client(t)
	planned, err := c.CreatePlan(t.Context(), &plannerv1.CreatePlanRequest{Context: task("How many Go files are there?")})
	if err != nil || len(planned.GetSubtasks()) != 1 {
		t.Errorf("%v %v", planned, err)
	}
	refused := task("")
	refused.Playbook = "steps:\n- {tool: ws/search_files}\n"
	for want, tc := range map[string]*plannerv1.TaskContext{"`pawl models` lists them": task("Make the tests pass"), "run it with the flow `agent`": refused} {
		if _, err := c.CreatePlan(t.Context(), &plannerv1.CreatePlanRequest{Context: tc}); errs.From(err).Code != codes.FailedPrecondition || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", tc.GetGoal(), err)
		}
	}
	branches := task("")
	branches.Playbook = "steps:\n- parallel:\n  - steps: [{tool: ws/search_files, input: {pattern: x}}]\n  - steps: [{tool: ws/search_files}]\n"
	if _, err := c.CreateNextStep(t.Context(), &plannerv1.CreateNextStepRequest{Context: branches}); !strings.Contains(fmt.Sprint(err), "runs the branches p1.1, p1.2") {
		t.Error(err)
	}
	branches.Branch = "p1.1"
	if next, err := c.CreateNextStep(t.Context(), &plannerv1.CreateNextStepRequest{Context: branches}); err != nil || next.GetToolId() != "ws/search_files" {
		t.Errorf("%v %v", next, err)
	}
}

func TestModels(t *testing.T) {
	c := client(t)
	models, err := c.ListModels(t.Context(), &plannerv1.ListModelsRequest{})
	if err != nil || len(models.GetModels()) != 2 {
		t.Fatalf("%v %v", models, err)
	}
	if first := models.GetModels()[0]; first.GetName() != "offline" || !first.GetIsDefault() || models.GetModels()[1].GetIsDefault() || first.GetDescription() == "" {
		t.Errorf("%v", models)
	}
	tc := task("x")
	tc.Model = "gpt-0"
	_, err = c.PlanSteps(t.Context(), &plannerv1.PlanStepsRequest{Context: tc})
	if e := errs.From(err); e == nil || e.Code != codes.InvalidArgument || !strings.Contains(e.Message, "offline, playbook") {
		t.Errorf("%+v", e)
	}
	for _, name := range []string{"none", "playbook"} {
		if _, err := planner.New(t.Context(), planner.Config{DefaultModel: name}, planner.Deps{}); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_INVALID_CONFIG {
			t.Errorf("the default %s: %v", name, err)
		}
	}
}

func TestBadRequests(t *testing.T) {
	c := client(t)
	_, err := c.PlanSteps(t.Context(), &plannerv1.PlanStepsRequest{})
	if e := errs.From(err); e == nil || e.Code != codes.InvalidArgument || e.Reason != commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST {
		t.Errorf("no context: %+v", e)
	}
	_, err = c.AssessToolRisk(t.Context(), &plannerv1.AssessToolRiskRequest{Context: task("x"), ToolId: "ws/none"})
	if e := errs.From(err); e == nil || e.Code != codes.InvalidArgument || !strings.Contains(e.Message, `"ws/none"`) {
		t.Errorf("unknown tool: %+v", e)
	}
	if _, _, _, err := answer(t, c, &plannerv1.GenerateAnswerRequest{Context: &plannerv1.TaskContext{Model: "none"}}); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST {
		t.Errorf("an answer by no model: %v", err)
	}
}

// Each call needs a principal.
func TestAuthentication(t *testing.T) {
	keys, err := identity.OpenKeyFile(t.TempDir() + "/keys.yaml")
	if err != nil {
		t.Fatal(err)
	}
	token := keys.Ephemeral("executor", []identity.Role{identity.RoleService})
	dial := grpctest.Server(t, service(t).Register, serve.Options{Auth: keys})
	_, err = plannerv1.NewPlannerServiceClient(dial("")).ListModels(t.Context(), &plannerv1.ListModelsRequest{})
	if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED {
		t.Errorf("without a key: %v", err)
	}
	ctx := identity.OnBehalfOf(t.Context(), "alice")
	if _, err := plannerv1.NewPlannerServiceClient(dial(token)).ListModels(ctx, &plannerv1.ListModelsRequest{}); err != nil {
		t.Errorf("a service for a user: %v", err)
	}
}

// A task's history may be larger than what other services take in one message.
func TestLargeHistory(t *testing.T) {
	tc := task("How many Go files are there?")
	big := `{"message":"` + strings.Repeat("x", 3<<20) + `"}`
	for range 3 {
		tc.History = append(tc.History, &plannerv1.HistoryEntry{ToolId: "ws/write_file", Result: plannerv1.StepResult_STEP_RESULT_SUCCESS, OutputJson: big})
	}
	if _, err := client(t).PlanSteps(t.Context(), &plannerv1.PlanStepsRequest{Context: tc}); err != nil {
		t.Error(err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := service(t).Run(ctx); err != nil {
		t.Error(err)
	}
}
