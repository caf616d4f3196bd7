package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/similar"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// modelPlaybook is the planner's model that follows a playbook.
const modelPlaybook = "playbook"

// checks checks the model and playbook of a request with the planner, and its servers with the pool. While a service cannot be reached, models
// and servers are accepted unchecked, and playbooks are refused.
type checks struct {
	Deps
	playbooks *otter.Cache[string, playbook] // by hash
	servers   *otter.Cache[string, struct{}] // by user and id
}

// answers returns a cache of what a service answered within age, by key, so that not every task asks for it again.
func answers[V any](age time.Duration) *otter.Cache[string, V] {
	return otter.Must(&otter.Options[string, V]{MaximumSize: maxAnswers, ExpiryCalculator: otter.ExpiryWriting[string, V](age), Clock: clock(time.Now())})
}

// clock is an otter.Clock without ticks, which begins at a time: old answers are removed when others are added.
type clock time.Time

func (c clock) NowNano() int64 { return int64(time.Since(time.Time(c))) }

func (clock) Tick(time.Duration) <-chan time.Time { return nil }

// playbook is the planner's description of an accepted playbook.
type playbook struct {
	goal  string // for a task without a goal
	steps uint32 // 0 if not known
}

// task checks a new task and sets its model, so that a later change of the default does not affect it. A playbook also supplies a missing goal.
func (c *checks) task(ctx context.Context, head *storagev1.TaskHead, servers []string) error {
	var pool sync.WaitGroup
	var unknown error
	pool.Go(func() { unknown = c.mcpServers(ctx, head.GetUserSub(), servers) })
	err := c.planner(ctx, head)
	pool.Wait()
	if unknown != nil {
		return unknown
	}
	return err
}

// agent checks the model and the servers of an agent.
func (c *checks) agent(ctx context.Context, user string, a *storagev1.Agent) error {
	if _, err := checkFlow(c.Flows, cmp.Or(a.GetFlow(), defaultFlow)); err != nil {
		return err
	}
	if a.GetModel() != "" {
		if _, err := c.model(ctx, user, a.GetModel()); err != nil {
			return err
		}
	}
	return c.mcpServers(ctx, user, a.GetMcpIds())
}

// mcpServers refuses servers that do not exist.
func (c *checks) mcpServers(ctx context.Context, user string, ids []string) error {
	for _, id := range ids {
		key := user + "\x00" + id
		if _, exists := c.servers.GetIfPresent(key); exists {
			continue
		}
		_, err := c.Pool.GetMcpServer(identity.OnBehalfOf(ctx, user), &mcppoolv1.GetMcpServerRequest{Id: id})
		if e := errs.From(err); err != nil && (e.Code == codes.NotFound || e.Code == codes.InvalidArgument) {
			return errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_FOUND,
				"there is no MCP server %q; see `pawl mcp list`, or register it with `pawl mcp add`", id)
		}
		if err == nil {
			c.servers.Set(key, struct{}{})
		}
	}
	return nil
}

// planner checks and sets the task's model, and checks its playbook with the inputs.
func (c *checks) planner(ctx context.Context, head *storagev1.TaskHead) error {
	if head.GetPlaybook() == "" {
		model, err := c.model(ctx, head.GetUserSub(), head.GetModel())
		if err != nil {
			return err
		}
		if head.Model = model; model == modelPlaybook {
			return invalidField("playbook", "required by the model",
				"the model %q follows a playbook; give one in the field playbook (`pawl run --playbook FILE`)", modelPlaybook)
		}
		return nil
	}
	if head.GetModel() != "" && head.GetModel() != modelPlaybook {
		return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
			"only the model %q follows a playbook; omit model", modelPlaybook)
	}
	book, err := c.playbook(identity.OnBehalfOf(ctx, head.GetUserSub()), head.GetPlaybook(), cmp.Or(head.GetInputsJson(), "{}"))
	if err != nil {
		return errs.From(err)
	}
	head.Model, head.Goal = modelPlaybook, cmp.Or(head.GetGoal(), book.goal)
	return checkStepLimit(head, book.steps)
}

// model returns the planner's model with this name, or its default model if name is empty. If the planner cannot be reached, model accepts
// any name.
func (c *checks) model(ctx context.Context, user, name string) (string, error) {
	res, err := c.Planner.ListModels(identity.OnBehalfOf(ctx, user), &plannerv1.ListModelsRequest{Name: name})
	if e := errs.From(err); err != nil && e.Code == codes.InvalidArgument {
		return "", e
	}
	if err != nil {
		c.Log.WarnContext(ctx, "the planner's models could not be listed; any model is accepted", "error", err)
		return name, nil
	}
	names := make([]string, 0, len(res.GetModels()))
	for _, m := range res.GetModels() {
		if name == m.GetName() || name == "" && m.GetIsDefault() {
			return m.GetName(), nil
		}
		names = append(names, m.GetName())
	}
	hint := "there are: " + strings.Join(names, ", ")
	if close := similar.Names(name, names); len(close) > 0 {
		hint = "did you mean " + strings.Join(close, " or ") + "? " + hint
	}
	return "", invalidField("model", "unknown model", "there is no model %q; %s", name, hint)
}

// checkStepLimit refuses a playbook that has more steps than the task's limit, before its first call has an effect.
func checkStepLimit(head *storagev1.TaskHead, steps uint32) error {
	limit := head.GetLimits().GetMaxSteps()
	if steps <= limit {
		return nil
	}
	how := fmt.Sprintf("raise the server's limit (`pawl up --max-steps %d`), or name an agent that may take more (`pawl agents create ID --max-steps %d`)", steps, steps)
	if id := head.GetAgentId(); id != "" {
		how = fmt.Sprintf("raise the limit of its agent (`pawl agents update %s --max-steps %d`)", id, steps)
	}
	return invalidField("playbook", "more steps than the task may take",
		"the playbook has %d steps, and the task may take at most %d; %s, or split the playbook", steps, limit, how)
}

func (c *checks) playbook(ctx context.Context, text, inputs string) (playbook, error) {
	sum := sha256.Sum256([]byte(inputs + "\x00" + text)) // JSON has no zero byte
	if book, accepted := c.playbooks.GetIfPresent(string(sum[:])); accepted {
		return book, nil
	}
	res, err := c.Planner.CheckPlaybook(ctx, &plannerv1.CheckPlaybookRequest{Playbook: text, InputsJson: &inputs})
	if err != nil {
		return playbook{}, err
	}
	book := playbook{goal: cmp.Or(res.GetGoal(), res.GetName()), steps: res.GetStepCount()}
	switch {
	case book.goal != "":
	case book.steps == 1:
		book.goal = "Playbook of 1 step"
	default:
		book.goal = fmt.Sprintf("Playbook of %d steps", book.steps)
	}
	c.playbooks.Set(string(sum[:]), book)
	return book, nil
}
