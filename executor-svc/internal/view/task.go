package view

import (
	"cmp"

	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Task derives the API's task from a stored one, without the answer, which is in the last record.
func Task(t *journal.Task) *executorv1.Task {
	h, c := t.Head, t.Checkpoint
	out := &executorv1.Task{
		Id: t.ID, UserSub: h.GetUserSub(), ConversationId: h.GetConversationId(), AgentId: h.GetAgentId(),
		Goal: h.GetGoal(), McpIds: h.GetMcpIds(), Confirm: h.GetConfirm(), Language: h.GetLanguage(),
		Flow: h.GetFlow(), Model: h.GetModel(), Name: c.GetName(), Risk: risk(c.GetRisk()), Status: c.GetStatus(),
		CancelRequested: c.GetCancelRequested(), StepCount: c.GetStepCount(), ErrorCount: c.GetErrorCount(),
		Error: errorMessage(c.GetError()), LastSeq: c.GetLastSeq(), Usage: usage(c.GetUsage(), c.GetUpdateTime()-h.GetCreateTime()),
		CreateTime: timestamp(h.GetCreateTime()), UpdateTime: timestamp(c.GetUpdateTime()), EndTime: timestamp(c.GetEndTime()),
	}
	out.PauseRequested, out.Queued, out.StatusReason = c.GetPauseRequested(), t.Queued, c.GetStatusReason()
	if out.PlanOptions = h.GetPlanOptions(); out.GetPlanOptions() != nil {
		out.AgentStatus = state.Agent(c.GetStatus(), flow.LaneOf(c, 0).GetPhase() == storagev1.Phase_PHASE_CREATE_PLAN)
	}
	out.Budget, out.WaitTimeout, out.OnUnknownOutcome = Budget(h.GetLimits()), Duration(h.GetWaitTimeout()), h.GetOnUnknownOutcome()
	if n := len(h.GetForks()); n > 0 {
		out.ForkedFrom = &executorv1.Fork{TaskId: h.GetForks()[n-1].GetTaskId(), Seq: h.GetForks()[n-1].GetSeq()}
	}
	for _, l := range c.GetLanes() {
		if s := l.GetStep(); s != nil {
			out.ActiveSteps = append(out.ActiveSteps, activeStep(t, s))
		}
	}
	for _, w := range c.GetWaits() {
		out.Waits = append(out.Waits, wait(h, c, w))
	}
	return out
}

// Budget derives a budget; nil if nothing is bounded.
func Budget(l *storagev1.Limits) *executorv1.Budget {
	b := &executorv1.Budget{
		MaxToolCalls: l.GetMaxToolCalls(), MaxModelCalls: l.GetMaxModelCalls(), MaxTokens: l.GetMaxTokens(), MaxRunTime: Duration(l.GetMaxRunTime()),
		MaxCostNanoUsd: l.GetMaxCostNanoUsd(),
	}
	if proto.Equal(b, &executorv1.Budget{}) {
		return nil
	}
	return b
}

// FullAnswer returns the answer in a task's last record, or "".
func FullAnswer(rs []journal.Record) string {
	for _, r := range rs {
		for _, f := range r.GetFacts() {
			if s := cmp.Or(f.GetFlowSuccess(), f.GetGoalNotReached()); s != nil {
				return s.GetFullAnswer()
			}
		}
	}
	return ""
}

func activeStep(t *journal.Task, s *storagev1.ActiveStep) *executorv1.Step {
	out := Step(t, &history.Entry{
		Ordinal: s.GetOrdinal(), SubtaskID: s.GetSubtaskId(), ToolID: s.GetToolId(), Description: s.GetDescription(), Status: s.GetStatus(),
		Outcome: s.GetOutcome(), Attempt: s.GetAttempt(), InputJSON: s.GetInputJson(), Error: s.GetError(), Risk: s.GetRisk(),
		StartSeq: t.Checkpoint.GetLastSeq(), // Step needs only a seq of the same task
	})
	for _, w := range t.Checkpoint.GetWaits() {
		if w.GetOrdinal() == s.GetOrdinal() {
			out.WaitId = w.GetId()
		}
	}
	return out
}

func wait(h *storagev1.TaskHead, c *storagev1.Checkpoint, w *storagev1.Wait) *executorv1.Wait {
	out := &executorv1.Wait{
		Id: w.GetId(), Kind: w.GetKind(), Message: w.GetMessage(),
		ParamsSchemaJson: w.GetParamsSchemaJson(), ParamsSchema: toStruct(w.GetParamsSchemaJson()), Hash: w.GetHash(),
		CreateTime: timestamp(w.GetCreateTime()), Deadline: timestamp(w.GetDeadline()), Url: w.GetUrl(),
	}
	if w.GetOrdinal() != 0 {
		out.StepId, out.RejectFailsStep = flow.StepID(w.GetOrdinal()), h.GetPlanOptions() != nil || h.GetChat() != nil
	}
	if s := flow.ActiveStep(c, w.GetOrdinal()); s != nil {
		out.SubtaskId, out.ToolId, out.Risk = s.GetSubtaskId(), s.GetToolId(), risk(s.GetRisk())
		out.InputJson, out.Input = s.GetInputJson(), toStruct(s.GetInputJson())
	}
	return out
}

// Step derives a step from its entry in the history.
func Step(t *journal.Task, e *history.Entry) *executorv1.Step {
	out := &executorv1.Step{
		Id: flow.StepID(e.Ordinal), TaskId: t.ID, SubtaskId: e.SubtaskID, Type: executorv1.StepType_STEP_TYPE_TOOL,
		ToolId: e.ToolID, Name: e.ToolID, Description: e.Description, Status: e.Status, Outcome: e.Outcome, Attempt: e.Attempt,
		InputJson: e.InputJSON, Input: toStruct(e.InputJSON), OutputJson: e.OutputJSON, Output: toStruct(e.OutputJSON),
		Error: errorMessage(e.Error), Risk: risk(e.Risk), WaitId: e.WaitID,
		CreateTime: timestamp(e.CreateTime), StartTime: timestamp(e.StartTime), EndTime: timestamp(e.EndTime),
		RunTime: Duration(e.RunTime),
	}
	if e.Dropped {
		out.Status, out.WaitId = executorv1.StepStatus_STEP_STATUS_CANCELLED, ""
		if e.Status == executorv1.StepStatus_STEP_STATUS_RUNNING || e.Asking() {
			out.Outcome = commonv1.Outcome_OUTCOME_UNKNOWN // in this task; the forked one may know it
		}
	}
	if e.Attempt > 0 {
		out.CallId = flow.AttemptID(taskIDOf(t, e.StartSeq), e.Ordinal, e.Attempt)
	}
	return out
}
