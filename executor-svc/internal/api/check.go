package api

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/schema"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// modelPlaybook is the planner's model that follows a playbook.
const modelPlaybook = "playbook"

// checkWithOthers asks pool and planner about a new task, at once.
func (s *Tasks) checkWithOthers(ctx context.Context, head *storagev1.TaskHead, servers []string) error {
	var pool sync.WaitGroup
	var unknown error
	pool.Go(func() { unknown = s.checkServers(ctx, head.GetUserSub(), servers) })
	err := s.choosePlanner(ctx, head)
	pool.Wait()
	if unknown != nil {
		return unknown
	}
	return err
}

// checkServers refuses servers that do not exist. A pool that cannot be asked does not stop a task from being created:
// what it then lacks is in its event log.
func (s *Tasks) checkServers(ctx context.Context, user string, ids []string) error {
	for _, id := range ids {
		_, err := s.Pool.GetMcpServer(identity.OnBehalfOf(ctx, user), &mcppoolv1.GetMcpServerRequest{Id: id})
		if e := errs.From(err); err != nil && (e.Code == codes.NotFound || e.Code == codes.InvalidArgument) {
			return errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_FOUND,
				"there is no MCP server %q; see `pawl mcp list`, or register it with `pawl mcp add`", id)
		}
	}
	return nil
}

// choosePlanner settles which model plans, so that a task keeps it, and checks a playbook before anything runs.
func (s *Tasks) choosePlanner(ctx context.Context, head *storagev1.TaskHead) error {
	ctx = identity.OnBehalfOf(ctx, head.GetUserSub())
	if head.GetPlaybook() != "" {
		if head.GetModel() != "" && head.GetModel() != modelPlaybook {
			return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
				"a playbook is followed by the model %q; leave model out", modelPlaybook)
		}
		res, err := s.Planner.CheckPlaybook(ctx, &plannerv1.CheckPlaybookRequest{Playbook: head.GetPlaybook()})
		if err != nil {
			return errs.From(err)
		}
		head.Model = modelPlaybook
		if head.GetGoal() == "" {
			head.Goal = playbookGoal(res)
		}
		return nil
	}
	res, err := s.Planner.ListModels(ctx, &plannerv1.ListModelsRequest{})
	if err != nil {
		// The planner is asked again when the task begins.
		s.Log.WarnContext(ctx, "asking for the models", "error", err)
		return nil
	}
	names := make([]string, 0, len(res.GetModels()))
	for _, m := range res.GetModels() {
		if head.GetModel() == m.GetName() || head.GetModel() == "" && m.GetIsDefault() {
			head.Model = m.GetName()
			return needsPlaybook(head)
		}
		names = append(names, m.GetName())
	}
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
		"there is no model %q; there are: %s", head.GetModel(), strings.Join(names, ", ")).
		WithViolation("model", "unknown model")
}

func needsPlaybook(head *storagev1.TaskHead) error {
	if head.GetModel() != modelPlaybook {
		return nil
	}
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
		"the model %q follows a playbook; give one in the field playbook (`pawl run --playbook FILE`)", modelPlaybook).
		WithViolation("playbook", "required by the model")
}

func playbookGoal(res *plannerv1.CheckPlaybookResponse) string {
	switch {
	case res.GetGoal() != "":
		return res.GetGoal()
	case res.GetName() != "":
		return res.GetName()
	}
	if res.GetStepCount() == 1 {
		return "Playbook of 1 step"
	}
	return fmt.Sprintf("Playbook of %d steps", res.GetStepCount())
}

// checkEdit refuses an edited input that does not fit the tool's schema, while the wait is still open. Where the tool
// cannot be looked up, the pool checks when it is called.
func (s *Tasks) checkEdit(ctx context.Context, head *storagev1.TaskHead, toolID, input string) error {
	mcpID, name := flow.ToolName(toolID)
	req := &mcppoolv1.ListToolsRequest{McpId: mcpID, PageSize: 1000}
	for {
		page, err := s.Pool.ListTools(serve.WithAffinity(identity.OnBehalfOf(ctx, head.GetUserSub()), mcpID, head.GetUserSub()), req)
		if err != nil {
			return nil //nolint:nilerr // see above
		}
		for _, tool := range page.GetTools() {
			if tool.GetName() == name {
				return fits(tool, input)
			}
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return nil
		}
	}
}

func fits(tool *commonv1.Tool, input string) error {
	compiled, err := schema.Compile(tool.GetInputSchemaJson())
	if err != nil {
		return nil //nolint:nilerr // the tool's own fault, which the pool reports when it is called
	}
	if err := compiled.Validate(input); err != nil {
		return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT,
			"the edited input does not fit %s: %s", tool.GetId(), err).WithViolation("approve.input", err.Error())
	}
	return nil
}
