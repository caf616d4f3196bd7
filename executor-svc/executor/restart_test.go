package executor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/executor-svc/executor"
	"pawl.dev/executor-svc/internal/fake"
)

// A call whose process ended is repeated if the tool only reads; else its outcome is unknown, and a person is asked.
func TestRestartInTheMiddleOfACall(t *testing.T) {
	for tool, want := range map[string][]string{
		"read":    {"FLOW_START", "STEP_INIT", "STEP_INPUT", "STEP_ERROR", "STEP_INPUT", "STEP_OUTPUT", "TEXT_ADD", "FLOW_SUCCESS"},
		"write":   {"FLOW_START", "STEP_INIT", "STEP_WAITING_FOR_START", "FLOW_STOP", "STEP_INPUT", "STEP_WAITING_FOR_START", "FLOW_STOP"},
		"destroy": {"FLOW_START", "STEP_INIT", "STEP_WAITING_FOR_START", "FLOW_STOP", "STEP_INPUT", "STEP_WAITING_FOR_START", "FLOW_STOP"},
	} {
		t.Run(tool, func(t *testing.T) {
			r := newRig(t, fake.Script(tool))
			r.stop()
			r.cfg.DrainTimeout = time.Millisecond
			called := make(chan struct{}, 1)
			r.pool.CallFn = func(ctx context.Context, req *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
				called <- struct{}{}
				return fake.Hang(ctx, req, send)
			}
			r.start()
			id := r.create(auto("go")).GetId()
			if tool != "read" {
				stop := r.until(id, flowStop)
				if _, err := r.approve(id, stop.GetFlowStop().GetWaitIds()[0], ""); err != nil {
					t.Fatal(err)
				}
			}
			<-called
			r.stop()
			r.pool.CallFn = nil
			r.start()
			if tool == "read" {
				r.until(id, flowSuccess)
			} else {
				r.untilWait(id, executorv1.WaitKind_WAIT_KIND_OUTCOME)
			}
			wantTypes(t, r.events(id), want...)
			if s := r.steps(id)[0]; tool != "read" && s.GetOutcome() != commonv1.Outcome_OUTCOME_UNKNOWN {
				t.Errorf("step %v", s)
			}
		})
	}
}

// A graceful stop waits for a running call and records its outcome; after the restart the task goes on with the next step.
func TestGracefulStopRecordsTheRunningCall(t *testing.T) {
	r := newRig(t, fake.Script("write", "read"))
	called, release := make(chan struct{}, 2), make(chan struct{})
	r.pool.CallFn = func(_ context.Context, _ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		called <- struct{}{}
		<-release
		return send(fake.TextResult("came back", false))
	}
	id := r.create(auto("go")).GetId()
	stop := r.until(id, flowStop)
	if _, err := r.approve(id, stop.GetFlowStop().GetWaitIds()[0], ""); err != nil {
		t.Fatal(err)
	}
	<-called
	stopped := make(chan struct{})
	go func() { r.stop(); close(stopped) }()
	close(release)
	<-stopped
	r.start()
	r.until(id, flowSuccess)
	steps := r.steps(id)
	if len(steps) != 2 || steps[0].GetOutputJson() != `{"message":"came back"}` || steps[0].GetAttempt() != 1 {
		t.Errorf("steps %v", steps)
	}
}

// Waiting tasks are kept, with their tool and their exact input, and counters do not start again (A1).
func TestWaitingTaskSurvivesARestart(t *testing.T) {
	r := newRig(t, fake.Script("read", "write"))
	events := r.run(auto("go"))
	id := events[0].GetTaskId()
	before := r.task(id)
	for range 2 {
		r.stop()
		r.start()
	}
	after := r.task(id)
	if after.GetLastSeq() != before.GetLastSeq() || after.GetStepCount() != 2 || after.GetWaits()[0].GetHash() != before.GetWaits()[0].GetHash() {
		t.Errorf("before %v\nafter %v", before, after)
	}
	if _, err := r.approve(id, after.GetWaits()[0].GetId(), ""); err != nil {
		t.Fatal(err)
	}
	r.until(id, flowSuccess)
	if calls := r.pool.Called(); len(calls) != 2 || calls[1].GetInputJson() != `{"text":"write 2"}` {
		t.Errorf("calls %v", calls)
	}
	starts := 0
	for _, e := range r.events(id) {
		if e.GetType() == executorv1.EventType_EVENT_TYPE_FLOW_START {
			starts++
		}
	}
	if starts != 1 {
		t.Errorf("FLOW_START %d times (A3)", starts)
	}
}

// A restart while the planner thinks, or in the middle of an answer, loses nothing and shows nothing twice.
func TestRestartWhileThePlannerWorks(t *testing.T) {
	t.Run("planning", func(t *testing.T) {
		r := newRig(t, fake.Script("read"))
		asked := make(chan struct{}, 3)
		r.planner.PlanFn = func(ctx context.Context, c *plannerv1.TaskContext) (*plannerv1.PlanStepsResponse, error) {
			asked <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		id := r.create(auto("go")).GetId()
		<-asked
		r.stop()
		r.planner.PlanFn = nil
		r.start()
		r.until(id, flowSuccess)
		wantTypes(t, r.events(id), "FLOW_START", "STEP_INIT", "STEP_INPUT", "STEP_OUTPUT", "TEXT_ADD", "FLOW_SUCCESS")
	})
	t.Run("answering", func(t *testing.T) {
		r := newRig(t, fake.Script())
		stuck := make(chan struct{})
		r.planner.AnswerFn = func(_ context.Context, _ *plannerv1.GenerateAnswerRequest, send func(string) error) error {
			if err := send("half an"); err != nil {
				return err
			}
			<-stuck
			return errors.New("gone")
		}
		id := r.create(auto("go")).GetId()
		half := r.until(id, executorv1.EventType_EVENT_TYPE_TEXT_ADD)
		r.stop()
		close(stuck)
		r.planner.AnswerFn = nil
		r.start()
		end := r.until(id, flowSuccess)
		if end.GetFlowSuccess().GetFullAnswer() != "done" || end.GetFlowSuccess().GetAnswerId() == half.GetTextAdd().GetAnswerId() {
			t.Errorf("end %v; want a whole new answer under a new id", end)
		}
	})
}

func TestSecondExecutorOnOneFolder(t *testing.T) {
	r := newRig(t, fake.Script())
	_, err := executor.New(t.Context(), executor.Config{DataDir: r.dir}, executor.Deps{})
	if !errors.Is(err, executor.ErrLocked) {
		t.Errorf("second executor: %v, want ErrLocked", err)
	}
}
