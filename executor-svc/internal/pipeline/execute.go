package pipeline

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/strictjson"

	"pawl.dev/executor-svc/internal/flow/step"
	"pawl.dev/executor-svc/internal/toolcall"
)

// Route routes a call about an MCP server of a user to the replica of the pool that holds its connection.
type Route func(ctx context.Context, mcpID, user string) context.Context

// Tasks creates tasks.
type Tasks interface {
	CreateTask(ctx context.Context, req *executorv1.CreateTaskRequest) (*executorv1.Task, error)
}

// ToolExecution calls the tools of servers, all calls of a round at once. Each call ends with a result or an error, whatever happens to the others. If the model also
// calls tools of the client, no tool of a server is called: the model asks for it again once it has the client's results.
type ToolExecution struct {
	Pool  mcppoolv1.McpPoolServiceClient
	Tasks Tasks
	Route Route
}

// Process implements Processor.
func (p *ToolExecution) Process(ctx context.Context, x *Exchange) error {
	if len(x.Calls) == 0 {
		return nil
	}
	if slices.ContainsFunc(x.Calls, x.isClients) {
		x.Calls = slices.DeleteFunc(x.Calls, func(c *plannerv1.ModelToolCall) bool { return !x.isClients(c) })
		return nil
	}
	if x.Request.GetOnApproval() == pipelinev1.OnApproval_ON_APPROVAL_TASK && slices.ContainsFunc(x.Calls, x.needsApproval) {
		return x.becomeTask(ctx, p.Tasks)
	}
	x.Round++
	x.Results = make([]*pipelinev1.CompletedToolCall, len(x.Calls))
	used := make([]*commonv1.Usage, len(x.Calls))
	var running sync.WaitGroup
	for i, c := range x.Calls {
		r := &pipelinev1.CompletedToolCall{Id: c.GetId(), ToolId: c.GetName(), InputJson: toolcall.ValidUTF8(c.GetInputJson()), Round: x.Round}
		x.Results[i] = r
		tool, err := x.admit(c, r)
		x.Out.Send(&pipelinev1.StreamCompleteResponse{Event: &pipelinev1.StreamCompleteResponse_ToolCallStarted{
			ToolCallStarted: &pipelinev1.StartedToolCall{Id: r.GetId(), ToolId: r.GetToolId(), InputJson: r.GetInputJson(), Round: r.GetRound()},
		}})
		if err != nil {
			fail(r, err)
			x.ended(r)
			continue
		}
		running.Go(func() {
			used[i] = p.call(ctx, x, tool, r)
			x.ended(r)
		})
	}
	running.Wait()
	for i, r := range x.Results {
		x.spend(used[i])
		if r.GetOutcome() != commonv1.Outcome_OUTCOME_NOT_EXECUTED {
			x.Response.Usage.ToolCalls++
		}
	}
	x.Response.ToolCalls = append(x.Response.ToolCalls, x.Results...)
	return ctx.Err()
}

func (x *Exchange) ended(r *pipelinev1.CompletedToolCall) {
	x.Out.Send(&pipelinev1.StreamCompleteResponse{Event: &pipelinev1.StreamCompleteResponse_ToolCallEnded{ToolCallEnded: r}})
}

// needsApproval reports whether a person has to approve a call: it follows the rule for tasks whose steps are approved by risk.
func (x *Exchange) needsApproval(c *plannerv1.ModelToolCall) bool {
	tool := x.ByName[c.GetName()]
	return tool != nil && step.FloorOf(tool.GetRiskFloor()) > commonv1.RiskLevel_RISK_LEVEL_LOW
}

// admit returns the tool of a call, or why it cannot be called.
func (x *Exchange) admit(c *plannerv1.ModelToolCall, r *pipelinev1.CompletedToolCall) (*commonv1.Tool, error) {
	refuse := func(code codes.Code, reason commonv1.ErrorReason, format string, args ...any) error {
		return errs.New(code, reason, format, args...).With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	}
	tool := x.ByName[c.GetName()]
	if tool == nil {
		return nil, refuse(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_TOOL_NOT_FOUND, "there is no tool %q", c.GetName())
	}
	r.ToolId = tool.GetId()
	var problem string
	if r.InputJson, problem = toolcall.CheckInput(tool, c.GetInputJson()); problem == "" {
		if err := strictjson.Check(r.GetInputJson(), strictjson.Rules{}); err != nil || strictjson.Kind(r.GetInputJson()) != "object" {
			problem = "the input is not a JSON object"
		}
	}
	switch {
	case problem != "":
		return nil, refuse(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT, "%s", problem)
	case x.needsApproval(c):
		return nil, refuse(codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED,
			"the tool %s needs a person's approval, which this request cannot ask for", tool.GetId())
	case x.ToolCalls >= x.maxToolCalls():
		return nil, refuse(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED, "the limit of %d tool calls is reached", x.maxToolCalls())
	}
	x.ToolCalls++
	return tool, nil
}

// call calls a tool and records the result or the error. It returns what models cost that the tool's server asked.
func (p *ToolExecution) call(ctx context.Context, x *Exchange, tool *commonv1.Tool, r *pipelinev1.CompletedToolCall) *commonv1.Usage {
	began := time.Now()
	res, err := p.send(ctx, x, tool, r.GetInputJson())
	r.Duration = durationpb.New(time.Since(began))
	if err == nil && res.GetIsError() {
		err = errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_TOOL_EXECUTION_FAILED, "%s", clip(toolcall.ErrorText(res))).
			With(errs.OutcomeKey, errs.OutcomeKnown)
	}
	if err != nil {
		fail(r, err)
		return res.GetModelUsage()
	}
	r.Result, r.Outcome = resultText(res), commonv1.Outcome_OUTCOME_KNOWN
	return res.GetModelUsage()
}

// send sends a call to the pool and follows it to its end. Ending ctx cancels the call.
func (p *ToolExecution) send(ctx context.Context, x *Exchange, tool *commonv1.Tool, input string) (*mcppoolv1.CallResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := p.Pool.CallTool(p.Route(ctx, tool.GetMcpId(), x.User), &mcppoolv1.CallToolRequest{
		McpId: tool.GetMcpId(), Name: tool.GetName(), InputJson: input, SessionId: x.Session,
		ExpectedDefinitionHash: tool.GetDefinitionHash(), ExpectedConfigRevision: tool.GetConfigRevision(), ModelBudget: x.budget(uint64(len(x.Calls))),
	})
	for err == nil {
		var event *mcppoolv1.CallToolResponse
		event, err = stream.Recv()
		switch {
		case err != nil:
		case event.GetResult() != nil:
			return event.GetResult(), nil
		case event.GetInputRequired() != nil:
			return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED,
				"the tool asks a person a question, which this request cannot pass on: %s", clip(toolcall.ValidUTF8(event.GetInputRequired().GetMessage()))).
				With(errs.OutcomeKey, errs.OutcomeUnknown)
		}
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return nil, err
}

// fail records why a call failed.
func fail(r *pipelinev1.CompletedToolCall, err error) {
	note, outcome := toolcall.Failure(err, "")
	r.Error, r.Outcome = &commonv1.ErrorMessage{ErrMsg: note.GetErrMsg(), Reason: note.GetReason()}, outcome
	if r.GetDuration() == nil {
		r.Duration = &durationpb.Duration{}
	}
}
