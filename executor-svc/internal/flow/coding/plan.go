package coding

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	codingv1 "pawl.dev/executor-svc/internal/flow/coding/v1"
	"pawl.dev/executor-svc/internal/flow/step"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

const (
	maxRefusedPlans = 3
	// maxEditedSubtasks is the most subtasks of a plan that a person edited, whatever the task's limit is.
	maxEditedSubtasks = 200
)

// PlanOptions implements flow.Flow.
func (Flow) PlanOptions(o *executorv1.PlanOptions) *executorv1.PlanOptions {
	return &executorv1.PlanOptions{
		Confirm:           cmp.Or(o.GetConfirm(), executorv1.ConfirmPlan_CONFIRM_PLAN_BY_RISK),
		MaxParallel:       cmp.Or(o.GetMaxParallel(), 4),
		MaxLoops:          cmp.Or(o.GetMaxLoops(), 30),
		MaxSubtasks:       cmp.Or(o.GetMaxSubtasks(), 20),
		MaxSubtaskRunTime: o.GetMaxSubtaskRunTime(),
	}
}

// planCreated records the planner's plan. It asks for another one if the plan cannot be used, and a person to confirm it if the policy says so.
func (r *rules) planCreated(l step.Lane, in flow.PlanCreated) {
	if in.Tools != nil && l.Checkpoint.GetFlowStartSeq() == 0 {
		l.Started(in.Tools, in.Name, in.Risk)
	}
	l.Go()
	if in.Err != nil {
		l.FailTask(in.Err)
		return
	}
	if err := r.plan(nodesOf(in.Subtasks), int(l.Task.Head.GetPlanOptions().GetMaxSubtasks())); err != nil {
		r.refusePlan(l, err)
		return
	}
	fact := r.planFact(in.MainTask, in.Subtasks)
	if !mustConfirm(l.Task) {
		l.AddFact(fact)
		r.work(l.Draft)
		return
	}
	w := l.OpenWait(nil, executorv1.WaitKind_WAIT_KIND_PLAN, in.MainTask)
	fact.WaitId, fact.GetPlanCreated().Deadline = w.GetId(), w.GetDeadline()
	l.AddFact(fact)
	r.record(l.Draft)
	l.Rest()
}

// refusePlan asks for another plan, or fails the task.
func (r *rules) refusePlan(l step.Lane, problem error) {
	r.RefusedPlans++
	if r.GetRefusedPlans() >= maxRefusedPlans {
		l.FailTask(&storagev1.ErrorNote{
			ErrMsg: fmt.Sprintf("the planner made %d plans that cannot be used; the last problem was: %v", r.GetRefusedPlans(), problem),
			Reason: commonv1.ErrorReason_ERROR_REASON_PLANNING_FAILED,
		})
		return
	}
	note(l, "the plan cannot be used: "+problem.Error())
	l.Ask(phaseCreatePlan, flow.CreatePlan{Problem: problem.Error()})
}

// mustConfirm implements the policy by which a person confirms the plan.
func mustConfirm(t *flow.Task) bool {
	switch t.Head.GetPlanOptions().GetConfirm() {
	case executorv1.ConfirmPlan_CONFIRM_PLAN_ALWAYS:
		return true
	case executorv1.ConfirmPlan_CONFIRM_PLAN_NEVER:
		return false
	}
	return t.State.GetRisk().GetLevel() > commonv1.RiskLevel_RISK_LEVEL_LOW
}

// PlanApproved implements step.Rules: work starts, with the plan as the person edited it.
func (r *rules) PlanApproved(l step.Lane, a *storagev1.Approve) {
	before := l.Checkpoint.GetStatus()
	l.Go()
	if p := a.GetPlan(); p != nil {
		if err := r.plan(nodesOf(p.GetSubtasks()), maxEditedSubtasks); err != nil {
			l.Refuse(errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "the edited plan cannot be used: %w", err))
			return
		}
		l.AddFact(r.planFact(cmp.Or(p.GetMainTask(), l.Checkpoint.GetName()), p.GetSubtasks()))
	}
	l.AddFact(&storagev1.Fact{WaitId: a.GetWaitId(), Kind: &storagev1.Fact_StatusChanged{
		StatusChanged: &storagev1.StatusChanged{From: before, Reason: step.Approved, SuppliedHash: flow.ApprovalHash(a, "")},
	}})
	r.work(l.Draft)
}

// planFact returns the fact of a new plan, with its subtasks in plan order.
func (r *rules) planFact(mainTask string, subtasks []*storagev1.PlannedSubtask) *storagev1.Fact {
	p := &storagev1.PlanCreated{MainTask: mainTask, Revision: r.GetRevision()}
	for _, s := range r.Subtasks {
		p.Subtasks = append(p.Subtasks, subtasks[slices.IndexFunc(subtasks, func(planned *storagev1.PlannedSubtask) bool { return planned.GetId() == s.GetId() })])
	}
	return &storagev1.Fact{Kind: &storagev1.Fact_PlanCreated{PlanCreated: p}}
}

// changePlan revises the plan as the lane's thought proposed. A change that cannot be applied is noted, for the planner and for people.
func (r *rules) changePlan(l step.Lane, c *flow.PlanChange) {
	before := r.GetRevision()
	skipped, err := r.revise(revision{add: nodesOf(c.Add), drop: c.Drop, order: c.Order, reason: c.Reason}, int(l.Task.Head.GetPlanOptions().GetMaxSubtasks()))
	if err != nil {
		note(l, "the plan was not changed: "+err.Error())
		return
	}
	if r.GetRevision() != before {
		p := &storagev1.PlanCreated{Subtasks: c.Add, Revision: r.GetRevision(), Reason: c.Reason}
		for _, id := range c.Drop {
			if !slices.Contains(skipped, id) {
				p.Dropped = append(p.Dropped, id)
			}
		}
		for _, s := range r.Subtasks {
			if len(c.Order) > 0 && waits(s) {
				p.Order = append(p.Order, s.GetId())
			}
		}
		l.AddFact(&storagev1.Fact{Kind: &storagev1.Fact_PlanCreated{PlanCreated: p}})
		r.work(l.Draft) // added subtasks may start
	}
	if len(skipped) > 0 {
		note(l, "subtasks that have started stay as they are in the plan: "+strings.Join(skipped, ", "))
	}
}

// note adds a fact that tells people and the planner something about the lane's work.
func note(l step.Lane, text string) {
	l.AddFact(&storagev1.Fact{Kind: &storagev1.Fact_StatusChanged{
		StatusChanged: &storagev1.StatusChanged{From: l.Checkpoint.GetStatus(), Reason: text},
	}})
}

// record adds facts for the changes of subtasks, and returns the ids of those that started.
func (r *rules) record(d *step.Draft) (started []string) {
	for _, c := range r.changes {
		d.AddFact(c.fact())
		if c.to == inProgress {
			started = append(started, c.id)
		}
	}
	r.changes = nil
	return started
}

func nodesOf(subtasks []*storagev1.PlannedSubtask) []node {
	nodes := make([]node, 0, len(subtasks))
	for _, s := range subtasks {
		nodes = append(nodes, node{s.GetId(), s.GetDependsOn()})
	}
	return nodes
}

// work starts the subtasks that can start, each in a lane of its own. After the last one has ended, it lets the planner answer.
func (r *rules) work(d *step.Draft) {
	if flow.LaneOf(d.Checkpoint, 0) == nil {
		return // the task ends
	}
	main, _ := d.Lane(0)
	r.recompute()
	r.start(int(d.Task.Head.GetPlanOptions().GetMaxParallel()))
	started := r.record(d)
	if r.ended() {
		d.Go()
		main.BeginAnswer(r.cutShort())
		return
	}
	main.Idle()
	for _, id := range started {
		r.think(d.OpenLane(id))
	}
}

// cutShort says which subtasks were not completed; empty if all were.
func (r *rules) cutShort() string {
	var missing []string
	for _, s := range r.Subtasks {
		if s.GetStatus() != completed && !s.GetDropped() {
			missing = append(missing, s.GetId()+" "+statusWord(s))
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return "Not every subtask was completed: " + strings.Join(missing, ", ") + "."
}

func statusWord(s *codingv1.Subtask) string {
	if s.GetStatus() == failed {
		return "failed"
	}
	return "was cancelled"
}
