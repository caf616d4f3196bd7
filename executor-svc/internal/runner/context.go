package runner

import (
	"fmt"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
)

// context is what the planner reads of the task, tools excepted: they are loaded when the effect runs.
func (s *Session) context(t *flow.Task, log *history.Log) *plannerv1.TaskContext {
	c := &plannerv1.TaskContext{
		TaskId: t.ID, Goal: s.head.GetGoal(), Language: s.head.GetLanguage(), Model: s.head.GetModel(),
		Playbook: s.head.GetPlaybook(), AgentDescription: s.head.GetAgentDescription(), Rounds: s.rounds,
	}
	for _, e := range log.Entries {
		if result, done := results[e.Status]; done {
			c.History = append(c.History, entry(e, result))
		}
	}
	fit(c.History)
	return c
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

func entry(e *history.Entry, result plannerv1.StepResult) *plannerv1.HistoryEntry {
	return &plannerv1.HistoryEntry{
		StepId: flow.StepID(e.Ordinal), ToolId: e.ToolID, Description: e.Description, InputJson: e.InputJSON,
		Result: result, OutputJson: e.OutputJSON, Error: e.Error.GetErrMsg(), Outcome: e.Outcome,
	}
}
