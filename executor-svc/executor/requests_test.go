package executor_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/fake"
)

// A request that comes a hundred times at once creates one task.
func TestHundredCreatesOfOneRequest(t *testing.T) {
	r := newRig(t, fake.Script("read"))
	ids := make([]string, 100)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			req := auto("x")
			req.RequestId = "same"
			task, err := r.tasks.CreateTask(t.Context(), req)
			if err != nil {
				t.Errorf("CreateTask: %v", err)
			}
			ids[i] = task.GetId()
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("tasks %s and %s", ids[0], id)
		}
	}
	list, err := r.tasks.ListTasks(t.Context(), &executorv1.ListTasksRequest{})
	if err != nil || len(list.GetTasks()) != 1 {
		t.Errorf("%d tasks, %v; want 1", len(list.GetTasks()), err)
	}
}

// A new question cancels the conversation's waiting task (A30), but a repetition of the request that made that task is no
// new question.
func TestRetryDoesNotSupersedeItsOwnTask(t *testing.T) {
	r := newRig(t, fake.Script("write"))
	for i := range 10 {
		ids := make([]string, 8)
		var wg sync.WaitGroup
		request := func() *executorv1.CreateTaskRequest {
			req := manual("x")
			req.RequestId, req.ConversationId = fmt.Sprint("request ", i), fmt.Sprint("conversation ", i)
			return req
		}
		for k := range ids {
			wg.Go(func() {
				task, err := r.tasks.CreateTask(t.Context(), request())
				if err != nil {
					t.Errorf("CreateTask: %v", err)
				}
				ids[k] = task.GetId()
			})
		}
		wg.Wait()
		r.until(ids[0], flowStop)
		ids = append(ids, r.create(request()).GetId())
		for _, id := range ids {
			if id != ids[0] {
				t.Errorf("tasks %s and %s", ids[0], id)
			}
		}
		if s := r.task(ids[0]).GetStatus(); s != executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING {
			t.Errorf("the task is %s, want WAITING", s)
		}
	}
}

// A slow request does not supersede the task that its own retry has created meanwhile.
func TestSlowRequestDoesNotSupersedeItsRetry(t *testing.T) {
	r := newRig(t, fake.Script("write"))
	req := manual("x")
	req.RequestId, req.ConversationId = "same", "conversation"
	in, goOn := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	r.planner.BeforeModels = func(context.Context) error {
		if first.CompareAndSwap(false, true) {
			close(in)
			<-goOn
		}
		return nil
	}
	slow := make(chan *executorv1.Task, 1)
	go func() {
		task, err := r.tasks.CreateTask(t.Context(), req)
		if err != nil {
			t.Errorf("CreateTask: %v", err)
		}
		slow <- task
	}()
	<-in
	id := r.create(req).GetId() // the client's retry
	r.until(id, flowStop)
	close(goOn)
	if task := <-slow; task.GetId() != id || task.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING {
		t.Errorf("task %s is %s; want %s, WAITING", task.GetId(), task.GetStatus(), id)
	}
}

// An approval is for the input that was shown, or for the edited input that it carries (A9): only the same answer is a repetition.
func TestAnotherAnswerIsNotTakenForTheSame(t *testing.T) {
	r := newRig(t, fake.Script("write"))
	id := r.run(auto("x"))[0].GetTaskId()
	wait := r.task(id).GetWaits()[0].GetId()
	const edited = `{"text":"edited"}`
	if _, err := r.approve(id, wait, edited); err != nil {
		t.Fatal(err)
	}
	r.until(id, flowSuccess)
	if _, err := r.approve(id, wait, edited); err != nil {
		t.Errorf("the same answer again: %v", err)
	}
	for name, answer := range map[string]func() (*executorv1.Task, error){
		"approve as shown":      func() (*executorv1.Task, error) { return r.approve(id, wait, "") },
		"approve another input": func() (*executorv1.Task, error) { return r.approve(id, wait, `{"text":"other"}`) },
		"reject":                func() (*executorv1.Task, error) { return r.reject(id, wait) },
	} {
		_, err := answer()
		if status.Code(err) != codes.FailedPrecondition || errs.From(err).Reason != commonv1.ErrorReason_ERROR_REASON_WAIT_NOT_OPEN {
			t.Errorf("%s after another input was approved: %v, want WAIT_NOT_OPEN", name, err)
		}
	}
	if calls := r.pool.Called(); len(calls) != 1 || calls[0].GetInputJson() != edited {
		t.Errorf("calls %v", calls)
	}
}
