package security

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/identity"
	"pawl.dev/test/rig"
)

// world is a suite with objects of the user ann.
type world struct {
	*installation
	tokensOfIssuer
	conn                    *grpc.ClientConn // sends no credential of its own
	tokens                  map[string]string
	objects                 *strings.Replacer // $name → id
	file                    string            // where tools of ann write
	removed, expired, wrong string            // tokens that are refused
}

// rolesOf has the roles of the users.
var rolesOf = map[string][]identity.Role{
	"ann": {identity.RoleUser}, "bob": {identity.RoleUser}, "olga": {identity.RoleUser, identity.RoleOperator}, "svc": {identity.RoleService},
}

// everyRole is what credentials have that are refused: if they were accepted, they could do everything.
var everyRole = []identity.Role{identity.RoleUser, identity.RoleOperator, identity.RoleService}

func newWorld(ctx context.Context, t *testing.T) *world {
	t.Helper()
	w := &world{tokens: map[string]string{}, file: filepath.Join(t.TempDir(), "effects")}
	var spare string
	in := start(t, rig.Options{}, func(in *installation) {
		for sub, roles := range rolesOf {
			w.tokens[sub] = in.key(t, identity.Key{Sub: sub, Roles: roles})
		}
		w.tokens["narrow"] = in.key(t, identity.Key{Sub: "narrow", Roles: everyRole, Rights: identity.Rights{OnBehalfOf: []string{"bob", "partner:*"}}})
		w.tokens["limited"] = in.key(t, identity.Key{Sub: "limited", Roles: everyRole, Rights: identity.Rights{Methods: []string{"pawl.*.v2.*"}}})
		spare = in.key(t, identity.Key{Sub: "ann", Roles: []identity.Role{identity.RoleUser}, Note: marker})
		w.removed = in.key(t, identity.Key{Sub: "ann", Roles: everyRole})
		w.expired = in.key(t, identity.Key{Sub: "ann", Roles: everyRole, Expires: time.Now().Add(time.Hour)})
		w.makeTokens(t, in)
	})
	w.installation = in
	w.conn = rig.Dial(t, in.grpc, "")
	w.wrong = w.tokens["ann"][:strings.LastIndexByte(w.tokens["ann"], '_')+1] + strings.Repeat("a", 52)
	w.makeObjects(ctx, t, spare)
	if err := in.keys.Remove(idOf(w.removed)); err != nil {
		t.Fatal(err)
	}
	in.expire(t, w.expired)
	in.awaitRefused(ctx, t, w.removed)
	in.awaitRefused(ctx, t, w.expired)
	return w
}

// makeObjects makes an object of each kind for ann.
func (w *world) makeObjects(ctx context.Context, t *testing.T, spare string) {
	t.Helper()
	ann := rig.Dial(t, w.grpc, w.tokens["ann"])
	servers, tasks := mcppoolv1.NewMcpPoolServiceClient(ann), rig.NewGRPC(ann)
	_, err := mcppoolv1.NewMcpPoolServiceClient(rig.Dial(t, w.grpc, w.tokens["olga"])).CreateMcpServer(ctx, &mcppoolv1.CreateMcpServerRequest{
		McpServerId: "private", McpServer: &mcppoolv1.McpServer{
			DisplayName: marker, OwnerSub: "ann", AutoActivate: true, ToolPolicies: map[string]*mcppoolv1.ToolPolicy{"echo": {Effect: 1}},
			Transport: &mcppoolv1.McpServer_Stdio{Stdio: &mcppoolv1.StdioTransport{Command: os.Args[0], Env: map[string]string{rig.ServerVariable: "1"}}},
		}})
	must(t, err)
	agent, err := tasks.CreateAgent(ctx, &executorv1.CreateAgentRequest{AgentId: "anns", Agent: &executorv1.Agent{DisplayName: marker}})
	must(t, err)
	spareAgent, err := tasks.CreateAgent(ctx, &executorv1.CreateAgentRequest{AgentId: "anns-spare", Agent: &executorv1.Agent{DisplayName: marker}})
	must(t, err)
	topics := conversationv1.NewTopicServiceClient(ann)
	topic, err := topics.CreateTopic(ctx, &conversationv1.CreateTopicRequest{
		Topic: &conversationv1.Topic{DisplayName: marker}, Participants: []*conversationv1.Participant{{
			Name: "helper", DisplayName: marker, Who: &conversationv1.Participant_AgentId{AgentId: spareAgent.GetId()},
		}},
	})
	must(t, err)
	_, err = topics.PostMessage(ctx, &conversationv1.PostMessageRequest{TopicId: topic.GetId(), Message: &conversationv1.Message{Text: marker}})
	must(t, err)
	hooks := executorv1.NewWebhookServiceClient(ann)
	hook, err := hooks.CreateWebhook(ctx, &executorv1.CreateWebhookRequest{Webhook: &executorv1.Webhook{DisplayName: marker, Url: "https://hooks.invalid/"}})
	must(t, err)
	playbook := func(tool, input string) *executorv1.CreateTaskRequest {
		return &executorv1.CreateTaskRequest{
			Goal: marker, McpIds: []string{"private"}, AutoExecute: proto.Bool(true), Playbook: fmt.Sprintf("steps: [{tool: private/%s, input: %s}]", tool, input),
		}
	}
	done, err := tasks.Create(ctx, playbook("echo", "{text: "+marker+"}"))
	must(t, err)
	must(t, tasks.Watch(ctx, done.GetId(), 0, func(*executorv1.ExecutorEvent) bool { return true }))
	waiting, err := tasks.Create(ctx, playbook("append", fmt.Sprintf("{path: %q, line: approved}", w.file)))
	must(t, err)
	must(t, tasks.Watch(ctx, waiting.GetId(), 0, func(e *executorv1.ExecutorEvent) bool {
		return e.GetFlowStop() == nil
	}))
	waiting, err = tasks.Get(ctx, waiting.GetId())
	must(t, err)
	_, err = hooks.UpdateWebhook(ctx, &executorv1.UpdateWebhookRequest{Webhook: &executorv1.Webhook{Id: hook.GetId(), Disabled: true}}) // its deliveries stay
	must(t, err)
	deliveries, err := hooks.ListWebhookDeliveries(ctx, &executorv1.ListWebhookDeliveriesRequest{WebhookId: hook.GetId()})
	must(t, err)
	echo := fmt.Sprintf(`{"text":%q}`, marker)
	_, err = drain(servers.CallTool(ctx, &mcppoolv1.CallToolRequest{McpId: "private", Name: "echo", InputJson: echo, CallId: "anns-call"}))
	must(t, err)
	_, err = servers.ListTools(ctx, &mcppoolv1.ListToolsRequest{McpId: "private", SessionId: "anns-session"})
	must(t, err)
	w.startStalling(ctx, t, servers)
	hash := sha256.Sum256([]byte("private\x00echo\x00" + echo))
	w.objects = strings.NewReplacer(
		"$task", waiting.GetId(), "$wait", waiting.GetWaits()[0].GetId(), "$done", done.GetId(), "$agent", agent.GetId(), "$topic", topic.GetId(), "$spareagent", spareAgent.GetId(), "$server", "private",
		"$webhook", hook.GetId(), "$delivery", deliveries.GetDeliveries()[0].GetId(),
		"$spare", idOf(spare), "$callhash", hex.EncodeToString(hash[:]), "$call", "anns-call", "$running", "anns-running", "$session", "anns-session",
		"$hash", strings.Repeat("0", 64), "$file", w.file, "$program", os.Args[0])
}

// startStalling starts a call that does not end, and returns when it runs.
func (w *world) startStalling(ctx context.Context, t *testing.T, servers mcppoolv1.McpPoolServiceClient) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stalling")
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	_, err := servers.CallTool(ctx, &mcppoolv1.CallToolRequest{McpId: "private", Name: "stall", InputJson: fmt.Sprintf(`{"path":%q}`, path), CallId: "anns-running"})
	must(t, err)
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		must(t, ctx.Err())
	}
}

// drain reads a stream to its end.
func drain[M any](stream grpc.ServerStreamingClient[M], err error) (all []*M, _ error) {
	for err == nil {
		var m *M
		if m, err = stream.Recv(); err == nil {
			all = append(all, m)
		}
	}
	if err == io.EOF { //nolint:errorlint // gRPC returns it as it is
		err = nil
	}
	return all, err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// dump returns the state that users and operators see, and the effects of tools, as lines.
func (w *world) dump(ctx context.Context, t *testing.T) string {
	t.Helper()
	var lines strings.Builder
	for _, sub := range []string{"ann", "bob", "olga"} {
		fmt.Fprintln(&lines, sub)
		w.dumpUser(as(ctx, w.tokens[sub]), t, &lines)
	}
	info, err := executorv1.NewExecutorServiceClient(w.conn).GetStoreInfo(as(ctx, w.tokens["olga"]), &executorv1.GetStoreInfoRequest{})
	must(t, err)
	fmt.Fprintln(&lines, info.GetTasks(), info.GetRecords(), info.GetCommands(), info.GetPayloads(), info.GetAgents())
	keys, err := os.ReadFile(w.keysPath)
	must(t, err)
	effects, err := os.ReadFile(w.file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	fmt.Fprintf(&lines, "%s\neffects %q\n", keys, effects)
	return lines.String()
}

// dumpUser writes the tasks with their events, the agents, the webhooks and the MCP servers that the user of ctx sees.
func (w *world) dumpUser(ctx context.Context, t *testing.T, lines io.Writer) {
	t.Helper()
	tasks := executorv1.NewExecutorServiceClient(w.conn)
	list, err := tasks.ListTasks(ctx, &executorv1.ListTasksRequest{PageSize: 1000})
	must(t, err)
	for _, task := range list.GetTasks() {
		pieces, err := drain(tasks.ExportTask(ctx, &executorv1.ExportTaskRequest{Id: task.GetId()}))
		must(t, err)
		for _, p := range pieces {
			_, _ = lines.Write(p.GetData())
		}
	}
	agents, err := executorv1.NewAgentServiceClient(w.conn).ListAgents(ctx, &executorv1.ListAgentsRequest{PageSize: 1000})
	must(t, err)
	fmt.Fprintln(lines, compact(agents))
	hooks, err := executorv1.NewWebhookServiceClient(w.conn).ListWebhooks(ctx, &executorv1.ListWebhooksRequest{})
	must(t, err)
	fmt.Fprintln(lines, compact(hooks))
	servers, err := mcppoolv1.NewMcpPoolServiceClient(w.conn).ListMcpServers(ctx, &mcppoolv1.ListMcpServersRequest{PageSize: 1000})
	must(t, err)
	for _, s := range servers.GetMcpServers() {
		// The state of the connection changes by itself.
		s.State, s.LastError, s.ServerInfo, s.Capabilities, s.StateTime = 0, "", "", nil, nil
	}
	fmt.Fprintln(lines, compact(servers))
}

// as returns a context whose calls have a token.
func as(ctx context.Context, token string) context.Context {
	return metadata.NewOutgoingContext(ctx, metadata.Pairs("authorization", "Bearer "+token))
}
