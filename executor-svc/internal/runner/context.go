package runner

import (
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// context returns the planner's view of the task in a lane, without tools, which are loaded when the action runs. The view of a branch or subtask leaves
// out the steps of those that run beside it.
func (s *Session) context(t *flow.Task, log *history.Log, l *storagev1.Lane) *plannerv1.TaskContext {
	beside := map[string]bool{}
	if own := l.GetSubtaskId(); own != "" {
		for _, other := range t.State.GetLanes() {
			beside[other.GetSubtaskId()] = other.GetSubtaskId() != own && other.GetSubtaskId() != ""
		}
	}
	c := s.contextOf(t, log, l, func(id string) bool { return !beside[id] })
	c.Branch = l.GetSubtaskId()
	return c
}

// contextOf returns a context with the ended steps of some lines, which are named by their subtasks or branches.
func (s *Session) contextOf(t *flow.Task, log *history.Log, l *storagev1.Lane, includes func(subtaskID string) bool) *plannerv1.TaskContext {
	c := s.emptyContext(t, l)
	for _, e := range log.Entries {
		if result, ended := results[e.Status]; ended && includes(e.SubtaskID) {
			h := historyEntry(e, result)
			if e.IsStored() {
				s.noteStored(h, e)
			}
			c.History = append(c.History, h)
		}
	}
	return c
}

// emptyContext returns a context without history and tools.
func (s *Session) emptyContext(t *flow.Task, l *storagev1.Lane) *plannerv1.TaskContext {
	c := &plannerv1.TaskContext{
		TaskId: t.ID, Goal: s.head.GetGoal(), Language: s.head.GetLanguage(), Model: s.head.GetModel(),
		Playbook: s.head.GetPlaybook(), InputsJson: s.head.GetInputsJson(), AgentDescription: s.head.GetAgentDescription(),
		MaxSteps: t.Head.GetLimits().GetMaxSteps(),
	}
	if m := t.State.GetMemory(); m != nil {
		c.Memory = &plannerv1.Memory{Summary: m.GetSummary(), LastStepId: m.GetLastStepId()}
	}
	s.addMemory(c)
	b := modelBudget(t, l)
	c.ModelCallsLeft, c.TokensLeft, c.CostNanoUsdLeft = b.ModelCalls, b.Tokens, b.CostNanoUsd
	return c
}

// modelBudget returns what a lane has reserved of the task's budgets.
func modelBudget(t *flow.Task, l *storagev1.Lane) *commonv1.ModelBudget {
	b, limits := &commonv1.ModelBudget{}, t.Head.GetLimits()
	if limits.GetMaxModelCalls() > 0 {
		b.ModelCalls = proto.Uint32(l.GetReservedModelCalls())
	}
	if limits.GetMaxTokens() > 0 {
		b.Tokens = proto.Uint64(l.GetReservedTokens())
	}
	if limits.GetMaxCostNanoUsd() > 0 {
		b.CostNanoUsd = proto.Uint64(l.GetReservedCostNanoUsd())
	}
	return b
}

// contextSince returns the part of a context that the planner does not keep; nil if the planner keeps nothing.
func (s *Session) contextSince(c *plannerv1.TaskContext) *plannerv1.TaskContext {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.base == "" || c.GetBranch() != "" || s.baseHistory > len(c.GetHistory()) {
		return nil
	}
	return &plannerv1.TaskContext{
		TaskId: c.GetTaskId(), Base: s.base, History: c.GetHistory()[s.baseHistory:],
		ModelCallsLeft: c.ModelCallsLeft, TokensLeft: c.TokensLeft, CostNanoUsdLeft: c.CostNanoUsdLeft,
	}
}

// setBase records the name of the context that the planner keeps for the main line, and how much of the history it holds.
func (s *Session) setBase(name string, c *plannerv1.TaskContext) {
	if c.GetBranch() != "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.base, s.baseHistory = name, len(c.GetHistory())
}

// historyBytes bounds the outputs in one planner request; a request may have twice this size.
const historyBytes = 32 << 20

// results maps the statuses of ended steps. Steps in other statuses are not in the planner's history.
var results = map[executorv1.StepStatus]plannerv1.StepResult{
	executorv1.StepStatus_STEP_STATUS_SUCCESS:   plannerv1.StepResult_STEP_RESULT_SUCCESS,
	executorv1.StepStatus_STEP_STATUS_ERROR:     plannerv1.StepResult_STEP_RESULT_ERROR,
	executorv1.StepStatus_STEP_STATUS_CANCELLED: plannerv1.StepResult_STEP_RESULT_CANCELLED,
}

func historyEntry(e *history.Entry, result plannerv1.StepResult) *plannerv1.HistoryEntry {
	if e.Skipped {
		result = plannerv1.StepResult_STEP_RESULT_SKIPPED
	}
	return &plannerv1.HistoryEntry{
		StepId: flow.StepID(e.Ordinal), ToolId: e.ToolID, Description: e.Description, InputJson: e.InputJSON,
		Result: result, OutputJson: e.OutputJSON, Error: e.Error.GetErrMsg(), Outcome: e.Outcome, Branch: e.SubtaskID,
	}
}
