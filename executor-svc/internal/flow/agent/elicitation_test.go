package agent_test

import (
	"testing"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/flow/agent"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// asking returns a task whose first call asks a person 5 s after it began; on applies an input at that time after the beginning.
func asking(t *testing.T, head *storagev1.TaskHead, questions ...flow.Elicitation) (task *flow.Task, on func(at time.Duration, in flow.Input) flow.Transition) {
	t.Helper()
	began := time.Unix(1000, 0)
	head.Flow, head.Confirm = "agent", executorv1.Confirm_CONFIRM_NEVER
	task = &flow.Task{ID: "task", Head: head, State: agent.New().Start()}
	on = func(at time.Duration, in flow.Input) flow.Transition {
		t.Helper()
		task.Now = began.Add(at)
		tr, err := agent.New().Apply(task, 0, in)
		if err != nil {
			t.Fatalf("%T: %v", in, err)
		}
		return tr
	}
	on(0, flow.Begun{Plan: flow.Planned{Step: &flow.PlannedStep{ToolID: "t/write", InputJSON: "{}", Tool: flow.Tool{Effect: commonv1.Effect_EFFECT_WRITE}}}})
	on(5*time.Second, flow.Elicited{Ordinal: 1, Attempt: 1, Elicitations: questions})
	return task, on
}

func limits() *storagev1.Limits {
	return &storagev1.Limits{MaxSteps: 25, MaxFailedSteps: 3, MaxAttempts: 5, MaxRunTime: int64(time.Minute)}
}

func answer(wait string) flow.Command {
	return flow.Command{Command: &storagev1.Command{Kind: &storagev1.Command_Input{Input: &storagev1.SupplyInput{
		WaitId: wait, Action: executorv1.InputAnswer_ACTION_ACCEPT, ContentJson: "{}",
	}}}}
}

// The time that a person takes to answer a question of a tool's server is not part of the task's run time.
func TestWaitingForInputIsNoRunTime(t *testing.T) {
	task, on := asking(t, &storagev1.TaskHead{Limits: limits()}, flow.Elicitation{InputID: "q"})
	on(time.Hour, flow.Timeout{})
	on(time.Hour, answer("wait-1"))
	if got := time.Duration(flow.RunTime(task.State, task.Now.Add(3*time.Second))); got != 8*time.Second {
		t.Errorf("it ran for %s, want 8 s", got)
	}
}

// If the task's wait timeout passes, the task ends. If only the question expires, the tool goes on without an answer.
func TestWhoseDeadlinePassed(t *testing.T) {
	for name, c := range map[string]struct {
		timeout, expires time.Duration
		want             executorv1.ExecutorStatus
	}{
		"the task's": {time.Minute, time.Hour, executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR},
		"the pool's": {time.Hour, time.Minute, executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING},
		"both":       {time.Minute, time.Minute, executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR},
		"neither's":  {0, 0, executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING},
	} {
		t.Run(name, func(t *testing.T) {
			q := flow.Elicitation{InputID: "q"}
			if c.expires > 0 {
				q.Expire = time.Unix(1005, 0).Add(c.expires).UnixNano()
			}
			task, on := asking(t, &storagev1.TaskHead{Limits: limits(), WaitTimeout: int64(c.timeout)}, q)
			on(30*time.Second, flow.Timeout{})
			if task.State.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING {
				t.Fatalf("too early it is %s", task.State.GetStatus())
			}
			on(2*time.Minute, flow.Timeout{})
			if got := task.State.GetStatus(); got != c.want {
				t.Errorf("it is %s, want %s", got, c.want)
			}
		})
	}
}

// If a task was cancelled or has no run time left, a further question of its call is not shown: the call is followed to its end.
func TestStoppingCallShowsNoQuestion(t *testing.T) {
	for name, before := range map[string]struct {
		in flow.Input
		at time.Duration
	}{
		"cancelled":    {flow.Command{Command: &storagev1.Command{Kind: &storagev1.Command_Cancel{Cancel: &storagev1.Cancel{}}}}, time.Second},
		"without time": {flow.Timeout{}, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			task, on := asking(t, &storagev1.TaskHead{Limits: limits()}, flow.Elicitation{InputID: "q1"})
			on(6*time.Second, answer("wait-1"))
			on(6*time.Second+before.at, before.in)
			tr := on(7*time.Second+before.at, flow.Elicited{Ordinal: 1, Attempt: 1, Elicitations: []flow.Elicitation{{InputID: "q2"}}})
			if len(task.State.GetWaits()) > 0 || len(tr.Actions) != 2 || tr.Actions[0].Action != (flow.Attach{Ordinal: 1, Attempt: 1, Stopping: true}) {
				t.Errorf("waits %v, actions %v", task.State.GetWaits(), tr.Actions)
			}
		})
	}
}
