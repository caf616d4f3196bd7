package test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/identity"

	"pawl.dev/test/rig"
)

// appendGoal is a goal that the planner offline reaches with one call, which needs an approval.
func appendGoal(file, line string) string {
	return fmt.Sprintf(`call t/append {"path": %q, "line": %q}`, file, line)
}

// mcp-go's client hands a goal to Pawl with run_task, with the handshake and without: its user approves the step, declines it, or leaves it open.
func TestMCPRunTask(t *testing.T) {
	target := rig.InProcess(t, rig.Options{})
	for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "effects")
			var asked []string
			answer := mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionAccept, Content: map[string]any{}}
			c := connect(t, target.HTTP+"/mcp", revision, func(req mcp.ElicitationRequest) mcp.ElicitationResponse {
				asked = append(asked, req.Params.Message)
				return answer
			})
			run := map[string]any{"goal": appendGoal(file, "one"), "servers": []string{"t"}, "request_id": "run-" + revision}
			for range 2 { // the second call follows the same task
				if text, failed := callEndpoint(t, c, "run_task", run); failed || !strings.Contains(text, "written") {
					t.Errorf("run_task: %q, failed %v", text, failed)
				}
			}
			if content, err := os.ReadFile(file); err != nil || string(content) != "one\n" {
				t.Errorf("the file has %q, %v", content, err)
			}
			if len(asked) != 1 || !strings.Contains(asked[0], "t/append") || !strings.Contains(asked[0], `"line":"one"`) {
				t.Errorf("asked %q, want the approval of t/append with its input", asked)
			}
			answer = mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionDecline}
			run = map[string]any{"goal": appendGoal(file, "two"), "servers": []string{"t"}}
			if text, failed := callEndpoint(t, c, "run_task", run); !failed || !strings.Contains(text, "cancelled") {
				t.Errorf("a declined step: %q, failed %v", text, failed)
			}
			answer = mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionCancel}
			text, failed := callEndpoint(t, c, "run_task", run)
			if failed || !strings.Contains(text, "waits for a person") {
				t.Errorf("an open question: %q, failed %v", text, failed)
			}
			answer = mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionAccept, Content: map[string]any{}}
			if text, failed := callEndpoint(t, c, "resume_task", map[string]any{"task_id": taskIn(t, text)}); failed || !strings.Contains(text, "written") {
				t.Errorf("resume_task: %q, failed %v", text, failed)
			}
			if content, err := os.ReadFile(file); err != nil || string(content) != "one\ntwo\n" {
				t.Errorf("the file has %q, %v", content, err)
			}
		})
	}
}

// taskIn returns the id of the task that a text says to wait.
func taskIn(t *testing.T, text string) string {
	t.Helper()
	rest, ok := strings.CutPrefix(text, "The task ")
	id, _, found := strings.Cut(rest, " ")
	if !ok || !found {
		t.Fatalf("no task waits: %q", text)
	}
	return id
}

// A client that cannot ask its user gets what the task waits for, cannot approve it, and gets the answer once a person has approved it elsewhere.
func TestMCPTaskWithoutElicitation(t *testing.T) {
	target := rig.InProcess(t, rig.Options{})
	tasks := rig.NewGRPC(target.Executor)
	for _, revision := range []string{"2025-03-26", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "effects")
			c := connect(t, target.HTTP+"/mcp", revision, nil)
			text, failed := callEndpoint(t, c, "run_task", map[string]any{"goal": appendGoal(file, "one"), "servers": []string{"t"}})
			id := taskIn(t, text)
			if failed || !strings.Contains(text, "pawl approve "+id) {
				t.Errorf("run_task: %q, failed %v", text, failed)
			}
			view, _ := callEndpoint(t, c, "get_task", map[string]any{"task_id": id})
			var shown struct {
				Status string `json:"status"`
				Waits  []struct {
					ID   string `json:"wait_id"`
					Kind string `json:"kind"`
				} `json:"waits"`
			}
			if err := json.Unmarshal([]byte(view), &shown); err != nil || shown.Status != "waiting" || len(shown.Waits) != 1 || shown.Waits[0].Kind != "approval" {
				t.Fatalf("get_task: %s, %v", view, err)
			}
			if text, failed := callEndpoint(t, c, "resume_task", map[string]any{"task_id": id, "values": map[string]any{}}); !failed || !strings.Contains(text, "does not wait for parameters") {
				t.Errorf("values for an approval: %q, failed %v", text, failed)
			}
			if text, _ := callEndpoint(t, c, "list_tasks", map[string]any{"status": "waiting"}); !strings.Contains(text, id) {
				t.Errorf("list_tasks: %s; want the task %s", text, id)
			}
			_, err := tasks.Resume(t.Context(), &executorv1.ResumeTaskRequest{
				Id: id, WaitId: shown.Waits[0].ID, Answer: &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if text, failed := callEndpoint(t, c, "resume_task", map[string]any{"task_id": id}); failed || !strings.Contains(text, "written") {
				t.Errorf("resume_task: %q, failed %v", text, failed)
			}
			other := taskIn(t, first(callEndpoint(t, c, "run_task", map[string]any{"goal": appendGoal(file, "two"), "servers": []string{"t"}})))
			if text, failed := callEndpoint(t, c, "cancel_task", map[string]any{"task_id": other, "reason": "enough"}); failed || !strings.Contains(text, `"cancelled"`) {
				t.Errorf("cancel_task: %q, failed %v", text, failed)
			}
			for name, arguments := range map[string]map[string]any{
				"get_task": {"task_id": "none"}, "cancel_task": {"task_id": "0192aaaa-0000-7000-8000-000000000000"}, "run_task": {"goal": "x", "server": "t"},
				"list_tasks": {"status": "odd"}, "resume_task": {},
			} {
				if text, failed := callEndpoint(t, c, name, arguments); !failed {
					t.Errorf("%s %v: %q; want an error", name, arguments, text)
				}
			}
		})
	}
}

// mcpCaller sends requests to /mcp in one revision, as a client with elicitation and tasks, or without tasks.
type mcpCaller struct {
	address, key, session string
	modern, noTasks       bool
}

// request returns the result or the error of a request.
func (c *mcpCaller) request(t *testing.T, method string, params map[string]any) (result map[string]any, code float64) {
	t.Helper()
	headers := []string{"Mcp-Session-Id", c.session}
	if c.modern {
		capabilities := map[string]any{"elicitation": map[string]any{}, "extensions": map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}}
		if c.noTasks {
			delete(capabilities, "extensions")
		}
		params["_meta"] = map[string]any{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": capabilities}
		name, _ := params["name"].(string)
		if id, ok := params["taskId"].(string); ok {
			name = id
		}
		headers = []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": rand.Text(), "method": method, "params": params})
	if err != nil {
		t.Fatal(err)
	}
	_, text, header := postTo(t, c.address, c.key, string(body), headers...)
	if method == "initialize" {
		c.session = header.Get("Mcp-Session-Id")
	}
	for line := range strings.Lines(text) { // the last message of a stream
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			text = data
		}
	}
	var response struct {
		Result map[string]any
		Error  struct{ Code float64 }
	}
	if err := json.Unmarshal([]byte(text), &response); err != nil {
		t.Fatalf("%s: %s: %v", method, text, err)
	}
	return response.Result, response.Error.Code
}

// settled returns a task as tasks/get has it once its status is the wanted one of Pawl.
func (c *mcpCaller) settled(t *testing.T, target *rig.Target, id string, status executorv1.ExecutorStatus) map[string]any {
	t.Helper()
	err := rig.NewGRPC(target.Executor).Watch(t.Context(), id, 0, func(e *executorv1.ExecutorEvent) bool { return e.GetFlow().GetExecutorStatus() != status })
	if err != nil {
		t.Fatal(err)
	}
	task, _ := c.request(t, "tasks/get", map[string]any{"taskId": id})
	return task
}

// without returns the members of an object that are not in a list.
func without(o map[string]any, keys ...string) map[string]any {
	o = maps.Clone(o)
	for _, key := range keys {
		delete(o, key)
	}
	return o
}

// cannot is a goal that the planner offline does not reach.
const cannot = "Compose a symphony in D minor"

// run_task is an MCP task of 2025-11-25 for a client that asks for one: its id is the task's, and tasks/result follows it.
func TestMCPTasksOf2025(t *testing.T) {
	path, key := keys(t)
	ann, bob := key("ann", identity.RoleUser), key("bob", identity.RoleUser)
	target := rig.InProcess(t, rig.Options{Keys: path, Key: ann, ServiceKey: key("executor", identity.RoleService)})
	c := &mcpCaller{address: target.HTTP + "/mcp", key: ann}
	hello, _ := c.request(t, "initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{}})
	if capabilities, _ := hello["capabilities"].(map[string]any); capabilities["tasks"] == nil {
		t.Errorf("capabilities %v, want tasks", capabilities)
	}
	run := func(goal string) string {
		created, code := c.request(t, "tools/call", map[string]any{
			"name": "run_task", "arguments": map[string]any{"goal": goal, "servers": []string{"t"}}, "task": map[string]any{"ttl": 60000},
		})
		task, _ := created["task"].(map[string]any)
		id, _ := task["taskId"].(string)
		if ttl, ok := task["ttl"]; code != 0 || id == "" || !ok || ttl != nil || task["status"] != "working" {
			t.Fatalf("run_task: %v, code %v", created, code)
		}
		return id
	}
	result := func(id string) map[string]any {
		result, code := c.request(t, "tasks/result", map[string]any{"taskId": id})
		if meta, _ := result["_meta"].(map[string]any); code != 0 || fmt.Sprint(meta["io.modelcontextprotocol/related-task"]) != "map[taskId:"+id+"]" {
			t.Errorf("tasks/result: %v, code %v", result, code)
		}
		return result
	}

	echo := run(`call t/echo {"text": "hi"}`)
	if r := result(echo); r["isError"] != false || !strings.Contains(fmt.Sprint(r["content"]), "hi") {
		t.Errorf("the result: %v", r)
	}
	if task, _ := c.request(t, "tasks/get", map[string]any{"taskId": echo}); task["status"] != "completed" {
		t.Errorf("the task: %v", task)
	}
	failing := run(cannot)
	if r := result(failing); r["isError"] != true {
		t.Errorf("the result of a task that failed: %v", r)
	}
	if task, _ := c.request(t, "tasks/get", map[string]any{"taskId": failing}); task["status"] != "failed" {
		t.Errorf("the task that failed: %v", task)
	}

	waiting := run(appendGoal(filepath.Join(t.TempDir(), "effects"), "one"))
	task := c.settled(t, target, waiting, executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING)
	if task["status"] != "input_required" || !strings.Contains(fmt.Sprint(task["statusMessage"]), "pawl approve "+waiting) {
		t.Errorf("the waiting task: %v", task)
	}
	if r := result(waiting); !strings.Contains(fmt.Sprint(r["content"]), "waits for a person") { // the client cannot ask
		t.Errorf("the result of a waiting task: %v", r)
	}
	other := &mcpCaller{address: c.address, key: bob}
	for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
		if r, code := other.request(t, method, map[string]any{"taskId": waiting}); code != -32602 {
			t.Errorf("%s of another user: %v, code %v", method, r, code)
		}
	}
	if r, _ := c.request(t, "tasks/cancel", map[string]any{"taskId": waiting}); r["status"] != "cancelled" || r["taskId"] != waiting {
		t.Errorf("tasks/cancel: %v", r)
	}
	if r, code := c.request(t, "tasks/cancel", map[string]any{"taskId": echo}); code != -32602 {
		t.Errorf("tasks/cancel of an ended task: %v, code %v", r, code)
	}
	list, _ := c.request(t, "tasks/list", map[string]any{})
	for _, id := range []string{echo, failing, waiting} {
		if !strings.Contains(fmt.Sprint(list["tasks"]), id) {
			t.Errorf("tasks/list: %v; want %s", list, id)
		}
	}
	if _, code := c.request(t, "tasks/update", map[string]any{"taskId": echo}); code != -32601 {
		t.Errorf("tasks/update: code %v", code)
	}
	c.address += "/t"
	if _, code := c.request(t, "tasks/get", map[string]any{"taskId": echo}); code != -32601 {
		t.Errorf("tasks/get at /mcp/t: code %v", code)
	}
}

// run_task is a task of the extension of 2026-07-28 for clients that declare it, as the conformance suite checks with tools of its own.
func TestMCPTasksOf2026(t *testing.T) {
	target := rig.InProcess(t, rig.Options{})
	c := &mcpCaller{address: target.HTTP + "/mcp", modern: true}
	plain := &mcpCaller{address: c.address, modern: true, noTasks: true}
	hello, _ := c.request(t, "server/discover", map[string]any{})
	capabilities, _ := hello["capabilities"].(map[string]any)
	if extensions, _ := capabilities["extensions"].(map[string]any); extensions["io.modelcontextprotocol/tasks"] == nil || capabilities["tasks"] != nil {
		t.Errorf("capabilities %v, want the extension", capabilities)
	}
	call := func(c *mcpCaller, goal string) map[string]any {
		result, code := c.request(t, "tools/call", map[string]any{"name": "run_task", "arguments": map[string]any{"goal": goal, "servers": []string{"t"}}})
		if code != 0 {
			t.Fatalf("run_task: code %v", code)
		}
		return result
	}
	run := func(goal string) string {
		task := call(c, goal)
		id, _ := task["taskId"].(string)
		if rest := without(task, "taskId", "createdAt", "lastUpdatedAt"); id == "" || !cmp.Equal(rest, map[string]any{
			"resultType": "task", "status": "working", "ttlMs": nil, "pollIntervalMs": 1000.0,
		}) {
			t.Fatalf("run_task: %v", task)
		}
		if got, _ := c.request(t, "tasks/get", map[string]any{"taskId": id}); got["taskId"] != id || got["resultType"] != "complete" {
			t.Errorf("tasks/get at once: %v", got)
		}
		return id
	}
	ack := func(method string, params map[string]any) {
		t.Helper()
		if got, code := c.request(t, method, params); !cmp.Equal(got, map[string]any{"resultType": "complete"}) {
			t.Errorf("%s: %v, code %v; want an empty result", method, got, code)
		}
	}
	const success, waits = executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS, executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING

	echo := run(`call t/echo {"text": "hi"}`)
	task := c.settled(t, target, echo, success)
	if result, _ := task["result"].(map[string]any); task["status"] != "completed" || !strings.Contains(fmt.Sprint(result["content"]), "hi") {
		t.Errorf("the task: %v", task)
	}
	task = c.settled(t, target, run(cannot), executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR)
	if result, _ := task["result"].(map[string]any); task["status"] != "completed" || result["isError"] != true {
		t.Errorf("the task that failed: %v", task)
	}

	file := filepath.Join(t.TempDir(), "effects")
	id := run(appendGoal(file, "one"))
	task = c.settled(t, target, id, waits)
	requests, _ := task["inputRequests"].(map[string]any)
	if task["status"] != "input_required" || len(requests) != 1 || !strings.Contains(fmt.Sprint(requests), "elicitation/create") || task["requestState"] != nil {
		t.Fatalf("the waiting task: %v", task)
	}
	ack("tasks/update", map[string]any{"taskId": id, "inputResponses": map[string]any{"unknown": map[string]any{"action": "accept"}}})
	if task, _ := c.request(t, "tasks/get", map[string]any{"taskId": id}); task["status"] != "input_required" {
		t.Errorf("after an unknown answer: %v", task)
	}
	for wait := range requests {
		ack("tasks/update", map[string]any{"taskId": id, "inputResponses": map[string]any{wait: map[string]any{"action": "accept", "content": map[string]any{}}}})
	}
	if task := c.settled(t, target, id, success); task["status"] != "completed" {
		t.Errorf("the approved task: %v", task)
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "one\n" {
		t.Errorf("the file has %q, %v", content, err)
	}

	id = run(appendGoal(file, "two"))
	c.settled(t, target, id, waits)
	ack("tasks/cancel", map[string]any{"taskId": id})
	if task := c.settled(t, target, id, executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED); task["status"] != "cancelled" || task["result"] != nil {
		t.Errorf("the cancelled task: %v", task)
	}
	ack("tasks/cancel", map[string]any{"taskId": id})

	if result := call(plain, `call t/echo {"text": "hi"}`); result["resultType"] != "complete" || result["content"] == nil || result["taskId"] != nil {
		t.Errorf("run_task for a client without tasks: %v", result)
	}
	for method, want := range map[string]float64{"tasks/get": -32021, "tasks/update": -32021, "tasks/cancel": -32021, "tasks/result": -32601, "tasks/list": -32601} {
		if got, code := plain.request(t, method, map[string]any{"taskId": id}); code != want {
			t.Errorf("%s of a client without tasks: %v, code %v, want %v", method, got, code, want)
		}
	}
	for _, id := range []string{"none", "0192aaaa-0000-7000-8000-000000000000"} {
		if got, code := c.request(t, "tasks/get", map[string]any{"taskId": id}); code != -32602 {
			t.Errorf("an unknown task: %v, code %v", got, code)
		}
	}
}

// notifications/cancelled ends the task that the request started; a lost connection does not, and the same request follows it again.
func TestMCPRunTaskLeft(t *testing.T) {
	target := rig.InProcess(t, rig.Options{})
	address := target.HTTP + "/mcp"
	_, _, header := postTo(t, address, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}}}}`)
	session := header.Get("Mcp-Session-Id")
	// ask sends run_task, and returns once the client is asked for the approval.
	ask := func(ctx context.Context, id int) (lines *bufio.Scanner) {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run_task","arguments":{"goal":%q,"servers":["t"]}}}`, id, appendGoal("/dev/null", "one"))
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}, "Mcp-Session-Id": {session}}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		lines = bufio.NewScanner(resp.Body)
		for lines.Scan() && !strings.Contains(lines.Text(), "elicitation/create") {
		}
		return lines
	}
	statuses := func() (all []executorv1.ExecutorStatus) {
		page, err := executorv1.NewExecutorServiceClient(target.Executor).ListTasks(t.Context(), &executorv1.ListTasksRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range page.GetTasks() {
			all = append(all, task.GetStatus())
		}
		return all
	}
	waits := []executorv1.ExecutorStatus{executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING}
	ctx, drop := context.WithCancel(t.Context())
	ask(ctx, 2)
	drop()
	lines := ask(t.Context(), 2) // the same task
	if got := statuses(); !cmp.Equal(got, waits) {
		t.Errorf("after a lost connection: tasks %v, want one that waits", got)
	}
	if status, body, _ := postTo(t, address, "", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"reason":"enough"}}`, "Mcp-Session-Id", session); status != http.StatusAccepted {
		t.Errorf("notifications/cancelled: %d %s", status, body)
	}
	last := ""
	for lines.Scan() {
		if lines.Text() != "" {
			last = lines.Text()
		}
	}
	if got := statuses(); len(got) != 1 || got[0] != executorv1.ExecutorStatus_EXECUTOR_STATUS_CANCELLED || !strings.Contains(last, "cancelled") {
		t.Errorf("after notifications/cancelled: tasks %v, response %s", got, last)
	}
}
