package pipeline

import (
	"context"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
)

// execute runs ToolExecution on calls.
func execute(t *testing.T, x *Exchange, call func(context.Context, *mcppoolv1.CallToolRequest) *replies[mcppoolv1.CallToolResponse]) *tasks {
	t.Helper()
	created := &tasks{}
	if err := (&ToolExecution{Pool: &pool{call: call}, Tasks: created, Route: here}).Process(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	return created
}

// C8: the calls of a round run at the same time, and each ends, whatever happens to the others.
func TestToolExecution(t *testing.T) {
	x := exchange()
	x.Request.Limits = &pipelinev1.CompletionLimits{MaxTokens: 100}
	for _, path := range []string{"a", "broken", "refused", "unknown", "asks", "ends", "b"} {
		x.Calls = append(x.Calls, modelCall(path, "fs__read", `{"path":"`+path+`"}`))
	}
	x.Calls = append(x.Calls, modelCall("8", "fs__read", `{"lines":1}`), modelCall("9", "fs__read", `{"path"`), modelCall("10", "nothing", `{}`), modelCall("11", "fs__write", `{}`))
	var begun sync.WaitGroup // of the calls that reach the pool: none ends before all have begun
	begun.Add(7)
	execute(t, x, func(_ context.Context, req *mcppoolv1.CallToolRequest) *replies[mcppoolv1.CallToolResponse] {
		begun.Done()
		begun.Wait()
		if req.GetMcpId() != "fs" || req.GetName() != "read" || req.GetSessionId() != "s" || req.GetModelBudget().GetTokens() != 100/11 {
			t.Error(req)
		}
		failing := func(code codes.Code, reason commonv1.ErrorReason) *replies[mcppoolv1.CallToolResponse] {
			return &replies[mcppoolv1.CallToolResponse]{err: errs.New(code, reason, "why")}
		}
		switch path := strings.Split(req.GetInputJson(), `"`)[3]; path {
		case "broken":
			return returned("it broke", true)
		case "refused":
			return failing(codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED)
		case "unknown":
			return failing(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR)
		case "asks":
			return &replies[mcppoolv1.CallToolResponse]{messages: []*mcppoolv1.CallToolResponse{
				{Event: &mcppoolv1.CallToolResponse_Progress{Progress: &mcppoolv1.CallProgress{}}},
				{Event: &mcppoolv1.CallToolResponse_InputRequired{InputRequired: &mcppoolv1.CallInputRequired{Message: "Where to?"}}},
			}}
		case "ends":
			return &replies[mcppoolv1.CallToolResponse]{}
		default:
			r := returned("text of "+path, false)
			r.messages[0].GetResult().ModelUsage = &commonv1.Usage{ModelCalls: 1, InputTokens: 5}
			return r
		}
	})
	const known, notExecuted, unknown = commonv1.Outcome_OUTCOME_KNOWN, commonv1.Outcome_OUTCOME_NOT_EXECUTED, commonv1.Outcome_OUTCOME_UNKNOWN
	for i, want := range []struct {
		result, problem string
		outcome         commonv1.Outcome
	}{
		{"text of a", "", known},
		{"", "it broke", known},
		{"", "why", notExecuted},
		{"", "why", unknown},
		{"", "Where to?", unknown},
		{"", "EOF", unknown},
		{"text of b", "", known},
		{"", "path", notExecuted},
		{"", "JSON", notExecuted},
		{"", `there is no tool "nothing"`, notExecuted},
		{"", "fs/write needs a person's approval", notExecuted},
	} {
		r := x.Results[i]
		if r.GetId() != x.Calls[i].GetId() || r.GetResult() != want.result || (r.GetError() != nil) != (want.problem != "") ||
			!strings.Contains(r.GetError().GetErrMsg(), want.problem) || r.GetOutcome() != want.outcome || r.GetRound() != 1 || r.GetDuration() == nil {
			t.Errorf("call %d: %v, want %v", i, r, want)
		}
	}
	if u := x.Response.GetUsage(); u.GetToolCalls() != 6 || u.GetInputTokens() != 10 || x.ToolCalls != 7 || len(x.Response.GetToolCalls()) != 11 {
		t.Errorf("usage %v, %d calls", u, x.ToolCalls)
	}
	if _, events := drained(x.Out); len(events) != 22 {
		t.Errorf("%d events", len(events))
	}
}

func TestToolExecutionLimit(t *testing.T) {
	x := exchange()
	x.ToolCalls, x.Calls = 49, []*plannerv1.ModelToolCall{modelCall("1", "fs__read", `{"path":"a"}`), modelCall("2", "fs__read", `{"path":"b"}`)}
	execute(t, x, func(context.Context, *mcppoolv1.CallToolRequest) *replies[mcppoolv1.CallToolResponse] {
		return returned("text", false)
	})
	if x.Results[0].GetError() != nil || x.Results[1].GetError().GetReason() != commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED {
		t.Error(x.Results)
	}
}

// A reply that calls tools of the client too calls no tools of servers.
func TestToolExecutionLeavesClientCalls(t *testing.T) {
	x := exchange()
	x.Request.Tools = []*plannerv1.ModelTool{{Name: "weather"}}
	x.Calls = []*plannerv1.ModelToolCall{modelCall("1", "fs__read", `{"path":"a"}`), modelCall("2", "weather", `{}`)}
	execute(t, x, nil)
	if len(x.Calls) != 1 || x.Calls[0].GetName() != "weather" || len(x.Results) != 0 || x.Round != 0 {
		t.Error(x.Calls, x.Results)
	}
}

// With ON_APPROVAL_TASK, no tool of the round is called: a task continues the request.
func TestToolExecutionCreatesTask(t *testing.T) {
	x := exchange()
	x.Request.OnApproval, x.Request.System = pipelinev1.OnApproval_ON_APPROVAL_TASK, "Be brief."
	x.Request.Limits = &pipelinev1.CompletionLimits{MaxTokens: 100, MaxToolCalls: 5}
	x.Text, x.ToolCalls, x.Response.Model, x.Response.Usage.InputTokens = "I write.", 2, "m", 30
	x.Calls = []*plannerv1.ModelToolCall{modelCall("1", "fs__read", `{"path":"a"}`), modelCall("2", "fs__write", `{}`)}
	created := execute(t, x, nil).created
	if len(created) != 1 || x.Response.GetTaskId() != "task" || len(x.Calls) != 0 || len(x.Results) != 0 || !strings.HasPrefix(x.Text, "I write.\n\nThe tool fs/write needs your approval.") {
		t.Fatal(created, x)
	}
	if req := created[0]; req.GetModel() != "m" || !req.GetAutoExecute() || req.GetMcpIds()[0] != "fs" || req.GetBudget().GetMaxTokens() != 70 || req.GetBudget().GetMaxToolCalls() != 3 ||
		!strings.Contains(req.GetGoal(), "Instructions: Be brief.") || !strings.HasSuffix(req.GetGoal(), "User: Read a.txt") {
		t.Error(req)
	}
}

// The goal of a task is what the user said; of long conversations the end.
func TestGoal(t *testing.T) {
	x := exchange()
	if x.goal() != "Read a.txt" {
		t.Error(x.goal())
	}
	x.Messages = append(x.Messages, &plannerv1.ModelMessage{Role: plannerv1.ModelRole_MODEL_ROLE_ASSISTANT, Parts: []*plannerv1.ModelPart{textPart(strings.Repeat("é", 200_000))}}, user(textPart("Now b.txt")))
	if goal := x.goal(); len([]rune(goal)) > 100_000 || !strings.HasSuffix(goal, "User: Now b.txt") || !strings.HasPrefix(goal, "Continue this conversation") {
		t.Error(len(goal))
	}
}

// Ending the request ends its calls.
func TestToolExecutionIsInterrupted(t *testing.T) {
	x := exchange()
	x.Calls = []*plannerv1.ModelToolCall{modelCall("1", "fs__read", `{"path":"a"}`)}
	ctx, cancel := context.WithCancel(t.Context())
	p := &ToolExecution{Route: here, Pool: &pool{call: func(ctx context.Context, _ *mcppoolv1.CallToolRequest) *replies[mcppoolv1.CallToolResponse] {
		cancel()
		<-ctx.Done()
		return &replies[mcppoolv1.CallToolResponse]{err: ctx.Err()}
	}}}
	if err := p.Process(ctx, x); err == nil {
		t.Error("the request goes on")
	}
}
