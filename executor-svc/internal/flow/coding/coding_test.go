package coding

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

const (
	taskRunning   = executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING
	taskWaiting   = executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING
	taskSuccess   = executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS
	taskFailed    = executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR
	taskCancelled = executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED
)

// D1, D7: the plan is worked on subtask by subtask, and then answered.
func TestWorksThroughThePlan(t *testing.T) {
	r := newRig(t)
	r.plan("a b:a c")
	r.want("ToolsLoaded FlowStart Plan1 b:BLOCKED a:IN_PROGRESS c:IN_PROGRESS")
	r.thinks("a", calls("read"))
	r.want("a:Reflection a/1:StepInit a/1:StepInput")
	r.called("a", flow.Called{})
	r.want("a/1:StepOutput")
	r.thinks("a", done("a is done"))
	r.want("a:Reflection a:COMPLETED b:PENDING b:IN_PROGRESS")
	r.thinks("b", done(""))
	r.thinks("c", done(""))
	r.answer()
	r.want("b:Reflection b:COMPLETED c:Reflection c:COMPLETED FlowSuccess")
	r.status(taskSuccess)
}

// D7: at most max_parallel subtasks run at once, the next in plan order.
func TestParallelLimit(t *testing.T) {
	r := newRig(t, func(h *storagev1.TaskHead) { h.PlanOptions = &executorv1.PlanOptions{MaxParallel: 2} })
	r.plan("a b c d")
	r.want("ToolsLoaded FlowStart Plan1 a:IN_PROGRESS b:IN_PROGRESS")
	r.thinks("b", done(""))
	r.want("b:Reflection b:COMPLETED c:IN_PROGRESS")
}

// D1, D7: a failed subtask cancels those that depend on it, the others go on, and the answer says that the goal was not reached.
func TestFailedSubtask(t *testing.T) {
	r := newRig(t)
	r.plan("a b:a c")
	r.events()
	r.thinks("a", flow.Thought{Err: &storagev1.ErrorNote{ErrMsg: "the model refuses"}})
	r.want("a:FAILED b:CANCELLED")
	r.status(taskRunning)
	r.thinks("c", done(""))
	r.answer()
	r.want("c:Reflection c:COMPLETED GoalNotReached")
	r.status(taskFailed)
	if e := r.task.State.GetError(); e.GetReason() != commonv1.ErrorReason_ERROR_REASON_GOAL_NOT_REACHED || !strings.Contains(e.GetErrMsg(), "a failed, b was cancelled") {
		t.Errorf("%v", e)
	}
}

// D3: a subtask ends if the reflection says done, if it neither calls nor is done twice in a row, or at the limit.
func TestEndsOfASubtask(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(r *rig)
		want string
	}{
		"done beside calls": {func(r *rig) {
			in := calls("read")
			in.Reflection.Done = true
			r.thinks("a", in)
		}, "a:Reflection a:COMPLETED"},
		"nothing, and the reflection says done": {func(r *rig) {
			r.thinks("a", flow.Thought{})
			r.reflects("a", done("").Reflection)
		}, "a:Reflection a:COMPLETED"},
		"nothing twice": {func(r *rig) {
			r.thinks("a", flow.Thought{})
			r.reflects("a", undone("").Reflection)
			r.thinks("a", flow.Thought{})
			r.reflects("a", undone("").Reflection)
		}, "a:Reflection a:Reflection a:FAILED"},
		"not done twice, without calls": {func(r *rig) {
			r.thinks("a", undone(""))
			if o := r.observation("a"); !strings.Contains(o, "called no tool") {
				t.Errorf("observation %q", o)
			}
			r.thinks("a", undone(""))
		}, "a:Reflection a:Reflection a:FAILED"},
		"a call between": {func(r *rig) {
			r.thinks("a", undone(""))
			r.thinks("a", calls("read"))
			r.called("a", flow.Called{})
			r.thinks("a", undone(""))
			r.thinks("a", done(""))
		}, "a:Reflection a:Reflection a/1:StepInit a/1:StepInput a/1:StepOutput a:Reflection a:Reflection a:COMPLETED"},
		"the limit": {func(r *rig) {
			for range 3 {
				r.thinks("a", calls("read"))
				r.called("a", flow.Called{})
			}
		}, strings.ReplaceAll("a:Reflection a/1:StepInit a/1:StepInput a/1:StepOutput a:Reflection a/2:StepInit a/2:StepInput a/2:StepOutput "+
			"a:Reflection a/3:StepInit a/3:StepInput a/3:StepOutput a:FAILED", "\n", "")},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(h *storagev1.TaskHead) { h.PlanOptions = &executorv1.PlanOptions{MaxLoops: 3} })
			if name == "a call between" {
				r.task.Head.PlanOptions.MaxLoops = 9
			}
			r.plan("a")
			r.events()
			c.do(r)
			r.want(c.want)
		})
	}
}

// D9: the plan is confirmed as the policy says.
func TestConfirmPlan(t *testing.T) {
	const low, medium = commonv1.RiskLevel_RISK_LEVEL_LOW, commonv1.RiskLevel_RISK_LEVEL_MEDIUM
	for _, c := range []struct {
		policy executorv1.ConfirmPlan
		risk   commonv1.RiskLevel
		asks   bool
	}{
		{executorv1.ConfirmPlan_CONFIRM_PLAN_ALWAYS, low, true},
		{executorv1.ConfirmPlan_CONFIRM_PLAN_BY_RISK, low, false},
		{executorv1.ConfirmPlan_CONFIRM_PLAN_BY_RISK, medium, true},
		{executorv1.ConfirmPlan_CONFIRM_PLAN_UNSPECIFIED, medium, true},
		{executorv1.ConfirmPlan_CONFIRM_PLAN_NEVER, commonv1.RiskLevel_RISK_LEVEL_HIGH, false},
	} {
		t.Run(c.policy.String()+c.risk.String(), func(t *testing.T) {
			r := newRig(t, func(h *storagev1.TaskHead) { h.PlanOptions = &executorv1.PlanOptions{Confirm: c.policy} })
			r.plan("a", c.risk)
			if !c.asks {
				r.want("ToolsLoaded FlowStart Plan1 a:IN_PROGRESS")
				return
			}
			r.want("ToolsLoaded FlowStart Plan1 FlowStop")
			r.status(taskWaiting)
			r.approve("wait-1")
			r.want("Note a:IN_PROGRESS")
			r.status(taskRunning)
		})
	}
}

func confirmAlways(h *storagev1.TaskHead) {
	h.PlanOptions = &executorv1.PlanOptions{Confirm: executorv1.ConfirmPlan_CONFIRM_PLAN_ALWAYS}
}

// A person may edit the plan or refuse it.
func TestEditedAndRefusedPlan(t *testing.T) {
	r := newRig(t, confirmAlways)
	r.plan("a b:a")
	r.events()
	edit := func(plan string) error {
		return r.command(&storagev1.Command{Kind: &storagev1.Command_Approve{Approve: &storagev1.Approve{
			WaitId: "wait-1", Plan: &storagev1.PlanCreated{MainTask: "other", Subtasks: subtasks(plan)},
		}}})
	}
	if err := edit("x:y y:x"); err == nil || !strings.Contains(err.Error(), "x → y → x") {
		t.Errorf("a cycle: %v", err)
	}
	r.status(taskWaiting)
	if err := edit("y:x x"); err != nil {
		t.Fatal(err)
	}
	r.want("Plan2 Note y:BLOCKED x:IN_PROGRESS")
	if ids := r.facts[len(r.facts)-4].GetPlanCreated().GetSubtasks(); ids[0].GetId() != "x" {
		t.Errorf("the plan is not in order: %v", ids)
	}

	r = newRig(t, confirmAlways)
	r.plan("a")
	r.events()
	r.reject("wait-1", "")
	r.want("a:CANCELLED FlowCancel")
	r.status(taskCancelled)
}

// D7: a plan with an unknown dependency or a cycle is sent back with its path, and fails the task at the third time.
func TestUnusablePlans(t *testing.T) {
	r := newRig(t)
	r.plan("a:b b:a")
	r.want("ToolsLoaded FlowStart Note")
	a := r.pop("", asks[flow.CreatePlan])
	if got := a.Action.(flow.Ask).Question.(flow.CreatePlan).Problem; got != "the dependencies have a cycle: a → b → a" {
		t.Errorf("problem %q", got)
	}
	r.pending = append(r.pending, a)
	r.plan("a:x")
	r.plan("")
	r.want("Note FlowFailed")
	r.status(taskFailed)
}

// D8, D12: calls that only read run at once, at most 8; others one after the other, in order.
func TestCallsAtOnce(t *testing.T) {
	r := newRig(t)
	r.plan("a")
	r.events()
	r.thinks("a", calls("read", "read", "run", "read", "run", "read", "read"))
	running := func(want int) {
		t.Helper()
		n := 0
		for _, a := range r.pending {
			if isCall(a.Action) {
				n++
			}
		}
		if n != want || len(r.pending) != want {
			t.Errorf("%v run, want %d", r.pending, want)
		}
	}
	running(2)
	r.called("a", flow.Called{})
	running(1)
	for range 4 { // read, run, read, run
		running(1)
		r.called("a", flow.Called{})
	}
	running(2)
	r.called("a", flow.Called{})
	r.called("a", flow.Called{})
	r.thinks("a", calls("read", "read", "read", "read", "read", "read", "read", "read", "read", "read"))
	running(8)
}

// D5: a call whose arguments do not fit is a failed record; the calls after it are not made, and the planner is told.
func TestBadArguments(t *testing.T) {
	r := newRig(t)
	r.plan("a")
	r.events()
	r.thinks("a", calls("run", "bad", "run", "run"))
	r.called("a", flow.Called{})
	r.want("a:Reflection a/1:StepInit a/1:StepInput a/1:StepOutput a/2:StepInit a/2:StepInput a/2:StepError,RECOVERABLE,CONTINUE")
	if o := r.observation("a"); !strings.Contains(o, "2 calls of the last thought not made") {
		t.Errorf("observation %q", o)
	}
	r.crash()
	if o := r.observation("a"); !strings.Contains(o, "2 calls of the last thought not made") {
		t.Errorf("observation after a crash %q", o)
	}
	r.thinks("a", calls("bad", "bad")) // all at once
	r.want("a:Reflection a/3:StepInit a/3:StepInput a/3:StepError,RECOVERABLE,CONTINUE a/4:StepInit a/4:StepInput a/4:StepError,RECOVERABLE,CONTINUE")
	r.thinks("a", calls("read", "bad", "run")) // the first two at once
	r.called("a", flow.Called{})
	if o := r.observation("a"); !strings.Contains(o, "1 call of the last thought not made") {
		t.Errorf("observation %q", o)
	}
	r.thinks("a", done(""))
	r.answer()
	r.status(taskSuccess)
}

// D6
func TestFilesOfACall(t *testing.T) {
	r := newRig(t)
	r.plan("a")
	r.thinks("a", calls("run"))
	r.events()
	r.called("a", flow.Called{Output: `{"structured":{"changes":[{"path":"x.go","change":"modified"},{"path":"y.go","change":"created"}]}}`})
	r.want("a/1:FileChanged,x.go a/1:FileChanged,y.go a/1:StepOutput")
}

// D9: a refused call is a failed record, and its subtask goes on.
func TestRefusedCall(t *testing.T) {
	r := newRig(t)
	r.plan("a")
	r.events()
	r.thinks("a", calls("write", "run"))
	r.want("a:Reflection a/1:StepInit a/1:StepWaitingForStart FlowStop")
	r.status(taskWaiting)
	r.reject("wait-1", "not this file")
	r.want("a/1:StepError,RECOVERABLE,CONTINUE")
	r.status(taskRunning)
	e := r.facts[len(r.facts)-1].GetStepError().GetError()
	if e.GetErrMsg() != "Cancelled by user: not this file" || e.GetReason() != commonv1.ErrorReason_ERROR_REASON_REJECTED {
		t.Errorf("%v", e)
	}
	if o := r.observation("a"); !strings.Contains(o, "1 call ") {
		t.Errorf("observation %q", o)
	}
	r.thinks("a", calls("write"))
	r.approve("wait-2")
	r.called("a", flow.Called{})
	r.thinks("a", done(""))
	r.answer()
	r.status(taskSuccess)
}

// A26: FLOW_STOP only when no lane can go on; each of several waits is answered alone, in any order.
func TestSeveralWaits(t *testing.T) {
	r := newRig(t)
	r.plan("a b c")
	r.events()
	r.thinks("a", calls("write"))
	r.thinks("b", calls("write"))
	r.want("a:Reflection a/1:StepInit a/1:StepWaitingForStart b:Reflection b/2:StepInit b/2:StepWaitingForStart")
	r.status(taskRunning)
	r.thinks("c", done(""))
	r.want("c:Reflection c:COMPLETED FlowStop")
	r.status(taskWaiting)
	r.approve("wait-2")
	r.want("b/2:StepInput")
	r.status(taskRunning)
	r.called("b", flow.Called{})
	r.thinks("b", done(""))
	r.status(taskWaiting)
	r.approve("wait-1")
	r.called("a", flow.Called{})
	r.thinks("a", done(""))
	r.answer()
	r.status(taskSuccess)
}

// D11: a missing permission asks a person, who approves the call again; with CONFIRM_NEVER the planner goes on instead.
func TestMissingPermission(t *testing.T) {
	r := newRig(t)
	r.plan("a")
	r.thinks("a", calls("run"))
	r.events()
	refused := failure("LOGIN_REQUIRED", "log in first")
	refused.Outcome = commonv1.Outcome_OUTCOME_NOT_EXECUTED
	r.called("a", refused)
	r.want("a/1:StepError,PERMISSION,ASK a/1:StepWaitingForStart FlowStop")
	if risk := r.facts[len(r.facts)-2].GetStepWaitingForStart().GetRisk(); risk.GetReason() != "The call was refused: log in first" {
		t.Errorf("%v", risk)
	}
	r.approve("wait-1")
	r.want("a/1:StepInput")
	r.called("a", flow.Called{})
	r.want("a/1:StepOutput")

	r = newRig(t, func(h *storagev1.TaskHead) { h.Confirm = executorv1.Confirm_CONFIRM_NEVER })
	r.plan("a")
	r.thinks("a", calls("run"))
	r.events()
	r.called("a", refused)
	r.want("a/1:StepError,PERMISSION,CONTINUE")
}

// D11: permanent errors three times in a row fail the subtask with the reason.
func TestPermanentErrors(t *testing.T) {
	r := newRig(t)
	r.plan("a b")
	for range 2 {
		r.thinks("a", calls("run"))
		r.called("a", failure("TOOL_NOT_FOUND", "no such tool"))
	}
	r.thinks("a", calls("run", "run"))
	r.events()
	r.called("a", failure("TOOL_NOT_FOUND", "no such tool"))
	r.want("a/3:StepError,PERMANENT,STOP a:FAILED")
	if got := r.facts[len(r.facts)-1].GetSubtaskChanged().GetSummary(); got != "no such tool" {
		t.Errorf("summary %q", got)
	}
	r.status(taskRunning)
}

// A reflection may revise the plan; what cannot be applied is noted and changes nothing.
func TestRevisedPlan(t *testing.T) {
	r := newRig(t, func(h *storagev1.TaskHead) { h.PlanOptions = &executorv1.PlanOptions{MaxParallel: 2} })
	r.plan("a b c:b d")
	r.events()
	in := calls("run")
	in.Change = &flow.PlanChange{Add: subtasks("e:a f"), Drop: []string{"c", "b"}, Order: []string{"f", "d"}, Reason: "another way"}
	r.thinks("a", in)
	r.want("a:Reflection a:Plan2 c:CANCELLED e:BLOCKED a:Note a/1:StepInit a/1:StepInput")
	p := r.facts[len(r.facts)-6].GetPlanCreated()
	if got := strings.Join(p.GetDropped(), " ") + "; " + strings.Join(p.GetOrder(), " "); got != "c; f d e" {
		t.Errorf("dropped and order: %s", got)
	}
	r.called("a", flow.Called{})
	in = done("")
	in.Change = &flow.PlanChange{Drop: []string{"z"}}
	r.thinks("a", in)
	r.want("a/1:StepOutput a:Reflection a:Note a:COMPLETED e:PENDING f:IN_PROGRESS")
	for _, id := range []string{"f", "d", "e", "b"} {
		if id == "d" {
			r.want("f:Reflection f:COMPLETED d:IN_PROGRESS")
		}
		r.thinks(id, done(""))
	}
	r.answer()
	r.status(taskSuccess) // c was dropped
}

// Cancelling a subtask stops its call alone, and cancels those that depend on it.
func TestCancelSubtask(t *testing.T) {
	cancelledCall := failure("CANCELLED", "stopped")
	for name, c := range map[string]struct {
		thought flow.Thought
		crash   bool
		ends    int    // calls that end after the cancellation
		failure string // the text of the tool's own error, if it reports one
		want    string
	}{
		"thinking":      {want: "a:CANCELLED b:CANCELLED"},
		"calling":       {thought: calls("run", "run"), ends: 1, want: "a/2:StepCancel a:CANCELLED b:CANCELLED"},
		"tool stopped":  {thought: calls("run"), ends: 1, failure: "context canceled", want: "a/2:StepCancel a:CANCELLED b:CANCELLED"},
		"tool failed":   {thought: calls("run"), ends: 1, failure: "exit 1", want: "a/2:StepError,RECOVERABLE,STOP a:CANCELLED b:CANCELLED"},
		"several calls": {thought: calls("read", "read", "run"), ends: 2, want: "a/2:StepCancel a/3:StepCancel a:CANCELLED b:CANCELLED"},
		"waiting":       {thought: calls("write"), want: "a/2:StepCancel a:CANCELLED b:CANCELLED"},
		"crash":         {thought: calls("run"), crash: true, ends: 1, want: "a/2:StepCancel a:CANCELLED b:CANCELLED"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.plan("a b:a c")
			r.thinks("c", calls("run"))
			if c.thought.Steps != nil {
				r.thinks("a", c.thought)
			}
			r.events()
			if err := r.cancel("a"); err != nil {
				t.Fatal(err)
			}
			if c.crash {
				r.crash()
			}
			if n := len(r.stopped); n != c.ends {
				t.Errorf("%d calls are stopped, want %d", n, c.ends)
			}
			ended := cancelledCall
			if c.failure != "" {
				ended = failure("TOOL_EXECUTION_FAILED", c.failure)
			}
			for range c.ends {
				r.called("a", ended)
			}
			for _, f := range r.facts[r.seen:] {
				if got := f.GetStepCancel().GetReason() + f.GetSubtaskChanged().GetSummary(); strings.Contains(got, "context") {
					t.Errorf("reason %q", got)
				}
			}
			r.want(c.want)
			r.status(taskRunning)
			r.called("c", flow.Called{})
			r.thinks("c", done(""))
			r.answer()
			r.status(taskFailed)
		})
	}
	r := newRig(t)
	r.plan("a b c:a")
	r.events()
	if err := r.cancel("x"); err == nil {
		t.Error("an unknown subtask is cancelled")
	}
	if err := r.cancel("c"); err != nil {
		t.Error(err)
	}
	r.want("c:CANCELLED")
	if got := r.facts[len(r.facts)-1].GetSubtaskChanged().GetSummary(); got != "Cancelled by user" {
		t.Errorf("the summary of a subtask that was cancelled before it started is %q", got)
	}
	if err := r.cancel("c"); err != nil {
		t.Errorf("cancelled again: %v", err)
	}
	r.want("")
	r.thinks("a", done(""))
	r.events()
	if err := r.cancel("a"); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_INVALID_STATE_TRANSITION || !strings.HasSuffix(err.Error(), "ended: COMPLETED") {
		t.Errorf("a subtask that has ended is cancelled: %v", err)
	}
	r.want("")
}

// A grant answers the waits of other lanes that it covers; other tools, and a call that may have run, still wait.
func TestGrantAnswersOtherLanes(t *testing.T) {
	r := newRig(t)
	r.plan("a b c d")
	r.thinks("a", calls("write"))
	r.thinks("b", calls("write"))
	r.thinks("c", calls("write2"))
	r.thinks("d", calls("write"))
	r.approve("wait-4")
	refused := failure("LOGIN_REQUIRED", "log in first")
	refused.Outcome = commonv1.Outcome_OUTCOME_NOT_EXECUTED
	r.called("d", refused) // asks again
	r.events()
	grant := &storagev1.Approve{WaitId: "wait-2", Grant: commonv1.RiskLevel_RISK_LEVEL_HIGH}
	if err := r.command(&storagev1.Command{Kind: &storagev1.Command_Approve{Approve: grant}}); err != nil {
		t.Fatal(err)
	}
	r.want("b/2:StepInput a/1:StepInput")
	if got := r.facts[len(r.facts)-1].GetWaitId(); got != "wait-1" {
		t.Errorf("the second call answers %q", got)
	}
	if n := len(r.task.State.GetWaits()); n != 2 {
		t.Errorf("%d waits are open, want those of c and d", n)
	}
}

// The end of the task ends all subtasks.
func TestCancelTask(t *testing.T) {
	r := newRig(t)
	r.plan("a b:a c d")
	r.thinks("a", calls("run"))
	r.thinks("c", calls("write"))
	r.thinks("d", done(""))
	r.events()
	if err := r.cancel(""); err != nil {
		t.Fatal(err)
	}
	r.want("c/2:StepCancel")
	r.called("a", failure("CANCELLED", "stopped"))
	r.want("a/1:StepCancel a:CANCELLED b:CANCELLED c:CANCELLED FlowCancel")
	r.status(taskCancelled)
}

// An expired wait of a lane fails its subtask, that of the plan fails the task.
func TestExpiredWaits(t *testing.T) {
	limited := func(h *storagev1.TaskHead) { h.WaitTimeout = int64(time.Minute) }
	r := newRig(t, limited)
	r.plan("a b:a c")
	r.thinks("a", calls("write"))
	r.events()
	r.task.Now = r.task.Now.Add(time.Minute)
	r.must(0, flow.Timeout{})
	r.want("a/1:StepError,PERMANENT,STOP a:FAILED b:CANCELLED")
	r.thinks("c", done(""))
	r.answer()
	r.status(taskFailed)

	r = newRig(t, limited, confirmAlways)
	r.plan("a")
	r.events()
	r.task.Now = r.task.Now.Add(time.Minute)
	r.must(0, flow.Timeout{})
	r.want("a:CANCELLED FlowFailed")
	r.status(taskFailed)
}

// The run time of a subtask is limited, without the time that it waits for people.
func TestSubtaskRunTime(t *testing.T) {
	r := newRig(t, func(h *storagev1.TaskHead) {
		h.PlanOptions = &executorv1.PlanOptions{MaxSubtaskRunTime: durationpb.New(time.Minute)}
	})
	r.plan("a b c d")
	pass := func(d time.Duration) {
		r.task.Now = r.task.Now.Add(d)
		r.must(0, flow.Timeout{})
	}
	r.thinks("a", calls("write"))
	r.thinks("c", calls("run"))
	r.thinks("d", calls("read", "read"))
	r.events()
	pass(59 * time.Second)
	r.want("")
	pass(time.Second)
	r.want("b:FAILED")
	if len(r.stopped) != 3 {
		t.Errorf("stopped %v", r.stopped)
	}
	r.called("c", failure("CANCELLED", "stopped"))
	r.want("c/2:StepError,PERMANENT,CONTINUE c:FAILED")
	r.called("d", failure("CANCELLED", "stopped"))
	r.called("d", failure("CANCELLED", "stopped"))
	r.want("d/3:StepError,PERMANENT,CONTINUE d/4:StepError,PERMANENT,CONTINUE d:FAILED FlowStop")
	r.approve("wait-1")
	r.called("a", flow.Called{})
	r.thinks("a", done(""))
	r.want("a/1:StepInput a/1:StepOutput a:Reflection a:COMPLETED")
}

// Each lane continues from its phase; a thought that broke off starts again with a new number.
func TestResume(t *testing.T) {
	r := newRig(t)
	r.crash()
	r.plan("a b c d")
	r.must(r.pop("a", asks[flow.Think]).Lane, flow.Thinking{Text: "hm"})
	r.thinks("b", flow.Thought{})
	r.thinks("c", calls("run"))
	r.thinks("d", calls("write"))
	r.events()
	r.crash()
	r.want("")
	r.must(r.pop("a", asks[flow.Think]).Lane, flow.Thinking{Text: "aha"})
	if th := r.facts[len(r.facts)-1].GetThought(); th.GetNumber() != 2 || th.GetOffset() != 0 {
		t.Errorf("%v", th)
	}
	laneA, _ := laneIn(r.task.State, "a")
	r.must(laneA, flow.Thinking{Again: true})
	r.must(laneA, flow.Thinking{Text: "once more"})
	if th := r.facts[len(r.facts)-1].GetThought(); th.GetNumber() != 3 || th.GetOffset() != 0 || th.GetText() != "once more" {
		t.Errorf("%v", th)
	}
	r.reflects("b", done("").Reflection)
	r.called("c", flow.Called{})
	r.thinks("c", done(""))
	r.approve("wait-1")
	r.called("d", flow.Called{})
	r.thinks("d", done(""))
	r.must(laneA, done(""))
	r.crash()
	r.answer()
	r.status(taskSuccess)
}

func laneIn(c *storagev1.Checkpoint, subtask string) (uint32, bool) {
	for _, l := range c.GetLanes() {
		if l.GetSubtaskId() == subtask {
			return l.GetId(), true
		}
	}
	return 0, false
}

// A paused task starts nothing; each lane goes on with what it would have done.
func TestPause(t *testing.T) {
	r := newRig(t)
	r.plan("a b")
	r.thinks("a", calls("run", "run"))
	r.events()
	if err := r.command(&storagev1.Command{Kind: &storagev1.Command_Pause{Pause: &storagev1.Pause{}}}); err != nil {
		t.Fatal(err)
	}
	r.called("a", flow.Called{})
	r.status(taskWaiting)
	r.crash()
	if len(r.pending) > 0 {
		t.Errorf("%v run", r.pending)
	}
	if err := r.command(&storagev1.Command{Kind: &storagev1.Command_Unpause{Unpause: &storagev1.Unpause{}}}); err != nil {
		t.Fatal(err)
	}
	r.called("a", flow.Called{})
	r.thinks("a", done(""))
	r.thinks("b", done(""))
	r.answer()
	r.status(taskSuccess)
}
