package gateway_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"pawl.dev/gateway/gateway"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// bodies are valid request bodies of the RPCs that take one; of those without an entry, {} is valid.
func bodies() map[string]string {
	const inContext = `{"context": {"goal": "g"}, "toolId": "a/b"}`
	return map[string]string{
		"CreateTask": `{"goal": "g"}`, "RunTask": `{"goal": "g"}`, "ResumeTask": `{"waitId": "w", "approve": {}}`,
		"CreateAgent": `{"displayName": "A"}`, "UpdateAgent": `{"displayName": "B"}`,
		"CreateMcpServer": `{"id": "m", "http": {"url": "http://example.com/mcp"}}`, "UpdateMcpServer": `{"displayName": "B"}`,
		"ApproveTool": `{"name": "t", "definitionHash": "` + strings.Repeat("0a", 32) + `"}`,
		"AttachCall":  `{"callId": "c", "requestHash": "` + strings.Repeat("0a", 32) + `"}`, "AckCall": `{"callIds": ["c"]}`,
		"CallTool": `{"name": "t"}`, "CancelCall": `{"callId": "c"}`, "ReleaseSession": `{"sessionId": "s"}`,
		"GetFlowName": `{"context": {}}`, "AssessFlowRisk": `{"context": {}}`, "PlanSteps": `{"context": {}}`,
		"CreateNextStep": `{"context": {}}`, "StreamPlanSteps": `{"context": {}}`, "CreatePlan": `{"context": {}}`, "Think": `{"context": {}}`,
		"Reflect": `{"context": {}}`, "Decide": `{"context": {}}`, "SelectTools": `{"context": {}}`, "Respond": `{"context": {}}`, "SummarizeMemory": `{"context": {}}`, "GetFirstInputParams": inContext, "FillParams": inContext, "AssessToolRisk": inContext,
		"IsParamError": inContext, "DescribeError": inContext, "GetMissingParams": inContext, "GenerateAnswer": `{"context": {}}`,
		"CheckPlaybook": `{"playbook": "p"}`, "RankTools": `{"query": "q"}`, "Generate": `{"messages": [{"role": "MODEL_ROLE_USER", "parts": [{"text": "Hello"}]}]}`,
		"AnswerCall": `{"callId": "c", "answer": {"inputId": "i", "action": "ACTION_DECLINE"}}`,
		"GetPrompt":  `{"name": "p"}`, "Complete": `{"prompt": "p", "argument": "a"}`, "FinishMcpLogin": `{"state": "s"}`,
	}
}

// queries are the required parameters of RPCs without a body.
func queries() map[string]string {
	return map[string]string{"ReadResource": "?uri=file:///a", "SubscribeResource": "?uri=file:///a"}
}

// binding is the HTTP annotation of an RPC; its path has ids in place of its variables.
func binding(t *testing.T, rpc protoreflect.MethodDescriptor) (method, path string, hasBody bool) {
	t.Helper()
	rule, ok := proto.GetExtension(rpc.Options(), annotations.E_Http).(*annotations.HttpRule)
	if !ok || rule == nil {
		t.Fatalf("%s has no HTTP annotation", rpc.FullName())
	}
	for _, of := range []struct{ method, path string }{
		{"GET", rule.GetGet()}, {"POST", rule.GetPost()}, {"PATCH", rule.GetPatch()}, {"DELETE", rule.GetDelete()}, {"PUT", rule.GetPut()},
	} {
		if of.path != "" {
			method, path = of.method, of.path
		}
	}
	id := "some-id"
	if strings.HasPrefix(path, "/v1/tasks") {
		id = taskID
	}
	for _, variable := range []string{"{id}", "{agent.id}", "{mcp_id}", "{mcp_server.id}"} {
		path = strings.ReplaceAll(path, variable, id)
	}
	return method, path, rule.GetBody() != ""
}

func files() []protoreflect.FileDescriptor {
	return []protoreflect.FileDescriptor{
		executorv1.File_pawl_executor_v1_executor_service_proto, executorv1.File_pawl_executor_v1_agent_service_proto,
		mcppoolv1.File_pawl_mcppool_v1_mcppool_proto, plannerv1.File_pawl_planner_v1_planner_proto,
	}
}

// TestEveryRPCIsServed calls each RPC of the contracts once, where its annotation says, and sees it arrive. A stream from the client is
// nothing that REST has.
func TestEveryRPCIsServed(t *testing.T) {
	b := start(t, gateway.Config{})
	for _, file := range files() {
		for i := range file.Services().Len() {
			for j := range file.Services().Get(i).Methods().Len() {
				rpc := file.Services().Get(i).Methods().Get(j)
				if rpc.IsStreamingClient() {
					continue
				}
				t.Run(string(rpc.FullName()), func(t *testing.T) { b.in(t).calls(rpc) })
			}
		}
	}
}

func (b *bench) calls(rpc protoreflect.MethodDescriptor) {
	t := b.t
	t.Helper()
	method, path, hasBody := binding(t, rpc)
	body := ""
	if hasBody {
		if body = bodies()[string(rpc.Name())]; body == "" {
			body = "{}"
		}
	}
	path += queries()[string(rpc.Name())]
	resp, text := b.text(method, path, body, nil)
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%s %s: status %d: %s", method, path, resp.StatusCode, text)
	}
	want := "application/json"
	if rpc.IsStreamingServer() && !strings.HasPrefix(string(rpc.Name()), "Export") {
		want = "application/x-ndjson"
	}
	if got := resp.Header.Get("Content-Type"); got != want {
		t.Errorf("%s %s: Content-Type %q, want %q", method, path, got, want)
	}
	calls := b.journal.take()
	full := "/" + string(rpc.Parent().FullName()) + "/" + string(rpc.Name())
	if len(calls) != 1 || calls[0].method != full {
		t.Errorf("%s %s: calls %v, want one of %s", method, path, calls, full)
	}
}

func TestJSONIsFriendly(t *testing.T) {
	b := start(t, gateway.Config{})
	b.executor.GetTaskFn = func(*executorv1.GetTaskRequest) (*executorv1.Task, error) {
		return &executorv1.Task{Id: taskID, Status: executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING, LastSeq: 7}, nil
	}
	resp, text := b.text("GET", "/v1/tasks/"+taskID, "", nil)
	var got map[string]any
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"id": taskID, "status": "EXECUTOR_STATUS_WAITING", "lastSeq": "7"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
	if !strings.HasSuffix(text, "\n") {
		t.Error("the answer does not end with a newline")
	}
	if got := resp.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control %q, want no-store", got)
	}
	for name := range resp.Header {
		if strings.HasPrefix(name, "Grpc-") {
			t.Errorf("the header %s of gRPC is passed on", name)
		}
	}
}

// TestRequestsReachTheServiceWhole sends one request of each kind of binding.
func TestRequestsReachTheServiceWhole(t *testing.T) {
	tests := map[string]struct {
		method, path, body string
		want               proto.Message
	}{
		"whole body and path": {"POST", "/v1/tasks/" + taskID + ":resume", `{"waitId": "w", "approve": {"inputJson": "{\"n\": 9007199254740993}"}}`,
			&executorv1.ResumeTaskRequest{Id: taskID, WaitId: "w", Answer: &executorv1.ResumeTaskRequest_Approve{
				Approve: &executorv1.Approve{InputJson: `{"n": 9007199254740993}`}}}},
		"body in a field, the rest in the query": {"POST", "/v1/agents?agentId=a&requestId=r", `{"displayName": "A"}`,
			&executorv1.CreateAgentRequest{AgentId: "a", RequestId: "r", Agent: &executorv1.Agent{DisplayName: "A"}}},
		"repeated and enum in the query": {"GET",
			"/v1/tasks?pageSize=3&statuses=EXECUTOR_STATUS_ERROR&statuses=EXECUTOR_STATUS_WAITING&created_after=2026-01-02T03:04:05Z", "",
			&executorv1.ListTasksRequest{PageSize: 3, Statuses: []executorv1.ExecutorStatus{5, 2}, CreatedAfter: timestamp(t, "2026-01-02T03:04:05Z")}},
		"no body at all":      {"POST", "/v1/tasks/" + taskID + ":cancel", "", &executorv1.CancelTaskRequest{Id: taskID}},
		"delete with a query": {"DELETE", "/v1/agents/a?etag=e", "", &executorv1.DeleteAgentRequest{Id: "a", Etag: "e"}},
		"update with a mask of JSON names": {"PATCH", "/v1/agents/a?updateMask=displayName,maxSteps", `{"displayName": "A"}`,
			&executorv1.UpdateAgentRequest{Agent: &executorv1.Agent{Id: "a", DisplayName: "A"}, UpdateMask: mask("display_name", "max_steps")}},
		"update of everything": {"PATCH", "/v1/agents/a?updateMask=*", `{"displayName": "A"}`,
			&executorv1.UpdateAgentRequest{Agent: &executorv1.Agent{Id: "a", DisplayName: "A"}, UpdateMask: mask("*")}},
		"update of a part": {"PATCH", "/v1/mcpServers/m?updateMask=http.url,toolPolicies.a_b", `{"http": {"url": "http://example.com/"}}`,
			&mcppoolv1.UpdateMcpServerRequest{UpdateMask: mask("http.url", "tool_policies.a_b"), McpServer: &mcppoolv1.McpServer{Id: "m",
				Transport: &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: "http://example.com/"}}}}},
		"update without a mask is of what was sent": {"PATCH", "/v1/agents/a", `{"id": "b", "etag": "e", "description": "", "mcpIds": []}`,
			&executorv1.UpdateAgentRequest{Agent: &executorv1.Agent{Id: "a", Etag: "e"}, UpdateMask: mask("description", "mcp_ids")}},
		"a nested object is replaced": {"PATCH", "/v1/mcpServers/m", `{"http": {"url": "http://example.com/"}}`,
			&mcppoolv1.UpdateMcpServerRequest{UpdateMask: mask("http"), McpServer: &mcppoolv1.McpServer{Id: "m",
				Transport: &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: "http://example.com/"}}}}},
		"run with a query": {"POST", "/v1/tasks:run?afterSeq=4&follow=true", `{"goal": "g", "autoExecute": false}`,
			&executorv1.RunTaskRequest{AfterSeq: 4, Follow: true, Task: &executorv1.CreateTaskRequest{Goal: "g", AutoExecute: proto.Bool(false)}}},
		"a pause":    {"POST", "/v1/tasks/" + taskID + ":pause", `{"reason": "r"}`, &executorv1.PauseTaskRequest{Id: taskID, Reason: "r"}},
		"a fork":     {"POST", "/v1/tasks/" + taskID + ":fork", `{"seq": "7", "goal": "g"}`, &executorv1.ForkTaskRequest{Id: taskID, Seq: 7, Goal: "g"}},
		"a deletion": {"DELETE", "/v1/tasks/" + taskID, "", &executorv1.DeleteTaskRequest{Id: taskID}},
		"an export":  {"GET", "/v1/tasks/" + taskID + ":export", "", &executorv1.ExportTaskRequest{Id: taskID}},
		"an unpause": {"POST", "/v1/tasks/" + taskID + ":resume", `{"unpause": {}}`, &executorv1.ResumeTaskRequest{Id: taskID, Answer: &executorv1.ResumeTaskRequest_Unpause{Unpause: &executorv1.Unpause{}}}},
		"an outcome": {"POST", "/v1/tasks/" + taskID + ":resume", `{"waitId": "w", "outcome": {"output": {"outputJson": "{\"n\": 9007199254740993}"}}}`,
			&executorv1.ResumeTaskRequest{Id: taskID, WaitId: "w", Answer: &executorv1.ResumeTaskRequest_Outcome{Outcome: &executorv1.OutcomeAnswer{
				Answer: &executorv1.OutcomeAnswer_Output{Output: &executorv1.OutcomeOutput{OutputJson: `{"n": 9007199254740993}`}}}}}},
		"a budget and a wait's time": {"POST", "/v1/tasks", `{"goal": "g", "budget": {"maxToolCalls": 3, "maxTokens": "9", "maxRunTime": "60s"}, "waitTimeout": "3600s"}`,
			&executorv1.CreateTaskRequest{Goal: "g", WaitTimeout: durationpb.New(time.Hour),
				Budget: &executorv1.Budget{MaxToolCalls: 3, MaxTokens: 9, MaxRunTime: durationpb.New(time.Minute)}}},
		"a tool's input": {"POST", "/v1/mcpServers/m/tools:call", `{"name": "a/b:c", "inputJson": "{}"}`,
			&mcppoolv1.CallToolRequest{McpId: "m", Name: "a/b:c", InputJson: "{}"}},
	}
	b := start(t, gateway.Config{})
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := b.in(t)
			if resp, text := b.text(tt.method, tt.path, tt.body, nil); resp.StatusCode != http.StatusOK {
				t.Fatalf("status %d: %s", resp.StatusCode, text)
			}
			calls := b.journal.take()
			if len(calls) != 1 {
				t.Fatalf("%d calls, want 1", len(calls))
			}
			if diff := cmp.Diff(tt.want, calls[0].req, protocmp.Transform()); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}
