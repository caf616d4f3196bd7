package executor_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"

	"pawl.dev/executor-svc/internal/fake"
)

// RunTask attaches to the existing task if the request_id is known, and reconnecting at any seq misses nothing and repeats nothing.
func TestAttachAndResumeTheStream(t *testing.T) {
	r := newRig(t, fake.Script("read", "read"))
	req := auto("look")
	req.RequestId = "once"
	first := r.run(req)
	if again := r.run(req); cmp.Diff(first, again, protocmp.Transform()) != "" {
		t.Errorf("attaching shows something else: %v", types(again))
	}
	if task := r.create(req); task.GetId() != first[0].GetTaskId() {
		t.Errorf("CreateTask with the same request_id made %s", task.GetId())
	}
	for after := range uint64(len(first) + 1) {
		stream, err := r.tasks.WatchTask(t.Context(), &executorv1.WatchTaskRequest{Id: first[0].GetTaskId(), AfterSeq: after})
		if err != nil {
			t.Fatal(err)
		}
		rest, err := readAll(stream)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(first[after:], append([]*executorv1.ExecutorEvent{}, rest...), protocmp.Transform()); d != "" {
			t.Errorf("after %d: %s", after, d)
		}
	}
	req.Goal = "something else"
	if _, err := r.tasks.CreateTask(t.Context(), req); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_REQUEST_ID_REUSED {
		t.Errorf("another request under the same id: %v", err)
	}
}

func TestRunTaskNamesItsTaskFirst(t *testing.T) {
	r := newRig(t, fake.Script())
	stream, err := r.tasks.RunTask(t.Context(), &executorv1.RunTaskRequest{Task: auto("look")})
	if err != nil {
		t.Fatal(err)
	}
	header, err := stream.Header()
	if err != nil {
		t.Fatal(err)
	}
	events, err := readAll(stream)
	if err != nil || len(header.Get("pawl-task-id")) != 1 || header.Get("pawl-task-id")[0] != events[0].GetTaskId() {
		t.Errorf("header %v, task %v, %v", header, events, err)
	}
}

func TestManyWatchers(t *testing.T) {
	r := newRig(t, fake.Script("read", "read", "read"))
	id := r.create(manual("look")).GetId()
	var wg sync.WaitGroup
	logs := make([][]*executorv1.ExecutorEvent, 50)
	for i := range logs {
		wg.Go(func() {
			stream, err := r.tasks.WatchTask(t.Context(), &executorv1.WatchTaskRequest{Id: id})
			if err == nil {
				logs[i], err = readAll(stream)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	for after := uint64(0); ; {
		part := r.untilStopOrEnd(id, after)
		last := part[len(part)-1]
		if last.GetType() != flowStop {
			break
		}
		if _, err := r.approve(id, last.GetFlowStop().GetWaitIds()[0], ""); err != nil {
			t.Fatal(err)
		}
		after = last.GetSeq()
	}
	wg.Wait()
	for i, log := range logs {
		checkLog(t, log)
		if len(log) != len(logs[0]) {
			t.Errorf("watcher %d saw %d events, the first one %d", i, len(log), len(logs[0]))
		}
	}
}

func TestBadRequests(t *testing.T) {
	r := newRig(t, fake.Script())
	for name, tc := range map[string]struct {
		req    *executorv1.CreateTaskRequest
		code   codes.Code
		reason commonv1.ErrorReason
		says   string
	}{
		"no goal":         {&executorv1.CreateTaskRequest{}, codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "goal is required"},
		"unknown agent":   {&executorv1.CreateTaskRequest{Goal: "g", AgentId: "nobody"}, codes.NotFound, commonv1.ErrorReason_ERROR_REASON_AGENT_NOT_FOUND, "pawl agents list"},
		"unknown server":  {&executorv1.CreateTaskRequest{Goal: "g", McpIds: []string{"none"}}, codes.NotFound, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_FOUND, "pawl mcp"},
		"unknown model":   {&executorv1.CreateTaskRequest{Goal: "g", Model: "gpt-0"}, codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "offline, playbook"},
		"broken playbook": {&executorv1.CreateTaskRequest{Goal: "g", Playbook: "broken"}, codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_PLAYBOOK, "line 3"},
		"no playbook":     {&executorv1.CreateTaskRequest{Goal: "g", Model: "playbook"}, codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "--playbook"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.tasks.CreateTask(t.Context(), tc.req)
			if status.Code(err) != tc.code || errs.Reason(err) != tc.reason || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v; want %s %s with %q", err, tc.code, tc.reason, tc.says)
			}
		})
	}
	if _, err := r.tasks.GetTask(t.Context(), &executorv1.GetTaskRequest{Id: "abc:resume"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("an invalid id: %v", err)
	}
	if _, err := r.tasks.ListTasks(t.Context(), &executorv1.ListTasksRequest{PageToken: "rubbish"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("an invalid page token: %v", err)
	}
}

// A2: a server that the user has not activated is skipped, and the event log says so.
func TestSkippedServerIsShown(t *testing.T) {
	r := newRig(t, fake.Script("read"))
	req := auto("look")
	req.McpIds = []string{"off", "t"}
	events := r.run(req)
	for _, e := range events {
		if l := e.GetToolsLoaded(); l != nil {
			if len(l.GetSkipped()) != 1 || l.GetSkipped()[0].GetMcpId() != "off" || l.GetToolCount() != 4 {
				t.Errorf("loaded %v", l)
			}
			return
		}
	}
	t.Errorf("no event names the skipped server: %v", types(events))
}

// A server that is used only when named is not loaded by a task that names no servers.
func TestServersThatHaveToBeNamed(t *testing.T) {
	r := newRig(t, fake.Script("read"))
	for _, e := range r.run(auto("look")) {
		if l := e.GetToolsLoaded(); l != nil && (len(l.GetMcpIds()) != 1 || len(l.GetSkipped()) != 0) {
			t.Errorf("loaded %v, want t alone", l)
		}
	}
}

// A1, A30: a new question cancels the conversation's waiting task, and planners read the answered rounds.
func TestConversation(t *testing.T) {
	r := newRig(t, fake.Script())
	ask := func(goal string) *executorv1.CreateTaskRequest {
		req := manual(goal)
		req.ConversationId = "talk"
		return req
	}
	for _, goal := range []string{"one", "two", "three", "four"} {
		r.run(ask(goal))
	}
	r.planner.Steps = fake.Script("write").Steps
	waiting := r.run(ask("five"))[0].GetTaskId()
	r.planner.Steps = nil
	r.run(ask("six"))
	end := r.until(waiting, flowCancel)
	if !strings.Contains(end.GetFlowCancel().GetReason(), "superseded") {
		t.Errorf("reason %v", end)
	}
	contexts := r.planner.Contexts()
	var questions []string
	for _, round := range contexts[len(contexts)-1].GetRounds() {
		questions = append(questions, round.GetQuestion()+"="+round.GetAnswer())
	}
	if d := cmp.Diff([]string{"two=done", "three=done", "four=done"}, questions); d != "" {
		t.Error(d)
	}
}

// A user cannot see another user's tasks; a service may act on behalf of a user.
func TestUsersAreApart(t *testing.T) {
	r := &rig{t: t, dir: t.TempDir(), planner: fake.Script("write"), pool: fake.NewPool()}
	client := withKeys(t, r)
	ann, _ := client("ann", identity.RoleUser)
	bob, _ := client("bob", identity.RoleUser)
	service, _ := client("gateway", identity.RoleService)
	ctx := t.Context()

	if _, err := r.tasks.CreateTask(ctx, manual("go")); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a key: %v", err)
	}
	task, err := ann.CreateTask(ctx, manual("go"))
	if err != nil {
		t.Fatal(err)
	}
	id := task.GetId()
	watch := func(c executorv1.ExecutorServiceClient, ctx context.Context) error {
		stream, err := c.WatchTask(ctx, &executorv1.WatchTaskRequest{Id: id, NoFollow: true})
		if err != nil {
			return err
		}
		_, err = readAll(stream)
		return err
	}
	resume := &executorv1.ResumeTaskRequest{Id: id, WaitId: "wait-1", Answer: &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{}}}
	for name, call := range map[string]func() error{
		"GetTask":    func() error { _, err := bob.GetTask(ctx, &executorv1.GetTaskRequest{Id: id}); return err },
		"ListSteps":  func() error { _, err := bob.ListSteps(ctx, &executorv1.ListStepsRequest{Id: id}); return err },
		"CancelTask": func() error { _, err := bob.CancelTask(ctx, &executorv1.CancelTaskRequest{Id: id}); return err },
		"ResumeTask": func() error { _, err := bob.ResumeTask(ctx, resume); return err },
		"WatchTask":  func() error { return watch(bob, ctx) },
	} {
		if err := call(); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_TASK_NOT_FOUND {
			t.Errorf("%s of another user's task: %v, want TASK_NOT_FOUND", name, err)
		}
	}
	if list, err := bob.ListTasks(ctx, &executorv1.ListTasksRequest{}); err != nil || len(list.GetTasks()) != 0 {
		t.Errorf("bob sees %v, %v", list, err)
	}
	if err := watch(service, identity.OnBehalfOf(ctx, "ann")); err != nil {
		t.Errorf("a service for ann: %v", err)
	}
	forged := metadata.AppendToOutgoingContext(ctx, "x-pawl-on-behalf-of", "ann")
	if err := watch(bob, forged); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a user for another: %v, want PermissionDenied", err)
	}
}

func TestListTasks(t *testing.T) {
	r := newRig(t, fake.Script("write"))
	var want []string
	for range 5 {
		want = append([]string{r.run(manual("go"))[0].GetTaskId()}, want...)
	}
	if _, err := r.tasks.CancelTask(t.Context(), &executorv1.CancelTaskRequest{Id: want[2]}); err != nil {
		t.Fatal(err)
	}
	var got []string
	req := &executorv1.ListTasksRequest{PageSize: 2, Statuses: []executorv1.ExecutorStatus{executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING}}
	for {
		page, err := r.tasks.ListTasks(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range page.GetTasks() {
			got = append(got, task.GetId())
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	if d := cmp.Diff(append(want[:2:2], want[3:]...), got); d != "" {
		t.Error(d)
	}
}

func TestAgents(t *testing.T) {
	r := newRig(t, fake.Script("write"))
	ctx := t.Context()
	req := &executorv1.CreateAgentRequest{AgentId: "careful", RequestId: "r", Agent: &executorv1.Agent{
		DisplayName: "Careful", McpIds: []string{"t"}, Confirm: executorv1.Confirm_CONFIRM_NEVER, MaxSteps: 1,
	}}
	a, err := r.agents.CreateAgent(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := r.agents.CreateAgent(ctx, req); err != nil || again.GetEtag() != a.GetEtag() {
		t.Errorf("repeated: %v, %v", again, err)
	}
	req.RequestId = "other"
	if _, err := r.agents.CreateAgent(ctx, req); status.Code(err) != codes.AlreadyExists {
		t.Errorf("taken id: %v", err)
	}
	up, err := r.agents.UpdateAgent(ctx, &executorv1.UpdateAgentRequest{
		Agent: &executorv1.Agent{Id: "careful", Description: "looks twice", Etag: a.GetEtag()}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"description"}},
	})
	if err != nil || up.GetDisplayName() != "Careful" || up.GetDescription() != "looks twice" {
		t.Errorf("update: %v, %v", up, err)
	}
	if _, err := r.agents.UpdateAgent(ctx, &executorv1.UpdateAgentRequest{Agent: &executorv1.Agent{Id: "careful", Etag: a.GetEtag()}}); status.Code(err) != codes.Aborted {
		t.Errorf("stale update: %v", err)
	}
	// The agent's settings apply if the task has none (A29): it never asks, and takes one step.
	events := r.run(&executorv1.CreateTaskRequest{Goal: "go", AgentId: "careful"})
	wantTypes(t, events, "FLOW_START", "STEP_INIT", "STEP_INPUT", "STEP_OUTPUT", "TEXT_ADD", "FLOW_SUCCESS")
	if _, err := r.agents.DeleteAgent(ctx, &executorv1.DeleteAgentRequest{Id: "careful"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.agents.GetAgent(ctx, &executorv1.GetAgentRequest{Id: "careful"}); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_AGENT_NOT_FOUND {
		t.Errorf("after delete: %v", err)
	}
	if list, err := r.agents.ListAgents(ctx, &executorv1.ListAgentsRequest{}); err != nil || len(list.GetAgents()) != 0 {
		t.Errorf("list: %v, %v", list, err)
	}
}

// An approval may give the edited input as a Struct or as JSON, but not both.
func TestEditedInputAsStruct(t *testing.T) {
	r := newRig(t, fake.Script("write"))
	events := r.run(manual("go"))
	id := events[0].GetTaskId()
	s, err := structpb.NewStruct(map[string]any{"text": "by struct"})
	if err != nil {
		t.Fatal(err)
	}
	both := &executorv1.ResumeTaskRequest{Id: id, WaitId: "wait-1", Answer: &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{Input: s, InputJson: `{"text":"x"}`}}}
	if _, err := r.tasks.ResumeTask(t.Context(), both); status.Code(err) != codes.InvalidArgument {
		t.Errorf("both forms at once: %v", err)
	}
	both.GetApprove().InputJson = ""
	if _, err := r.tasks.ResumeTask(t.Context(), both); err != nil {
		t.Fatal(err)
	}
	r.until(id, flowSuccess)
	if got := r.pool.Called()[0].GetInputJson(); got != `{"text":"by struct"}` {
		t.Errorf("input %s", got)
	}
}

// An approval given while no slot is free takes effect once one is free.
func TestApprovalWaitsForASlot(t *testing.T) {
	r := &rig{t: t, dir: t.TempDir(), planner: fake.Script("write"), pool: fake.NewPool()}
	r.cfg.MaxRunning = 1
	called, release := make(chan struct{}, 2), make(chan struct{})
	r.pool.CallFn = func(_ context.Context, _ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		called <- struct{}{}
		<-release
		return send(fake.TextResult("ok", false))
	}
	r.start()
	first, second := r.run(manual("one"))[0].GetTaskId(), r.run(manual("two"))[0].GetTaskId()
	if _, err := r.approve(first, "wait-1", ""); err != nil {
		t.Fatal(err)
	}
	<-called
	answered := make(chan error, 1)
	go func() {
		_, err := r.approve(second, "wait-1", "")
		answered <- err
	}()
	if task := r.task(second); task.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING {
		t.Errorf("without a slot: %v", task.GetStatus())
	}
	close(release)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	r.until(second, flowSuccess)
}

// An answer of the wrong kind is refused at once, even while the right answer is in the inbox and waits for a slot.
func TestWrongAnswerWaitsForNoSlot(t *testing.T) {
	r := &rig{t: t, dir: t.TempDir(), planner: fake.Script("read"), pool: fake.NewPool()}
	r.cfg.MaxRunning = 1
	called, release := make(chan struct{}, 2), make(chan struct{})
	r.pool.CallFn = func(_ context.Context, _ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		called <- struct{}{}
		<-release
		return send(fake.TextResult("ok", false))
	}
	r.start()
	r.create(auto("one"))
	<-called
	paused := r.create(auto("two")).GetId()
	if _, err := r.tasks.PauseTask(t.Context(), &executorv1.PauseTaskRequest{Id: paused}); err != nil {
		t.Fatal(err)
	}
	unpause := &executorv1.ResumeTaskRequest{Id: paused, WaitId: "wait-1", Answer: &executorv1.ResumeTaskRequest_Unpause{Unpause: &executorv1.Unpause{}}}
	if _, err := r.tasks.ResumeTask(t.Context(), unpause); err != nil {
		t.Fatal(err)
	}
	if task, err := r.approve(paused, "wait-1", ""); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST {
		t.Errorf("approving a pause: %v, %v", task, err)
	}
	close(release)
	r.until(paused, flowSuccess)
}

// More tasks than slots: all of them end, and one that is cancelled in the queue does not wait for a slot.
func TestMoreTasksThanSlots(t *testing.T) {
	r := &rig{t: t, dir: t.TempDir(), planner: fake.Script("read"), pool: fake.NewPool()}
	r.cfg.MaxRunning = 2
	release := make(chan struct{})
	r.pool.CallFn = func(ctx context.Context, _ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		select {
		case <-release:
			return send(fake.TextResult("ok", false))
		case <-ctx.Done():
			return errors.New("stopped")
		}
	}
	r.start()
	var ids []string
	for range 6 {
		ids = append(ids, r.create(auto("go")).GetId())
	}
	queued := ""
	for _, id := range ids {
		if r.task(id).GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_INIT {
			queued = id
		}
	}
	if task, err := r.tasks.CancelTask(t.Context(), &executorv1.CancelTaskRequest{Id: queued}); err != nil || task.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED {
		t.Errorf("cancelling a queued task: %v, %v", task, err)
	}
	close(release)
	for _, id := range ids {
		if id != queued {
			r.until(id, flowSuccess)
		}
	}
}
