package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"

	"pawl.dev/executor-svc/internal/fake"
)

type (
	ctx          = context.Context
	callRequest  = mcppoolv1.CallToolRequest
	callResponse = mcppoolv1.CallToolResponse
	callFn       = func(ctx, *callRequest, func(*callResponse) error) error
)

// onlyFirst runs first for the first call; later calls succeed.
func onlyFirst(first callFn) callFn {
	var calls atomic.Int32
	return func(c ctx, req *callRequest, send func(*callResponse) error) error {
		if calls.Add(1) == 1 {
			return first(c, req, send)
		}
		return send(fake.TextResult("ok", false))
	}
}

func (r *rig) pause(id string) *executorv1.Task {
	r.t.Helper()
	task, err := r.tasks.PauseTask(r.t.Context(), &executorv1.PauseTaskRequest{Id: id, Reason: "lunch"})
	if err != nil {
		r.t.Fatal(err)
	}
	return task
}

func (r *rig) unpause(id string) {
	r.t.Helper()
	_, err := r.tasks.ResumeTask(r.t.Context(), &executorv1.ResumeTaskRequest{
		Id: id, Answer: &executorv1.ResumeTaskRequest_Unpause{Unpause: &executorv1.Unpause{}},
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// A pause lets the running call finish; nothing else begins until the task is unpaused, even after a restart.
func TestPauseInARunningCall(t *testing.T) {
	r := newRig(t, fake.Script("read", "read"))
	running, finish := make(chan struct{}), make(chan struct{})
	r.pool.CallFn = onlyFirst(func(_ ctx, _ *callRequest, send func(*callResponse) error) error {
		close(running)
		<-finish
		return send(fake.TextResult("finished all the same", false))
	})
	id := r.create(auto("look")).GetId()
	<-running
	if task := r.pause(id); !task.GetPauseRequested() || task.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING {
		t.Errorf("task %v", task)
	}
	r.pause(id) // again changes nothing
	close(finish)
	w := r.untilWait(id, pauseWait)
	r.stop()
	r.start()
	if got := r.task(id); got.GetStatus() != waiting || got.GetWaits()[0].GetId() != w.GetId() || len(r.pool.Called()) != 1 {
		t.Errorf("after a restart %v, %d calls", got, len(r.pool.Called()))
	}
	r.unpause(id)
	r.until(id, flowSuccess)
	r.wantUnpauseRefused(id)
	wantTypes(t, r.events(id), "FLOW_START", "STEP_INIT", "STEP_INPUT", "STATUS_CHANGED", "STEP_OUTPUT", "STATUS_CHANGED", "FLOW_STOP",
		"STATUS_CHANGED", "STEP_INIT", "STEP_INPUT", "STEP_OUTPUT", "TEXT_ADD", "FLOW_SUCCESS")
}

// wantUnpauseRefused checks that a task that has ended can neither be unpaused nor paused, and that this changes nothing.
func (r *rig) wantUnpauseRefused(id string) {
	r.t.Helper()
	before := r.task(id)
	_, err := r.tasks.PauseTask(r.t.Context(), &executorv1.PauseTaskRequest{Id: id})
	if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_TASK_ENDED {
		r.t.Errorf("pausing an ended task: %v", err)
	}
	defer func() {
		if d := cmp.Diff(before, r.task(id), protocmp.Transform()); d != "" {
			r.t.Errorf("refused commands changed the task: %s", d)
		}
	}()
	_, err = r.tasks.ResumeTask(r.t.Context(), &executorv1.ResumeTaskRequest{
		Id: id, Answer: &executorv1.ResumeTaskRequest_Unpause{Unpause: &executorv1.Unpause{}},
	})
	if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_TASK_ENDED {
		r.t.Errorf("unpausing an ended task: %v", err)
	}
}

// An approval of a paused task is kept, and what was approved runs when the task goes on.
func TestApproveWhilePaused(t *testing.T) {
	r := newRig(t, fake.Script("write"))
	id := r.create(manual("change")).GetId()
	w := r.untilWait(id, approveWait)
	r.pause(id)
	for range 2 { // the same answer may be repeated
		if _, err := r.approve(id, w.GetId(), ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.approve(id, w.GetId(), `{"text":"another"}`); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN {
		t.Errorf("approving another input afterwards: %v, want WAIT_NOT_OPEN", err)
	}
	if task := r.task(id); task.GetStatus() != waiting || len(task.GetWaits()) != 1 || task.GetWaits()[0].GetKind() != pauseWait || len(r.pool.Called()) != 0 {
		t.Errorf("task %v, %d calls", task, len(r.pool.Called()))
	}
	r.unpause(id)
	r.until(id, flowSuccess)
	if calls := r.pool.Called(); len(calls) != 1 || calls[0].GetInputJson() != `{"text":"write 1"}` {
		t.Errorf("calls %v", calls)
	}
	r.events(id)
}

// A pause stops planning at once; planning starts again when the task is unpaused.
func TestPauseWhilePlanning(t *testing.T) {
	p := fake.Script("read")
	asked := make(chan struct{}, 1)
	var hung atomic.Bool
	p.BeforePlan = func(c ctx) error {
		if !hung.CompareAndSwap(false, true) {
			return nil
		}
		asked <- struct{}{}
		<-c.Done()
		return c.Err()
	}
	r := newRig(t, p)
	id := r.create(auto("look")).GetId()
	<-asked
	if task := r.pause(id); task.GetStatus() != waiting {
		t.Errorf("task %v", task)
	}
	r.unpause(id)
	r.until(id, flowSuccess)
}

// A grant covers the rest of the task: this tool, as it is defined now, up to the risk that was shown.
func TestGrant(t *testing.T) {
	r := newRig(t, fake.Script("write", "write", "destroy"))
	id := r.create(manual("change")).GetId()
	w := r.untilWait(id, approveWait)
	_, err := r.tasks.ResumeTask(t.Context(), &executorv1.ResumeTaskRequest{
		Id: id, WaitId: w.GetId(), Answer: &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{Grant: &executorv1.Grant{}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.untilAfter(id, r.task(id).GetLastSeq(), flowStop)
	if w := r.task(id).GetWaits()[0]; w.GetToolId() != "t/destroy" || len(r.pool.Called()) != 2 {
		t.Errorf("asked about %v after %d calls, want only the other tool to be asked about", w, len(r.pool.Called()))
	}
}

// Budgets are checked before each call, and end the task with a reason.
func TestBudgets(t *testing.T) {
	for name, c := range map[string]struct {
		budget *executorv1.Budget
		calls  int // at most
	}{
		"tool calls":  {&executorv1.Budget{MaxToolCalls: 2}, 2},
		"model calls": {&executorv1.Budget{MaxModelCalls: 2}, 2},
		"tokens":      {&executorv1.Budget{MaxTokens: 40}, 2},
		"run time":    {&executorv1.Budget{MaxRunTime: durationpb.New(time.Nanosecond)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := fake.Script("read", "read", "read", "read")
			p.Usage = &commonv1.Usage{ModelCalls: 1, InputTokens: 15, OutputTokens: 5}
			r := newRig(t, p)
			req := auto("look")
			req.Budget = c.budget
			id := r.create(req).GetId()
			r.until(id, flowFailed)
			task := r.task(id)
			if task.GetError().GetReason() != commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED || len(r.pool.Called()) > c.calls {
				t.Errorf("error %v after %d calls, want BUDGET_EXCEEDED after %d", task.GetError(), len(r.pool.Called()), c.calls)
			}
			r.events(id)
		})
	}
}

// A tool call carries what the budgets leave for the models that its server may use.
func TestCallsHaveAModelBudget(t *testing.T) {
	p := fake.Script("read", "read")
	p.Usage = &commonv1.Usage{ModelCalls: 1, InputTokens: 15, OutputTokens: 5}
	r := newRig(t, p)
	r.pool.CallFn = func(_ context.Context, _ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		res := fake.TextResult("done", false)
		res.GetResult().ModelUsage = &commonv1.Usage{ModelCalls: 2, InputTokens: 100}
		return send(res)
	}
	r.run(auto("look"))
	req := auto("look")
	req.Budget = &executorv1.Budget{MaxModelCalls: 9, MaxTokens: 1000}
	r.run(req)
	calls := r.pool.Called()
	if len(calls) != 4 || calls[0].GetModelBudget() != nil {
		t.Fatalf("%d calls, the first one with %v", len(calls), calls[0].GetModelBudget())
	}
	for i, want := range []*commonv1.ModelBudget{{ModelCalls: proto.Uint32(8), Tokens: proto.Uint64(980)}, {ModelCalls: proto.Uint32(5), Tokens: proto.Uint64(860)}} {
		if got := calls[2+i].GetModelBudget(); !proto.Equal(got, want) {
			t.Errorf("call %d has %v, want %v", i, got, want)
		}
	}
}

// A budget of run time ends a task even if its planner hangs, and stops a running call.
func TestRunTimeEndsWhatHangs(t *testing.T) {
	for _, what := range []string{"planner", "tool"} {
		t.Run(what, func(t *testing.T) {
			p := fake.Script("read", "read")
			r := newRig(t, p)
			if what == "tool" {
				r.pool.CallFn = fake.Hang
			} else {
				var plans atomic.Int32
				p.BeforePlan = func(c ctx) error {
					if plans.Add(1) == 1 {
						return nil
					}
					<-c.Done()
					return c.Err()
				}
			}
			req := auto("look")
			req.Budget = &executorv1.Budget{MaxRunTime: durationpb.New(200 * time.Millisecond)}
			id := r.create(req).GetId()
			r.until(id, flowFailed)
			if e := r.task(id).GetError(); e.GetReason() != commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED {
				t.Errorf("error %v", e)
			}
			r.events(id)
		})
	}
}

// A wait that expires ends the task with WAIT_EXPIRED, not as a rejection; the deadline is shown with the question (A4, A5). If
// the executor is down at the deadline, the wait expires at the next start.
func TestWaitExpires(t *testing.T) {
	for _, away := range []bool{false, true} {
		t.Run(fmt.Sprintf("away %v", away), func(t *testing.T) {
			r := newRig(t, fake.Script("write"))
			req := manual("change")
			req.WaitTimeout = durationpb.New(300 * time.Millisecond)
			id := r.create(req).GetId()
			asked := r.until(id, executorv1.EventType_EVENT_TYPE_STEP_WAITING_FOR_START)
			if asked.GetStepWaitingForStart().GetDeadline() == nil {
				t.Errorf("no deadline is shown: %v", asked)
			}
			if away {
				r.stop()
				<-time.After(time.Until(asked.GetStepWaitingForStart().GetDeadline().AsTime()))
				r.start()
			}
			r.until(id, flowFailed)
			wantTypes(t, r.events(id), "FLOW_START", "STEP_INIT", "STEP_WAITING_FOR_START", "FLOW_STOP", "STEP_ERROR", "FLOW_FAILED")
			if e := r.task(id).GetError(); e.GetReason() != commonv1.ErrorReason_ERROR_REASON_WAIT_EXPIRED || len(r.pool.Called()) != 0 {
				t.Errorf("error %v, %d calls", e, len(r.pool.Called()))
			}
		})
	}
}

// A28: at most 5 requests are accepted in the window. Finished tasks count, a repeated request does not, and the refusal has a delay.
func TestRequestWindow(t *testing.T) {
	r := &rig{t: t, dir: t.TempDir(), planner: fake.Script(), pool: fake.NewPool()}
	r.cfg.MaxRequests, r.cfg.RequestWindow = 5, time.Hour
	client := withKeys(t, r)
	r.tasks, _ = client("ann", identity.RoleUser)
	for i := range 5 {
		req := auto("look")
		req.RequestId = fmt.Sprint(i)
		r.run(req)
	}
	again := auto("look")
	again.RequestId = "3"
	r.create(again)
	_, err := r.tasks.CreateTask(t.Context(), auto("look"))
	if status.Code(err) != codes.ResourceExhausted || errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED {
		t.Fatalf("the sixth request: %v, want RATE_LIMITED", err)
	}
	var delay time.Duration
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			delay = info.GetRetryDelay().AsDuration()
		}
	}
	if delay <= 59*time.Minute || delay > time.Hour {
		t.Errorf("retry delay %s", delay)
	}
}

// A fork goes on from a step's end with the results that were recorded up to there, and names its origin.
func TestFork(t *testing.T) {
	r := newRig(t, fake.Script("read", "read", "write"))
	id := r.create(auto("look, then change")).GetId()
	w := r.untilWait(id, approveWait)
	if _, err := r.reject(id, w.GetId()); err != nil {
		t.Fatal(err)
	}
	var first uint64
	for _, e := range r.events(id) {
		if e.GetStepOutput() != nil && first == 0 {
			first = e.GetSeq()
		}
	}
	calls := len(r.pool.Called())
	fork, err := r.tasks.ForkTask(t.Context(), &executorv1.ForkTaskRequest{Id: id, Seq: first, RequestId: "once", Goal: "again"})
	if err != nil {
		t.Fatal(err)
	}
	same, err := r.tasks.ForkTask(t.Context(), &executorv1.ForkTaskRequest{Id: id, Seq: first, RequestId: "once", Goal: "again"})
	if err != nil || same.GetId() != fork.GetId() {
		t.Errorf("repeated: %v, %v", same.GetId(), err)
	}
	if f := fork.GetForkedFrom(); f.GetTaskId() != id || f.GetSeq() != first || fork.GetGoal() != "again" || fork.GetStepCount() < 1 {
		t.Errorf("fork %v", fork)
	}
	asked := r.untilWait(fork.GetId(), approveWait)
	if n := len(r.pool.Called()) - calls; n != 1 || asked.GetStepId() != "step-3" {
		t.Errorf("%d calls by the fork, want 1: the second step; it asks about %s", n, asked.GetStepId())
	}
	old, made := r.events(id), r.events(fork.GetId())
	for i := range first {
		if old[i].GetType() != made[i].GetType() || old[i].GetStepInput().GetCallId() != made[i].GetStepInput().GetCallId() {
			t.Errorf("event %d: %v, in the fork %v", i+1, old[i], made[i])
		}
	}
	if s := r.steps(fork.GetId()); s[0].GetCallId() != id+"/step-1/1" || s[1].GetCallId() != fork.GetId()+"/step-2/1" {
		t.Errorf("calls %s, %s", s[0].GetCallId(), s[1].GetCallId())
	}
	if _, err := r.tasks.ForkTask(t.Context(), &executorv1.ForkTaskRequest{Id: id, Seq: 2}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a fork where no step ends: %v", err)
	}
}

// A task whose budget is spent can be forked with a larger one: what the task had spent counts.
func TestForkWithALargerBudget(t *testing.T) {
	r := newRig(t, fake.Script("read", "read", "read"))
	req := auto("look")
	req.Budget = &executorv1.Budget{MaxToolCalls: 2}
	id := r.create(req).GetId()
	r.until(id, flowFailed)
	for calls, want := range map[uint32]executorv1.EventType{2: flowFailed, 3: flowSuccess} {
		fork, err := r.tasks.ForkTask(t.Context(), &executorv1.ForkTaskRequest{Id: id, Budget: &executorv1.Budget{MaxToolCalls: calls}})
		if err != nil {
			t.Fatal(err)
		}
		r.until(fork.GetId(), want)
	}
	if n := len(r.pool.Called()); n != 3 {
		t.Errorf("%d calls, want 3: one by the fork with a larger budget", n)
	}
}

// A fork keeps unknown outcomes, and drops grants and waits.
func TestForkKeepsUnknownOutcomes(t *testing.T) {
	p := fake.Script("write", "read")
	r := newRig(t, p)
	r.pool.CallFn = onlyFirst(lose)
	id := r.create(auto("change")).GetId()
	w := r.untilWait(id, approveWait)
	_, err := r.tasks.ResumeTask(t.Context(), &executorv1.ResumeTaskRequest{
		Id: id, WaitId: w.GetId(), Answer: &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{Grant: &executorv1.Grant{}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.outcome(id, r.untilWait(id, outcomeWait).GetId(), skip()); err != nil {
		t.Fatal(err)
	}
	r.until(id, flowSuccess)
	p.Steps[1] = p.Steps[0] // the fork's second step is the same call
	ends := r.events(id)
	seq := uint64(0)
	for _, e := range ends {
		if e.GetStepError() != nil {
			seq = e.GetSeq()
		}
	}
	fork, err := r.tasks.ForkTask(t.Context(), &executorv1.ForkTaskRequest{Id: id, Seq: seq})
	if err != nil {
		t.Fatal(err)
	}
	asked := r.untilWait(fork.GetId(), approveWait)
	if asked.GetId() == w.GetId() {
		t.Errorf("the fork reuses the wait id %s, by which answers are told apart", w.GetId())
	}
	if asked.GetStepId() != "step-2" || !strings.Contains(asked.GetMessage(), "not known") || fork.GetErrorCount() != 0 {
		t.Errorf("asked %v; task %v", asked, fork)
	}
}

// A task that has ended can be exported as a whole, and deleted.
func TestDeleteAndExport(t *testing.T) {
	r := newRig(t, fake.Script("read"))
	open := r.create(manual("ask first")).GetId()
	r.untilWait(open, approveWait)
	if _, err := r.tasks.DeleteTask(t.Context(), &executorv1.DeleteTaskRequest{Id: open}); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_TASK_NOT_ENDED {
		t.Errorf("deleting an open task: %v", err)
	}
	id := r.run(auto("look"))[0].GetTaskId()
	var doc struct {
		Format int
		Task   struct{ ID, Status string }
		Steps  []struct{ OutputJSON string }
		Events []struct{ Seq string }
	}
	if err := json.Unmarshal(r.export(id), &doc); err != nil {
		t.Fatal(err)
	}
	if n := len(r.events(id)); doc.Format != 1 || doc.Task.ID != id || len(doc.Steps) != 1 || len(doc.Events) != n || doc.Events[n-1].Seq != fmt.Sprint(n) {
		t.Errorf("exported %+v", doc)
	}
	if _, err := r.tasks.DeleteTask(t.Context(), &executorv1.DeleteTaskRequest{Id: id}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.tasks.GetTask(t.Context(), &executorv1.GetTaskRequest{Id: id}); status.Code(err) != codes.NotFound {
		t.Errorf("a deleted task: %v", err)
	}
}

func (r *rig) export(id string) []byte {
	r.t.Helper()
	stream, err := r.tasks.ExportTask(r.t.Context(), &executorv1.ExportTaskRequest{Id: id})
	if err != nil {
		r.t.Fatal(err)
	}
	var doc []byte
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return doc
		}
		if err != nil {
			r.t.Fatal(err)
		}
		doc = append(doc, piece.GetData()...)
	}
}

// A task that is recovered again and again without progress ends, instead of crashing its host for ever. Here each process dies
// while it plans the same step.
func TestRecoveredWithoutProgress(t *testing.T) {
	p := fake.Script("read")
	asked := make(chan struct{}, 20)
	p.BeforePlan = func(c ctx) error {
		asked <- struct{}{}
		<-c.Done()
		return c.Err()
	}
	r := newRig(t, p)
	id := r.create(auto("look")).GetId()
	for range 7 { // orderly stops do not count
		<-asked
		r.stop()
		r.start()
	}
	for range 5 {
		<-asked
		r.crash(id)
	}
	r.until(id, flowFailed)
	if e := r.task(id).GetError(); e.GetReason() != commonv1.ErrorReason_ERROR_REASON_NO_PROGRESS {
		t.Errorf("error %v", e)
	}
}

// An operator can read the journal's figures while the server runs; a user cannot.
func TestStoreInfo(t *testing.T) {
	r := newRig(t, fake.Script("read"))
	r.run(auto("look"))
	info, err := r.tasks.GetStoreInfo(t.Context(), &executorv1.GetStoreInfoRequest{})
	if err != nil || info.GetTasks()["SUCCESS"] != 1 || info.GetSizeBytes() == 0 || info.GetBytes()["records"] == 0 || info.GetOldest() == nil {
		t.Errorf("%v, %v", info, err)
	}
	r.stop()
	user, _ := withKeys(t, r)("ann", identity.RoleUser)
	if _, err := user.GetStoreInfo(t.Context(), &executorv1.GetStoreInfoRequest{}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a user: %v, want PERMISSION_DENIED", err)
	}
}
