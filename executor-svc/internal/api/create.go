package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"

	"pawl.dev/executor-svc/internal/engine"
	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/view"
)

// defaultFlow is the flow of tasks and agents that name none.
const defaultFlow = "agent"

// CreateTask implements ExecutorService.
func (s *Tasks) CreateTask(ctx context.Context, req *executorv1.CreateTaskRequest) (*executorv1.Task, error) {
	id, err := s.create(ctx, req)
	if err != nil {
		return nil, err
	}
	return s.get(ctx, id)
}

// create stores and starts a task. For a repeated request it returns the id of the first request's task.
func (s *Tasks) create(ctx context.Context, req *executorv1.CreateTaskRequest) (string, error) {
	who, err := identity.FromContext(ctx)
	if err != nil {
		return "", err
	}
	hash, err := requestHash(req)
	if err != nil {
		return "", err
	}
	if id, err := s.repeated(ctx, who.Sub, req.GetRequestId(), hash); id != "" || err != nil {
		return id, err
	}
	// Checked first, because a request beyond the limit must not supersede a task.
	if err := apiError(s.Journal.Admit(ctx, who.Sub, s.admission(who.Sub)), nil); err != nil {
		return "", err
	}
	head, err := s.newHead(ctx, who, req)
	if err != nil {
		return "", err
	}
	if err := s.Flows[head.GetFlow()].Accepts(head); err != nil {
		return "", err
	}
	head.RequestHash = hash
	// A concurrent repeat of the request may have created the task, which must not be superseded.
	if id, err := s.repeated(ctx, who.Sub, req.GetRequestId(), hash); id != "" || err != nil {
		return id, err
	}
	if err := s.supersede(ctx, who.Sub, req); err != nil {
		return "", err
	}
	id, err := s.Engine.Create(ctx, s.newTask(head))
	return id, apiError(err, nil)
}

// admission bounds the requests of a user and the bytes of their tasks. The requests of the local user of an installation without keys are not limited.
func (s *Tasks) admission(user string) journal.Admission {
	a := journal.Admission{Now: time.Now(), Requests: s.Requests, Window: s.Window, Bytes: s.UserBytes}
	if user == identity.LocalSub {
		a.Requests = 0
	}
	return a
}

// repeated returns the id of the task that a request created before, or "".
func (s *Tasks) repeated(ctx context.Context, user, requestID string, hash []byte) (string, error) {
	if requestID == "" {
		return "", nil
	}
	t, err := s.Journal.FindRequest(ctx, user, requestID)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return "", nil
	case err != nil:
		return "", apiError(err, nil)
	case string(t.Head.GetRequestHash()) != string(hash):
		return "", apiError(journal.ErrRequestReused, nil)
	}
	return t.ID, nil
}

func (s *Tasks) newTask(head *storagev1.TaskHead) journal.NewTask {
	c := s.Flows[head.GetFlow()].Start()
	c.UpdateTime = head.GetCreateTime()
	return journal.NewTask{
		ID: journal.NewID(head.GetCreateTime()), Head: head, Checkpoint: c,
		Records: []journal.Record{{FirstSeq: 1, Record: &storagev1.Record{Time: head.GetCreateTime(), Facts: []*storagev1.Fact{{
			Status: executorv1.ExecutorStatus_EXECUTOR_STATUS_INIT,
			Kind:   &storagev1.Fact_StatusChanged{StatusChanged: &storagev1.StatusChanged{}},
		}}}}},
		Admission: s.admission(head.GetUserSub()),
	}
}

func (s *Tasks) newHead(ctx context.Context, who identity.Principal, req *executorv1.CreateTaskRequest) (*storagev1.TaskHead, error) {
	agent, err := s.agent(ctx, who.Sub, req.GetAgentId())
	if err != nil {
		return nil, err
	}
	head := s.head(ctx, who, req, agent)
	if head.Flow, head.PlanOptions, err = s.flow(req, agent); err != nil {
		return nil, err
	}
	return head, s.check.task(ctx, head, req.GetMcpIds())
}

// head returns the head of a task, without its flow.
func (s *Tasks) head(ctx context.Context, who identity.Principal, req *executorv1.CreateTaskRequest, agent *storagev1.Agent) *storagev1.TaskHead {
	head := &storagev1.TaskHead{
		UserSub: who.Sub, ConversationId: req.GetConversationId(), AgentId: req.GetAgentId(), AgentDescription: agent.GetDescription(),
		Goal: req.GetGoal(), McpIds: req.GetMcpIds(), Confirm: effectiveConfirm(req.AutoExecute, agent.GetConfirm()), Language: req.GetLanguage(),
		Model: req.GetModel(), Playbook: req.GetPlaybook(), InputsJson: req.GetInputsJson(), RequestId: req.GetRequestId(),
		CreateTime: time.Now().UnixNano(), Limits: s.limits(agent, req.GetBudget()),
		WaitTimeout: agent.GetWaitTimeout(), OnUnknownOutcome: agent.GetOnUnknownOutcome(), TraceParent: engine.TraceParent(ctx),
	}
	if t := req.GetWaitTimeout(); t != nil {
		head.WaitTimeout = int64(t.AsDuration())
	}
	if len(head.GetMcpIds()) == 0 {
		head.McpIds = agent.GetMcpIds()
	}
	if head.GetModel() == "" && head.GetPlaybook() == "" {
		head.Model = agent.GetModel()
	}
	return head
}

// flow returns the flow of a task and how its plan is worked on. A task and its agent must have the same flow.
func (s *Tasks) flow(req *executorv1.CreateTaskRequest, a *storagev1.Agent) (string, *executorv1.PlanOptions, error) {
	kind := cmp.Or(a.GetFlow(), defaultFlow)
	if req.GetAgentId() == "" {
		kind = cmp.Or(req.GetFlow(), kind)
	}
	if req.GetFlow() != "" && req.GetFlow() != kind {
		return "", nil, invalidField("flow", "not the agent's flow",
			"the agent %q is of the flow %q, not %q; omit flow, or name another agent (`pawl agents list`)", req.GetAgentId(), kind, req.GetFlow())
	}
	f, err := checkFlow(s.Flows, kind)
	if err != nil {
		return "", nil, err
	}
	options := f.PlanOptions(mergeOptions(a.GetPlanOptions(), req.GetPlanOptions()))
	if options == nil && req.GetPlanOptions() != nil {
		return "", nil, invalidField("plan_options", "the flow has no plan", "tasks of the flow %q have no plan; omit plan_options, or choose another flow", kind)
	}
	if options != nil && req.GetPlaybook() != "" {
		return "", nil, invalidField("playbook", "not for this flow", "tasks of the flow %q make their own plan; omit the playbook, or choose the flow %q", kind, defaultFlow)
	}
	return kind, options, nil
}

// checkFlow returns the flow with this name.
func checkFlow(flows map[string]flow.Flow, kind string) (flow.Flow, error) {
	f := flows[kind]
	if f == nil {
		names := strings.Join(slices.Sorted(maps.Keys(flows)), ", ")
		return nil, invalidField("flow", "unknown flow", "there is no flow %q; there are: %s", kind, names)
	}
	return f, nil
}

// mergeOptions returns the agent's options with those that a request sets.
func mergeOptions(agent, req *executorv1.PlanOptions) *executorv1.PlanOptions {
	out := &executorv1.PlanOptions{}
	proto.Merge(out, agent)
	proto.Merge(out, req)
	return out
}

// agent loads an agent, or returns the default agent if id is empty.
func (s *Tasks) agent(ctx context.Context, user, id string) (*storagev1.Agent, error) {
	if id == "" {
		return &storagev1.Agent{}, nil
	}
	a, err := s.Journal.Agent(ctx, user, id)
	return a, apiError(err, agentNotFound(id))
}

// limits returns the limits of a task: the service's limits, with the agent's limits of steps and failed steps if it sets any, and the lower of
// the agent's and the task's budgets.
func (s *Tasks) limits(a *storagev1.Agent, budget *executorv1.Budget) *storagev1.Limits {
	l := proto.Clone(s.Limits).(*storagev1.Limits)
	l.MaxSteps = cmp.Or(a.GetMaxSteps(), l.GetMaxSteps())
	l.MaxFailedSteps = cmp.Or(a.GetMaxFailedSteps(), l.GetMaxFailedSteps())
	for _, b := range []*storagev1.Limits{a.GetBudget(), storedBudget(budget)} {
		l.MaxToolCalls = lower(l.GetMaxToolCalls(), b.GetMaxToolCalls())
		l.MaxModelCalls = lower(l.GetMaxModelCalls(), b.GetMaxModelCalls())
		l.MaxTokens = lower(l.GetMaxTokens(), b.GetMaxTokens())
		l.MaxCostNanoUsd = lower(l.GetMaxCostNanoUsd(), b.GetMaxCostNanoUsd())
		l.MaxRunTime = lower(l.GetMaxRunTime(), b.GetMaxRunTime())
	}
	return l
}

// lower returns the lower of two bounds; 0 means no bound.
func lower[T uint32 | uint64 | int64](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func storedBudget(b *executorv1.Budget) *storagev1.Limits {
	if b == nil {
		return nil
	}
	return &storagev1.Limits{
		MaxToolCalls: b.GetMaxToolCalls(), MaxModelCalls: b.GetMaxModelCalls(), MaxTokens: b.GetMaxTokens(), MaxCostNanoUsd: b.GetMaxCostNanoUsd(),
		MaxRunTime: int64(b.GetMaxRunTime().AsDuration()),
	}
}

// effectiveConfirm returns the confirmation policy of a task from its auto_execute and its agent's policy.
func effectiveConfirm(auto *bool, agent executorv1.Confirm) executorv1.Confirm {
	switch {
	case auto != nil && !*auto:
		return executorv1.Confirm_CONFIRM_ALWAYS
	case agent == executorv1.Confirm_CONFIRM_NEVER:
		return agent
	case auto != nil:
		return executorv1.Confirm_CONFIRM_BY_RISK
	case agent == executorv1.Confirm_CONFIRM_UNSPECIFIED:
		return executorv1.Confirm_CONFIRM_ALWAYS
	}
	return agent
}

// supersede cancels the conversation's waiting tasks, because a new question replaces them.
func (s *Tasks) supersede(ctx context.Context, user string, req *executorv1.CreateTaskRequest) error {
	conversation := req.GetConversationId()
	if conversation == "" {
		return nil
	}
	page, err := s.Journal.List(ctx, journal.Query{
		User: user, ConversationID: conversation, Limit: 100,
		Statuses: []executorv1.ExecutorStatus{executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING},
	})
	if err != nil {
		return apiError(err, nil)
	}
	for _, t := range page.Tasks {
		if id := req.GetRequestId(); id != "" && id == t.Head.GetRequestId() {
			continue
		}
		err := s.Engine.Send(ctx, t.ID, &storagev1.Command{Kind: &storagev1.Command_Cancel{
			Cancel: &storagev1.Cancel{Reason: "superseded by a new question in the conversation"},
		}})
		if err != nil && errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_TASK_ENDED {
			return apiError(err, taskNotFound(t.ID))
		}
	}
	return nil
}

func requestHash(m proto.Message) ([]byte, error) {
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR, "encoding the request: %w", err)
	}
	sum := sha256.Sum256(raw)
	return sum[:], nil
}

func (s *Tasks) get(ctx context.Context, id string) (*executorv1.Task, error) {
	t, err := s.task(ctx, id)
	if err != nil {
		return nil, err
	}
	out := view.Task(t)
	if t.Checkpoint.GetAnswerCount() > 0 && state.Ended(out.GetStatus()) {
		rs, err := s.Journal.Records(ctx, id, t.Checkpoint.GetLastSeq()-1, 1)
		if err != nil {
			return nil, apiError(err, taskNotFound(id))
		}
		out.FullAnswer = view.FullAnswer(rs)
	}
	return out, nil
}
