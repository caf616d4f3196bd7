package chat

import (
	"slices"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	chatv1 "pawl.dev/executor-svc/internal/flow/chat/v1"
	"pawl.dev/executor-svc/internal/flow/step"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

const (
	serverPending   = executorv1.SubtaskStatus_SUBTASK_STATUS_PENDING
	serverInUse     = executorv1.SubtaskStatus_SUBTASK_STATUS_IN_PROGRESS
	serverCompleted = executorv1.SubtaskStatus_SUBTASK_STATUS_COMPLETED
	serverFailed    = executorv1.SubtaskStatus_SUBTASK_STATUS_FAILED
)

// useServers opens a lane for each server, at most maxServers. The plan has a subtask for each, so that the answer says what each has given. A
// server that cannot be used has failed if the task names a few; otherwise the task does without it.
func (r *rules) useServers(l step.Lane, in flow.ToolsListed) {
	use, failed := in.Servers[:min(len(in.Servers), maxServers)], r.unusable(in.Tools)
	plan := &storagev1.PlanCreated{MainTask: l.Checkpoint.GetName(), Revision: 1}
	add := func(id string) {
		r.Servers = append(r.Servers, &chatv1.Server{McpId: id, Status: serverPending})
		plan.Subtasks = append(plan.Subtasks, &storagev1.PlannedSubtask{Id: id, Title: id, Description: "Use the tools of the MCP server " + id + "."})
	}
	for _, id := range use {
		add(id)
	}
	for _, s := range failed {
		add(s.GetMcpId())
	}
	if len(r.GetServers()) == 0 {
		r.reply(l)
		return
	}
	l.AddFact(&storagev1.Fact{Kind: &storagev1.Fact_PlanCreated{PlanCreated: plan}})
	l.Idle()
	for _, s := range r.GetServers() {
		lane := l.OpenLane(s.GetMcpId())
		setServer(lane, s, serverInUse, "")
	}
	for _, s := range failed {
		r.failServer(r.laneOf(l.Draft, s.GetMcpId()), &storagev1.ErrorNote{ErrMsg: s.GetMessage(), Reason: s.GetReason()})
	}
	for _, id := range use {
		r.selectTools(r.laneOf(l.Draft, id))
	}
}

// unusable returns the servers that the task names and that cannot be used; none if the task names more than it may use.
func (r *rules) unusable(tools *storagev1.ToolsLoaded) (failed []*storagev1.Skipped) {
	ids := r.task.Head.GetMcpIds()
	for _, s := range tools.GetSkipped() {
		if len(ids) <= maxServers && slices.Contains(ids, s.GetMcpId()) {
			failed = append(failed, s)
		}
	}
	return failed
}

// laneOf returns the lane of a server that is in use.
func (r *rules) laneOf(d *step.Draft, id string) step.Lane {
	all := d.Lanes()
	return all[slices.IndexFunc(all, func(l step.Lane) bool { return l.State.GetSubtaskId() == id })]
}

// server returns the lane's server.
func (r *rules) server(l step.Lane) *chatv1.Server {
	for _, s := range r.GetServers() {
		if s.GetMcpId() == l.State.GetSubtaskId() {
			return s
		}
	}
	return &chatv1.Server{} // not reached: each lane beside lane 0 has a server
}

func setServer(l step.Lane, s *chatv1.Server, to executorv1.SubtaskStatus, summary string) {
	l.AddFact(&storagev1.Fact{Kind: &storagev1.Fact_SubtaskChanged{
		SubtaskChanged: &storagev1.SubtaskChanged{From: s.GetStatus(), To: to, Summary: summary},
	}})
	s.Status = to
}

// cancelServers ends the work with the servers that are in use, because the task ends. It returns the facts, which have the task's status.
func (r *rules) cancelServers(status executorv1.ExecutorStatus) (facts []*storagev1.Fact) {
	for _, s := range r.GetServers() {
		if state.SubtaskEnded(s.GetStatus()) {
			continue
		}
		facts = append(facts, &storagev1.Fact{Status: status, SubtaskId: s.GetMcpId(), Kind: &storagev1.Fact_SubtaskChanged{
			SubtaskChanged: &storagev1.SubtaskChanged{From: s.GetStatus(), To: executorv1.SubtaskStatus_SUBTASK_STATUS_CANCELLED, Summary: "the task ended"},
		}})
		s.Status = executorv1.SubtaskStatus_SUBTASK_STATUS_CANCELLED
	}
	return facts
}

// selectTools lets the planner select the next calls.
func (r *rules) selectTools(l step.Lane) {
	r.server(l).Rounds++
	l.Ask(phaseSelectTools, flow.SelectTools{McpID: l.State.GetSubtaskId()})
}

func (r *rules) toolsSelected(l step.Lane, in flow.ToolsSelected) {
	if in.Err != nil {
		l.FailTask(in.Err)
		return
	}
	if len(in.Steps) == 0 {
		r.finishServer(l)
		return
	}
	for _, p := range in.Steps {
		l.State.Queue = append(l.State.Queue, &storagev1.QueuedStep{Step: step.NewStep(p), Problem: p.Problem})
	}
	r.next(l)
}

// next makes the lane's next call. After the last one, the planner selects again, unless a limit is reached.
func (r *rules) next(l step.Lane) {
	limits := l.Task.Head.GetLimits()
	switch queue := l.State.GetQueue(); {
	case l.Checkpoint.GetStepCount() >= limits.GetMaxSteps():
		l.State.Queue = nil
		r.finishServer(l)
	case len(queue) > 0:
		l.State.Queue = queue[1:]
		r.begin(l, queue[0])
	case r.server(l).GetRounds() >= maxRounds:
		r.finishServer(l)
	default:
		r.selectTools(l)
	}
}

// callFailed continues after a failed call: the planner may select another one, unless none can help.
func (r *rules) callFailed(l step.Lane, e *storagev1.ErrorNote) {
	l.State.Queue = nil
	if classOf(e) == "network" || l.Checkpoint.GetErrorCount() >= l.Task.Head.GetLimits().GetMaxFailedSteps() {
		r.failServer(l, e)
		return
	}
	r.server(l).Error = cut(e)
	r.next(l)
}

// finishServer ends the work with a server after its last call.
func (r *rules) finishServer(l step.Lane) {
	switch s := r.server(l); {
	case s.GetError() != nil:
		r.failServer(l, s.GetError())
	case s.GetCalled():
		r.summarize(l)
	default:
		r.endServer(l, serverCompleted, "")
	}
}

// summarize lets the planner summarize what the server's calls gave, or the conversation.
func (r *rules) summarize(l step.Lane) {
	if l.State.GetId() == 0 {
		l.Ask(phaseSummarize, flow.SummarizeConversation{})
		return
	}
	l.Ask(phaseSummarize, flow.Summarize{})
}

// summarized ends the work with a server, or the phase that prepares the context. Without a summary, the reply has the outputs themselves.
func (r *rules) summarized(l step.Lane, in flow.Summarized) {
	if l.State.GetId() == 0 {
		r.prepared(l, in)
		return
	}
	r.endServer(l, serverCompleted, in.Text)
}

// failServer reports a failed server to the topic, and ends the work with it.
func (r *rules) failServer(l step.Lane, e *storagev1.ErrorNote) {
	e = cut(e)
	r.postError(l.State.GetSubtaskId(), e)
	r.server(l).Error = e
	r.endServer(l, serverFailed, e.GetErrMsg())
}

// endServer ends the work with a server. After the last one, the planner writes the reply, which also explains what failed.
func (r *rules) endServer(l step.Lane, to executorv1.SubtaskStatus, summary string) {
	l.Go()
	setServer(l, r.server(l), to, summary)
	l.Close()
	if lanes := l.Lanes(); len(lanes) == 1 && lanes[0].State.GetId() == 0 {
		r.reply(lanes[0])
	}
}
