package cli_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"

	"pawl.dev/cmd/internal/clitest"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

func stdio(id, command string, args ...string) *mcppoolv1.McpServer {
	return &mcppoolv1.McpServer{Id: id, Transport: &mcppoolv1.McpServer_Stdio{Stdio: &mcppoolv1.StdioTransport{Command: command, Args: args}}}
}

func TestMCPList(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	w.pawl("mcp", "list").expect(t, 0, "", "no MCP servers")
	files := stdio("files", "npx", "-y", "server-filesystem")
	files.Active = true
	broken := stdio("broken", "nowhere")
	broken.Active = true
	off := stdio("off", "x")
	off.Disabled = true
	w.register(files, broken, off)
	clitest.On(w.pool.Script, func(_ *mcppoolv1.ListMcpServersRequest, next func() (*mcppoolv1.ListMcpServersResponse, error)) (*mcppoolv1.ListMcpServersResponse, error) {
		list, err := next()
		list.McpServers = append(list.McpServers, workspace("workspace", "/src/app")) // a folder that need not exist
		for _, s := range list.GetMcpServers() {
			switch s.GetId() {
			case "files":
				s.State = mcppoolv1.ConnectionState_CONNECTION_STATE_READY
			case "broken":
				s.State, s.LastError = mcppoolv1.ConnectionState_CONNECTION_STATE_FAILED, "nowhere: there is no such program"
			}
		}
		return list, err
	})
	w.serveElsewhere()
	w.golden("mcp list", w.pawl("mcp", "list"))
	w.golden("mcp list json", w.pawl("mcp", "list", "--active", "--json").anyTime())
	echo := &mcppoolv1.McpServer{Id: "echo", Transport: &mcppoolv1.McpServer_Builtin{Builtin: &mcppoolv1.BuiltinTransport{Name: "echo"}}}
	clitest.On(w.pool.Script, func(*mcppoolv1.ListMcpServersRequest, func() (*mcppoolv1.ListMcpServersResponse, error)) (*mcppoolv1.ListMcpServersResponse, error) {
		return &mcppoolv1.ListMcpServersResponse{McpServers: []*mcppoolv1.McpServer{echo}}, nil
	})
	w.pawl("mcp", "list").expect(t, 0, "built in\n", "")
}

func TestMCPAdd(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		args []string
		want *mcppoolv1.McpServer
	}{
		{"a command with flags of its own", []string{"files", "--trusted", "--env", "A=b=c", "--", "npx", "-y", "server", "--json"}, func() *mcppoolv1.McpServer {
			s := stdio("files", "npx", "-y", "server", "--json")
			s.Trusted, s.GetStdio().Env = true, map[string]string{"A": "b=c"}
			s.GetStdio().Cwd = here // what its arguments are relative to
			return s
		}()},
		{"an address", []string{"search", "--url", "http://x/mcp", "--header", "Authorization=Bearer a,b", "--effect", "*=read", "--effect", "drop=destructive"}, &mcppoolv1.McpServer{
			Id: "search",
			Transport: &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{
				Url: "http://x/mcp", Headers: map[string]string{"Authorization": "Bearer a,b"},
			}},
			ToolPolicies: map[string]*mcppoolv1.ToolPolicy{
				"*":    {Effect: commonv1.Effect_EFFECT_READ},
				"drop": {Effect: commonv1.Effect_EFFECT_DESTRUCTIVE},
			},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.serveElsewhere()
			id := tc.want.GetId()
			w.pawl(append([]string{"mcp", "add"}, tc.args...)...).expect(t, 0, id+" is registered and active: 0 tools (pawl mcp tools "+id+")\n", "")
			if diff := cmp.Diff(tc.want, clitest.Sent[*mcppoolv1.CreateMcpServerRequest](w.pool.Script)[0].GetMcpServer(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
			if !w.pool.Server(id).GetActive() {
				t.Error("it is not active")
			}
		})
	}
}

// A program that is named by a path is found from any folder: servers have a working folder of their own.
func TestMCPAddMakesPathsAbsolute(t *testing.T) {
	w := newWorld(t)
	root := chdir(t, "app")
	w.serveElsewhere()
	w.pawl("mcp", "add", "own", "--", "./bin/server").expect(t, 0, "own is registered", "")
	if got := w.pool.Server("own").GetStdio().GetCommand(); got != root+"/bin/server" {
		t.Errorf("command %q", got)
	}
}

func TestMCPAddThatDoesNotWork(t *testing.T) {
	w := newWorld(t)
	w.unlisted = unavailable("broken", "broken cannot be started: exec: \"nowhere\": not found")
	w.serveElsewhere()
	w.pawl("mcp", "add", "broken", "--", "nowhere").expect(t, 1, "", "broken is registered, but it does not work: broken cannot be started")
	w.pawl("mcp", "add", "broken", "--", "nowhere").expect(t, 1, "", `broken: there is an MCP server broken already`)
	w.pawl("mcp", "remove", "broken").expect(t, 0, "broken is removed\n", "")
	w.pawl("mcp", "remove", "broken").expect(t, 1, "", "next: pawl mcp list")
	w.pawl("mcp", "add", "broken", "--no-check", "--", "nowhere").expect(t, 0, "broken is registered and active\n", "")
}

// A sampling model that does not exist is reported when the server is registered, not only in a call.
func TestMCPAddWithAModelThatIsNotThere(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	const says = `! a cannot use its sampling model: there is no model "nosuch"; the configured models are fast`
	w.pawl("mcp", "add", "a", "--sampling", "nosuch", "--", "x").expect(t, 0, "a is registered", says)
	w.pawl("mcp", "update", "a", "--sample-tokens", "5").expect(t, 0, "a is changed", says)
	for _, model := range []string{"fast", "any"} {
		got := w.pawl("mcp", "update", "a", "--sampling", model)
		got.expect(t, 0, "a is changed", "")
		if got.err != "" {
			t.Error(got.err)
		}
	}
}

func TestMCPAddFromAFile(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	text := `{"mcpServers": {
		"My Files": {"command": "npx", "args": ["-y", "fs"], "env": {"A": "b"}, "icon": "x"},
		"remote": {"type": "http", "url": "http://x/mcp", "headers": {"K": "v"}},
		"off": {"command": "x", "disabled": true, "permissions": [{"tools": ["rm"], "decision": "deny"}]}}}`
	if err := os.WriteFile("mcp.json", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.serveElsewhere()
	w.golden("mcp add from", w.pawl("mcp", "add", "--from", "mcp.json"))
	if s := w.pool.Server("my-files"); s.GetDisplayName() != "My Files" || s.GetStdio().GetEnv()["A"] != "***" || !s.GetActive() {
		t.Errorf("my-files: %v", s)
	}
	if s := w.pool.Server("off"); !s.GetDisabled() || s.GetActive() || s.GetPermissions()[0].GetTools()[0] != "rm" {
		t.Errorf("off: %v", s)
	}
	w.pawl("mcp", "update", "off", "--no-disabled").expect(t, 0, "off is changed", "") // as the error about a disabled server advises
	if w.pool.Server("off").GetDisabled() {
		t.Error("off is still disabled")
	}
	w.pawl("mcp", "add", "nope", "--from", "mcp.json").expect(t, 1, "", `has no server "nope"`)
	w.golden("mcp add from json", w.pawl("mcp", "add", "remote", "--from", "mcp.json", "--json")) // it is there already
	for text, says := range map[string]string{
		"{":                                "bad.json:1:2: this is not valid JSON",
		`{"mcpServers":{}}`:                "bad.json: there are no servers in it",
		`{"mcpServers":{"a":{}}}`:          `bad.json:1: MCP server "a": it has neither "command"`,
		`{"mcpServers":{"!":{"url":"x"}}}`: "no letters or digits",
		`{"mcpServers":{"a b":{"command":"x"},"a-b":{"command":"x"}}}`: `would both have the id "a-b"`,
		`{"mcpServers":{"a":{"command":"c","url":"http://x"}}}`:        `it has both "command" and "url"`,
	} {
		if err := os.WriteFile("bad.json", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w.pawl("mcp", "add", "--from", "bad.json").expect(t, 1, "", says)
	}
	text = "{\"mcpServers\": {\n\"good\": {\"command\": \"x\"},\n\"bad\": {},\n\"good two\": {\"command\": \"x\"},\n\"worse\": 3,\n\"bad\": {}}}"
	if err := os.WriteFile("bad.json", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got := w.pawl("mcp", "add", "--from", "bad.json")
	for _, says := range []string{
		`bad.json:3: MCP server "bad": it has neither`, `bad.json:5: MCP server "worse": it is not`, `bad.json:6: MCP server "bad": it is there twice, first in line 3`,
		"next: nothing was added", "pawl mcp add good --from",
	} {
		got.expect(t, 1, "", says)
	}
	if w.pool.Server("good") != nil {
		t.Error("one was added")
	}
	w.pawl("mcp", "add", "good-two", "--from", "bad.json").expect(t, 0, "good-two is registered", "") // others do not matter then
	w.pawl("mcp", "update", "nope", "--from", "bad.json").expect(t, 1, "", "bad.json has no server \"nope\"\n  next: name the entry nope in the file")
}

// A server that belongs to another user is registered, and not activated: only that user can do so.
func TestMCPAddForAnotherUser(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	text := `{"mcpServers": {"hers": {"command": "x", "owner": "ann"}}}`
	if err := os.WriteFile("mcp.json", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.serveElsewhere()
	w.pawl("mcp", "add", "--from", "mcp.json").expect(t, 0, "hers is registered for ann; only that user can activate it: pawl mcp activate hers\n", "")
}

// An operator shows, lists, changes and removes the server of another user by naming its owner.
func TestMCPOwner(t *testing.T) {
	w := newWorld(t)
	own, hers := stdio("files", "own"), stdio("files", "hers")
	own.OwnerSub, hers.OwnerSub = "local", "ann"
	w.register(own, hers)
	w.serveElsewhere()
	w.pawl("mcp", "list", "--owner", "ann").expect(t, 0, "hers", "")
	w.pawl("mcp", "show", "files", "--owner", "ann").expect(t, 0, "ann", "")
	w.pawl("mcp", "update", "files", "--owner", "ann").expect(t, 64, "", "no change is given")
	if got := w.pawl("mcp", "update", "files", "--owner", "ann", "--trusted"); got.out != "files is changed\n" {
		t.Errorf("update: %q, %q", got.out, got.err) // nothing about the operator's own tasks
	}
	w.pawl("mcp", "show", "files", "--owner", "ann", "--json").expect(t, 0, `"trusted": true`, "")
	w.pawl("mcp", "remove", "files", "--owner", "ann").expect(t, 0, "files is removed", "")
	w.pawl("mcp", "show", "files", "--owner", "ann").expect(t, 1, "", `there is no MCP server "files"`)
	if got := w.pool.Server("files"); got.GetStdio().GetCommand() != "own" || got.GetTrusted() {
		t.Errorf("the operator's own server: %v", got)
	}
}

func TestMCPActivation(t *testing.T) {
	w := newWorld(t)
	w.register(stdio("files", "x"))
	w.serveElsewhere()
	w.pawl("mcp", "activate", "files").expect(t, 0, "files is active\n", "")
	w.pawl("mcp", "deactivate", "files").expect(t, 0, "files is not active\n", "")
	w.pawl("mcp", "activate", "files", "--json").expect(t, 0, `"active": true`, "")
	w.pawl("mcp", "activate", "nope").expect(t, 1, "", `there is no MCP server "nope"`)
}

func toolsOf(w *world) {
	files := stdio("files", "x")
	files.Active = true
	broken := stdio("broken", "x")
	broken.Active = true
	w.register(files, broken)
	w.unlisted = unavailable("broken", "it does not start")
	w.tools = map[string][]*commonv1.Tool{"files": {
		{Id: "files/read_file", McpId: "files", Name: "read_file", Description: "\nReads a file.\nWhole.", Effect: commonv1.Effect_EFFECT_READ,
			RiskFloor:       commonv1.RiskLevel_RISK_LEVEL_LOW,
			InputSchemaJson: `{"type":"object","properties":{"path":{"type":"string"},"lines":{"type":"integer"}}}`},
		{Id: tool, McpId: "files", Name: "write_file", Title: "Write \x1b[2Jfile"},
		{Id: "files/drop", McpId: "files", Name: "drop", Effect: commonv1.Effect_EFFECT_DESTRUCTIVE},
	}}
}

func TestMCPTools(t *testing.T) {
	w := newWorld(t)
	toolsOf(w)
	w.serveElsewhere()
	w.golden("mcp tools", w.pawl("mcp", "tools"))
	w.golden("mcp tools one server", w.pawl("mcp", "tools", "files", "--json"))
	w.golden("mcp tools one tool", w.pawl("mcp", "tools", "files/read_file"))
	w.pawl("mcp", "tools", "files/nope").expect(t, 1, "", `files offers you no tool "nope": it does not exist, or a rule denies it to you`)
	w.pawl("mcp", "tools", "/nope").expect(t, 64, "", `"/nope" names no server`)
	got := w.pawl("mcp", "tools", "nope")
	got.expect(t, 1, "", `there is no MCP server "nope"`)
	if strings.Contains(got.err, "no tools;") || strings.Contains(got.err, "activate") {
		t.Error(got.whole())
	}
}

// The error for an input that does not fit names the command that shows the schema.
func TestMCPCallThatDoesNotFit(t *testing.T) {
	w := newWorld(t)
	toolsOf(w)
	w.pool.OnCall = func(*mcppoolv1.CallToolRequest, func(*mcppoolv1.CallToolResponse) error) error {
		return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT, "the input does not fit")
	}
	w.serveElsewhere()
	w.pawl("mcp", "call", "files/read_file").expect(t, 1, "", "the input does not fit\n  next: pawl mcp tools files/read_file shows what the tool takes")
}

// The error for a tool that a rule denies says so, and not that the tool does not exist.
func TestMCPCallThatIsDenied(t *testing.T) {
	w := newWorld(t)
	toolsOf(w)
	w.pool.OnCall = func(req *mcppoolv1.CallToolRequest, _ func(*mcppoolv1.CallToolResponse) error) error {
		return errs.New(codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED,
			"a rule of MCP server files does not let you call %s", req.GetName())
	}
	w.serveElsewhere()
	for _, args := range [][]string{{}, {"from=a", "to=b"}, {"--input", "{}"}} {
		got := w.pawl(append([]string{"mcp", "call", "files/move_file"}, args...)...)
		got.expect(t, 1, "", "a rule of MCP server files does not let you call move_file")
	}
}

func TestMCPCall(t *testing.T) {
	w := newWorld(t)
	toolsOf(w)
	var inputs []string
	w.pool.OnCall = func(req *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		inputs = append(inputs, req.GetName()+req.GetInputJson())
		failed := req.GetName() == "drop"
		for _, msg := range []*mcppoolv1.CallToolResponse{
			{Event: &mcppoolv1.CallToolResponse_Progress{Progress: &mcppoolv1.CallProgress{Progress: 1, Total: 2, Message: "half"}}},
			{Event: &mcppoolv1.CallToolResponse_Log{Log: &mcppoolv1.CallLog{Level: "info", DataJson: `"said \u001b"`}}},
			{Event: &mcppoolv1.CallToolResponse_Result{Result: &mcppoolv1.CallResult{IsError: failed, Content: []*mcppoolv1.Content{
				{Kind: &mcppoolv1.Content_Text{Text: "text \x1b[31m\n"}},
				{Kind: &mcppoolv1.Content_Image{Image: &mcppoolv1.Blob{MimeType: "image/png", Data: []byte("abc")}}},
			}}}},
		} {
			if err := send(msg); err != nil {
				return err
			}
		}
		return nil
	}
	w.serveElsewhere()
	w.golden("mcp call", w.pawl("mcp", "call", "files/read_file", "path=12", "lines=3", "other=[1]"))
	w.golden("mcp call json", w.pawl("mcp", "call", "files", "read_file", "--json"))
	w.golden("mcp call failed", w.pawl("mcp", "call", "files/drop", "--input", `{"a": 1.0}`))
	w.tty = true
	w.golden("mcp call tty", w.pawl("mcp", "call", "files/read_file"))
	if diff := cmp.Diff([]string{`read_file{"lines":3,"other":[1],"path":"12"}`, "read_file", `drop{"a":1.0}`, "read_file"}, inputs); diff != "" {
		t.Error(diff)
	}
	w.pawl("mcp", "call", "files/read_file", "lines=x").expect(t, 64, "", "lines: a whole number is wanted")
	w.pawl("mcp", "call", "files/read_file", "a=b", "--input", "{}").expect(t, 64, "", "given twice")
	w.pawl("mcp", "call", "files/read_file", "--input", "@missing").expect(t, 64, "", "read the input")
}

// The id `workspace` means the folder's own server, which is registered if necessary.
func TestMCPCallInTheFolder(t *testing.T) {
	w := newWorld(t)
	root := chdir(t, "app")
	w.pool.OnCall = func(req *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		return send(&mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Result{Result: &mcppoolv1.CallResult{
			StructuredJson: `{"root":"` + w.pool.Server(req.GetMcpId()).GetBuiltin().GetRoot() + `"}`,
		}}})
	}
	w.pawl("mcp", "call", "workspace/list_directory").expect(t, 0, `"root": "`+root+`"`, "")
}

// The alias `workspace` names the folder's server in all commands. Only the commands that end its use do not register it first.
func TestMCPWorkspaceAlias(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	for _, verb := range []string{"remove", "deactivate"} {
		w.pawl("mcp", verb, "workspace").expect(t, 1, "", `there is no MCP server "workspace"`)
	}
	w.pawl("mcp", "activate", "workspace").expect(t, 0, "workspace-app-", "")
	var asked []string
	clitest.On(w.pool.Script, func(req *mcppoolv1.ListResourcesRequest, _ func() (*mcppoolv1.ListResourcesResponse, error)) (*mcppoolv1.ListResourcesResponse, error) {
		asked = append(asked, req.GetMcpId())
		return &mcppoolv1.ListResourcesResponse{}, nil
	})
	clitest.On(w.pool.Script, func(req *mcppoolv1.ListPromptsRequest, _ func() (*mcppoolv1.ListPromptsResponse, error)) (*mcppoolv1.ListPromptsResponse, error) {
		asked = append(asked, req.GetMcpId())
		return &mcppoolv1.ListPromptsResponse{}, nil
	})
	clitest.On(w.pool.Script, func(req *mcppoolv1.ReadResourceRequest, _ func() (*mcppoolv1.ReadResourceResponse, error)) (*mcppoolv1.ReadResourceResponse, error) {
		asked = append(asked, req.GetMcpId())
		return &mcppoolv1.ReadResourceResponse{}, nil
	})
	clitest.On(w.pool.Script, func(req *mcppoolv1.GetPromptRequest, _ func() (*mcppoolv1.GetPromptResponse, error)) (*mcppoolv1.GetPromptResponse, error) {
		asked = append(asked, req.GetMcpId())
		return &mcppoolv1.GetPromptResponse{}, nil
	})
	for _, args := range [][]string{{"resources", "workspace"}, {"prompts", "workspace"}, {"read", "workspace", "x://y"}, {"prompt", "workspace", "p"}} {
		w.pawl(append([]string{"mcp"}, args...)...).expect(t, 0, "", "")
	}
	if len(asked) != 4 || slices.ContainsFunc(asked, func(id string) bool { return !strings.HasPrefix(id, "workspace-app-") }) {
		t.Errorf("servers: %q", asked)
	}
	w.pawl("mcp", "deactivate", "workspace").expect(t, 0, "not active", "")
	w.pawl("mcp", "remove", "workspace").expect(t, 0, "is removed", "")
	w.pawl("mcp", "list", "--all").expect(t, 0, "", "no MCP servers")
}

func TestMCPWorkspace(t *testing.T) {
	w := newWorld(t)
	w.pawl("mcp", "workspace", "missing").expect(t, 1, "", "it does not exist")
	w.typed = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n")
	w.pawl("mcp", "workspace", t.TempDir()).expect(t, 0, `"serverInfo"`, "")
}

// The unused servers of other folders are left out, unless all are asked for.
func TestMCPListOfOtherFolders(t *testing.T) {
	w := newWorld(t)
	w.executor.OnCreate = answers
	chdir(t, "first")
	w.pawl("run", "find").expect(t, 0, "", "")
	first := w.executor.Created[0].GetMcpIds()[0]
	w.pawl("mcp", "list").expect(t, 0, first, "")
	chdir(t, "second")
	w.pawl("mcp", "list").expect(t, 0, "", "--all also shows")
	w.pawl("mcp", "list", "--all").expect(t, 0, first, "")
	clitest.On(w.pool.Script, func(_ *mcppoolv1.ListMcpServersRequest, next func() (*mcppoolv1.ListMcpServersResponse, error)) (*mcppoolv1.ListMcpServersResponse, error) {
		list, err := next()
		for _, s := range list.GetMcpServers() {
			s.State = mcppoolv1.ConnectionState_CONNECTION_STATE_READY
		}
		return list, err
	})
	w.pawl("mcp", "list").expect(t, 0, first, "")
}
