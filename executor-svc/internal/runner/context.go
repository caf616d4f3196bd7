package runner

import (
	"context"
	"fmt"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
)

// context is what the planner reads of the task, tools excepted: they are loaded when the effect runs.
func (s *Session) context(t *flow.Task, log *history.Log) *plannerv1.TaskContext {
	c := &plannerv1.TaskContext{
		TaskId: t.ID, Goal: s.head.GetGoal(), Language: s.head.GetLanguage(), Model: s.head.GetModel(),
		Playbook: s.head.GetPlaybook(), AgentDescription: s.head.GetAgentDescription(), Rounds: s.rounds,
		History: make([]*plannerv1.HistoryEntry, 0, len(log.Entries)),
	}
	entries := make([]plannerv1.HistoryEntry, len(log.Entries)) // in one piece of memory
	for i, e := range log.Entries {
		if result, done := results[e.Status]; done {
			tell(&entries[i], e, result)
			c.History = append(c.History, &entries[i])
		}
	}
	fit(c.History)
	if limit := t.Head.GetLimits().GetMaxModelCalls(); limit > 0 {
		left := limit - min(limit, t.State.GetUsage().GetModelCalls())
		c.ModelCallsLeft = &left
	}
	return c
}

// shorter is the context as the planner that has the beginning of it needs it; nil where it has none.
func (s *Session) shorter(c *plannerv1.TaskContext) *plannerv1.TaskContext {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.base == "" || s.baseHistory > len(c.GetHistory()) {
		return nil
	}
	return &plannerv1.TaskContext{
		TaskId: c.GetTaskId(), Base: s.base, History: c.GetHistory()[s.baseHistory:], ModelCallsLeft: c.ModelCallsLeft,
	}
}

// remember notes what the planner has from now on.
func (s *Session) remember(name string, c *plannerv1.TaskContext) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.base, s.baseHistory = name, len(c.GetHistory())
}

// told makes a planner call with as little of the context as it needs; a planner that has forgotten is told all again.
func told[T any](ctx context.Context, s *Session, c *plannerv1.TaskContext, call func(context.Context, *plannerv1.TaskContext) (T, error)) (T, error) {
	return ask(ctx, s, func(ctx context.Context) (T, error) {
		if less := s.shorter(c); less != nil {
			res, err := call(ctx, less)
			if err == nil || errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_CONTEXT_MISSING {
				return res, err
			}
			s.remember("", c)
		}
		return call(ctx, c)
	})
}

// historyBytes is how much of what tools gave a planner is sent; a request has room for twice that.
const historyBytes = 32 << 20

// fit leaves out outputs that are too large for one request, the oldest first, and says so in their place.
func fit(history []*plannerv1.HistoryEntry) {
	left := historyBytes
	for i := len(history) - 1; i >= 0; i-- {
		size := len(history[i].GetOutputJson())
		if size > left {
			history[i].OutputJson = fmt.Sprintf(`{"message":"(%d bytes, left out: more than a planner is sent)"}`, size)
			continue
		}
		left -= size
	}
}

// results holds the statuses in which a step has come to something; others are not history yet.
var results = map[executorv1.StepStatus]plannerv1.StepResult{
	executorv1.StepStatus_STEP_STATUS_SUCCESS:   plannerv1.StepResult_STEP_RESULT_SUCCESS,
	executorv1.StepStatus_STEP_STATUS_ERROR:     plannerv1.StepResult_STEP_RESULT_ERROR,
	executorv1.StepStatus_STEP_STATUS_CANCELLED: plannerv1.StepResult_STEP_RESULT_CANCELLED,
}

func tell(to *plannerv1.HistoryEntry, e *history.Entry, result plannerv1.StepResult) {
	if e.Skipped {
		result = plannerv1.StepResult_STEP_RESULT_SKIPPED
	}
	to.StepId, to.ToolId, to.Description, to.InputJson = flow.StepID(e.Ordinal), e.ToolID, e.Description, e.InputJSON
	to.Result, to.OutputJson, to.Error, to.Outcome = result, e.OutputJSON, e.Error.GetErrMsg(), e.Outcome
}
