package api_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// CreateTask creates a task, or is refused with a clear error, whatever it gets (A1, A28).
func FuzzCreateTask(f *testing.F) {
	f.Add("a goal", "", "t", "", "", "", "", uint64(0), int64(0), int32(0))
	f.Add("", "steps: []", "", "talk", "request", "", "", uint64(1), int64(time.Hour/time.Second), int32(1))
	f.Add(" ", "broken", "no such", "\x00", "\x00", "no model", "no agent", uint64(1)<<63, int64(1)<<62, int32(-1))
	f.Add("{{.}}", "a: &a [*a]", "t", "../..", "%00", "playbook", "a", uint64(9), int64(-1), int32(1<<30))
	f.Add("goal", "", "t", "", "", "", "", uint64(0), int64(9223372036), int32(999999999))
	r := newRig(f)
	f.Fuzz(func(t *testing.T, goal, playbook, server, talk, request, model, agentID string, most uint64, seconds int64, nanos int32) {
		lasts := &durationpb.Duration{Seconds: seconds, Nanos: nanos}
		req := &executorv1.CreateTaskRequest{
			Goal: text(goal), Playbook: text(playbook), ConversationId: text(talk), RequestId: text(request), Model: text(model), AgentId: text(agentID),
			Language: 0, Budget: &executorv1.Budget{MaxToolCalls: uint32(most), MaxModelCalls: uint32(most >> 32), MaxTokens: most, MaxRunTime: lasts},
			WaitTimeout: lasts,
		}
		if server != "" {
			req.McpIds = []string{text(server)}
		}
		if seconds == 0 {
			req.WaitTimeout = nil
		}
		task, err := r.tasks.CreateTask(t.Context(), req)
		if !succeeded(t, "CreateTask", err) {
			return
		}
		r.readable(t, task.GetId())
		if request != "" { // the same request again gives the same task
			again, err := r.tasks.CreateTask(t.Context(), req)
			if err != nil || again.GetId() != task.GetId() {
				t.Errorf("repeated: %v, %v; want %s", again.GetId(), err, task.GetId())
			}
		}
		_, err = r.tasks.CancelTask(t.Context(), &executorv1.CancelTaskRequest{Id: task.GetId(), Reason: text(goal)})
		succeeded(t, "CancelTask", err)
		_, err = r.tasks.DeleteTask(t.Context(), &executorv1.DeleteTaskRequest{Id: task.GetId()})
		succeeded(t, "DeleteTask", err)
	})
}

// Lists, ForkTask and WatchTask succeed, or are refused with a clear error, whatever they get.
func FuzzLists(f *testing.F) {
	f.Add("", int32(0), "", int32(0), int64(0), uint64(0))
	f.Add("AQ", int32(1), "agent", int32(1), int64(1)<<40, uint64(1))
	f.Add("not a token", int32(-1), "\x00", int32(99), int64(-1)<<40, ^uint64(0))
	f.Add("AQEBAQEBAQEBAQ==", int32(1001), "a\r\n", int32(-1), int64(1)<<62, uint64(2))
	r := newRig(f)
	id := r.task(f, executorv1.WaitKind_WAIT_KIND_APPROVAL)
	r.task(f, executorv1.WaitKind_WAIT_KIND_PARAMS)
	first, err := r.tasks.ListTasks(f.Context(), &executorv1.ListTasksRequest{PageSize: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(first.GetNextPageToken(), int32(1), "", int32(0), int64(0), uint64(1))
	f.Fuzz(func(t *testing.T, token string, size int32, filter string, status int32, seconds int64, seq uint64) {
		ctx := t.Context()
		token, filter = text(token), text(filter)
		at := &timestamppb.Timestamp{Seconds: seconds}
		list := &executorv1.ListTasksRequest{PageToken: token, PageSize: size, AgentId: filter, ConversationId: filter, CreatedAfter: at, CreatedBefore: at}
		if status != 0 {
			list.Statuses = []executorv1.ExecutorStatus{executorv1.ExecutorStatus(status)}
		}
		_, err := r.tasks.ListTasks(ctx, list)
		succeeded(t, "ListTasks", err)
		_, err = r.tasks.ListTasks(ctx, &executorv1.ListTasksRequest{PageToken: token, PageSize: size})
		succeeded(t, "ListTasks", err)
		_, err = r.tasks.ListSteps(ctx, &executorv1.ListStepsRequest{Id: id, PageToken: token, PageSize: size})
		succeeded(t, "ListSteps", err)
		_, err = r.agents.ListAgents(ctx, &executorv1.ListAgentsRequest{PageToken: token, PageSize: size})
		succeeded(t, "ListAgents", err)
		_, err = r.tasks.ForkTask(ctx, &executorv1.ForkTaskRequest{Id: id, Seq: seq})
		succeeded(t, "ForkTask", err)
		stream, err := r.tasks.WatchTask(ctx, &executorv1.WatchTaskRequest{Id: id, AfterSeq: seq, NoFollow: true})
		for err == nil {
			_, err = stream.Recv()
		}
		if !errors.Is(err, io.EOF) {
			succeeded(t, "WatchTask", err)
		}
	})
}

// An id is looked up, or refused with a clear error, in every request that has one.
func FuzzIDs(f *testing.F) {
	for _, id := range []string{"", "x", "\x00", "00000000-0000-0000-0000-000000000000", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "{00000000-0000-0000-0000-000000000000}", "a-b", "é", "../x", "%2e"} {
		f.Add(id, "display_name")
	}
	f.Add("agent", "*")
	f.Add("agent", "id")
	f.Add("agent", "budget.max_tokens")
	r := newRig(f)
	f.Fuzz(func(t *testing.T, id, path string) {
		ctx := t.Context()
		id, path = text(id), text(path)
		_, err := r.tasks.GetTask(ctx, &executorv1.GetTaskRequest{Id: id})
		succeeded(t, "GetTask", err)
		_, err = r.tasks.CancelTask(ctx, &executorv1.CancelTaskRequest{Id: id})
		succeeded(t, "CancelTask", err)
		_, err = r.tasks.PauseTask(ctx, &executorv1.PauseTaskRequest{Id: id})
		succeeded(t, "PauseTask", err)
		_, err = r.tasks.ForkTask(ctx, &executorv1.ForkTaskRequest{Id: id, RequestId: path})
		succeeded(t, "ForkTask", err)
		_, err = r.tasks.DeleteTask(ctx, &executorv1.DeleteTaskRequest{Id: id})
		succeeded(t, "DeleteTask", err)
		_, err = r.agents.CreateAgent(ctx, &executorv1.CreateAgentRequest{AgentId: id, RequestId: path, Agent: &executorv1.Agent{DisplayName: id, Description: path}})
		made := succeeded(t, "CreateAgent", err)
		_, err = r.agents.UpdateAgent(ctx, &executorv1.UpdateAgentRequest{
			Agent: &executorv1.Agent{Id: id, Etag: path}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{path}},
		})
		succeeded(t, "UpdateAgent", err)
		_, err = r.agents.GetAgent(ctx, &executorv1.GetAgentRequest{Id: id})
		succeeded(t, "GetAgent", err)
		_, err = r.agents.DeleteAgent(ctx, &executorv1.DeleteAgentRequest{Id: id})
		if deleted := succeeded(t, "DeleteAgent", err); made && id != "" && !deleted {
			t.Errorf("agent %q was made, and cannot be deleted: %v", id, err)
		}
	})
}
