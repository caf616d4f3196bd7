package executor_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"

	"pawl.dev/executor-svc/internal/fake"
)

// refused checks that err has the reason and contains the words; what names the request.
func refused(t *testing.T, what string, err error, reason commonv1.ErrorReason, words ...string) {
	t.Helper()
	if errs.Reason(err) != reason {
		t.Errorf("%s: %v, want %s", what, err, reason)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %v does not say %q", what, err, w)
		}
	}
}

// withKeys starts the rig with API keys, and returns a function that creates a key and clients that use it.
func withKeys(t *testing.T, r *rig) func(sub string, role identity.Role) (executorv1.ExecutorServiceClient, executorv1.AgentServiceClient) {
	t.Helper()
	keys := openKeys(t)
	r.options.Auth = keys
	r.start()
	return func(sub string, role identity.Role) (executorv1.ExecutorServiceClient, executorv1.AgentServiceClient) {
		conn := r.dial(keys.Ephemeral(sub, []identity.Role{role}))
		return executorv1.NewExecutorServiceClient(conn), executorv1.NewAgentServiceClient(conn)
	}
}

func openKeys(t *testing.T) *identity.KeyFile {
	t.Helper()
	keys, err := identity.OpenKeyFile(filepath.Join(t.TempDir(), "keys.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// A supplied output must have the shape of a step's output; the error shows the shape.
func TestOutputOfAnotherShapeIsRefused(t *testing.T) {
	r, id, asked := lostWrite(t, "write")
	for output, problem := range map[string]string{
		`{"mesage":"x"}`:               "mesage",
		`{}`:                           `required property "message" is missing`,
		`{"message":1}`:                `"/message": must be a string`,
		`{"message":"x","media":{}}`:   `"/media": must be an array`,
		`{"message":"x","result":"y"}`: `unknown property "result"`,
	} {
		_, err := r.outcome(id, asked.GetId(), supply(output))
		refused(t, output, err, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, problem, `{"message": "text", "structured": …, "media": […]}`)
	}
	if _, err := r.outcome(id, asked.GetId(), supply(`{"message":"x","structured":{"n":1},"media":[]}`)); err != nil {
		t.Errorf("an output of the right shape: %v", err)
	}
}

// Models and servers that do not exist are refused when a task or an agent is created; models are not
// checked while the planner cannot be reached.
func TestUnknownModelsAndServers(t *testing.T) {
	r := newRig(t, fake.Script())
	ctx := t.Context()
	const invalid, noServer = commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_FOUND
	_, err := r.tasks.CreateTask(ctx, &executorv1.CreateTaskRequest{Goal: "go", Model: "ofline"})
	refused(t, "a task's model", err, invalid, `no model "ofline"`, "did you mean offline?")
	_, err = r.agents.CreateAgent(ctx, &executorv1.CreateAgentRequest{AgentId: "a", Agent: &executorv1.Agent{Model: "ofline"}})
	refused(t, "an agent's model", err, invalid, `no model "ofline"`, "did you mean offline?")
	_, err = r.agents.CreateAgent(ctx, &executorv1.CreateAgentRequest{AgentId: "a", Agent: &executorv1.Agent{McpIds: []string{"nosuch"}}})
	refused(t, "an agent's server", err, noServer, `no MCP server "nosuch"`, "pawl mcp list")
	if _, err := r.agents.CreateAgent(ctx, &executorv1.CreateAgentRequest{AgentId: "a", Agent: &executorv1.Agent{Model: "offline", McpIds: []string{"t"}}}); err != nil {
		t.Fatal(err)
	}
	_, err = r.agents.UpdateAgent(ctx, &executorv1.UpdateAgentRequest{
		Agent: &executorv1.Agent{Id: "a", Model: "other"}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"model"}},
	})
	refused(t, "an agent's new model", err, invalid, `no model "other"`)
	_, err = r.agents.UpdateAgent(ctx, &executorv1.UpdateAgentRequest{
		Agent: &executorv1.Agent{Id: "a"}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"modelx"}},
	})
	refused(t, "a mask with an unknown field", err, invalid, `"modelx", which is not a field of an agent`)
	r.planner.BeforeModels = func(context.Context) error { return status.Error(codes.Unavailable, "away") }
	if _, err := r.agents.CreateAgent(ctx, &executorv1.CreateAgentRequest{AgentId: "b", Agent: &executorv1.Agent{Model: "other"}}); err != nil {
		t.Errorf("while the planner is away: %v", err)
	}
}

// A budget of no time at all is refused.
func TestRunTimeOfZeroIsRefused(t *testing.T) {
	r := newRig(t, fake.Script())
	req := auto("go")
	req.Budget = &executorv1.Budget{MaxRunTime: durationpb.New(0)}
	_, err := r.tasks.CreateTask(t.Context(), req)
	refused(t, "0s", err, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "max_run_time")
}

// A29: only an operator may let an agent run without ever asking.
func TestNeverIsForOperators(t *testing.T) {
	r := &rig{t: t, dir: t.TempDir(), planner: fake.Script("write"), pool: fake.NewPool()}
	client := withKeys(t, r)
	_, user := client("ann", identity.RoleUser)
	_, operator := client("ann", identity.RoleOperator)
	never := &executorv1.Agent{Id: "a", Confirm: executorv1.Confirm_CONFIRM_NEVER}
	const denied = commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED
	_, err := user.CreateAgent(t.Context(), &executorv1.CreateAgentRequest{AgentId: "a", Agent: never})
	refused(t, "a user creates it", err, denied, "CONFIRM_BY_RISK")
	if _, err := user.CreateAgent(t.Context(), &executorv1.CreateAgentRequest{AgentId: "a", Agent: &executorv1.Agent{}}); err != nil {
		t.Fatal(err)
	}
	_, err = user.UpdateAgent(t.Context(), &executorv1.UpdateAgentRequest{Agent: never})
	refused(t, "a user updates it", err, denied, "CONFIRM_BY_RISK")
	if _, err := operator.UpdateAgent(t.Context(), &executorv1.UpdateAgentRequest{Agent: never}); err != nil {
		t.Errorf("an operator updates it: %v", err)
	}
}

// D9: a rejection without a reason is recorded as "Cancelled by user".
func TestRejectionWithoutAReason(t *testing.T) {
	r := newRig(t, fake.Script("write"))
	id := r.create(manual("change")).GetId()
	w := r.untilWait(id, approveWait)
	_, err := r.tasks.ResumeTask(t.Context(), &executorv1.ResumeTaskRequest{
		Id: id, WaitId: w.GetId(), Answer: &executorv1.ResumeTaskRequest_Reject{Reject: &executorv1.Reject{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range r.events(id) {
		switch {
		case e.GetStepCancel() != nil && e.GetStepCancel().GetReason() != "Cancelled by user":
			t.Errorf("the step: %q", e.GetStepCancel().GetReason())
		case e.GetFlowCancel() != nil && e.GetFlowCancel().GetReason() != "Cancelled by user":
			t.Errorf("the task: %q", e.GetFlowCancel().GetReason())
		}
	}
	if got := r.task(id).GetStatus(); got != executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED {
		t.Errorf("the task is %s", got)
	}
}

// The request window limits users with keys, not the local user of a server without keys (A28).
func TestLocalUserIsNotLimited(t *testing.T) {
	r := newRig(t, fake.Script())
	r.stop()
	r.cfg.MaxRequests, r.cfg.RequestWindow = 1, time.Hour
	r.start()
	for range 3 {
		r.create(auto("look"))
	}
}
