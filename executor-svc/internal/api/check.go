package api

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

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

const (
	// playbookAge is how long a playbook that was found right is not checked again: what the planner says depends on its text alone, and
	// on which version the planner is.
	playbookAge   = time.Minute
	mostPlaybooks = 256
	// serverAge is how long a server that was there is not asked for again. A task whose server went away meanwhile is created all the
	// same, and has in its event log what it lacks, as one whose server goes away a moment later.
	serverAge   = 2 * time.Second
	mostServers = 4096
)

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
		key := user + "\x00" + id
		if _, there := s.servers.get(key, serverAge); there {
			continue
		}
		_, err := s.Pool.GetMcpServer(identity.OnBehalfOf(ctx, user), &mcppoolv1.GetMcpServerRequest{Id: id})
		if e := errs.From(err); err != nil && (e.Code == codes.NotFound || e.Code == codes.InvalidArgument) {
			return errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_FOUND,
				"there is no MCP server %q; see `pawl mcp list`, or register it with `pawl mcp add`", id)
		}
		if err == nil {
			s.servers.put(key, struct{}{}, serverAge, mostServers)
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
		book, err := s.checkPlaybook(ctx, head.GetPlaybook())
		if err != nil {
			return errs.From(err)
		}
		head.Model, head.Goal = modelPlaybook, cmp.Or(head.GetGoal(), book.goal)
		return mayTake(head, book.steps)
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

// mayTake refuses a playbook that would be cut short by its task's limit of steps, before its first call has an effect.
func mayTake(head *storagev1.TaskHead, steps uint32) error {
	limit := head.GetLimits().GetMaxSteps()
	if steps <= limit {
		return nil
	}
	how := fmt.Sprintf("raise the server's limit (`pawl up --max-steps %d`), or name an agent that may take more (`pawl agents create ID --max-steps %d`)", steps, steps)
	if id := head.GetAgentId(); id != "" {
		how = fmt.Sprintf("raise the limit of its agent (`pawl agents update %s --max-steps %d`)", id, steps)
	}
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
		"the playbook has %d steps, and the task may take at most %d; %s, or make several playbooks of it", steps, limit, how).
		WithViolation("playbook", "more steps than the task may take")
}

// playbook is what the planner says of one that it accepted.
type playbook struct {
	goal  string // for a task that has none of its own
	steps uint32 // 0 where the planner does not say
}

func (s *Tasks) checkPlaybook(ctx context.Context, text string) (playbook, error) {
	if book, right := s.playbooks.get(text, playbookAge); right {
		return book, nil
	}
	res, err := s.Planner.CheckPlaybook(ctx, &plannerv1.CheckPlaybookRequest{Playbook: text})
	if err != nil {
		return playbook{}, err
	}
	book := playbook{goal: playbookGoal(res), steps: res.GetStepCount()}
	s.playbooks.put(text, book, playbookAge, mostPlaybooks)
	return book, nil
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
