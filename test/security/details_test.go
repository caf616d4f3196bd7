package security

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/identity"
	"pawl.dev/test/rig"
)

// details are what users who are no operators must not see: addresses, and absolute paths.
var details = regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+\b|\[?::1\]?:|/(opt|srv|tmp|home|root|etc|work)/`)

// TestNoDetailsForPlainUsers: errors tell a user what is wrong with a server that cannot be used, but not where it, or the DNS, is. Operators see it.
func TestNoDetailsForPlainUsers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	tokens := map[string]string{}
	in := start(t, rig.Options{}, func(in *installation) {
		for _, sub := range []string{"bob", "olga"} {
			tokens[sub] = in.key(t, identity.Key{Sub: sub, Roles: rolesOf[sub]})
		}
	})
	bob, olga := rig.Dial(t, in.grpc, tokens["bob"]), rig.Dial(t, in.grpc, tokens["olga"])
	http := func(url string) *mcppoolv1.McpServer {
		return &mcppoolv1.McpServer{AutoActivate: true, Transport: &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: url}}}
	}
	for id, server := range map[string]*mcppoolv1.McpServer{
		"closed": http("http://localhost:1/mcp"), "nowhere": http("https://no-such-host.invalid/mcp"),
		"program": {AutoActivate: true, Transport: &mcppoolv1.McpServer_Stdio{Stdio: &mcppoolv1.StdioTransport{Command: "no-such-program"}}},
		"folder":  {AutoActivate: true, Transport: &mcppoolv1.McpServer_Stdio{Stdio: &mcppoolv1.StdioTransport{Command: "cat", Cwd: "/srv/no/such/folder"}}},
	} {
		_, err := mcppoolv1.NewMcpPoolServiceClient(olga).CreateMcpServer(ctx, &mcppoolv1.CreateMcpServerRequest{McpServerId: id, McpServer: server})
		must(t, err)
	}
	for id, url := range map[string]string{"mine": "https://localhost:1/mcp", "gone": "https://mine.invalid/mcp"} {
		_, err := mcppoolv1.NewMcpPoolServiceClient(bob).CreateMcpServer(ctx, &mcppoolv1.CreateMcpServerRequest{McpServerId: id, McpServer: http(url)})
		must(t, err)
	}
	for _, id := range []string{"closed", "nowhere", "program", "folder", "mine", "gone"} {
		for what, text := range failures(ctx, t, bob, id) {
			if found := details.FindString(text); found != "" {
				t.Errorf("%s of %s shows bob %q: %s", what, id, found, text)
			}
		}
	}
	gone := failures(ctx, t, bob, "gone")
	for what, text := range failures(ctx, t, bob, "mine") {
		text, other := strings.ReplaceAll(text, "mine", "X"), strings.NewReplacer("gone", "X", "mine.invalid", "localhost:1").Replace(gone[what])
		if what != "task" && what != "log" && text != other { // these have times and ids
			t.Errorf("%s tells bob which names exist inside: %s\n%s", what, text, other)
		}
	}
	for id, want := range map[string]string{"closed": ":1: connect: ", "folder": "/srv/no/such/folder"} {
		for what, text := range failures(ctx, t, olga, id) {
			if what != "task" && !strings.Contains(text, want) { // tasks run with the rights of a plain user
				t.Errorf("%s of %s does not show the operator %q: %s", what, id, want, text)
			}
		}
	}
}

// failures returns what a user gets to see of an MCP server that cannot be used.
func failures(ctx context.Context, t *testing.T, conn *grpc.ClientConn, id string) map[string]string {
	t.Helper()
	servers := mcppoolv1.NewMcpPoolServiceClient(conn)
	seen := map[string]string{}
	note := func(what string, m proto.Message, err error) {
		if err != nil {
			seen[what] = err.Error()
		} else {
			seen[what] = texts(m.ProtoReflect())
		}
	}
	_, err := servers.ListTools(ctx, &mcppoolv1.ListToolsRequest{McpId: id})
	note("tools", nil, fmt.Errorf("%w", err))
	_, err = drain(servers.CallTool(ctx, &mcppoolv1.CallToolRequest{McpId: id, Name: "x", InputJson: "{}"}))
	note("call", nil, fmt.Errorf("%w", err))
	report, err := servers.TestMcpServer(ctx, &mcppoolv1.TestMcpServerRequest{Id: id})
	note("test", report, err)
	log, err := servers.GetMcpServerLog(ctx, &mcppoolv1.GetMcpServerLogRequest{Id: id})
	note("log", log, err)
	shown, err := servers.GetMcpServer(ctx, &mcppoolv1.GetMcpServerRequest{Id: id})
	note("server", &mcppoolv1.McpServer{LastError: shown.GetLastError()}, err)
	tasks := rig.NewGRPC(conn)
	task, err := tasks.Create(ctx, &executorv1.CreateTaskRequest{Goal: "call x", McpIds: []string{id}, AutoExecute: proto.Bool(true)})
	must(t, err)
	var events strings.Builder
	must(t, tasks.Watch(ctx, task.GetId(), 0, func(e *executorv1.ExecutorEvent) bool {
		events.WriteString(texts(e.ProtoReflect()) + "\n")
		return e.GetFlowStop() == nil
	}))
	seen["task"] = events.String()
	return seen
}

// texts returns the texts of a message.
func texts(m protoreflect.Message) string {
	var out []string
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap(), fd.Kind() != protoreflect.StringKind && fd.Kind() != protoreflect.MessageKind:
		case fd.IsList() && fd.Kind() == protoreflect.MessageKind:
			for i := range v.List().Len() {
				out = append(out, texts(v.List().Get(i).Message()))
			}
		case fd.IsList():
		case fd.Kind() == protoreflect.MessageKind:
			out = append(out, texts(v.Message()))
		default:
			out = append(out, v.String())
		}
		return true
	})
	return strings.Join(out, " | ")
}
