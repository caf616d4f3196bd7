package coding

import (
	"cmp"
	"fmt"

	"google.golang.org/protobuf/proto"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	codingv1 "pawl.dev/executor-svc/internal/flow/coding/v1"
	"pawl.dev/executor-svc/internal/flow/step"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Kind is the flow's name.
const Kind = "coding"

// stateVersion is the version of Checkpoint.flow_state.
const stateVersion = 1

// Flow is the `coding` flow.
type Flow struct{}

var _ flow.Flow = Flow{}

// Kind implements flow.Flow.
func (Flow) Kind() string { return Kind }

// Accepts implements flow.Flow.
func (Flow) Accepts(*storagev1.TaskHead) error { return nil }

// Memory implements flow.Flow.
func (Flow) Memory(*storagev1.TaskHead) flow.Memory { return flow.Memory{Turns: 3} }

// Start implements flow.Flow.
func (Flow) Start() *storagev1.Checkpoint { return step.NewCheckpoint(phaseCreatePlan) }

// Apply implements flow.Flow.
func (Flow) Apply(t *flow.Task, lane uint32, in flow.Input) (flow.Transition, error) {
	return apply(t, func(m step.Machine) (flow.Transition, error) { return m.Apply(t, lane, in) })
}

// Resume implements flow.Flow.
func (Flow) Resume(t *flow.Task, recovered bool) (flow.Transition, error) {
	return apply(t, func(m step.Machine) (flow.Transition, error) { return m.Resume(t, recovered) })
}

// Fail implements flow.Flow.
func (Flow) Fail(t *flow.Task, e *storagev1.ErrorNote) (flow.Transition, error) {
	return apply(t, func(m step.Machine) (flow.Transition, error) { return m.Fail(t, e) })
}

// apply runs the step machine with the flow's rules, which hold the plan.
func apply(t *flow.Task, run func(step.Machine) (flow.Transition, error)) (flow.Transition, error) {
	r, err := load(t.State)
	if err != nil {
		return flow.Transition{}, err
	}
	status, agent := t.State.GetStatus(), agentStatus(t.State)
	tr, err := run(step.Machine{Rules: r})
	if err == nil {
		err = cmp.Or(r.err, checkAgent(agent, agentStatus(t.State)))
	}
	if err != nil {
		return flow.Transition{}, err
	}
	if state.Ended(t.State.GetStatus()) && len(tr.Facts) > 0 {
		last := len(tr.Facts) - 1
		if last > 0 {
			status = tr.Facts[last-1].GetStatus()
		}
		tr.Facts = append(tr.Facts[:last:last], append(r.cancelOpen(status), tr.Facts[last])...)
	}
	return tr, r.store(t.State)
}

// agentStatus returns the agent's status.
func agentStatus(c *storagev1.Checkpoint) executorv1.AgentStatus {
	main := flow.LaneOf(c, 0)
	return state.Agent(c.GetStatus(), main.GetPhase() == phaseCreatePlan || main.GetPausedPhase() == phaseCreatePlan)
}

// checkAgent returns an error if the agent's status may not change so. A change from IDLE passes PLANNING.
func checkAgent(from, to executorv1.AgentStatus) error {
	if from == executorv1.AgentStatus_AGENT_STATUS_IDLE && from != to {
		from = executorv1.AgentStatus_AGENT_STATUS_PLANNING
	}
	return state.CheckAgentMove(from, to)
}

// load returns the rules with the plan of a checkpoint.
func load(c *storagev1.Checkpoint) (*rules, error) {
	s, plan := &codingv1.State{}, &codingv1.State{}
	if err := cmp.Or(proto.Unmarshal(c.GetFlowState(), s), proto.Unmarshal(c.GetFlowPlan(), plan)); err != nil {
		return nil, err
	}
	if len(plan.GetSubtasks()) != len(s.GetSubtasks()) {
		return nil, fmt.Errorf("the stored plan has %d subtasks, and its progress %d", len(plan.GetSubtasks()), len(s.GetSubtasks()))
	}
	for i, p := range plan.GetSubtasks() {
		s.Subtasks[i].Id, s.Subtasks[i].DependsOn = p.GetId(), p.GetDependsOn()
	}
	return &rules{graph{State: s}}, nil
}

// store puts the plan into a checkpoint: ids and dependencies apart from the progress, because they hardly change.
func (r *rules) store(c *storagev1.Checkpoint) (err error) {
	progress, plan := proto.CloneOf(r.State), &codingv1.State{}
	for _, s := range progress.GetSubtasks() {
		plan.Subtasks = append(plan.Subtasks, &codingv1.Subtask{Id: s.GetId(), DependsOn: s.GetDependsOn()})
		s.Id, s.DependsOn = "", nil
	}
	c.FlowStateVersion = stateVersion
	deterministic := proto.MarshalOptions{Deterministic: true}
	if c.FlowState, err = deterministic.Marshal(progress); err != nil {
		return err
	}
	c.FlowPlan, err = deterministic.Marshal(plan)
	return err
}

// cancelOpen cancels the subtasks that have not ended, because the task ends. It returns the facts.
func (r *rules) cancelOpen(status executorv1.ExecutorStatus) (facts []*storagev1.Fact) {
	for _, s := range r.Subtasks {
		if !state.SubtaskEnded(s.GetStatus()) {
			r.set(s, cancelled, "the task ended")
		}
	}
	for _, c := range r.changes {
		f := c.fact()
		f.Status = status
		facts = append(facts, f)
	}
	r.changes = nil
	return facts
}

func (c change) fact() *storagev1.Fact {
	return &storagev1.Fact{SubtaskId: c.id, Kind: &storagev1.Fact_SubtaskChanged{
		SubtaskChanged: &storagev1.SubtaskChanged{From: c.from, To: c.to, Summary: c.summary},
	}}
}
