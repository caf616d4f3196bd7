package security

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/identity"
	"pawl.dev/test/rig"
)

const (
	// tasksPerUser is how many tasks each of two users has.
	tasksPerUser = 200
	// tasksAtOnce is how many of them run at once.
	tasksAtOnce = 16
)

// user is one of two users with the same ids for requests, conversations, agents and calls. All texts of a user have its mark.
type user struct {
	sub, mark, token string
	clients          []rig.Client
	pool             mcppoolv1.McpPoolServiceClient
	agents           executorv1.AgentServiceClient
	tasks            executorv1.ExecutorServiceClient
	mu               sync.Mutex
	seen             strings.Builder // all that the user was answered; guarded by mu
	ids              []string        // of the user's tasks; guarded by mu
}

// saw adds an answer, also if it is an error.
func (u *user) saw(answer any, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if m, ok := answer.(proto.Message); ok {
		answer = compact(m)
	}
	fmt.Fprintln(&u.seen, answer, err)
}

// TestTwoUsersAtOnce runs 200 tasks for each of two users at once: no answer, event, document, cached result or log line of one has an id or a text
// of the other.
func TestTwoUsersAtOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	users := []*user{{sub: "ann", mark: "mark-of-ann"}, {sub: "bob", mark: "mark-of-bob"}}
	stamps := map[string]any{
		"command": os.Args[0], "env": map[string]string{rig.ServerVariable: "stamps"}, "tools": map[string]any{"stamp": map[string]any{"effect": "read"}}, "cacheTtl": "1h",
	}
	shared := maps.Clone(stamps)
	shared["isolation"] = "shared"
	in := start(t, rig.Options{Servers: map[string]any{"own": stamps, "shared": shared}}, func(in *installation) {
		for _, u := range users {
			u.token = in.key(t, identity.Key{Sub: u.sub, Roles: []identity.Role{identity.RoleUser}, Note: u.mark})
		}
	})
	var running sync.WaitGroup
	for _, u := range users {
		conn := rig.Dial(t, in.grpc, u.token)
		u.clients = []rig.Client{rig.NewGRPC(conn), rig.REST{Base: in.http, Key: u.token}}
		u.pool, u.agents, u.tasks = mcppoolv1.NewMcpPoolServiceClient(conn), executorv1.NewAgentServiceClient(conn), executorv1.NewExecutorServiceClient(conn)
		running.Go(func() { u.run(ctx, t) })
	}
	running.Wait()
	for i, u := range users {
		u.list(ctx, t)
		u.checkStamps(t, users[1-i])
		other := users[1-i]
		if len(u.ids) != tasksPerUser || strings.Count(u.seen.String(), u.mark) < 5*tasksPerUser {
			t.Errorf("%s has %d tasks and sees its mark %d times", u.sub, len(u.ids), strings.Count(u.seen.String(), u.mark))
		}
		for _, foreign := range append(other.ids, other.mark, `"`+other.sub+`"`) {
			if at := strings.Index(u.seen.String(), foreign); at >= 0 {
				t.Errorf("%s sees %s: …%.600s", u.sub, foreign, u.seen.String()[max(0, at-300):])
			}
		}
		for _, line := range in.log.lines() {
			if strings.Contains(line, u.mark) && (strings.Contains(line, other.mark) || strings.Contains(line, `"`+other.sub+`"`)) {
				t.Errorf("a line of the log has texts of both: %s", line)
			}
		}
	}
}

// run runs the tasks of a user, some over gRPC, some over REST.
func (u *user) run(ctx context.Context, t *testing.T) {
	u.saw(u.agents.CreateAgent(ctx, &executorv1.CreateAgentRequest{AgentId: "mine", Agent: &executorv1.Agent{DisplayName: u.mark}}))
	slots := make(chan struct{}, tasksAtOnce)
	var running sync.WaitGroup
	for i := range tasksPerUser {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			if err := u.task(ctx, i, u.clients[i%len(u.clients)]); err != nil {
				t.Errorf("%s, task %d: %v", u.sub, i, err)
			}
			u.call(ctx, i)
		})
	}
	running.Wait()
}

// task runs a task to its end: one that succeeds, one that fails, or one that waits and is cancelled.
func (u *user) task(ctx context.Context, i int, client rig.Client) error {
	steps := []string{
		"tool: shared/stamp, input: {n: 1}", "tool: t/echo, input: {text: " + u.mark + "}", "tool: t/fail, input: {message: " + u.mark + "}", "tool: t/wipe, input: {path: " + u.mark + "}",
	}
	made, err := client.Create(ctx, &executorv1.CreateTaskRequest{
		Goal: u.mark, AgentId: "mine", McpIds: []string{"t", "shared"}, AutoExecute: proto.Bool(true), Playbook: "steps: [{" + steps[i%len(steps)] + "}]",
		RequestId: fmt.Sprint("request-", i),
	})
	if err != nil {
		return err
	}
	u.mu.Lock()
	u.ids = append(u.ids, made.GetId())
	u.mu.Unlock()
	err = client.Watch(ctx, made.GetId(), 0, func(e *executorv1.ExecutorEvent) bool {
		u.saw(e, nil)
		return e.GetFlowStop() == nil
	})
	if err != nil {
		return err
	}
	if now, err := client.Get(ctx, made.GetId()); err == nil && len(now.GetWaits()) > 0 {
		u.saw(client.Cancel(ctx, &executorv1.CancelTaskRequest{Id: made.GetId(), Reason: u.mark}))
	}
	u.saw(client.Get(ctx, made.GetId()))
	u.saw(client.Result(ctx, made.GetId()))
	steps2, err := client.Steps(ctx, made.GetId())
	for _, s := range steps2 {
		u.saw(s, err)
	}
	document, err := client.Export(ctx, made.GetId())
	u.saw(string(document), err)
	return err
}

// call makes calls under ids that the other user gives to calls too. Those of stamp have the same input as calls of the other user.
func (u *user) call(ctx context.Context, i int) {
	for server, call := range map[string]*mcppoolv1.CallToolRequest{
		"t": {Name: "echo", InputJson: fmt.Sprintf(`{"text":%q}`, u.mark)}, "own": {Name: "stamp", InputJson: stampInput(i)}, "shared": {Name: "stamp", InputJson: stampInput(i)},
	} {
		call.McpId, call.CallId, call.SessionId = server, fmt.Sprint(server, "-call-", i), fmt.Sprint("session-", i)
		all, err := drain(u.pool.CallTool(ctx, call))
		for _, m := range all {
			u.saw(m, err)
		}
		u.saw("call", err)
	}
}

// stampInput returns one of ten inputs of stamp.
func stampInput(i int) string { return fmt.Sprintf(`{"n":%d}`, i%10) }

var stamps = regexp.MustCompile(`stamp-[A-Z2-7]{26}`)

// checkStamps checks that cached results and the log of the user's own server were seen, and that no result of a call by the other user was.
func (u *user) checkStamps(t *testing.T, other *user) {
	t.Helper()
	if cached := strings.Count(u.seen.String(), `"cached":true`); cached < tasksPerUser {
		t.Errorf("%s sees %d cached results: too few to show anything", u.sub, cached)
	}
	theirs := map[string]bool{}
	for _, s := range stamps.FindAllString(other.seen.String(), -1) {
		theirs[s] = true
	}
	for _, s := range stamps.FindAllString(u.seen.String(), -1) {
		if theirs[s] {
			t.Errorf("both users see the result %s", s)
		}
	}
}

// list reads all lists and logs of the user.
func (u *user) list(ctx context.Context, t *testing.T) {
	u.saw(u.tasks.ListTasks(ctx, &executorv1.ListTasksRequest{PageSize: 1000}))
	u.saw(u.agents.ListAgents(ctx, &executorv1.ListAgentsRequest{}))
	u.saw(u.pool.ListMcpServers(ctx, &mcppoolv1.ListMcpServersRequest{}))
	u.saw(u.pool.ListTools(ctx, &mcppoolv1.ListToolsRequest{McpId: "t"}))
	u.saw(u.pool.GetMcpServerLog(ctx, &mcppoolv1.GetMcpServerLogRequest{Id: "t"}))
	log, err := u.pool.GetMcpServerLog(ctx, &mcppoolv1.GetMcpServerLogRequest{Id: "own"})
	if err == nil && len(stamps.FindAllString(compact(log), -1)) == 0 {
		err = errors.New("the log of the user's server has none of its lines")
	}
	u.saw(log, err)
	if err != nil {
		t.Error(err)
	}
}
