package test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/identity"

	"pawl.dev/test/rig"
)

// person answers elicitations.
type person func(mcp.ElicitationRequest) mcp.ElicitationResponse

func (p person) Elicit(_ context.Context, req mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return &mcp.ElicitationResult{ElicitationResponse: p(req)}, nil
}

// connect connects mcp-go's client, with the handshake or without; p is nil if it cannot ask its user.
func connect(t *testing.T, address, revision string, p person) *client.Client {
	t.Helper()
	tr, err := transport.NewStreamableHTTP(address)
	if err != nil {
		t.Fatal(err)
	}
	options := []client.ClientOption{client.WithProtocolVersion(revision)}
	if p != nil {
		options = append(options, client.WithElicitationHandler(p))
	}
	c := client.NewClient(tr, options...)
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	req := mcp.InitializeRequest{Params: mcp.InitializeParams{ProtocolVersion: revision, ClientInfo: mcp.Implementation{Name: "test", Version: "1"}}}
	if _, err := c.Initialize(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	return c
}

// callEndpoint calls a tool and returns its text, and whether it failed.
func callEndpoint(t *testing.T, c *client.Client, name string, arguments map[string]any) (text string, failed bool) {
	t.Helper()
	req := mcp.CallToolRequest{}
	req.Params.Name, req.Params.Arguments = name, arguments
	result, err := c.CallTool(t.Context(), req)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, block := range result.Content {
		if b, ok := block.(mcp.TextContent); ok {
			text += b.Text
		}
	}
	return text, result.IsError
}

// mcp-go's client lists and calls through /mcp and /mcp/{server}, with the handshake and without. A tool that writes needs an approval, and a
// tool that asks its user reaches them.
func TestMCPEndpoint(t *testing.T) {
	target := rig.InProcess(t, rig.Options{})
	for _, revision := range []string{"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		for path, prefix := range map[string]string{"/mcp/t": "", "/mcp": "t__"} {
			t.Run(revision+path, func(t *testing.T) { useEndpoint(t, target, target.HTTP+path, revision, prefix) })
		}
	}
}

func useEndpoint(t *testing.T, target *rig.Target, address, revision, prefix string) {
	file := filepath.Join(t.TempDir(), "effects")
	var asked []string
	allow := mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionAccept, Content: map[string]any{}}
	c := connect(t, address, revision, func(req mcp.ElicitationRequest) mcp.ElicitationResponse {
		asked = append(asked, req.Params.Message)
		if strings.Contains(req.Params.Message, "Where to") {
			return mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionAccept, Content: map[string]any{"city": "Oslo", "days": 2}}
		}
		return allow
	})
	tools, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(tools.Tools, func(tool mcp.Tool) bool { return tool.Name == prefix+"echo" }) {
		t.Fatalf("echo is not in the list: %v", tools.Tools)
	}
	if text, failed := callEndpoint(t, c, prefix+"echo", map[string]any{"text": "hello"}); text != "hello" || failed {
		t.Errorf("echo: %q, failed %v", text, failed)
	}
	if text, failed := callEndpoint(t, c, prefix+"fail", map[string]any{"message": "no"}); text != "no" || !failed {
		t.Errorf("fail: %q, failed %v", text, failed)
	}
	if text, failed := callEndpoint(t, c, prefix+"echo", map[string]any{}); !strings.Contains(text, "text") || !failed {
		t.Errorf("an input that does not fit: %q, failed %v", text, failed)
	}
	line := map[string]any{"path": file, "line": "one"}
	text, failed := callEndpoint(t, c, prefix+"append", line)
	if revision == "2025-03-26" { // without elicitation
		wantPostponed(t, target, file, text, failed)
		return
	}
	if content, err := os.ReadFile(file); failed || err != nil || string(content) != "one\n" {
		t.Errorf("append: %q, failed %v; the file has %q, %v", text, failed, content, err)
	}
	if len(asked) != 1 || !strings.Contains(asked[0], "t/append") || !strings.Contains(asked[0], `"line":"one"`) {
		t.Errorf("asked %q, want the approval of t/append with its input", asked)
	}
	if text, failed := callEndpoint(t, c, prefix+"book", map[string]any{"path": file}); failed || len(asked) != 3 {
		t.Errorf("book: %q, failed %v; asked %q", text, failed, asked)
	}
	allow = mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionDecline}
	file += "2"
	text, failed = callEndpoint(t, c, prefix+"append", map[string]any{"path": file, "line": "two"})
	wantRefused(t, file, text, failed)
	line["path"] = filepath.Join(t.TempDir(), "effects")
	text, failed = callEndpoint(t, connect(t, address, revision, nil), prefix+"append", line)
	wantPostponed(t, target, line["path"].(string), text, failed)
}

// wantRefused fails unless a call was refused because it needs an approval, and has done nothing.
func wantRefused(t *testing.T, file, text string, failed bool) {
	t.Helper()
	if !failed || !strings.Contains(text, "needs an approval") {
		t.Errorf("%q, failed %v; want that it needs an approval", text, failed)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the tool has run")
	}
}

// wantPostponed fails unless a call of append was not made, but waits for an approval as a task, which makes it once it is approved.
func wantPostponed(t *testing.T, target *rig.Target, file, text string, failed bool) {
	t.Helper()
	wantRefused(t, file, text, failed)
	_, rest, _ := strings.Cut(text, "pawl approve ")
	id, _, _ := strings.Cut(rest, "`")
	if !strings.Contains(text, target.HTTP+"/v1/tasks/"+id+":resume") {
		t.Errorf("%q has no link", text)
	}
	tasks := rig.NewGRPC(target.Executor)
	if err := tasks.Watch(t.Context(), id, 0, func(e *executorv1.ExecutorEvent) bool {
		return e.GetFlow().GetExecutorStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING
	}); err != nil {
		t.Fatal(err)
	}
	task, err := tasks.Get(t.Context(), id)
	if err != nil || len(task.GetWaits()) != 1 || task.GetWaits()[0].GetToolId() != "t/append" || !strings.Contains(task.GetWaits()[0].GetInputJson(), `"line":"one"`) {
		t.Fatalf("the task: %v, %v; want one that waits for the approval of t/append", task, err)
	}
	req := &executorv1.ResumeTaskRequest{Id: id, WaitId: task.GetWaits()[0].GetId(), Answer: &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{}}}
	if _, err := tasks.Resume(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	c := connect(t, target.HTTP+"/mcp", "2025-11-25", nil)
	if text, failed := callEndpoint(t, c, "resume_task", map[string]any{"task_id": id}); failed || text != "written" {
		t.Errorf("resume_task: %q, failed %v", text, failed)
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "one\n" {
		t.Errorf("the file has %q, %v", content, err)
	}
}

// Arguments of a call that waits for its approval stay as they are: nothing in them is taken for a reference or a number.
func TestMCPPostponedArguments(t *testing.T) {
	target := rig.InProcess(t, rig.Options{})
	arguments := `{"path":"/dev/null","line":"${goal} $${x} \ud83d\ude00 \u0041","odd key: {}":[12345678901234567890.10,null,{"${a}":"- b"}]}`
	_, body, _ := post(t, target, "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"append","arguments":`+arguments+`}}`)
	_, rest, _ := strings.Cut(body, "pawl approve ")
	id, _, _ := strings.Cut(rest, "`")
	tasks := rig.NewGRPC(target.Executor)
	if err := tasks.Watch(t.Context(), id, 0, func(e *executorv1.ExecutorEvent) bool {
		return e.GetFlow().GetExecutorStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING
	}); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	task, err := tasks.Get(t.Context(), id)
	if err != nil || len(task.GetWaits()) != 1 {
		t.Fatalf("%v, %v", task, err)
	}
	if got := task.GetWaits()[0].GetInputJson(); got != arguments {
		t.Errorf("the task waits with %s, want %s", got, arguments)
	}
}

// post sends a message to /mcp/t and returns the status and the response.
func post(t *testing.T, target *rig.Target, key, body string, headers ...string) (int, string, http.Header) {
	t.Helper()
	return postTo(t, target.HTTP+"/mcp/t", key, body, headers...)
}

func postTo(t *testing.T, address, key, body string, headers ...string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data), resp.Header
}

// Messages that break the rules are refused, each with the status and the code of its revision.
func TestMCPEndpointRefuses(t *testing.T) {
	target := rig.InProcess(t, rig.Options{})
	const version = "Mcp-Protocol-Version"
	modern := []string{version, "2026-07-28", "Mcp-Method", "tools/list"}
	meta := func(version string) string {
		return `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + version + `","io.modelcontextprotocol/clientCapabilities":{}}`
	}
	for name, tt := range map[string]struct {
		body    string
		headers []string
		status  int
		wants   string
	}{
		"not JSON":        {"{", nil, 400, "-32700"},
		"a number":        {"1", nil, 400, "-32600"},
		"a batch":         {`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, []string{version, "2025-06-18"}, 400, "-32600"},
		"a modern batch":  {`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, []string{version, "2026-07-28"}, 400, "-32600"},
		"an empty batch":  {`[]`, nil, 400, "-32600"},
		"a flood":         {"[" + strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"ping"},`, 1000) + "1]", nil, 400, "-32600"},
		"deep":            {strings.Repeat("[", 100_000), nil, 400, "-32700"},
		"a double key":    {`{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}`, nil, 400, "-32600"},
		"no version":      {`{"id":1,"method":"ping"}`, nil, 400, "-32600"},
		"an object as id": {`{"jsonrpc":"2.0","id":{},"method":"ping"}`, nil, 400, "-32600"},
		"a null id":       {`{"jsonrpc":"2.0","id":null,"method":"tools/list"}`, nil, 400, "-32600"},
		"other revision":  {`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, []string{version, "1999-01-01"}, 400, "-32022"},
		"no task":         {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t__echo","arguments":{"text":"x"},"task":{}}}`, nil, 200, "-32601"},
		"params":          {`{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, nil, 400, "-32602"},
		"unknown method":  {`{"jsonrpc":"2.0","id":1,"method":"no/such"}`, nil, 200, "-32601"},
		"unknown tool":    {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"no"}}`, nil, 200, "-32602"},
		"a stray answer":  {`{"jsonrpc":"2.0","id":"x","result":{"action":"accept"}}`, nil, 400, "-32600"},
		"forged session":  {`{"jsonrpc":"2.0","id":1,"method":"ping"}`, []string{"Mcp-Session-Id", "e30.AAAA"}, 404, "session"},
		"no meta":         {`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, modern, 400, "-32602"},
		"other header":    {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta("2026-07-28") + `}}`, []string{version, "2025-11-25"}, 400, "-32020"},
		"other method":    {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo",` + meta("2026-07-28") + `}}`, modern, 400, "-32020"},
		"future":          {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta("2999-01-01") + `}}`, []string{version, "2999-01-01"}, 400, "-32022"},
		"modern unknown":  {`{"jsonrpc":"2.0","id":1,"method":"no/such","params":{` + meta("2026-07-28") + `}}`, []string{version, "2026-07-28", "Mcp-Method", "no/such"}, 404, "-32601"},
		"forged state": {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","requestState":"e30.AAAA",` + meta("2026-07-28") + `}}`,
			[]string{version, "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "echo"}, 400, "requestState"},
		"10 MB": {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + strings.Repeat("x", 10<<20) + `"}}}`, nil, 413, "TOO_LARGE"},
	} {
		t.Run(name, func(t *testing.T) {
			status, body, _ := post(t, target, "", tt.body, tt.headers...)
			if status != tt.status || !strings.Contains(body, tt.wants) {
				t.Errorf("%d %.300s; want %d and %s", status, body, tt.status, tt.wants)
			}
		})
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target.HTTP+"/mcp", bytes.NewBufferString(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Origin", "https://elsewhere.example")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another site: status %d, want 403", resp.StatusCode)
	}
}

// The revision 2025-03-26 has batches: each request in it has its own answer, in an array or on a stream.
// A session's calls have different ids: the pool refuses one that it has seen.
func TestMCPBatch(t *testing.T) {
	target := rig.InProcess(t, rig.Options{})
	_, _, header := post(t, target, "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{}}}`)
	session := header.Get("Mcp-Session-Id")
	echo := func(id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello %[1]d"}}}`, id)
	}
	for name, tt := range map[string]struct {
		batch, accept string
		status        int
		want          []string // the answers
	}{
		"requests": {
			`[` + echo(1) + `,{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":2,"method":"no/such"},3,` + echo(4) + `]`, "application/json", 200,
			[]string{`"id":1,"result":{"content":[{"type":"text","text":"hello 1"}]}`, `"id":2,"error":{"code":-32601`, `"id":null,"error":{"code":-32600`, `"id":4,"result"`},
		},
		"a stream": {
			`[` + echo(5) + `,{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"slow","arguments":{"steps":5},"_meta":{"progressToken":"p"}}}]`, "text/event-stream", 200,
			[]string{`"id":5,"result"`, `"progressToken":"p"`, `"id":6,"result"`},
		},
		"notifications": {`[{"jsonrpc":"2.0","method":"notifications/initialized"}]`, "application/json", 202, nil},
		"initialize":    {`[{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}]`, "application/json", 200, []string{`"id":1,"error":{"code":-32600`}},
	} {
		t.Run(name, func(t *testing.T) {
			status, body, _ := post(t, target, "", tt.batch, "Mcp-Session-Id", session, "Accept", tt.accept)
			var answers []string
			if tt.accept == "application/json" && body != "" {
				var raw []json.RawMessage
				if err := json.Unmarshal([]byte(body), &raw); err != nil {
					t.Fatalf("%s: %v", body, err)
				}
				for _, answer := range raw {
					answers = append(answers, string(answer))
				}
			}
			for line := range strings.Lines(body) {
				if data, ok := strings.CutPrefix(line, "data: "); ok {
					answers = append(answers, data)
				}
			}
			answers = slices.CompactFunc(answers, func(a, b string) bool { // a tool's last progress may come too late
				return strings.Contains(a, "progressToken") && strings.Contains(b, "progressToken")
			})
			if status != tt.status || !slices.EqualFunc(answers, tt.want, strings.Contains) {
				t.Errorf("%d %s; want %d %q", status, body, tt.status, tt.want)
			}
		})
	}
}

// A session, a state and a question belong to their user; a state belongs to its call, and is used once.
func TestMCPEndpointOfTwoUsers(t *testing.T) {
	path, key := keys(t)
	ann, bob := key("ann", identity.RoleUser), key("bob", identity.RoleUser)
	target := rig.InProcess(t, rig.Options{Keys: path, Key: ann})
	if status, body, _ := post(t, target, "", `{"jsonrpc":"2.0","id":1,"method":"ping"}`); status != http.StatusUnauthorized {
		t.Errorf("without a key: %d %s", status, body)
	}
	_, _, header := post(t, target, ann, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`)
	session := header.Get("Mcp-Session-Id")
	for user, want := range map[string]int{ann: 200, bob: 404} {
		if status, body, _ := post(t, target, user, `{"jsonrpc":"2.0","id":2,"method":"ping"}`, "Mcp-Session-Id", session); status != want || session == "" {
			t.Errorf("the session %q: %d %s, want %d", session, status, body, want)
		}
	}

	file := filepath.Join(t.TempDir(), "effects")
	try := func(user, line, more string) (string, map[string]any) {
		t.Helper()
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"append","arguments":{"path":%q,"line":%q},%s"_meta":{`+
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`, file, line, more)
		_, text, _ := post(t, target, user, body, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "append")
		var response struct{ Result map[string]any }
		if err := json.Unmarshal([]byte(text), &response); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return text, response.Result
	}
	_, asked := try(ann, "one", "")
	state, _ := asked["requestState"].(string)
	if asked["resultType"] != "input_required" || state == "" {
		t.Fatalf("asked %v", asked)
	}
	answer := fmt.Sprintf(`"requestState":%q,"inputResponses":{"pawl.dev/approval":{"action":"accept"}},`, state)
	for name, text := range map[string]string{"another user": first(try(bob, "one", answer)), "another input": first(try(ann, "two", answer))} {
		if !strings.Contains(text, "requestState is none of this call") {
			t.Errorf("%s used the state: %s", name, text)
		}
	}
	if text, result := try(ann, "one", answer); result["resultType"] != "complete" || result["isError"] == true {
		t.Errorf("the approved call: %s", text)
	}
	text, _ := try(ann, "one", answer)
	content, err := os.ReadFile(file)
	if err != nil || string(content) != "one\n" {
		t.Errorf("the file has %q, %v, want one line; the second use of the state got %s", content, err, text)
	}
}

func first[A, B any](a A, _ B) A { return a }

// A call goes on while the gateway stops, and has its result. The client of a call that is cut off learns that its outcome is not known, and the client of a task
// how to follow it.
func TestMCPCallsWhenProcessesEnd(t *testing.T) {
	target := rig.FourProcesses(t, binaries, rig.Options{})
	// begin makes a call, and returns its answer once the process has ended, which it does when the call runs.
	begin := func(name, arguments string, end func()) (last string) {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"progressToken":"p"}}}`, name, arguments)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target.HTTP+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if last == "" && strings.Contains(lines.Text(), "notifications/progress") {
				end()
			}
			if lines.Text() != "" {
				last = lines.Text()
			}
		}
		return last
	}
	kill := func(name string) func() { return func() { target.Restart(t, name) } }
	if got := begin("t__slow", `{"steps":100}`, kill("mcppool-svc")); !strings.Contains(got, `"isError":true`) || !strings.Contains(got, `"outcome":"UNKNOWN"`) || !strings.Contains(got, "Look before you call") {
		t.Errorf("the pool was killed: %s", got)
	}
	task := fmt.Sprintf(`{"goal":%q,"servers":["t"]}`, `call t/slow {"steps": 100}`)
	if got := begin("run_task", task, kill("executor-svc")); !strings.Contains(got, "resume_task and the task_id") {
		t.Errorf("the executor was killed: %s", got)
	}
	stop := func(name string) func() {
		return func() {
			if err := target.Processes[name].Terminate(); err != nil {
				t.Error(err)
			}
		}
	}
	if got := begin("t__slow", `{"steps":100}`, stop("gateway")); !strings.Contains(got, "100 steps") {
		t.Errorf("the gateway stops: %s", got)
	}
	target = rig.Binary(t, binaries, rig.Options{})
	if got := begin("t__slow", `{"steps":100}`, stop("pawl")); !strings.Contains(got, "100 steps") {
		t.Errorf("pawl up stops: %s", got)
	}
}

// Arguments that do not fit a tool of Pawl's own are named as the tool's schema names them.
func TestMCPOwnToolArguments(t *testing.T) {
	target := rig.InProcess(t, rig.Options{})
	for arguments, want := range map[[2]string]string{
		{"get_task", `{}`}: "the argument task_id is missing", {"cancel_task", `{}`}: "the argument task_id is missing", {"resume_task", `{}`}: "the argument task_id is missing",
		{"run_task", `{"goal":"x","foo":1}`}: `there is no argument \"foo\"`, {"run_task", `{"goal":5}`}: `the argument \"goal\" must not be a number`,
		{"list_tasks", `{"limit":-5}`}: "use 1 to 100",
	} {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, arguments[0], arguments[1])
		if _, got, _ := postTo(t, target.HTTP+"/mcp", "", body); !strings.Contains(got, want) || !strings.Contains(got, `"isError":true`) {
			t.Errorf("%v: %s, want %s", arguments, got, want)
		}
	}
}

// A stream of notifications ends when its user's key is removed.
func TestMCPStreamEndsWithItsKey(t *testing.T) {
	path, key := keys(t)
	token := key("ann", identity.RoleUser)
	target := rig.InProcess(t, rig.Options{Keys: path, Key: token})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target.HTTP+"/mcp", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Accept": {"text/event-stream"}, "Authorization": {"Bearer " + token}}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	file, err := identity.OpenKeyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Remove(file.List()[0].ID); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil { // the end, before that of the test
		t.Error(err)
	}
}
