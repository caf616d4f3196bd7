package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/alias"
	"pawl.dev/services/errs"
	"pawl.dev/services/strictjson"

	"pawl.dev/executor-svc/internal/toolcall"
)

// maxTools is how many tools a request of the planner may have.
const maxTools = 128

// ToolPreparation lists the tools of the request's servers, which the MCP pool keeps until a server announces that they have changed. It offers them and the client's
// tools to the model: natively, or as a part of the system text if the model cannot call tools.
type ToolPreparation struct {
	Pool    mcppoolv1.McpPoolServiceClient
	Planner plannerv1.PlannerServiceClient
	Lister  *toolcall.Lister
	Route   Route
}

// Process implements Processor.
func (p *ToolPreparation) Process(ctx context.Context, x *Exchange) error {
	lists := p.Lister.ListAll(ctx, x.User, x.Request.GetMcpIds(), func(ctx context.Context, l *toolcall.List) error {
		return p.Lister.Read(ctx, l, x.Session, func(ctx context.Context, req *mcppoolv1.ListToolsRequest) (*mcppoolv1.ListToolsResponse, error) {
			return p.Pool.ListTools(p.Route(ctx, l.ID, x.User), req)
		})
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, l := range lists {
		if err := x.offer(l); err != nil {
			return err
		}
	}
	x.Offered = append(x.Offered, x.Request.GetTools()...)
	if err := x.checkTools(); err != nil {
		return err
	}
	if x.Native = true; len(x.Offered) == 0 {
		return nil
	}
	return p.chooseSyntax(ctx, x)
}

// offer offers the tools of a server, or notes why it cannot be used.
func (x *Exchange) offer(l *toolcall.List) error {
	if !l.Done() {
		x.note(&pipelinev1.CompletionNote{
			Text:  fmt.Sprintf("the MCP server %s has not listed its tools within %s; the model answers without them", l.ID, toolcall.SlowAfter),
			McpId: l.ID, Reason: commonv1.ErrorReason_ERROR_REASON_TIMEOUT,
		})
		return nil
	}
	if l.Err != nil {
		e := errs.From(l.Err)
		if toolcall.RefusesRequest(e.Code) && e.Reason != commonv1.ErrorReason_ERROR_REASON_LOGIN_REQUIRED && !isUnreachable(e.Reason) {
			return l.Err
		}
		text := toolcall.ValidUTF8(e.Public().Message)
		x.note(&pipelinev1.CompletionNote{Text: "the model answers without the tools of the MCP server " + l.ID + ": " + text, McpId: l.ID, Reason: e.Reason})
		return nil
	}
	allowed := x.Request.GetAllowedToolIds()
	for _, tool := range l.Catalog.GetTools() {
		if len(allowed) > 0 && !slices.Contains(allowed, tool.GetId()) {
			continue
		}
		name := alias.Of(tool.GetId())
		x.ByName[name] = tool
		x.Offered = append(x.Offered, &plannerv1.ModelTool{
			Name: name, Description: toolcall.ValidUTF8(tool.GetDescription()), InputSchemaJson: strictjson.Compact(tool.GetInputSchemaJson()),
		})
	}
	return nil
}

// isUnreachable reports whether an error says that a server does not work now.
func isUnreachable(r commonv1.ErrorReason) bool {
	switch r {
	case commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_UNAVAILABLE, commonv1.ErrorReason_ERROR_REASON_MCP_PROTOCOL_ERROR, commonv1.ErrorReason_ERROR_REASON_CIRCUIT_OPEN,
		commonv1.ErrorReason_ERROR_REASON_TIMEOUT, commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR, commonv1.ErrorReason_ERROR_REASON_ADDRESS_REFUSED:
		return true
	}
	return false
}

// checkTools refuses tools that a model cannot get together, and a choice of a tool that is not among them.
func (x *Exchange) checkTools() error {
	if len(x.Offered) > maxTools {
		return invalid("allowed_tool_ids", "the request has %d tools, and a model gets at most %d; name fewer servers, or choose tools in allowed_tool_ids", len(x.Offered), maxTools)
	}
	for _, t := range x.Request.GetTools() {
		if x.ByName[t.GetName()] != nil {
			return invalid("tools", "the tool %q has the name by which models call the tool %s; rename it", t.GetName(), x.ByName[t.GetName()].GetId())
		}
	}
	if name := x.Request.GetToolChoiceName(); name != "" && x.chosen() == nil {
		return invalid("tool_choice_name", "there is no tool %q in the request", name)
	}
	return nil
}

// chosen returns the tool that the model must call first, or nil.
func (x *Exchange) chosen() *plannerv1.ModelTool {
	name := x.Request.GetToolChoiceName()
	for _, t := range x.Offered {
		if name != "" && (t.GetName() == name || x.ByName[t.GetName()].GetId() == name) {
			return t
		}
	}
	return nil
}

// chooseSyntax asks the planner whether the model calls tools natively. If it does not, the system text describes the tools, once.
func (p *ToolPreparation) chooseSyntax(ctx context.Context, x *Exchange) error {
	name := x.Request.GetModel()
	res, err := p.Planner.ListModels(ctx, &plannerv1.ListModelsRequest{Name: name})
	if err != nil {
		return err
	}
	for _, m := range res.GetModels() {
		if m.GetName() == name || name == "" && m.GetIsGenerateDefault() {
			x.Native = m.GetCanCallTools()
		}
	}
	if !x.Native && !strings.Contains(x.System, describedTools) {
		x.System = strings.TrimSpace(x.System + "\n\n" + describeTools(x.Offered))
	}
	return nil
}

func invalid(field, format string, args ...any) error {
	e := errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, format, args...)
	return e.WithViolation(field, e.Message)
}
