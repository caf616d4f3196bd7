package test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/test/rig"
	testcasev1 "pawl.dev/test/testcase/v1"
)

// play runs one case over one protocol.
type play struct {
	t       *testing.T
	client  rig.Client
	rest    bool
	effects string // file
	// repo is the repository of a coding task.
	repo repository
}

// agent makes the case's agent under an id of its own: every case shares the installation with others.
func (p *play) agent(ctx context.Context, agent *executorv1.Agent) string {
	p.t.Helper()
	made, err := p.client.CreateAgent(ctx, &executorv1.CreateAgentRequest{AgentId: "case-" + uuid.NewString()[:8], Agent: agent})
	if err != nil {
		p.t.Fatalf("making the agent: %v", err)
	}
	return made.GetId()
}

// follow reads the task's events after a seq and answers each time it stops.
func (p *play) follow(ctx context.Context, id string, after uint64, answers []*testcasev1.Answer, meanwhile []*testcasev1.Meanwhile) []*executorv1.ExecutorEvent {
	p.t.Helper()
	var events []*executorv1.ExecutorEvent
	last := after
	for {
		stopped := false
		err := p.client.Watch(ctx, id, last, func(e *executorv1.ExecutorEvent) bool {
			if e.GetSeq() != last+1 {
				p.t.Errorf("seq %d after %d", e.GetSeq(), last)
			}
			events, last = append(events, e), e.GetSeq()
			meanwhile = p.act(ctx, e, meanwhile)
			stopped = e.GetType() == executorv1.EventType_EVENT_TYPE_FLOW_STOP
			return !stopped
		})
		if err != nil {
			p.t.Fatalf("watching: %v", err)
		}
		if !stopped || len(answers) == 0 {
			return events
		}
		answers = p.answer(ctx, events[len(events)-1], answers)
	}
}

// act carries out the actions that are due at an event, and returns the rest.
func (p *play) act(ctx context.Context, e *executorv1.ExecutorEvent, meanwhile []*testcasev1.Meanwhile) []*testcasev1.Meanwhile {
	var rest []*testcasev1.Meanwhile
	for _, m := range meanwhile {
		if m.GetAt() != e.GetType() || m.GetSubtaskId() != "" && m.GetSubtaskId() != e.GetSubtaskId() {
			rest = append(rest, m)
			continue
		}
		var err error
		switch d := m.GetAction().(type) {
		case *testcasev1.Meanwhile_Pause:
			_, err = p.client.Pause(ctx, &executorv1.PauseTaskRequest{Id: e.GetTaskId(), Reason: d.Pause})
		case *testcasev1.Meanwhile_Cancel:
			_, err = p.client.Cancel(ctx, &executorv1.CancelTaskRequest{Id: e.GetTaskId(), Reason: d.Cancel, SubtaskId: m.GetSubtaskId()})
		case *testcasev1.Meanwhile_Write:
			write(p.t, filepath.Join(p.repo.dir, d.Write.GetPath()), []byte(d.Write.GetContent()))
		case *testcasev1.Meanwhile_Registration:
			err = p.repo.reregister(ctx, d.Registration)
		}
		if err != nil {
			p.t.Errorf("doing %v: %v", m, err)
		}
	}
	return rest
}

// answer gives the next answer, and before it those that are refused: they change nothing. It returns the rest.
func (p *play) answer(ctx context.Context, stop *executorv1.ExecutorEvent, answers []*testcasev1.Answer) []*testcasev1.Answer {
	p.t.Helper()
	for i, a := range answers {
		err := p.send(ctx, stop.GetTaskId(), stop.GetFlowStop().GetWaitIds()[0], a)
		if r := a.GetRefused(); r != nil {
			checkRefused(p.t, r, p.rest, err)
			continue
		}
		if err != nil {
			p.t.Fatalf("answering: %v", err)
		}
		return answers[i+1:]
	}
	return nil
}

func (p *play) send(ctx context.Context, id, wait string, a *testcasev1.Answer) (err error) {
	req := &executorv1.ResumeTaskRequest{Id: id, WaitId: wait}
	switch a := a.GetAnswer().(type) {
	case *testcasev1.Answer_Cancel:
		_, err = p.client.Cancel(ctx, &executorv1.CancelTaskRequest{Id: id, Reason: a.Cancel})
		return err
	case *testcasev1.Answer_Pause:
		_, err = p.client.Pause(ctx, &executorv1.PauseTaskRequest{Id: id, Reason: a.Pause})
		return err
	case *testcasev1.Answer_Delete:
		return p.client.Delete(ctx, id)
	case *testcasev1.Answer_Nothing:
		return nil
	case *testcasev1.Answer_Approve:
		req.Answer = &executorv1.ResumeTaskRequest_Approve{Approve: a.Approve}
	case *testcasev1.Answer_Reject:
		req.Answer = &executorv1.ResumeTaskRequest_Reject{Reject: a.Reject}
	case *testcasev1.Answer_Params:
		req.Answer = &executorv1.ResumeTaskRequest_Params{Params: a.Params}
	case *testcasev1.Answer_Input:
		req.Answer = &executorv1.ResumeTaskRequest_Input{Input: a.Input}
	case *testcasev1.Answer_Outcome:
		req.Answer = &executorv1.ResumeTaskRequest_Outcome{Outcome: a.Outcome}
	case *testcasev1.Answer_Unpause:
		req.WaitId, req.Answer = "", &executorv1.ResumeTaskRequest_Unpause{Unpause: a.Unpause}
	}
	_, err = p.client.Resume(ctx, req)
	return err
}

// check compares a task with the expected one.
func (p *play) check(ctx context.Context, id string, events []*executorv1.ExecutorEvent, want *testcasev1.Expect) {
	p.t.Helper()
	task, err := p.client.Get(ctx, id)
	if err != nil {
		p.t.Fatal(err)
	}
	steps, err := p.client.Steps(ctx, id)
	if err != nil {
		p.t.Fatal(err)
	}
	checkTask(p.t, want, task, events)
	checkSteps(p.t, want.GetSteps(), steps)
	raw, _ := os.ReadFile(p.effects)
	if d := cmp.Diff(want.GetEffects(), lines(string(raw))); d != "" {
		p.t.Errorf("effects (-want +got):\n%s", d)
	}
}

// fork forks the task and returns the id of the new one.
func (p *play) fork(ctx context.Context, id string, events []*executorv1.ExecutorEvent, f *testcasev1.Fork) string {
	p.t.Helper()
	task := p.forkTask(ctx, id, events, f)
	if task == nil {
		return ""
	}
	p.check(ctx, task.GetId(), p.follow(ctx, task.GetId(), task.GetForkedFrom().GetSeq(), f.GetAnswers(), nil), f.GetExpect())
	return task.GetId()
}

// forkTask forks the task and returns the new one; nil if that is refused, as expected.
func (p *play) forkTask(ctx context.Context, id string, events []*executorv1.ExecutorEvent, f *testcasev1.Fork) *executorv1.Task {
	p.t.Helper()
	req := &executorv1.ForkTaskRequest{Id: id, Seq: f.GetSeq(), Goal: f.GetGoal(), RequestId: uuid.NewString()}
	if f.GetSteps() > 0 && f.GetSeq() == 0 {
		req.Seq = p.endOfStep(events, f.GetSteps())
	}
	task, err := p.client.Fork(ctx, req)
	if r := f.GetRefused(); r != nil {
		checkRefused(p.t, r, p.rest, err)
		return nil
	}
	if err != nil {
		p.t.Fatalf("forking: %v", err)
	}
	from := task.GetForkedFrom()
	if from.GetTaskId() != id || req.GetSeq() != 0 && from.GetSeq() != req.GetSeq() {
		p.t.Errorf("forked from %v, want %s at %d", from, id, req.GetSeq())
	}
	if again, err := p.client.Fork(ctx, req); err != nil || again.GetId() != task.GetId() {
		p.t.Errorf("the same request again: %s, %v; want %s", again.GetId(), err, task.GetId())
	}
	return task
}

// endOfStep returns the seq of the event that ends the n-th step with an output or a cancellation.
func (p *play) endOfStep(events []*executorv1.ExecutorEvent, n uint32) uint64 {
	for _, e := range events {
		switch e.GetType() {
		case executorv1.EventType_EVENT_TYPE_STEP_OUTPUT, executorv1.EventType_EVENT_TYPE_STEP_CANCEL:
			if n--; n == 0 {
				return e.GetSeq()
			}
		}
	}
	p.t.Fatal("there are not so many steps to keep")
	return 0
}

// export checks that the document has the same content as the other calls return.
func (p *play) export(ctx context.Context, id string, events []*executorv1.ExecutorEvent) {
	p.t.Helper()
	raw, err := p.client.Export(ctx, id)
	if err != nil {
		p.t.Fatalf("exporting: %v", err)
	}
	var doc struct {
		Format        int
		Task          json.RawMessage
		Steps, Events []json.RawMessage
	}
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&doc); err != nil || doc.Format != 1 {
		p.t.Fatalf("format %d, %v:\n%s", doc.Format, err, raw)
	}
	task, err := p.client.Get(ctx, id)
	if err != nil {
		p.t.Fatal(err)
	}
	steps, err := p.client.Steps(ctx, id)
	if err != nil {
		p.t.Fatal(err)
	}
	same(p.t, "task", []json.RawMessage{doc.Task}, []*executorv1.Task{task})
	same(p.t, "step", doc.Steps, steps)
	same(p.t, "event", doc.Events, events)
}

// same compares parts of a document with messages.
func same[T proto.Message](t *testing.T, name string, got []json.RawMessage, want []T) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d %ss are exported, want %d", len(got), name, len(want))
		return
	}
	for i, w := range want {
		m := w.ProtoReflect().New().Interface()
		if err := protojson.Unmarshal(got[i], m); err != nil {
			t.Errorf("%s %d: %v", name, i+1, err)
			continue
		}
		if d := cmp.Diff(proto.Message(w), m, protocmp.Transform()); d != "" {
			t.Errorf("%s %d (-want +got):\n%s", name, i+1, d)
		}
	}
}

// delete deletes the task; its fork stays whole.
func (p *play) delete(ctx context.Context, id, fork string) {
	p.t.Helper()
	if err := p.client.Delete(ctx, id); err != nil {
		p.t.Fatalf("deleting: %v", err)
	}
	gone := &testcasev1.Refusal{Reason: commonv1.ErrorReason_ERROR_REASON_TASK_NOT_FOUND, HttpStatus: 404}
	_, err := p.client.Get(ctx, id)
	checkRefused(p.t, gone, p.rest, err)
	checkRefused(p.t, gone, p.rest, p.client.Delete(ctx, id))
	checkRefused(p.t, gone, p.rest, p.client.Watch(ctx, id, 0, func(*executorv1.ExecutorEvent) bool { return true }))
	if fork == "" {
		return
	}
	whole := p.follow(ctx, fork, 0, nil, nil)
	if len(whole) == 0 || whole[0].GetSeq() != 1 {
		p.t.Error("the fork lost what it shared with the task")
	}
	if _, err := p.client.Export(ctx, fork); err != nil {
		p.t.Errorf("exporting the fork: %v", err)
	}
}
